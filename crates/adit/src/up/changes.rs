//! What changed in a configuration that was read again: what holds at once, and what only a new start can change.

use adit_config::openvpn::{Config, Parsed, Role, ServerConfig};

use super::scripts;

/// Something that a running tunnel cannot change: it belongs to its device, its sockets, or the process.
struct Fixed {
    /// The directives that say it.
    directives: &'static [&'static str],
    /// Makes the first configuration say what the second says. True if it did not.
    keep: fn(&mut Config, &Config) -> bool,
}

/// Replaces a value; true if it was another.
fn keep<T: Clone + PartialEq>(new: &mut T, old: &T) -> bool {
    let changed = new != old;
    if changed {
        new.clone_from(old);
    }
    changed
}

/// The same for a value that only servers have.
fn keep_of_server<T: Clone + PartialEq>(
    new: &mut Config,
    old: &Config,
    value: impl Fn(&mut ServerConfig) -> &mut T,
) -> bool {
    let (Role::Server(new), Role::Server(old)) = (&mut new.role, &old.role) else { return false };
    let mut old = old.clone();
    keep(value(new), value(&mut old))
}

/// What no kind of tunnel changes while it runs.
const FIXED: &[Fixed] = &[
    Fixed { directives: &["dev"], keep: |new, old| keep(&mut new.device.name, &old.device.name) },
    Fixed {
        directives: &["tun-mtu"],
        keep: |new, old| {
            keep(&mut new.device.mtu, &old.device.mtu) | keep(&mut new.device.told_mtu, &old.device.told_mtu)
        },
    },
    Fixed {
        directives: &["txqueuelen"],
        keep: |new, old| keep(&mut new.device.txqueuelen, &old.device.txqueuelen),
    },
    Fixed { directives: &["sndbuf"], keep: |new, old| keep(&mut new.socket.sndbuf, &old.socket.sndbuf) },
    Fixed { directives: &["rcvbuf"], keep: |new, old| keep(&mut new.socket.rcvbuf, &old.socket.rcvbuf) },
    Fixed {
        directives: &["multihome"],
        keep: |new, old| keep(&mut new.socket.multihome, &old.socket.multihome),
    },
    Fixed { directives: &["user"], keep: |new, old| keep(&mut new.process.user, &old.process.user) },
    Fixed { directives: &["group"], keep: |new, old| keep(&mut new.process.group, &old.process.group) },
    Fixed {
        directives: &["log", "log-append", "syslog", "daemon"],
        keep: |new, old| keep(&mut new.process.log, &old.process.log),
    },
    Fixed {
        directives: &["suppress-timestamps"],
        keep: |new, old| keep(&mut new.process.stamps, &old.process.stamps),
    },
    Fixed {
        directives: &["status", "status-version"],
        keep: |new, old| keep(&mut new.process.status, &old.process.status),
    },
    Fixed {
        directives: &["writepid"],
        keep: |new, old| keep(&mut new.process.pid_file, &old.process.pid_file),
    },
    Fixed { directives: &["nice"], keep: |new, old| keep(&mut new.process.nice, &old.process.nice) },
    Fixed {
        directives: &["mlock"],
        keep: |new, old| keep(&mut new.process.lock_memory, &old.process.lock_memory),
    },
    Fixed { directives: &["tmp-dir"], keep: |new, old| keep(&mut new.process.tmp_dir, &old.process.tmp_dir) },
    Fixed {
        directives: &["management"],
        keep: |new, old| keep(&mut new.process.management, &old.process.management),
    },
    Fixed { directives: &["secret"], keep: |new, old| keep(&mut new.secret, &old.secret) },
    Fixed { directives: &["crl-verify"], keep: |new, old| keep(&mut new.tls.crl, &old.tls.crl) },
];

/// A helper without scripts has given up running programs.
fn keep_from_first_scripts(new: &mut Config, old: &Config) -> bool {
    let (Role::Server(server), Role::Server(before)) = (&new.role, &old.role) else { return false };
    let first = scripts::any(&server.access) && !scripts::any(&before.access);
    first && keep_of_server(new, old, |server| &mut server.access)
}

