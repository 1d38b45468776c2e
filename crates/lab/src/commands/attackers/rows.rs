//! The rows of the table: a server's configuration, and the attackers' actions.

mod list;
mod setup;

use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

#[cfg(test)]
pub(super) use self::list::reachable;
pub(super) use self::setup::Setup;
use std::path::PathBuf;

/// Where attackers with IPv6 addresses are.
pub(super) const NETWORK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x8000, 0, 0, 0, 0, 0);

/// Connections and control channels at once, where a table of the server is to be filled. The largest tables of OpenVPN and adit
/// hold 1024.
const MANY: usize = 1300;
/// The behaviour of which each packet that the server acknowledges is counted.
const CONTROL_MESSAGES: &str = "control-messages";

/// Where attackers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sources {
    /// The attackers' one address, and any port.
    One,
    /// Any address of an IPv6 network of that prefix length; each control channel or connection has another.
    Prefix(Ipv6Addr, u8),
}

/// How many control channels attackers have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) at_once: usize,
    /// Control channels that begin in a second.
    pub(super) per_second: u32,
}

/// The behaviour of attackers in a row. The words are those of `adit-load-openvpn`.
#[derive(Clone)]
pub(super) enum Threat {
    /// They send datagrams from random addresses, so many a second, or as fast as they can.
    Forged { datagrams: Vec<Vec<u8>>, rate: Option<u32> },
    /// They follow the protocol up to a step.
    ControlChannels { behaviour: &'static str, pace: Pace },
    /// They send data from two ports in turns, so many packets a second.
    Roaming { rate: u32 },
    /// They hold TCP connections.
    Connections { talk: &'static str },
}

/// The certificates of attackers, and whether the server lets them in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// They show no certificate.
    None,
    /// They show a certificate that the server accepts; a script has still to judge them, or refuses them.
    Certificate,
    /// They show such a certificate, and the server lets them in.
    Granted,
}

/// One row.
#[derive(Clone)]
pub(super) struct Row<'a> {
    pub(super) name: String,
    pub(super) setup: Setup<'a>,
    pub(super) threat: Threat,
    /// Where the attackers come from. Forged datagrams have random addresses, and a client that roams has one.
    pub(super) sources: Sources,
    pub(super) access: Access,
    /// How long they are at work before the first client comes.
    pub(super) lead: Duration,
}

/// The certificate files that an attacker may use, in PEM.
pub(super) struct Attacker {
    pub(super) ca: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// The work that attackers have done so far, by their own count.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) begun: u64,
    pub(super) done: u64,
}

impl Row<'_> {
    /// Forged datagrams or packets a second. The number that other attackers begin depends on the server.
    pub(super) fn wanted(&self) -> Option<u32> {
        match self.threat {
            Threat::Forged { rate, .. } => rate,
            Threat::Roaming { rate } => Some(rate),
            Threat::ControlChannels { .. } | Threat::Connections { .. } => None,
        }
    }

    /// The count, of those that the attackers have begun and done, that shows that the attack is under way.
    pub(super) fn under_way(&self, work: Work) -> u64 {
        match self.threat {
            Threat::ControlChannels { behaviour: CONTROL_MESSAGES, .. } => work.done,
            _ => work.begun,
        }
    }

    /// How often the server has let an attacker in, by what the attackers have begun and done.
    pub(super) fn let_in(&self, work: Work) -> u64 {
        match self.threat {
            _ if self.access != Access::Granted => 0,
            // Both numbers are of the packets of one client.
            Threat::Roaming { .. } => 1,
            Threat::ControlChannels { behaviour: CONTROL_MESSAGES, .. } => work.begun,
            _ => work.done,
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
        if let Sources::Prefix(network, length) = self.sources {
            add("--sources", format!("{network}/{length}"));
        }
        let kind = match &self.threat {
            Threat::Forged { .. } => return None,
            Threat::Connections { talk } => {
                add("--talk", (*talk).to_owned());
                add("--count", MANY.to_string());
                return Some(("connections", arguments));
            }
            Threat::ControlChannels { behaviour, pace } => {
                add("--behaviour", (*behaviour).to_owned());
                add("--at-once", pace.at_once.to_string());
                add("--per-second", pace.per_second.to_string());
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
        if self.access != Access::None {
            add("--certificate", path(&attacker.certificate));
            add("--key", path(&attacker.key));
        }
        arguments.extend(self.setup.wrapping.arguments());
        Some((kind, arguments))
    }
}
