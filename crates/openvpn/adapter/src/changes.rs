//! The changes in a configuration that was read again: those that hold at once, and the time from which the
//! rest holds.

#[cfg(test)]
mod audit;
mod fixed;

use adit_core::configuration::Disposition;
use adit_openvpn_config::{Config, Parsed, Role};

pub(crate) use fixed::Since;
use fixed::{Fixed, OF_ALL, OF_CLIENT, OF_POINT, OF_SERVER, OF_STATIC_POINT};

use super::scripts;

/// The result of reading a configuration again.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The new configuration, with what only a new start of adit can change as it was.
    pub(crate) now: Config,
    /// Whether that differs from what holds.
    pub(crate) any: bool,
    /// Whether it differs in what does not wait for a restart.
    pub(crate) at_once: bool,
    /// The directives of each setting that differs and does not hold at once, and from when on it does.
    pub(crate) later: Vec<(&'static [&'static str], Since)>,
}

/// Compares a configuration with the one that holds.
///
/// # Errors
/// When the new one is of another kind of tunnel, or a server's `plugin` lines change and scripts that run are gone.
pub(crate) fn compare(new: &Parsed, old: &Config) -> Result<Changes, &'static str> {
    let mut now = new.config.clone();
    // The settings that hold until the next restart.
    let mut until_restart = now.clone();
    let mut later = Vec::new();
    for Fixed { directives, since, keep } in fixed_settings(&now, old)?.into_iter().flatten() {
        let changed = match since {
            Since::Restart => keep(&mut until_restart, old),
            Since::Start(_) => keep(&mut until_restart, old) | keep(&mut now, old),
        };
        if changed && !later.contains(&(*directives, *since)) {
            later.push((*directives, *since));
        }
    }
    Ok(Changes { any: now != *old, at_once: until_restart != *old, now, later })
}

/// Where a setting changed, and by which directive.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// In the new file.
    Changed(&'a Disposition),
    /// The place in the old file: the setting is not in the new one.
    Removed(&'a Disposition),
}

/// Finds where the setting of these directives changed: the first line that the other file has not, or else, where the
/// content of a named file changed, the first of them.
pub(crate) fn place<'a>(new: &'a Parsed, old: &'a Parsed, directives: &[&str]) -> Option<Place<'a>> {
    let first_beyond = |one: &'a Parsed, other: &Parsed| {
        one.report.iter().filter(|entry| directives.contains(&entry.directive.as_str())).find(|entry| {
            let is_same = |before: &Disposition| {
                (&before.directive, before.fingerprint) == (&entry.directive, entry.fingerprint)
            };
            !other.report.iter().any(is_same)
        })
    };
    let first_of = |directive: &&str| new.report.iter().find(|entry| entry.directive == **directive);
    first_beyond(new, old)
        .map(Place::Changed)
        .or_else(|| first_beyond(old, new).map(Place::Removed))
        .or_else(|| directives.iter().find_map(first_of).map(Place::Changed))
}

/// The settings that a tunnel of that kind does not change at once.
fn fixed_settings(new: &Config, old: &Config) -> Result<Vec<&'static [Fixed]>, &'static str> {
    let kind = match (&new.role, &old.role) {
        (Role::Client(_), Role::Client(_)) => OF_CLIENT,
        (Role::Server(_), Role::Server(_)) => OF_SERVER,
        (Role::PointToPoint(_), Role::PointToPoint(_)) => OF_POINT,
        _ => return Err("it is another kind of tunnel now"),
    };
    let of_secret: &[Fixed] = match (&new.secret, &old.secret) {
        (Some(_), Some(_)) if matches!(new.role, Role::PointToPoint(_)) => OF_STATIC_POINT,
        (Some(_), Some(_)) | (None, None) => &[],
        _ => return Err("it is another kind of tunnel now: one of both has a static key (`secret`)"),
    };
    if loses_scripts_in_use(new, old) {
        return Err(
            "`plugin` changed, which holds from the next start of adit on, and a script that runs until then is no \
                    longer in the file: restart adit, or put the script's line back",
        );
    }
    Ok(vec![OF_ALL, kind, of_secret])
}

