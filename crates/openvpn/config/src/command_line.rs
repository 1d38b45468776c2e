//! The options of a command line (OpenVPN's options_parse.c, `parse_argv`), which become the text of a configuration: so
//! that one table drives files and command lines.

use adit_core::configuration::words::MAX_LINE;

use super::directives::suggest::shown;

/// The name of the command line in a problem, in the place of a file's name. Its line is the number of the option.
pub const COMMAND_LINE: &str = "[CMD-LINE]";

/// Most arguments of an option (OpenVPN's `MAX_PARMS` of 16 has its name among them).
const MAX_ARGUMENTS: usize = 15;

/// One option of a command line. It may be secret as a line of a file may be.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandLineOption {
    /// Its name, without `--`.
    pub name: String,
    /// The words after it, to the next that begins with `--`.
    pub arguments: Vec<String>,
}

impl std::fmt::Debug for CommandLineOption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "--{} with {} arguments", shown(&self.name), self.arguments.len())
    }
}

/// Divides the words of a command line, without the name of the program, into options. One word alone without `--` is a
/// file: `--config FILE`.
///
/// # Errors
/// The word that stands where an option is to begin.
pub fn split_command_line(words: &[String]) -> Result<Vec<CommandLineOption>, String> {
    if let [file] = words
        && !file.starts_with("--")
    {
        return Ok(vec![CommandLineOption { name: "config".to_owned(), arguments: vec![file.clone()] }]);
    }
    let mut options = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        let Some(name) = word.strip_prefix("--") else {
            let word = shown(word);
            return Err(format!(
                "I'm trying to parse \"{word}\" as an --option parameter but I don't see a leading '--'"
            ));
        };
        let mut arguments = Vec::new();
        while arguments.len() < MAX_ARGUMENTS {
            let Some(argument) = rest.next_if(|word| !word.starts_with("--")) else { break };
            arguments.push(argument.clone());
        }
        if name == "push" {
            arguments.iter_mut().for_each(strip_quotes);
        }
        options.push(CommandLineOption { name: name.to_owned(), arguments });
    }
    Ok(options)
}

/// OpenWrt passes pushed options with the quotes that a file would have around them.
fn strip_quotes(argument: &mut String) {
    if let Some(inner) = argument.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        *argument = inner.to_owned();
    }
}

