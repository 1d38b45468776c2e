//! Options that a server pushes: whether clients will understand them.

use crate::directives::args::Args;
use crate::directives::suggest;
use crate::directives::{Action, find};
use crate::draft::Draft;
use crate::lexer::{At, Entry, split};
use crate::parser::check_form;

/// The options that clients take by push (those that OpenVPN's `pull_permission_mask` lets through).
const PUSHABLE: &[&str] = &[
    "route",
    "route-ipv6",
    "route-gateway",
    "route-ipv6-gateway",
    "route-metric",
    "route-delay",
    "max-routes",
    "redirect-gateway",
    "redirect-private",
    "dhcp-option",
    "dns",
    "topology",
    "ifconfig",
    "ifconfig-ipv6",
    "tun-mtu",
    "tun-ipv6",
    "ping",
    "ping-restart",
    "ping-exit",
    "ping-timer-rem",
    "inactive",
    "session-timeout",
    "sndbuf",
    "rcvbuf",
    "socket-flags",
    "persist-tun",
    "persist-key",
    "explicit-exit-notify",
    "echo",
    "parameter",
    "setenv",
    "setenv-safe",
    "comp-lzo",
    "compress",
    "cipher",
    "data-ciphers",
    "auth",
    "auth-token",
    "auth-token-user",
    "block-outside-dns",
    "block-ipv6",
    "register-dns",
    "ip-win32",
    "route-method",
    "dhcp-renew",
    "dhcp-release",
    "client-nat",
    "verb",
    "mute",
    "float",
    "fragment",
    "mssfix",
    "tran-window",
    "reneg-sec",
    "hand-window",
    "tls-timeout",
    "allow-recursive-routing",
    "max-packet-size",
    "client",
];

/// The doubtful point of a pushed option, if there is one. Clients ignore options that they do not understand, so this
/// is no error.
pub(crate) fn doubt(option: &str, at: &At) -> Option<String> {
    let mut words = match split(option) {
        Ok(words) => words,
        Err(why) => return Some(why),
    };
    if words.is_empty() {
        return Some("it says nothing".into());
    }
    let name = words.remove(0);
    if !PUSHABLE.contains(&name.as_str()) {
        let hint = suggest::nearest(&name, PUSHABLE.iter().copied());
        let hint = hint.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Some(format!("clients take no `{}` by push{hint}", suggest::shown(&name)));
    }
    let directive = find(&name)?;
    let (Action::Use(handler) | Action::Keep(handler, _)) = directive.action else { return None };
    let entry = Entry { at: at.clone(), name, words, inline: None };
    let args = Args { directive, entry: &entry };
    let read = check_form(&args, false).and_then(|()| handler(&mut Draft::default(), &args));
    read.err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_options() {
        let at = At { file: "f".into(), line: 1 };
        for good in [
            "route 10.1.0.0 255.255.0.0",
            "route 192.0.2.7 255.255.255.255 net_gateway",
            "route-ipv6 2000::/3",
            "redirect-gateway def1 ipv6 bypass-dhcp",
            "dhcp-option DNS 9.9.9.9",
            "block-outside-dns",
            "dns server 1 address 9.9.9.9",
            "setenv-safe a \"b c\"",
        ] {
            assert_eq!(doubt(good, &at), None, "{good}");
        }
        for (bad, word) in [
            ("route 10.1.0.0 255.255.0", "netmask|IPv4"),
            ("rout 10.1.0.0", "did you mean `route`"),
            ("redirect-gateway def2", "def1"),
            ("dhcp-option DNS", "DNS|takes"),
            ("ca x", "clients take no `ca`"),
            ("route \"10.1.0.0", "quote"),
            ("  ", "nothing"),
        ] {
            let doubt = doubt(bad, &at).unwrap();
            assert!(word.split('|').any(|word| doubt.contains(word)), "{bad}: {doubt}");
        }
    }
}