/// Whether a server keeps scripts, as its back ends are others now, that the helper process would refuse: it runs those of the
/// new file alone.
fn loses_scripts_in_use(new: &Config, old: &Config) -> bool {
    let (Role::Server(new), Role::Server(old)) = (&new.role, &old.role) else { return false };
    let allowed = scripts::commands(&new.access);
    new.access.back_ends != old.access.back_ends
        && scripts::commands(&old.access).iter().any(|command| !allowed.contains(command))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use adit_pki::CertificateDemand;

    use super::*;

    fn server(lines: &str) -> Parsed {
        let text = format!(
            "dev tun0\nserver 10.8.0.0 255.255.255.0\ndh none\n{lines}\
             <ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
             <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
             <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n"
        );
        let none = |_: &Path| Err("no such file".to_owned());
        adit_openvpn_config::parse("s.conf", text.as_bytes(), &none).expect("a good file")
    }

    fn of(old: &str, new: &str) -> Changes {
        compare(&server(new), &server(old).config).expect("servers")
    }

    #[test]
    fn what_clients_are_told_and_who_may_connect_changes_at_once() {
        for lines in [
            "push \"route 10.1.0.0 255.255.0.0\"\n",
            "max-clients 5\n",
            "duplicate-cn\n",
            "connect-freq 3 10\n",
            "verb 6\n",
            "mute 3\n",
            "keepalive 5 20\n",
            "tls-version-min 1.3\n",
        ] {
            let changes = of("", lines);
            assert!(changes.any && changes.later.is_empty(), "{lines} {:?}", changes.later);
        }
        assert!(!of("max-clients 5\n", "max-clients 5\n").any);
    }

    #[test]
    fn what_belongs_to_device_sockets_and_process_stays() {
        for (lines, directive) in [
            ("port 1195\n", "local"),
            ("proto tcp\n", "local"),
            ("tun-mtu 1400\n", "tun-mtu"),
            ("user bob\n", "user"),
            ("writepid /run/x\n", "writepid"),
            ("client-to-client\n", "client-to-client"),
            ("route 10.5.0.0 255.255.0.0\n", "route"),
        ] {
            let changes = of("", &format!("{lines}max-clients 7\n"));
            assert!(changes.later.iter().any(|(one, _)| one[0] == directive), "{lines}: {:?}", changes.later);
            let Role::Server(now) = &changes.now.role else { panic!("a server") };
            assert_eq!(now.max_clients, 7, "the rest holds");
            assert!(!of("", lines).any || lines == "proto tcp\n", "{lines}");
        }
        let changes = of("", "").now;
        assert_eq!(changes, server("").config);
    }

    /// Without the back end, which is started with adit, anyone could come in.
    #[test]
    fn what_rests_on_a_back_end_waits_with_it() {
        const LINES: &str = "plugin openvpn-plugin-auth-pam.so openvpn\nverify-client-cert none\n";
        let certificates = |changes: &Changes| {
            let Role::Server(now) = &changes.now.role else { panic!("a server") };
            (now.access.certificates, now.access.back_ends.len(), now.max_clients)
        };
        let added = of("", &format!("{LINES}max-clients 7\n"));
        assert!(added.later.iter().any(|(one, _)| one[0] == "plugin"), "{:?}", added.later);
        assert_eq!(certificates(&added), (CertificateDemand::Require, 0, 7));
        let removed = of(LINES, "max-clients 7\n");
        assert_eq!(certificates(&removed), (CertificateDemand::None, 1, 7));
    }

    /// The tunnel would ask for the script of before, and the helper would refuse it.
    #[test]
    fn a_back_end_takes_no_scripts_place_while_adit_runs() {
        const SCRIPT: &str = "script-security 2\nauth-user-pass-verify /bin/true via-file\n";
        const PLUGIN: &str = "plugin openvpn-plugin-auth-pam.so openvpn\n";
        let why = compare(&server(PLUGIN), &server(SCRIPT).config).map(|_| ());
        assert!(why.is_err_and(|why| why.contains("restart adit")));
        assert!(compare(&server(&format!("{SCRIPT}{PLUGIN}")), &server(SCRIPT).config).is_ok());
    }

    /// The changes by these lines at the end of a point-to-point tunnel that waits, with a static key or with TLS.
    fn of_point(is_static: bool, old: &str, new: &str) -> Changes {
        let parse = |lines: &str| {
            let block = |name: &str, label: &str, body: &str| {
                format!("<{name}>\n-----BEGIN {label}-----\n{body}\n-----END {label}-----\n</{name}>\n")
            };
            let [ca, cert] = ["ca", "cert"].map(|name| block(name, "CERTIFICATE", "AAAA"));
            let key = block("key", "PRIVATE KEY", "AAAA");
            let secret = block("secret", "OpenVPN Static key V1", &"5a".repeat(256));
            let text = match is_static {
                true => format!("dev tun0\nallow-deprecated-insecure-static-crypto\n{secret}{lines}"),
                false => format!("dev tun0\ntls-server\ndh none\n{ca}{cert}{key}{lines}"),
            };
            let none = |_: &Path| Err("no such file".to_owned());
            adit_openvpn_config::parse("p.conf", text.as_bytes(), &none).expect("a good file")
        };
        compare(&parse(new), &parse(old).config).expect("of one kind")
    }

    #[test]
    fn what_the_end_that_waits_changes_at_once_and_with_a_restart() {
        const BASE: &str = "ifconfig 10.4.0.1 10.4.0.2\ncipher AES-256-CBC\nauth SHA256\n";
        const START: Since = Since::Start("");
        // For TLS and for a static key: at once, or from when on.
        for (lines, tls, is_static) in [
            ("ping 5\n", None, None),
            ("inactive 100\n", None, None),
            ("verb 5\n", None, None),
            ("explicit-exit-notify\n", None, None),
            ("mssfix 1300\n", None, None),
            ("tun-mtu 1400\n", Some(Since::Restart), Some(Since::Restart)),
            ("route 10.5.0.0 255.255.0.0\n", Some(Since::Restart), Some(Since::Restart)),
            ("ifconfig-ipv6 fd00::1/64 fd00::2\n", Some(Since::Restart), Some(Since::Restart)),
            ("ifconfig-nowarn\n", Some(Since::Restart), Some(Since::Restart)),
            ("replay-window 128\n", None, Some(Since::Restart)),
            ("comp-lzo no\n", None, Some(Since::Restart)),
            ("comp-lzo\n", None, Some(Since::Restart)),
            ("allow-compression asym\n", None, Some(Since::Restart)),
            ("fragment 1200\n", None, Some(Since::Restart)),
            ("key-direction 1\n", None, Some(Since::Restart)),
            ("port 1195\n", Some(START), Some(START)),
            ("local 192.0.2.1\n", Some(START), Some(START)),
            ("float\n", Some(START), Some(START)),
            ("sndbuf 100000\n", Some(START), Some(START)),
        ] {
            for (kind, since) in [(false, tls), (true, is_static)] {
                if (kind, lines) == (false, "key-direction 1\n") {
                    continue;
                }
                let changes = of_point(kind, BASE, &format!("{BASE}{lines}"));
                let found = changes.later.first().map(|(_, since)| match since {
                    Since::Start(_) => START,
                    Since::Restart => Since::Restart,
                });
                assert_eq!((found, changes.at_once), (since, since.is_none()), "{lines} {kind}");
                assert_eq!(changes.any, since != Some(START), "{lines}: what waits for a restart is kept");
            }
        }
        for (lines, is_static) in [
            (BASE.replace("CBC", "CBC\ncipher AES-128-CBC"), true),
            (BASE.replace("SHA256", "SHA512"), true),
            (BASE.replace("10.4.0.1", "10.4.0.3"), false),
        ] {
            let changes = of_point(is_static, BASE, &lines);
            assert!(
                matches!(changes.later[..], [(_, Since::Restart)]) && !changes.at_once,
                "{lines} {changes:?}"
            );
        }
        let (one, other) = (server(""), of_point(false, BASE, BASE).now);
        assert!(compare(&one, &other).is_err());
    }

    #[test]
    fn the_line_that_changed_is_named() {
        const ROUTES: &[&str] = &["route", "route-ipv6"];
        let one = "route 10.5.0.0 255.255.0.0\n";
        let two = "route 10.6.0.0 255.255.0.0\n";
        let line =
            |old: &str, new: &str, directives: &[&str]| match place(&server(new), &server(old), directives) {
                Some(Place::Changed(entry)) => (true, entry.line, entry.directive.clone()),
                Some(Place::Removed(entry)) => (false, entry.line, entry.directive.clone()),
                None => (false, 0, String::new()),
            };
        let route = |is_new, line| (is_new, line, "route".to_owned());
        assert_eq!(line(one, &format!("{one}{two}"), ROUTES), route(true, 5));
        assert_eq!(line(one, &format!("{two}{one}"), ROUTES), route(true, 4));
        assert_eq!(line(&format!("{one}{two}"), two, ROUTES), route(false, 4));
        // A block's content counts as well.
        let key = |digit: &str| {
            let digits = digit.repeat(512);
            format!(
                "<tls-auth>\n-----BEGIN OpenVPN Static key V1-----\n{digits}\n\
                 -----END OpenVPN Static key V1-----\n</tls-auth>\n"
            )
        };
        let found = line(&key("a"), &key("b"), &["key-direction", "tls-auth"]);
        assert_eq!(found, (true, 4, "tls-auth".to_owned()));
        // The file that it names has changed.
        assert_eq!(line(one, one, &["cert", "ca"]), (true, 10, "cert".to_owned()));
        let shown = format!("{:?}", server(&key("c")).report);
        assert!(shown.contains("Fingerprint(..)"), "{shown}");
    }

    #[test]
    fn another_kind_of_tunnel_is_refused() {
        let client = super::super::attempts::tests::config("");
        assert!(compare(&server(""), &client).is_err());
    }
}
