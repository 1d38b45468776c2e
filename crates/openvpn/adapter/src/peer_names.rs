//! `remote NAME` of a point-to-point end that waits, without `float`: the peer may come from the addresses that the name
//! has, as in OpenVPN (socket.h `link_socket_verify_incoming_addr`). OpenVPN looks the name up again when it starts over,
//! which it does while no peer is there; here it is done once in a while.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::thread;
use std::time::Duration;

use adit_core::{Protocol, Severity};
use adit_guard::{HelperFiles, LookedUp};
use adit_io::Handle;
use adit_openvpn::request::Reply;
use adit_openvpn_config::{Config, Role};

use adit_host::ending::Ending;
use adit_host::log::Logger;

/// How often names are looked up: a name that follows a changing address has a TTL of about this.
const LOOK_UP_EVERY: Duration = Duration::from_secs(60);
/// While nothing is known of them.
const LOOK_UP_UNKNOWN_EVERY: Duration = Duration::from_secs(10);

/// Where the peer may come from.
pub(crate) struct PeerNames {
    hosts: Vec<String>,
    /// The addresses that they had when they could be looked up last.
    known: BTreeSet<IpAddr>,
    /// Of each name that cannot be looked up now, why.
    missing: Vec<String>,
}

impl PeerNames {
    /// Looks up what the file names; `None` if the peer may be anywhere.
    pub(crate) fn look_up(config: &Config) -> Option<Self> {
        let Role::PointToPoint(point) = &config.role else { return None };
        if config.socket.float || point.remotes.is_empty() {
            return None;
        }
        let mut names =
            PeerNames { hosts: point.remotes.clone(), known: BTreeSet::new(), missing: Vec::new() };
        names.refresh(look_up);
        Some(names)
    }

    /// The only addresses that the peer may have.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.known.iter().copied().collect()
    }

    /// The names.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.hosts.clone()
    }

    /// Looks all names up by `look_up`. If one cannot be looked up, the addresses known before stay. True if they changed.
    fn refresh(&mut self, look_up: impl FnOnce(&[String]) -> Vec<LookedUp>) -> bool {
        let mut found = BTreeSet::new();
        self.missing.clear();
        for (host, looked_up) in self.hosts.iter().zip(look_up(&self.hosts)) {
            match looked_up {
                Ok(addresses) => found.extend(addresses),
                Err(error) => self.missing.push(format!("remote {host}: {error}")),
            }
        }
        if !self.missing.is_empty() {
            found.extend(&self.known);
        }
        let changed = found != self.known;
        self.known = found;
        changed
    }

    /// Says what cannot be looked up.
    fn complain(&self, log: &mut Logger) {
        for why in &self.missing {
            let rest = match self.known.is_empty() {
                true => {
                    "the other end is not let in until it can be looked up; write its address, or `float`"
                }
                false => "the addresses known before hold",
            };
            log.log(Severity::Warning, format_args!("{why}; {rest}"));
        }
    }

    /// Has the helper look names up again and again, and tells the protocol when their addresses change.
    pub(crate) fn watch<P: Protocol<Reply = Reply> + 'static>(
        mut self,
        helper: HelperFiles,
        handle: Handle<P>,
        (mut log, ending): (Logger, Ending),
    ) -> io::Result<()> {
        self.complain(&mut log);
        if self.hosts.iter().all(|host| host.parse::<IpAddr>().is_ok()) {
            return Ok(());
        }
        thread::Builder::new().name("adit-names".to_owned()).spawn(move || {
            loop {
                let unknown = self.known.is_empty();
                if ending.wait(if unknown { LOOK_UP_UNKNOWN_EVERY } else { LOOK_UP_EVERY }) {
                    return;
                }
                let complained = !self.missing.is_empty();
                let changed = self.refresh(|hosts| {
                    helper.look_up().unwrap_or_else(|error| vec![Err(error.to_string()); hosts.len()])
                });
                if !complained {
                    self.complain(&mut log);
                }
                if changed && !handle.reply(Reply::PeerAddresses(self.addresses())) {
                    return;
                }
            }
        })?;
        Ok(())
    }
}

/// By this process, while it may.
fn look_up(hosts: &[String]) -> Vec<LookedUp> {
    let addresses = |host: &String| {
        let found = (host.as_str(), 0).to_socket_addrs().map_err(|error| error.to_string())?;
        Ok(found.map(|address| address.ip().to_canonical()).collect())
    };
    hosts.iter().map(addresses).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[&str]) -> PeerNames {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        PeerNames { hosts, known: BTreeSet::new(), missing: Vec::new() }
    }

    #[test]
    fn names_and_addresses_limit_the_peer_and_what_is_not_known_opens_nothing() {
        let mut names = names(&["localhost", "192.0.2.1", "::ffff:192.0.2.2"]);
        assert!(names.refresh(look_up) && names.missing.is_empty());
        for address in ["127.0.0.1", "192.0.2.1", "192.0.2.2"] {
            assert!(names.addresses().contains(&address.parse().unwrap()), "{address}");
        }
        assert!(!names.refresh(look_up));
        // A name that cannot be looked up any more keeps the addresses that it had.
        names.hosts.push("nowhere.invalid".to_owned());
        names.hosts.remove(1);
        assert!(!names.refresh(look_up) && names.missing[0].starts_with("remote nowhere.invalid: "));
        assert!(names.addresses().contains(&"192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn a_name_that_never_was_known_lets_no_client_in() {
        let mut names = names(&["nowhere.invalid"]);
        assert!(!names.refresh(look_up) && names.addresses().is_empty());
    }
}
