//! Options that a server pushes: whether clients will understand them.

use crate::directives::args::{Args, check_form};
use crate::directives::{Action, suggest};
use crate::draft::Draft;
use crate::lexer::{Entry, split};

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

/// The doubtful point of the option that a `push` names, if there is one. Clients ignore options that they do not
/// understand, so this is no error.
pub(crate) fn doubt(push: &Args<'_>, option: &str) -> Option<String> {
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
    let directive = push.table.iter().find(|known| known.name == name)?;
    let (Action::Use(handler) | Action::Keep(handler, _)) = directive.action else { return None };
    let entry = Entry { at: push.entry.at.clone(), name, words, inline: None };
    let args = Args { directive, table: push.table, entry: &entry };
    let read = check_form(&args, false).and_then(|()| handler(&mut Draft::default(), &args));
    read.err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive_table::{DIRECTIVES, find};
    use crate::lexer::At;

    #[test]
    fn pushed_options() {
        let at = At { file: "f".into(), line: 1 };
        let entry = Entry { at, name: "push".into(), words: Vec::new(), inline: None };
        let push = Args { directive: find("push").unwrap(), table: DIRECTIVES, entry: &entry };
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
            assert_eq!(doubt(&push, good), None, "{good}");
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
            let doubt = doubt(&push, bad).unwrap();
            assert!(word.split('|').any(|word| doubt.contains(word)), "{bad}: {doubt}");
        }
    }
}
