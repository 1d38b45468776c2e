//! The rows of the table: a server's configuration, and what attackers do to it.

use std::net::Ipv6Addr;
use std::time::Duration;

use adit_openvpn::credentials::Credentials;
use adit_openvpn::wrap::WrapConfig;
use adit_testbed::TestbedError;

use crate::attack::{self, Attack, Behaviour, Pace, Plan, Sources, Talk};
use crate::forged::{Wrapping, refused_key, wrappings};

/// Where attackers with IPv6 addresses are.
pub(crate) const NETWORK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x8000, 0, 0, 0, 0, 0);

/// How long a script of [`Scripts::Slow`] takes, in seconds.
const SCRIPT_SECONDS: u32 = 2;
/// Connections and sessions at once, where a table of the server's is to be filled. The largest of OpenVPN and adit
/// hold 1024.
const MANY: usize = 1300;
/// As fast as the server answers.
const UNLIMITED: u32 = 1_000_000;

/// Which scripts judge a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scripts {
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
pub(crate) struct Setup<'a> {
    /// `udp4`, `tcp4` or `udp6`.
    pub(crate) protocol: &'static str,
    pub(crate) wrapping: &'a Wrapping,
    pub(crate) scripts: Scripts,
}

impl Setup<'_> {
    pub(crate) fn is_v6(&self) -> bool {
        self.protocol == "udp6"
    }

    pub(crate) fn is_tcp(&self) -> bool {
        self.protocol == "tcp4"
    }

    /// The script and the directive that runs it.
    pub(crate) fn script(&self) -> Option<(&'static str, String)> {
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
    pub(crate) fn asks_passwords(&self) -> bool {
        matches!(self.scripts, Scripts::Slow | Scripts::SignOn)
    }
}

/// What attackers do in a row.
pub(crate) enum Threat {
    /// They send datagrams from random addresses, so many a second, or as fast as they can.
    Forged { datagrams: Vec<Vec<u8>>, rate: Option<u32> },
    /// They follow the protocol up to a step, from these addresses.
    Sessions { behaviour: Behaviour, sources: Sources, pace: Pace },
    /// They send data from two ports in turns, so many packets a second.
    Floating { rate: u32 },
    /// They hold TCP connections.
    Connections(Talk),
}

/// One row.
pub(crate) struct Row<'a> {
    pub(crate) name: String,
    pub(crate) setup: Setup<'a>,
    pub(crate) threat: Threat,
    /// Attackers show a certificate that the server accepts.
    pub(crate) certified: bool,
    /// How long they are at work before the first client comes.
    pub(crate) lead: Duration,
}

/// The keys that rows need.
pub(crate) struct Keys {
    wrappings: [Wrapping; 4],
    refused: Wrapping,
}

impl Keys {
    pub(crate) fn new() -> Result<Keys, TestbedError> {
        Ok(Keys { wrappings: wrappings()?, refused: refused_key()? })
    }

