//! Endpoints by name are resolved again while handshakes go unanswered: a server may have moved, or one of its addresses may
//! not be reached from here. The addresses of the name have their turn, IPv6 and IPv4 alternately, but for a family without a
//! socket. A peer without a path is resolved again, too. An address that refuses datagrams (no route, or ICMP) has its turn only
//! where all of the name's do.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use adit_core::{Instant, Severity, escaped};
use adit_guard::{HelperAccess, HelperFiles};
use adit_io::RefusalCheck;
use adit_wireguard::{Changes, PeerChange, PeerDetail, PublicKey};
use adit_wireguard_config::Config;

use super::{Families, literal};
use crate::interface::Orders;
use adit_host::ending::{EndOnDrop, Ending};
use adit_host::log::Logger;

/// How often peers are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// So many initiations without an answer, 5 s apart, have a name resolved again.
const UNANSWERED: u32 = 3;
/// How long an address has to answer before the name is resolved once more.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// The wait doubles up to this while the name has no other address.
const LONGEST_WAIT: Duration = Duration::from_secs(80);

/// A peer whose endpoint is a name.
#[derive(Clone, Debug)]
struct Named {
    host: String,
    port: u16,
    /// Not before.
    due: Instant,
    wait: Duration,
    /// The initiations without an answer when the name was resolved last.
    seen: u32,
    /// The initiations without an answer when the peer's address was last asked whether it refuses datagrams.
    asked: u32,
}

impl Named {
    fn new(host: &str, port: u16) -> Self {
        Named {
            host: host.to_owned(),
            port,
            due: Instant::from_nanos(0),
            wait: FIRST_WAIT,
            seen: 0,
            asked: 0,
        }
    }

    /// Whether to resolve the name now. `unanswered` is `None` where the peer has no path: no initiation is sent, so that none
    /// goes unanswered.
    fn is_due(&mut self, unanswered: Option<u32>, now: Instant) -> bool {
        let Some(unanswered) = unanswered else { return self.is_due_without_path(now) };
        if unanswered < UNANSWERED {
            (self.wait, self.seen) = (FIRST_WAIT, 0);
            return false;
        }
        // Where nothing was sent since, nothing could be answered.
        if unanswered == self.seen || now < self.due {
            return false;
        }
        self.seen = unanswered;
        true
    }

    /// Whether to ask now if the peer's address refuses datagrams: once for each initiation without an answer.
    fn asks(&mut self, unanswered: Option<u32>) -> bool {
        let unanswered = unanswered.unwrap_or_default();
        std::mem::replace(&mut self.asked, unanswered) != unanswered && unanswered != 0
    }

    fn is_due_without_path(&mut self, now: Instant) -> bool {
        if now < self.due {
            return false;
        }
        // If no name server answers, no initiation delays the next attempt.
        self.due = now + FIRST_WAIT;
        true
    }

    /// The name was resolved: where the peer is tried next, if anywhere else than now.
    fn resolved(
        &mut self,
        found: &[SocketAddr],
        current: Option<SocketAddr>,
        now: Instant,
    ) -> Option<SocketAddr> {
        let next = next(found, current);
        self.due = now + self.wait;
        self.wait = match next {
            Some(_) => FIRST_WAIT,
            None => (self.wait * 2).min(LONGEST_WAIT),
        };
        next
    }
}

/// The address after the current one, in a list where families alternate; the first if the current one is none of them.
/// `None` if there is no other.
fn next(found: &[SocketAddr], current: Option<SocketAddr>) -> Option<SocketAddr> {
    let is_first_family =
        |address: &&SocketAddr| found.first().is_some_and(|it| it.is_ipv4() == address.is_ipv4());
    let (of_first, of_other): (Vec<&SocketAddr>, Vec<&SocketAddr>) = found.iter().partition(is_first_family);
    let mut turns = Vec::new();
    for place in 0..of_first.len().max(of_other.len()) {
        turns.extend(
            [of_first.get(place), of_other.get(place)].into_iter().flatten().map(|address| **address),
        );
    }
    let place = turns.iter().position(|address| Some(*address) == current);
    let next = place.map_or(0, |place| (place + 1) % turns.len().max(1));
    turns.get(next).copied().filter(|next| Some(*next) != current)
}

/// The addresses that have their turn: those that do not refuse datagrams, or all if all do.
fn preferred(found: &[SocketAddr], not_refusing: Vec<SocketAddr>) -> Vec<SocketAddr> {
    if not_refusing.is_empty() { found.to_vec() } else { not_refusing }
}

