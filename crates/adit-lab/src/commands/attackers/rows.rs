//! The rows of the table: a server's configuration, and what attackers do to it.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use adit_testbed::TestbedError;

use super::keys::{Keys, Wrapping};
use super::testbed::Attacker;

/// Where attackers with IPv6 addresses are.
pub(super) const NETWORK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x8000, 0, 0, 0, 0, 0);

/// How long a script of [`Scripts::Slow`] takes, in seconds.
const SCRIPT_SECONDS: u32 = 2;
/// Connections and control channels at once, where a table of the server is to be filled. The largest tables of OpenVPN and adit
/// hold 1024.
const MANY: usize = 1300;
/// As fast as the server answers.
const UNLIMITED: u32 = 1_000_000;

/// Which scripts judge a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scripts {
    None,
    /// `auth-user-pass-verify` takes two seconds, and refuses all but the clients.
    Slow,
    /// `auth-user-pass-verify` lets the clients in, and tells all others to sign on in a browser (`WEB_AUTH`).
    SignOn,
    /// `tls-crypt-v2-verify` refuses the attackers' key.
    Key,
}

/// How a server and its clients are configured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup<'a> {
    /// `udp4`, `tcp4` or `udp6`.
    pub(super) protocol: &'static str,
    pub(super) wrapping: &'a Wrapping,
    pub(super) scripts: Scripts,
}

impl Setup<'_> {
    pub(super) fn is_v6(&self) -> bool {
        self.protocol == "udp6"
    }

    pub(super) fn is_tcp(&self) -> bool {
        self.protocol == "tcp4"
    }

    /// The script and the directive that runs it.
    pub(super) fn script(&self) -> Option<(&'static str, String)> {
        // The first line of the file that it gets is the username.
        let known = "read -r user < \"$1\"\ncase \"$user\" in client|resident) exit 0;; esac\n";
        match self.scripts {
            Scripts::None => None,
            Scripts::Slow => {
                Some(("auth-user-pass-verify", format!("sleep {SCRIPT_SECONDS}\n{known}exit 1\n")))
            }
            Scripts::SignOn => {
                let pending = "printf '600\\nwebauth\\nWEB_AUTH::https://sso.example.net/\\n'";
                let text = format!("{known}{pending} > \"$auth_pending_file\"\nexit 2\n");
                Some(("auth-user-pass-verify", text))
            }
            Scripts::Key => {
                Some(("tls-crypt-v2-verify", "! grep -q refused \"$metadata_file\"\n".to_owned()))
            }
        }
    }

    /// Whether clients give a username and a password.
    pub(super) fn asks_passwords(&self) -> bool {
        matches!(self.scripts, Scripts::Slow | Scripts::SignOn)
    }
}

/// Where the control channels of attackers come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sources {
    /// The attackers' one address, and any port.
    One,
    /// Any address of an IPv6 network of that prefix length; each has another.
    Prefix(Ipv6Addr, u8),
}

/// How many control channels attackers have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) at_once: usize,
    /// That begin in a second.
    pub(super) per_second: u32,
}

/// What attackers do in a row. The words are those of `adit-load-openvpn`.
pub(super) enum Threat {
    /// They send datagrams from random addresses, so many a second, or as fast as they can.
    Forged { datagrams: Vec<Vec<u8>>, rate: Option<u32> },
    /// They follow the protocol up to a step, from these addresses.
    ControlChannels { behaviour: &'static str, sources: Sources, pace: Pace },
    /// They send data from two ports in turns, so many packets a second.
    Roaming { rate: u32 },
    /// They hold TCP connections.
    Connections { talk: &'static str },
}

/// One row.
pub(super) struct Row<'a> {
    pub(super) name: String,
    pub(super) setup: Setup<'a>,
    pub(super) threat: Threat,
    /// Attackers show a certificate that the server accepts.
    pub(super) certified: bool,
    /// How long they are at work before the first client comes.
    pub(super) lead: Duration,
}

impl Keys {
    /// All rows, first those whose attackers return the server's cookie or connect over TCP. `rate`: forged datagrams a
    /// second; `load`: the program `adit-load-openvpn`.
    pub(super) fn rows(&self, rate: u32, load: &Path) -> Result<Vec<Row<'_>>, TestbedError> {
        let mut rows = self.reachable();
        for wrapping in &self.wrappings {
            let setup = Setup { protocol: "udp4", wrapping, scripts: Scripts::None };
            for (index, kind) in wrapping.kinds(load)?.into_iter().enumerate() {
                let name = format!("{}: {}", wrapping.name, kind.name);
                if index == 0 {
                    let threat = Threat::Forged { datagrams: kind.datagrams.clone(), rate: None };
                    rows.push(row(format!("{name}, as fast as the machine sends"), setup, threat));
                }
                let threat = Threat::Forged { datagrams: kind.datagrams, rate: Some(rate) };
                rows.push(row(name, setup, threat));
            }
        }
        Ok(rows)
    }