/// What a server does not change besides.
const FIXED_OF_SERVER: &[Fixed] = &[
    Fixed {
        directives: &[
            "auth-user-pass-verify",
            "client-connect",
            "client-disconnect",
            "learn-address",
            "tls-verify",
            "tls-crypt-v2-verify",
            "client-crresponse",
        ],
        keep: keep_from_first_scripts,
    },
    Fixed {
        directives: &["local", "port", "lport", "proto"],
        keep: |new, old| keep_of_server(new, old, |server| &mut server.listen),
    },
    Fixed {
        directives: &["server", "ifconfig"],
        keep: |new, old| {
            let address = |config: &Config| match &config.role {
                Role::Server(server) => server.ipv4.map(|own| own.address),
                Role::Client(_) | Role::Point(_) => None,
            };
            address(new) != address(old) && keep_of_server(new, old, |server| &mut server.ipv4)
        },
    },
    Fixed {
        directives: &["server-ipv6", "ifconfig-ipv6"],
        keep: |new, old| {
            let address = |config: &Config| match &config.role {
                Role::Server(server) => server.ipv6.map(|own| own.address),
                Role::Client(_) | Role::Point(_) => None,
            };
            address(new) != address(old) && keep_of_server(new, old, |server| &mut server.ipv6)
        },
    },
    Fixed {
        directives: &["client-to-client"],
        keep: |new, old| keep_of_server(new, old, |server| &mut server.client_to_client),
    },
    Fixed {
        directives: &["ifconfig-pool-persist"],
        keep: |new, old| keep_of_server(new, old, |server| &mut server.per_client.pool_file),
    },
    Fixed { directives: &["route", "route-ipv6"], keep: |new, old| keep(&mut new.routes, &old.routes) },
    Fixed {
        directives: &["route", "route-ipv6"],
        keep: |new, old| keep(&mut new.named_routes, &old.named_routes),
    },
];

/// What a client does not change besides.
const FIXED_OF_CLIENT: &[Fixed] = &[
    Fixed {
        directives: &["route", "route-ipv6"],
        keep: |new, old| keep(&mut new.named_routes, &old.named_routes),
    },
    Fixed {
        directives: &["auth-user-pass", "auth-retry", "auth-nocache", "static-challenge"],
        keep: |new, old| match (&mut new.role, &old.role) {
            (Role::Client(new), Role::Client(old)) => keep(&mut new.auth, &old.auth),
            _ => false,
        },
    },
    Fixed {
        directives: &["remote", "proto", "port", "local", "lport", "bind"],
        keep: |new, old| match (&mut new.role, &old.role) {
            (Role::Client(new), Role::Client(old)) => {
                keep(&mut new.remotes, &old.remotes)
                    | keep(&mut new.remote_random_hostname, &old.remote_random_hostname)
            }
            _ => false,
        },
    },
];

/// What reading a configuration again came to.
#[derive(Debug)]
pub(super) struct Changes {
    /// What can hold now: the new configuration, with what a running tunnel cannot change as it was.
    pub(super) now: Config,
    /// Whether that differs from what holds.
    pub(super) any: bool,
    /// The directives that need a new start: those of each setting that differs.
    pub(super) later: Vec<&'static [&'static str]>,
}

/// Compares a configuration with the one that holds.
///
/// # Errors
/// When the new one is of another kind of tunnel.
pub(super) fn compare(new: &Parsed, old: &Config) -> Result<Changes, &'static str> {
    let more = match (&new.config.role, &old.role) {
        (Role::Client(_), Role::Client(_)) => FIXED_OF_CLIENT,
        (Role::Server(_), Role::Server(_)) => FIXED_OF_SERVER,
        (Role::Point(_), Role::Point(_)) => &[],
        _ => return Err("it is another kind of tunnel now"),
    };
    let mut now = new.config.clone();
    let mut later = Vec::new();
    for fixed in FIXED.iter().chain(more) {
        if (fixed.keep)(&mut now, old) && !later.contains(&fixed.directives) {
            later.push(fixed.directives);
        }
    }
    let any = now != *old;
    Ok(Changes { now, any, later })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn server(lines: &str) -> Parsed {
        let text = format!(
            "dev tun0\nserver 10.8.0.0 255.255.255.0\ndh none\n{lines}\
             <ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
             <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
             <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n"
        );
        let none = |_: &Path| Err("no such file".to_owned());
        adit_config::openvpn::parse("s.conf", text.as_bytes(), &none).expect("a good file")
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
            assert!(changes.later.iter().any(|one| one[0] == directive), "{lines}: {:?}", changes.later);
            let Role::Server(now) = &changes.now.role else { panic!("a server") };
            assert_eq!(now.max_clients, 7, "the rest holds");
            assert!(!of("", lines).any || lines == "proto tcp\n", "{lines}");
        }
        let changes = of("", "").now;
        assert_eq!(changes, server("").config);
    }

    #[test]
    fn another_kind_of_tunnel_is_refused() {
        let client = super::super::tunnel::tests::config("");
        assert!(compare(&server(""), &client).is_err());
    }
}