    /// All rows, the half-trusted first. `rate`: forged datagrams a second.
    pub(crate) fn rows(&self, rate: u32) -> Vec<Row<'_>> {
        let mut rows = self.half_trusted();
        for wrapping in &self.wrappings {
            let setup = Setup { protocol: "udp4", wrapping, scripts: Scripts::None };
            for (index, kind) in wrapping.kinds().into_iter().enumerate() {
                let name = format!("{}: {}", wrapping.name, kind.name);
                if index == 0 {
                    let threat = Threat::Forged { datagrams: kind.datagrams.clone(), rate: None };
                    rows.push(row(format!("{name}, as fast as the machine sends"), setup, threat));
                }
                let threat = Threat::Forged { datagrams: kind.datagrams, rate: Some(rate) };
                rows.push(row(name, setup, threat));
            }
        }
        rows
    }

    fn half_trusted(&self) -> Vec<Row<'_>> {
        let [plain, ..] = &self.wrappings;
        let setup = |protocol, scripts| Setup { protocol, wrapping: plain, scripts };
        let sessions = |name: &str, setup, behaviour, sources, [at_once, per_second]: [usize; 2]| {
            let pace = Pace { at_once, per_second: per_second as u32 };
            row(name.to_owned(), setup, Threat::Sessions { behaviour, sources, pace })
        };
        let udp = setup("udp4", Scripts::None);
        let (slow, sign_on) = (setup("udp4", Scripts::Slow), setup("udp4", Scripts::SignOn));
        let (tcp, udp6) = (setup("tcp4", Scripts::None), setup("udp6", Scripts::None));
        let key = Setup { wrapping: &self.refused, scripts: Scripts::Key, ..udp };
        let all = UNLIMITED as usize;
        let half_open = |name: &str, setup, sources| {
            let row = sessions(name, setup, Behaviour::HalfOpen, sources, [MANY, 2000]);
            Row { lead: Duration::from_secs(3), ..row }
        };
        vec![
            Row {
                certified: true,
                ..sessions(
                    "certificate: handshake, EXIT, repeat",
                    udp,
                    Behaviour::Exit,
                    Sources::One,
                    [32, all],
                )
            },
            sessions(
                "no certificate, 2 s script: login, EXIT, repeat",
                slow,
                Behaviour::Exit,
                Sources::One,
                [32, 400],
            ),
            sessions(
                "no certificate, 2 s script: soft resets while half-open",
                slow,
                Behaviour::SoftResets,
                Sources::One,
                [16, all],
            ),
            Row {
                certified: true,
                ..row("certificate: data from two ports".to_owned(), udp, Threat::Floating { rate: 50_000 })
            },
            sessions(
                "tls-crypt-v2: a key that the script refuses",
                key,
                Behaviour::HalfOpen,
                Sources::One,
                [256, 400],
            ),
            Row {
                lead: Duration::from_secs(3),
                ..row("TCP: silence".to_owned(), tcp, Threat::Connections(Talk::Silence))
            },
            Row {
                lead: Duration::from_secs(3),
                ..row("TCP: garbage".to_owned(), tcp, Threat::Connections(Talk::Garbage))
            },
            Row {
                lead: Duration::from_secs(10),
                ..sessions(
                    "no certificate: put off for sign-on, gone",
                    sign_on,
                    Behaviour::PutOff,
                    Sources::One,
                    [64, 150],
                )
            },
            sessions(
                "no key: garbage in place of TLS",
                udp,
                Behaviour::GarbageTls,
                Sources::One,
                [256, 3000],
            ),
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
    pub(crate) fn wanted(&self) -> Option<u32> {
        match self.threat {
            Threat::Forged { rate, .. } => rate,
            Threat::Floating { rate } => Some(rate),
            Threat::Sessions { .. } | Threat::Connections(_) => None,
        }
    }

    /// The row's attack; `None` if it is forged datagrams.
    pub(crate) fn attack(&self, credentials: &Credentials) -> Result<Option<Attack>, TestbedError> {
        let unusable =
            |what: String| TestbedError::Output { command: "the attackers' TLS".into(), output: what };
        let shown = match self.certified {
            true => credentials.clone(),
            false => Credentials {
                ca: credentials.ca.clone(),
                certificate: Vec::new(),
                private_key: Default::default(),
            },
        };
        let tls = attack::tls(&shown).map_err(|error| unusable(error.to_string()))?;
        let wrap: WrapConfig = self.setup.wrapping.client.clone();
        Ok(match self.threat {
            Threat::Forged { .. } => None,
            Threat::Sessions { behaviour, sources, pace } => {
                let mut plan =
                    Plan::new(behaviour, wrap, tls).map_err(|error| unusable(error.to_string()))?;
                if self.setup.asks_passwords() {
                    plan.username = "attacker".to_owned();
                }
                Some(Attack::Sessions { plan, sources, pace })
            }
            Threat::Floating { rate } => Some(Attack::Floating { wrap, tls, rate }),
            Threat::Connections(talk) => Some(Attack::Connections { talk, count: MANY }),
        })
    }
}