    /// Rows whose attackers can be reached at their addresses.
    fn reachable(&self) -> Vec<Row<'_>> {
        let [plain, ..] = &self.wrappings;
        let setup = |protocol, scripts| Setup { protocol, wrapping: plain, scripts };
        let channels = |name: &str, setup, behaviour, sources, pace| {
            row(name.to_owned(), setup, Threat::ControlChannels { behaviour, sources, pace })
        };
        let udp = setup("udp4", Scripts::None);
        let (slow, sign_on) = (setup("udp4", Scripts::Slow), setup("udp4", Scripts::SignOn));
        let (tcp, udp6) = (setup("tcp4", Scripts::None), setup("udp6", Scripts::None));
        let key = Setup { wrapping: &self.refused, scripts: Scripts::Key, ..udp };
        let pace = |at_once, per_second| Pace { at_once, per_second };
        let half_open = |name: &str, setup, sources| {
            let row = channels(name, setup, "half-open", sources, pace(MANY, 2000));
            Row { lead: Duration::from_secs(3), ..row }
        };
        vec![
            Row {
                certified: true,
                ..channels(
                    "certificate: handshake, EXIT, repeat",
                    udp,
                    "exit",
                    Sources::One,
                    pace(32, UNLIMITED),
                )
            },
            channels(
                "no certificate, 2 s script: login, EXIT, repeat",
                slow,
                "exit",
                Sources::One,
                pace(32, 400),
            ),
            channels(
                "no certificate, 2 s script: soft resets while half-open",
                slow,
                "soft-resets",
                Sources::One,
                pace(16, UNLIMITED),
            ),
            Row {
                certified: true,
                ..row("certificate: data from two ports".to_owned(), udp, Threat::Roaming { rate: 50_000 })
            },
            channels(
                "tls-crypt-v2: a key that the script refuses",
                key,
                "half-open",
                Sources::One,
                pace(2048, 400),
            ),
            Row {
                lead: Duration::from_secs(3),
                ..row("TCP: silence".to_owned(), tcp, Threat::Connections { talk: "silence" })
            },
            Row {
                lead: Duration::from_secs(3),
                ..row("TCP: garbage".to_owned(), tcp, Threat::Connections { talk: "garbage" })
            },
            Row {
                lead: Duration::from_secs(10),
                ..channels(
                    "no certificate: put off for sign-on, gone",
                    sign_on,
                    "put-off",
                    Sources::One,
                    pace(64, 150),
                )
            },
            channels("no key: garbage in place of TLS", udp, "garbage-tls", Sources::One, pace(256, 3000)),
            half_open("no key: half-open, one IPv4 address", udp, Sources::One),
            half_open("no key: half-open, one IPv6 /64", udp6, Sources::Prefix(NETWORK, 64)),
            half_open("no key: half-open, one IPv6 /61", udp6, Sources::Prefix(NETWORK, 61)),
        ]
    }
}

fn row(name: String, setup: Setup<'_>, threat: Threat) -> Row<'_> {
    Row { name, setup, threat, certified: false, lead: Duration::from_secs(2) }
}

impl Row<'_> {
    /// Forged datagrams or packets a second. What others begin depends on the server.
    pub(super) fn wanted(&self) -> Option<u32> {
        match self.threat {
            Threat::Forged { rate, .. } => rate,
            Threat::Roaming { rate } => Some(rate),
            Threat::ControlChannels { .. } | Threat::Connections { .. } => None,
        }
    }

    /// The arguments that have `adit-load-openvpn` attack this server, its subcommand first. `None` if the row's attack is forged
    /// datagrams.
    pub(super) fn arguments(
        &self,
        server: SocketAddr,
        attacker: &Attacker,
    ) -> Option<(&'static str, Vec<String>)> {
        let path = |path: &Path| path.display().to_string();
        let mut arguments = vec![server.to_string()];
        let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
        let kind = match &self.threat {
            Threat::Forged { .. } => return None,
            Threat::Connections { talk } => {
                add("--talk", (*talk).to_owned());
                add("--count", MANY.to_string());
                return Some(("connections", arguments));
            }
            Threat::ControlChannels { behaviour, sources, pace } => {
                add("--behaviour", (*behaviour).to_owned());
                add("--at-once", pace.at_once.to_string());
                add("--per-second", pace.per_second.to_string());
                if let Sources::Prefix(network, length) = sources {
                    add("--sources", format!("{network}/{length}"));
                }
                if self.setup.asks_passwords() {
                    add("--username", "attacker".to_owned());
                }
                "control-channels"
            }
            Threat::Roaming { rate } => {
                add("--rate", rate.to_string());
                "roaming"
            }
        };
        add("--ca", path(&attacker.ca));
        if self.certified {
            add("--certificate", path(&attacker.certificate));
            add("--key", path(&attacker.key));
        }
        arguments.extend(self.setup.wrapping.arguments());
        Some((kind, arguments))
    }
}