/// The peers of a tunnel whose endpoints are names. Copies are of the same tunnel.
#[derive(Clone, Default)]
pub(in crate::wg_quick) struct NamedPeers(Arc<Mutex<BTreeMap<PublicKey, Named>>>);

impl NamedPeers {
    /// The peers of this configuration.
    pub(in crate::wg_quick) fn new(config: &Config) -> Self {
        let peers = NamedPeers::default();
        peers.replace(config);
        peers
    }

    /// The file says this now.
    pub(in crate::wg_quick) fn replace(&self, config: &Config) {
        let named = config.peers.iter().filter_map(|peer| {
            let endpoint = peer.endpoint.as_ref()?;
            let is_name = literal(&endpoint.host).is_none();
            is_name.then(|| (peer.public_key, Named::new(&endpoint.host, endpoint.port)))
        });
        *self.lock() = named.collect();
    }

    /// Looks after them on a thread of its own, until what is given back is dropped.
    ///
    /// # Errors
    /// When the helper is gone, or the system refuses the thread.
    pub(in crate::wg_quick) fn watch(
        &self,
        helper: &HelperAccess,
        orders: Orders,
        log: Logger,
    ) -> io::Result<EndOnDrop> {
        let ending = Ending::default();
        // A name server that is slow delays nothing else that the helper does.
        let (files, refusals) = (helper.files()?, RefusalCheck::new(helper)?);
        let watch = Watch { peers: self.clone(), files, refusals, orders, log };
        let ended = ending.clone();
        thread::Builder::new().name("adit-names".to_owned()).spawn(move || watch.run(&ended))?;
        Ok(ending.on_drop())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PublicKey, Named>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Watch {
    peers: NamedPeers,
    files: HelperFiles,
    refusals: RefusalCheck,
    orders: Orders,
    log: Logger,
}

impl Watch {
    fn run(mut self, ending: &Ending) {
        while !ending.wait(LOOK_EVERY) {
            let keys: Vec<PublicKey> = self.peers.lock().keys().copied().collect();
            if keys.is_empty() {
                continue;
            }
            let Some(peers) = self.orders.peers(keys) else { return };
            peers.iter().for_each(|peer| self.look_at(peer));
        }
    }

    fn look_at(&mut self, peer: &PeerDetail) {
        let key = peer.public_key;
        let (named, is_due) = {
            let mut peers = self.peers.lock();
            let Some(named) = peers.get_mut(&key).filter(|_| !peer.blocked) else { return };
            let unanswered = peer.transport.map(|_| peer.unanswered);
            let (is_due, asks) = (named.is_due(unanswered, adit_io::clock()), named.asks(unanswered));
            if !is_due && !asks {
                return;
            }
            (named.clone(), is_due)
        };
        // The lock is not held: it may take long.
        let Some(mark) = self.orders.fwmark() else { return };
        let refuses = |at| self.refusals.not_refusing(&[at], mark).is_empty();
        if !is_due && !peer.endpoint.is_some_and(refuses) {
            return;
        }
        let Some(found) = self.look_up(&named) else { return };
        let found = preferred(&found, self.refusals.not_refusing(&found, mark));
        let resolved = |named: &mut Named| named.resolved(&found, peer.endpoint, adit_io::clock());
        let Some(next) = self.peers.lock().get_mut(&key).and_then(resolved) else { return };
        let text = format_args!(
            "peer {}: {} {}: {} is tried at {next}",
            peer.called(),
            if is_due { "no answer from" } else { "datagrams are refused by" },
            peer.endpoint.map_or_else(|| "its endpoint".to_owned(), |it| it.to_string()),
            escaped(&named.host)
        );
        self.log.log(Severity::Info, text);
        let change = PeerChange { update_only: true, endpoint: Some(next), ..PeerChange::new(key) };
        // It cannot be refused, and an interface that has ended has no peers.
        let _ = self.orders.configure(Box::new(Changes { peers: vec![change], ..Changes::default() }));
    }

    /// The addresses of the name for which there are sockets. `None` if there are none, which the log says.
    fn look_up(&mut self, named: &Named) -> Option<Vec<SocketAddr>> {
        let found = match self.files.look_up_one(&named.host) {
            Ok(found) => found.map_err(io::Error::other),
            Err(error) => Err(error),
        };
        let sockets = self.orders.sockets()?;
        let usable = found.and_then(|found| Families::of(sockets).usable(found, named.port));
        usable.map_err(|error| self.tell_failure(named, &error.to_string())).ok()
    }

    fn tell_failure(&mut self, named: &Named, why: &str) {
        let text =
            format_args!("Endpoint {} cannot be resolved again: {}", escaped(&named.host), escaped(why));
        self.log.log(Severity::Warning, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn families_take_turns() {
        let found = addresses(&["[2001:db8::1]:7", "[2001:db8::2]:7", "192.0.2.1:7"]);
        let mut current = None;
        let mut tried = Vec::new();
        for _ in 0..5 {
            current = next(&found, current);
            tried.extend(current.map(|address| address.to_string()));
        }
        let all = ["[2001:db8::1]:7", "192.0.2.1:7", "[2001:db8::2]:7"];
        assert_eq!(tried, [all[0], all[1], all[2], all[0], all[1]]);
        // Where it was is no address of the name any more.
        assert_eq!(next(&found, Some("198.51.100.1:7".parse().unwrap())), Some(found[0]));
        assert_eq!(next(&found[..1], Some(found[0])), None);
        assert_eq!(next(&[], Some(found[0])), None);
    }

    #[test]
    fn names_are_resolved_while_initiations_go_unanswered() {
        let at = |seconds| Instant::from_nanos(0) + Duration::from_secs(seconds);
        let found = addresses(&["192.0.2.1:7", "[2001:db8::1]:7"]);
        let mut named = Named::new("vpn.example.net", 7);
        assert!(!named.is_due(Some(2), at(100)));
        assert!(named.is_due(Some(3), at(100)));
        assert_eq!(named.resolved(&found, Some(found[0]), at(100)), Some(found[1]));
        // The new address has its time, and must have been tried.
        assert!(!named.is_due(Some(4), at(109)) && !named.is_due(Some(3), at(200)));
        assert!(named.is_due(Some(5), at(110)));
        // Without another address, more and more seldom.
        for (now, until) in [(110, 120), (120, 140), (140, 180), (180, 260), (260, 340)] {
            assert_eq!(named.resolved(&found[..1], Some(found[0]), at(now)), None);
            assert_eq!(named.due, at(until));
        }
        // Once the peer has answered, all begins anew.
        assert!(!named.is_due(Some(0), at(1000)));
        assert_eq!((named.wait, named.seen), (FIRST_WAIT, 0));
    }

    /// By what refuses at once the next address is not kept waiting for three initiations.
    #[test]
    fn an_address_is_asked_once_for_each_initiation_without_an_answer() {
        let mut named = Named::new("vpn.example.net", 7);
        let asks: Vec<bool> =
            [0, 1, 1, 2, 0, 0, 1].into_iter().map(|unanswered| named.asks(Some(unanswered))).collect();
        assert_eq!(asks, [false, true, false, true, false, false, true]);
        assert!(!named.asks(None), "nothing is sent");
        let found = addresses(&["192.0.2.1:7", "[2001:db8::1]:7"]);
        assert_eq!(preferred(&found, vec![found[1]]), [found[1]]);
        assert_eq!(preferred(&found, Vec::new()), found, "all refuse");
    }

    /// As when an address was chosen for which there is no socket: no initiation is sent any more.
    #[test]
    fn a_name_is_resolved_while_its_peer_has_no_path() {
        let at = |seconds| Instant::from_nanos(0) + Duration::from_secs(seconds);
        let found = addresses(&["192.0.2.1:7", "[2001:db8::1]:7"]);
        let mut named = Named::new("vpn.example.net", 7);
        assert!(named.is_due(Some(3), at(100)));
        assert_eq!(named.resolved(&found, Some(found[0]), at(100)), Some(found[1]));
        // The count stays what it was.
        assert!(!named.is_due(None, at(109)));
        assert!(named.is_due(None, at(110)));
        // No name server answers.
        assert!(!named.is_due(None, at(112)));
        assert!(named.is_due(None, at(120)));
        assert_eq!(named.resolved(&found[..1], Some(found[1]), at(120)), Some(found[0]));
        // It has a path again, and an initiation went unanswered.
        assert!(named.is_due(Some(4), at(130)));
    }

    #[test]
    fn only_names_are_resolved() {
        let key = |byte| PublicKey([byte; 32]);
        let peer = |byte, host: &str| format!("[Peer]\nPublicKey = {}\nEndpoint = {host}:7\n", key(byte));
        let text = format!(
            "[Interface]\n{}{}{}{}",
            peer(1, "192.0.2.1"),
            peer(2, "vpn.example.net"),
            peer(3, "[2001:db8::1]"),
            peer(4, "[fe80::1%eth0]")
        );
        let config = adit_wireguard_config::parse(text.as_bytes(), "wg0.conf").expect("a good file").config;
        let peers = NamedPeers::new(&config);
        assert_eq!(peers.lock().keys().copied().collect::<Vec<_>>(), [key(2)]);
    }
}
