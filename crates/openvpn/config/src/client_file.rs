//! The file that `client-config-dir` holds for one client.

use adit_core::configuration::{Failure, Problem};
use adit_core::{IpNet, is_unprintable};
use adit_openvpn::request::{PeerSettings, PushChange};

use crate::directive_table::{DIRECTIVES, find};
use crate::directives::args::{Args, check_form};
use crate::directives::suggest;
use crate::handlers::data::idle_limit;
use crate::handlers::pushed::doubt;
use crate::handlers::server::pushable;
use crate::lexer::{Entry, OWN, lex};

/// Longest username in bytes that `override-username` gives. OpenVPN takes 128 or 4096 (misc.h `USER_PASS_LEN`), and a username
/// in base64 is pushed.
const MAX_USERNAME: usize = 128;

type Handler = fn(&mut PeerSettings, &Args<'_>) -> Result<Option<String>, String>;

/// The directives that may stand in a client's file. A handler gives a doubt, if it has one.
const PER_CLIENT: &[(&str, Handler)] = &[
    ("ifconfig-push", ifconfig_push),
    ("ifconfig-ipv6-push", ifconfig_ipv6_push),
    ("iroute", iroute),
    ("iroute-ipv6", iroute_ipv6),
    ("push", push),
    ("push-reset", push_reset),
    ("push-remove", push_remove),
    ("disable", disable),
    ("override-username", override_username),
    ("inactive", inactive),
    ("session-timeout", session_timeout),
];

/// Reads the file of one client. `file` is the name to use in messages. Gives the settings for the client,
/// and points that its owner should look at.
///
/// # Errors
/// All problems found, each with its file and line. A client whose file cannot be read as it was meant is
/// better not let in.
pub fn parse_client_file(file: &str, text: &[u8]) -> Result<(PeerSettings, Vec<Problem>), Failure> {
    let whole = |text: &str| Problem { file: file.into(), line: None, text: text.into() };
    let Ok(text) = std::str::from_utf8(text) else {
        let problems = vec![whole("this is not UTF-8 text; save the file as UTF-8")];
        return Err(Failure { problems, report: Vec::new() });
    };
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let mut settings = PeerSettings::default();
    for entry in lex(&file.into(), text, 1, &mut problems) {
        match one(&mut settings, &entry) {
            Ok(None) => {}
            Ok(Some(doubt)) => warnings.push(entry.at.problem(doubt)),
            Err(why) => problems.push(entry.at.problem(why)),
        }
    }
    if problems.is_empty() { Ok((settings, warnings)) } else { Err(Failure { problems, report: Vec::new() }) }
}

fn one(settings: &mut PeerSettings, entry: &Entry) -> Result<Option<String>, String> {
    if let Some(key) = entry.name.strip_prefix(OWN) {
        return Ok(Some(format!(
            "{}: a setting of adit has no place in a client's file and is ignored",
            suggest::shown(key)
        )));
    }
    let handler = PER_CLIENT.iter().find(|(name, _)| *name == entry.name).map(|(_, handler)| *handler);
    let name = suggest::shown(&entry.name);
    match (find(&entry.name), handler) {
        (Some(directive), Some(handler)) => {
            let args = Args { directive, table: DIRECTIVES, entry };
            check_form(&args, false)?;
            handler(settings, &args)
        }
        (Some(_), None) => Ok(Some(format!("`{name}` has no place in a client's file and is ignored"))),
        (None, _) => {
            let known = DIRECTIVES.iter().map(|known| known.name);
            let near = suggest::nearest(&entry.name, known);
            let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            Err(format!("there is no directive `{name}`{hint}"))
        }
    }
}

fn ifconfig_push(settings: &mut PeerSettings, args: &Args<'_>) -> Result<Option<String>, String> {
    settings.ipv4 = Some((args.ipv4(0)?, args.ipv4(1)?));
    Ok(args.opt(2).map(|_| "`ifconfig-push`: the alias is not needed and ignored".into()))
}

fn ifconfig_ipv6_push(settings: &mut PeerSettings, args: &Args<'_>) -> Result<Option<String>, String> {
    let gateway = args.opt(1).map(|_| args.ipv6(1)).transpose()?;
    settings.ipv6 = Some((args.ipv6_net(0)?, gateway));
    Ok(None)
}

fn iroute(settings: &mut PeerSettings, args: &Args<'_>) -> Result<Option<String>, String> {
    Ok(add_route(settings, args.ipv4_net(0, 1)?.into()))
}

fn iroute_ipv6(settings: &mut PeerSettings, args: &Args<'_>) -> Result<Option<String>, String> {
    Ok(add_route(settings, args.ipv6_net_or_64(0)?.into()))
}

/// A network may be given with host bits; the network itself is meant.
fn add_route(settings: &mut PeerSettings, given: IpNet) -> Option<String> {
    let network = given.trunc();
    if !settings.routes.contains(&network) {
        settings.routes.push(network);
    }
    (given != network).then(|| format!("the network is taken as {network}"))
}

fn push(settings: &mut PeerSettings, args: &Args<'_>) -> Result<Option<String>, String> {
    let option = pushable(args)?;
    settings.push.push(PushChange::Add(option.into()));
    Ok(doubt(args, option).map(|why| format!("`push`: {why}")))
}

fn push_reset(settings: &mut PeerSettings, _: &Args<'_>) -> Result<Option<String>, String> {
    settings.push.push(PushChange::Reset);
    Ok(None)
}

fn push_remove(settings: &mut PeerSettings, args: &Args<'_>) -> Result<Option<String>, String> {
    settings.push.push(PushChange::Remove(args.get(0)?.into()));
    Ok(None)
}

fn disable(settings: &mut PeerSettings, _: &Args<'_>) -> Result<Option<String>, String> {
    settings.disabled = true;
    Ok(None)
}

fn override_username(settings: &mut PeerSettings, args: &Args<'_>) -> Result<Option<String>, String> {
    let name = args.get(0)?;
    if name.is_empty() || name.len() > MAX_USERNAME || name.chars().any(is_unprintable) {
        return Err(args.bad(
            suggest::shown(name),
            format_args!("a username of 1 to {MAX_USERNAME} bytes without control characters"),
        ));
    }
    settings.username = Some(name.to_owned());
    Ok(None)
}

fn inactive(settings: &mut PeerSettings, args: &Args<'_>) -> Result<Option<String>, String> {
    settings.limits.idle = Some(idle_limit(args)?);
    Ok(None)
}

fn session_timeout(settings: &mut PeerSettings, args: &Args<'_>) -> Result<Option<String>, String> {
    settings.limits.length = Some(args.seconds(0)?);
    Ok(None)
}

/// The name of a client's file: its own name, with the characters that would lead elsewhere replaced (OpenVPN
/// platform.c `platform_gen_path`). `None` if no file can have such a name.
pub fn client_file_name(name: &str) -> Option<String> {
    let safe: String = name.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
    (!safe.is_empty() && safe != "." && safe != "..").then_some(safe)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use adit_core::IdleLimit;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_client_has_addresses_networks_and_pushes_of_its_own() {
        let text = "\u{feff}# anna\r\nifconfig-push 10.8.0.50 255.255.255.0\r\nifconfig-ipv6-push fd00::50/64 fd00::1\r\n\
                    iroute 192.168.7.0 255.255.255.0\niroute 192.168.8.9\niroute-ipv6 fd07::/48\n\
                    push-reset\npush \"route 10.20.0.0 255.255.0.0\"\npush-remove \"dhcp-option DNS\"\n";
        let (settings, doubts) = parse_client_file("ccd/anna", text.as_bytes()).unwrap();
        assert_eq!(doubts, []);
        assert_eq!(settings.ipv4.unwrap().0.to_string(), "10.8.0.50");
        assert_eq!(settings.ipv6, Some(("fd00::50/64".parse().unwrap(), "fd00::1".parse().ok())));
        let routes: Vec<String> = settings.routes.iter().map(ToString::to_string).collect();
        assert_eq!(routes, ["192.168.7.0/24", "192.168.8.9/32", "fd07::/48"]);
        assert_eq!(
            settings.push,
            [
                PushChange::Reset,
                PushChange::Add("route 10.20.0.0 255.255.0.0".into()),
                PushChange::Remove("dhcp-option DNS".into())
            ]
        );
        assert!(!settings.disabled);
        assert!(parse_client_file("f", b"disable").unwrap().0.disabled);
        let limits = parse_client_file("f", b"inactive 60 1000\nsession-timeout 0").unwrap().0.limits;
        assert_eq!(limits.idle, Some(IdleLimit { after: Duration::from_secs(60), bytes: 1000 }));
        assert_eq!(limits.length, Some(Duration::ZERO));
        let username = parse_client_file("f", b"override-username \"Anna B\"").unwrap().0.username;
        assert_eq!(username.as_deref(), Some("Anna B"));
    }

    #[test]
    fn mistakes_name_file_and_line() {
        let long = format!("override-username {}", "ä".repeat(65));
        for (text, expected) in [
            ("\ndisabel", "ccd/anna:2: there is no directive `disabel`; did you mean `disable`?"),
            ("ifconfig-push 10.8.0.50", "ccd/anna:1: `ifconfig-push` takes"),
            ("iroute 192.168.0.0 255.255.0.255", "ccd/anna:1: `iroute`: found `255.255.0.255`"),
            ("push \"a,b\"", "ccd/anna:1: `push`: found `a,b`"),
            ("override-username", "ccd/anna:1: `override-username` takes USERNAME"),
            (
                "override-username \"\"",
                "ccd/anna:1: `override-username`: found ``; write a username of 1 to 128",
            ),
            (long.as_str(), "ccd/anna:1: `override-username`: found "),
        ] {
            let failure = parse_client_file("ccd/anna", text.as_bytes()).unwrap_err();
            assert!(failure.to_string().starts_with(expected), "{failure}");
        }
        let (_, doubts) = parse_client_file("f", b"comp-lzo no\niroute 10.1.2.3 255.0.0.0").unwrap();
        assert_eq!(doubts.len(), 2, "{doubts:?}");
        let (settings, doubts) = parse_client_file("f", b"iroute-ipv6 fd07::1").unwrap();
        assert_eq!(settings.routes, ["fd07::/64".parse::<IpNet>().unwrap()]);
        assert_eq!(doubts.len(), 1, "{doubts:?}");
    }

    #[test]
    fn a_name_leads_to_no_other_directory() {
        assert_eq!(client_file_name("../../etc/passwd").unwrap(), ".._.._etc_passwd");
        assert_eq!(client_file_name("Jürgen Ä. 1").unwrap(), "Jürgen Ä. 1");
        for name in ["", ".", ".."] {
            assert_eq!(client_file_name(name), None);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in ".{0,200}") {
            let _ = parse_client_file("f", text.as_bytes());
        }
    }
}