/// The options as the text of a configuration, which [`parse`](super::parse) reads: one a line.
///
/// # Errors
/// The first option that no line of a file can hold.
pub fn command_line_text(options: &[CommandLineOption]) -> Result<String, String> {
    let mut text = String::new();
    for (number, option) in (1..).zip(options) {
        let line = line(option, number)?;
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

fn line(option: &CommandLineOption, number: usize) -> Result<String, String> {
    let CommandLineOption { name, arguments } = option;
    // Else it could begin a block or a comment.
    let is_name = name.starts_with(|first: char| first != '-')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_name {
        let name = shown(name);
        return Err(format!(
            "Unrecognized option or missing or extra parameter(s) in {COMMAND_LINE}:{number}: {name}"
        ));
    }
    let mut line = name.clone();
    for argument in arguments {
        if argument.contains(|c: char| c.is_control() && c != '\t') {
            return Err(format!(
                "In {COMMAND_LINE}:{number}: an argument of --{name} holds a control character"
            ));
        }
        line.push_str(" \"");
        for c in argument.chars() {
            if matches!(c, '\\' | '"') {
                line.push('\\');
            }
            line.push(c);
        }
        line.push('"');
    }
    if line.len() > MAX_LINE {
        let length = line.len();
        return Err(format!(
            "In {COMMAND_LINE}:{number}: --{name} has {length} bytes with its arguments; at most {MAX_LINE} are read"
        ));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::split_line;

    fn split(words: &[&str]) -> Result<Vec<(String, Vec<String>)>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let options = split_command_line(&words)?;
        Ok(options.into_iter().map(|option| (option.name, option.arguments)).collect())
    }

    fn option(name: &str, arguments: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), arguments.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn words_become_options_as_in_openvpn() {
        assert_eq!(split(&["a.conf"]), Ok(vec![option("config", &["a.conf"])]));
        assert_eq!(split(&["-v"]), Ok(vec![option("config", &["-v"])]));
        assert_eq!(
            split(&["--remote", "h", "1194", "udp", "--nobind", "--keepalive", "1", "-2"]),
            Ok(vec![
                option("remote", &["h", "1194", "udp"]),
                option("nobind", &[]),
                option("keepalive", &["1", "-2"])
            ])
        );
        assert_eq!(split(&["--push", "\"route 10.0.0.0\""]), Ok(vec![option("push", &["route 10.0.0.0"])]));
        assert_eq!(split(&[]), Ok(Vec::new()));
        let stray = split(&["a.conf", "--nobind"]).unwrap_err();
        assert!(stray.contains("\"a.conf\" as an --option parameter"), "{stray}");
        let many: Vec<&str> = std::iter::once("--dns").chain(["x"; 16]).collect();
        assert!(split(&many).unwrap_err().contains("\"x\""), "OpenVPN takes 15");
    }

    #[test]
    fn what_no_line_can_hold_is_refused() {
        let text = |name: &str, argument: &str| {
            command_line_text(&[CommandLineOption { name: name.into(), arguments: vec![argument.into()] }])
        };
        for name in ["", "<ca>", "#a", "a b", ";", "--verb"] {
            assert!(text(name, "x").unwrap_err().contains("[CMD-LINE]:1"), "{name}");
        }
        assert!(text("setenv", "a\nremote b").unwrap_err().contains("control character"));
        assert!(text("setenv", &"\"".repeat(2000)).unwrap_err().contains("at most"));
        assert_eq!(text("push", "a \"b\" \\ #c").unwrap(), "push \"a \\\"b\\\" \\\\ #c\"\n");
    }

    /// The command line that network-manager-openvpn calls (src/nm-openvpn-service.c,
    /// `nm_openvpn_start_openvpn_binary`).
    #[test]
    fn networkmanagers_command_line_is_taken() {
        let words = "--remote vpn.example 1194 udp --explicit-exit-notify --remote vpn.example 443 tcp-client \
            --remote-random --allow-pull-fqdn --tun-ipv6 --allow-compression no --float --ping 10 --ping-restart 60 \
            --connect-timeout 30 --nobind --dev tun --dev-type tun --cipher AES-256-GCM --data-ciphers AES-256-GCM \
            --data-ciphers-fallback AES-256-CBC --auth SHA256 --auth-nocache --tls-version-min 1.2 or-highest \
            --verify-x509-name server name --remote-cert-tls server --reneg-sec 0 --verb 10 --syslog nm-openvpn \
            --tun-mtu 1500 --mssfix --mtu-disc yes --script-security 2 --up-restart --persist-key --persist-tun \
            --management /var/run/NetworkManager/nm-openvpn-1 unix --management-client-user root \
            --management-client-group root --management-query-passwords --auth-retry interact --route-noexec --ifconfig-noexec \
            --push-peer-info \
            --client --ca ca.crt --auth-user-pass --user nm-openvpn --group nm-openvpn \
            --chroot /var/lib/openvpn/chroot";
        let mut words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let script = "/usr/lib/NetworkManager/nm-openvpn-service-openvpn-helper --debug 0 165 --bus-name \
            org.freedesktop.NetworkManager.openvpn.Connection_4 --tun --";
        words.extend(["--up".to_owned(), script.to_owned()]);
        let text = command_line_text(&split_command_line(&words).unwrap()).unwrap();
        let ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let parsed = crate::parse(COMMAND_LINE, text.as_bytes(), &|_| Ok(ca.as_bytes().to_vec()));
        let parsed = parsed.unwrap_or_else(|problems| panic!("{problems:?}"));
        let management = parsed.config.process.management.unwrap();
        assert!(management.query_passwords && management.client_user.as_deref() == Some("root"));
        let about = |name: &str| parsed.report.iter().find(|entry| entry.directive == name);
        assert!(about("chroot").is_some_and(|entry| format!("{entry:?}").contains("Landlock")));
    }

    proptest! {
        #[test]
        fn a_line_has_the_words_of_its_option(
            name in "[a-z0-9][a-z0-9-]{0,19}",
            arguments in prop::collection::vec("[^\\p{Cc}]{0,40}", 0..8),
        ) {
            let option = CommandLineOption { name: name.clone(), arguments: arguments.clone() };
            let text = command_line_text(&[option]).unwrap();
            let mut words = vec![name];
            words.extend(arguments);
            prop_assert_eq!(text.lines().count(), 1);
            prop_assert_eq!(split_line(text.trim_end_matches('\n')), Ok(words));
        }
    }
}
