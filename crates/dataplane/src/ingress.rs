//! The way from the net to the TUN device: find the session, open, check, merge.

mod batches;
mod payload;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use adit_checksum::WordSum;
use adit_core::{ConnectionId, Instant, Notice, Path, SessionId};
use thiserror::Error;

use self::payload::{Arrived, Destination, Selected, Sender};
use crate::Config;
use crate::access::SharedFlows;
use crate::codec::{Class, Demultiplexer, Plain, StreamAdvice};
use crate::counters::{Counters, DropReason, Half};
use crate::event::{EgressEvent, IngressEvent};
use crate::headers::Address;
use crate::held::Expected;
use crate::peers::{MOVES, Owner, Peers};
use crate::receive::ReceiveBatch;
use crate::recent::Recent;
use crate::selectors::Fields;
use crate::transmit::MAX_DATAGRAM;

/// The longest record on a TCP connection: no longer than the largest datagram.
pub const MAX_RECORD: usize = MAX_DATAGRAM;

/// The time between two ticks of a session's codec.
const TICK: Duration = Duration::from_secs(1);

/// Why a TCP connection must be closed: its stream makes no sense from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// A record of no bytes.
    #[error("the peer sent a record of length 0; {}", .0.lost_step)]
    Empty(StreamAdvice),
    /// A record longer than any may be.
    #[error("the peer announced a record of {len} bytes, more than {MAX_RECORD}; {}", .advice.lost_step)]
    Oversize {
        /// Its length.
        len: usize,
        /// The advice about the other end.
        advice: StreamAdvice,
    },
    /// A record longer than the first ones may be, on a connection that no peer uses yet.
    #[error("the peer announced a record of {len} bytes, but a control packet has at most {longest}; {}", .advice.too_long)]
    OversizeFirst {
        /// Its length.
        len: usize,
        /// The length of the longest one.
        longest: usize,
        /// The advice about the other end.
        advice: StreamAdvice,
    },
}

/// The half that opens. Owned by one thread.
pub struct Ingress {
    peers: Peers,
    /// The first are those of all sockets that have none of their own.
    rules: Vec<Rules>,
    sockets: BTreeMap<Socket, usize>,
    client_to_client: bool,
    words: WordSum,
    /// The session found last: datagrams come in runs.
    last: Option<(SessionId, Owner)>,
    /// The sessions whose selectors matched packets, as indices, since the last order.
    selected: Recent<Fields, u32>,
    /// The slots of the peers that may send to the main device from an address, where that depends on no selector, since the
    /// last order.
    senders: Recent<Address, u32>,
    /// The sessions that are to come, with their datagrams.
    expected: Expected<Source>,
    counters: Counters,
    now: Instant,
    next_tick: Instant,
}

/// A demultiplexer, with its answers that never change.
struct Rules {
    demultiplexer: Arc<dyn Demultiplexer>,
    follows_streams: bool,
    /// The longest record on a stream that no peer uses yet.
    longest_first: usize,
}

impl From<Arc<dyn Demultiplexer>> for Rules {
    fn from(demultiplexer: Arc<dyn Demultiplexer>) -> Self {
        let follows_streams = demultiplexer.follows_streams();
        let longest_first = demultiplexer.longest_first_record().unwrap_or(MAX_RECORD).min(MAX_RECORD);
        Rules { demultiplexer, follows_streams, longest_first }
    }
}

/// How datagrams came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The socket that they came by, as a path.
    pub socket: Path,
    /// Their path; its number may be that of a local address at the socket.
    pub path: Path,
    /// The traffic class of the IP header around them; 0 where it is not known.
    pub traffic_class: u8,
}

/// Where datagrams came from.
#[derive(Clone, Copy)]
struct Source {
    path: Path,
    traffic_class: u8,
    /// The index of the socket's rules.
    rules: usize,
    /// The slot of the peer whose path it is, once one of the datagrams showed that.
    peer: Option<u32>,
}

/// A socket for datagrams, or a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Socket {
    Datagram(u32),
    Tcp(ConnectionId),
}

impl Socket {
    fn of(path: &Path) -> Self {
        match path {
            Path::Udp { socket, .. } | Path::Ip { socket, .. } => Socket::Datagram(*socket),
            Path::Tcp { connection, .. } => Socket::Tcp(*connection),
        }
    }
}

impl Ingress {
    pub(crate) fn new(config: Config, counters: Counters, flows: SharedFlows) -> Self {
        Ingress {
            peers: Peers::new(counters.clone(), flows),
            rules: vec![config.demultiplexer.into()],
            sockets: BTreeMap::new(),
            client_to_client: config.client_to_client,
            words: config.words,
            last: None,
            selected: Recent::default(),
            senders: Recent::default(),
            expected: Expected::default(),
            counters,
            now: Instant::ORIGIN,
            next_tick: Instant::ORIGIN,
        }
    }

    /// Follows an order.
    pub fn apply(&mut self, event: IngressEvent) {
        self.last = None;
        self.selected.clear();
        self.senders.clear();
        match event {
            IngressEvent::SetRules(rules) => self.peers.set_rules(rules),
            IngressEvent::Peer(order) => self.peers.change(order),
            IngressEvent::AddRemotePeer { peer, worker } => self.peers.add(peer, Some(worker)),
            IngressEvent::Install { peer, session, series, open } => {
                self.peers.install(peer, session, series, open);
                self.expected.came(session);
            }
            IngressEvent::Expect(session) => self.expected.expect(session, self.now),
            IngressEvent::InstallRemote { peer, session } => {
                self.peers.install_remote(peer, session);
                self.expected.came(session);
            }
            IngressEvent::Retire { session, .. } => {
                self.peers.retire(session);
            }
        }
    }

    /// Has this demultiplexer classify the datagrams at the socket or on the connection of that path, in place of the
    /// one of the configuration. Any number of sockets and connections may have the same one.
    pub fn set_demultiplexer(&mut self, path: &Path, demultiplexer: Arc<dyn Demultiplexer>) {
        self.forget_demultiplexer(path);
        let index = self.rules_of(demultiplexer);
        self.sockets.insert(Socket::of(path), index);
    }

    /// The demultiplexer of all sockets that have none of their own.
    pub fn default_demultiplexer(&self) -> Option<Arc<dyn Demultiplexer>> {
        self.rules.first().map(|rules| Arc::clone(&rules.demultiplexer))
    }

    /// The index of the rules of that demultiplexer: those that are there, or new ones in an unused place.
    fn rules_of(&mut self, demultiplexer: Arc<dyn Demultiplexer>) -> usize {
        let is_same = |rules: &Rules| Arc::ptr_eq(&rules.demultiplexer, &demultiplexer);
        if let Some(found) = self.rules.iter().position(is_same) {
            return found;
        }
        let is_unused = |index: &usize| !self.sockets.values().any(|used| used == index);
        let index = (1..self.rules.len()).find(is_unused).unwrap_or(self.rules.len());
        match self.rules.get_mut(index) {
            Some(place) => *place = demultiplexer.into(),
            None => self.rules.push(demultiplexer.into()),
        }
        index
    }

    /// The socket or connection of that path is gone, or has the demultiplexer of the configuration again.
    pub fn forget_demultiplexer(&mut self, path: &Path) {
        self.sockets.remove(&Socket::of(path));
    }

    #[inline]
    fn source(&self, path: Path) -> Source {
        let own = if self.sockets.is_empty() { None } else { self.sockets.get(&Socket::of(&path)) };
        Source { path, traffic_class: 0, rules: own.copied().unwrap_or(0), peer: None }
    }

    /// Says what time it is: as often as there is something to open, and the clock is cheap. Replay windows are
    /// limited in time by it, sessions expire by it, and the last data and keepalives of a peer are stamped with it.
    #[inline]
    pub fn tick(&mut self, now: Instant) {
        self.now = now;
        if now >= self.next_tick {
            self.tick_sessions(now);
        }
    }

    #[cold]
    fn tick_sessions(&mut self, now: Instant) {
        self.next_tick = now + TICK;
        for session in self.peers.sessions.iter_mut() {
            session.open.tick(now);
        }
        for peer in self.peers.peers.iter_mut() {
            peer.moves = MOVES;
        }
        (0..self.expected.tick(now))
            .for_each(|_| self.counters.drop_one(Half::Ingress, DropReason::NoSession));
    }

    /// Whether there are datagrams that came before their sessions, which have come since.
    pub fn has_released(&self) -> bool {
        self.expected.has_released()
    }

    /// Opens a datagram that came before its session, which has come since. Its bytes lie in `buffer` then, whatever was there. Gives
    /// whether there was one. The receive batch is to be empty, as its ranges are of another buffer.
    pub fn open_released(&mut self, buffer: &mut Vec<u8>, out: &mut ReceiveBatch) -> bool {
        let Some((mut source, bytes)) = self.expected.next_released() else { return false };
        *buffer = bytes;
        let all = 0..buffer.len();
        self.open_one(&mut source, buffer, all, out);
        out.finish(buffer);
        true
    }

    /// Opens the datagrams of one receive call: all `segment` bytes long, the last perhaps shorter.
    pub fn open_datagrams(&mut self, path: Path, bytes: &mut [u8], segment: usize, out: &mut ReceiveBatch) {
        self.gather_datagrams(path, bytes, 0..bytes.len(), segment, out);
        out.finish(bytes);
    }

    /// Opens datagrams that lie in a part of a buffer, `within`. Packets of the next call may be merged with these
    /// until [`ReceiveBatch::finish`] is called.
    pub fn gather_datagrams(
        &mut self,
        path: Path,
        buffer: &mut [u8],
        within: Range<usize>,
        segment: usize,
        out: &mut ReceiveBatch,
    ) {
        let arrival = Arrival { socket: path, path, traffic_class: 0 };
        self.gather_datagrams_at(&arrival, buffer, within, segment, out);
    }

    /// Opens datagrams as [`Ingress::gather_datagrams`] does, where more is known of them than their path.
    #[inline]
    pub fn gather_datagrams_at(
        &mut self,
        arrival: &Arrival,
        buffer: &mut [u8],
        within: Range<usize>,
        segment: usize,
        out: &mut ReceiveBatch,
    ) {
        let segment = if segment == 0 { within.len() } else { segment };
        let Arrival { socket, path, traffic_class } = *arrival;
        let mut source = Source { path, traffic_class, ..self.source(socket) };
        let mut start = within.start;
        if within.len() > segment {
            start = self.open_batches(&mut source, buffer, within.clone(), segment, out);
        }
        while start < within.end {
            let end = start.saturating_add(segment).min(within.end);
            self.open_one(&mut source, buffer, start..end, out);
            start = end;
        }
    }

    /// Opens the whole records at the start of `bytes` and says how many bytes they took; the rest is the
    /// beginning of a record. After an error the connection is of no more use.
    pub fn open_stream(
        &mut self,
        path: Path,
        bytes: &mut [u8],
        out: &mut ReceiveBatch,
    ) -> Result<usize, StreamError> {
        let mut source = self.source(path);
        let longest_first = self.rules.get(source.rules).map_or(MAX_RECORD, |rules| rules.longest_first);
        let mut start = 0;
        let outcome = loop {
            let Some(prefix) = bytes.get(start..).and_then(|rest| rest.first_chunk()) else {
                break Ok(start);
            };
            let len = usize::from(u16::from_be_bytes(*prefix));
            if (len == 0 || len > longest_first)
                && let Err(error) = self.check_record(&source, len)
            {
                break Err(error);
            }
            let record = start + prefix.len()..start + prefix.len() + len;
            if record.end > bytes.len() {
                break Ok(start);
            }
            start = record.end;
            self.open_one(&mut source, bytes, record, out);
        };
        out.finish(bytes);
        outcome
    }

    /// Whether a peer uses this path.
    pub fn serves(&self, path: &Path) -> bool {
        self.peers.paths.contains_key(path)
    }

    /// Whether a record of a length that is unusual may come by this path.
    #[cold]
    fn check_record(&self, source: &Source, len: usize) -> Result<(), StreamError> {
        let Some(rules) = self.rules.get(source.rules) else { return Ok(()) };
        let advice = rules.demultiplexer.stream_advice();
        match len {
            0 => Err(StreamError::Empty(advice)),
            _ if len > MAX_RECORD => Err(StreamError::Oversize { len, advice }),
            _ if self.serves(&source.path) => Ok(()),
            _ => Err(StreamError::OversizeFirst { len, longest: rules.longest_first, advice }),
        }
    }

    #[inline]
    fn open_one(
        &mut self,
        source: &mut Source,
        bytes: &mut [u8],
        range: Range<usize>,
        out: &mut ReceiveBatch,
    ) {
        let datagram = bytes.get(range.clone()).unwrap_or_default();
        let Some(rules) = self.rules.get(source.rules) else { return };
        let owner = match rules.demultiplexer.classify(datagram) {
            Class::Control => return out.push_control(source.path, range),
            Class::Session(id) => match self.find(id) {
                Err(_) if self.hold(id, source, datagram) => return,
                found => found,
            },
            Class::Path => self.find_by_path(source, datagram),
            Class::Ignored => return,
            Class::Malformed => Err(DropReason::Malformed),
        };
        let opened = owner.and_then(|owner| match owner {
            Owner::Here(index) => self.open_data(source, bytes, range.clone(), index, None, out),
            Owner::Elsewhere(slot) => {
                let peer = self.peers.peers.get(slot);
                let worker = peer.and_then(|peer| peer.worker).ok_or(DropReason::NoPeer)?;
                out.pass_datagram(worker, (source.path, source.traffic_class), range.clone());
                Ok(())
            }
        });
        if let Err(reason) = opened {
            self.counters.drop_one(Half::Ingress, reason);
        }
    }

    #[inline]
    fn find(&mut self, id: SessionId) -> Result<Owner, DropReason> {
        if let Some((last, owner)) = self.last
            && last == id
        {
            return Ok(owner);
        }
        let owner = self.peers.owner(id).ok_or(DropReason::NoSession)?;
        self.last = Some((id, owner));
        Ok(owner)
    }

    /// Holds a datagram of a session that is expected. Gives whether it did.
    #[cold]
    fn hold(&mut self, id: SessionId, source: &Source, datagram: &[u8]) -> bool {
        // The peer may be elsewhere when the session has come.
        let source = Source { peer: None, ..*source };
        self.expected.hold(id, self.now, source, datagram)
    }

    #[cold]
    fn find_by_path(&mut self, source: &Source, datagram: &[u8]) -> Result<Owner, DropReason> {
        let peer = self.peers.at(&source.path).ok_or(DropReason::NoPeer)?.id;
        let rules = self.rules.get(source.rules).ok_or(DropReason::NoSession)?;
        let id = rules.demultiplexer.session_of(peer, datagram).ok_or(DropReason::NoSession)?;
        self.find(id)
    }

    #[inline]
    fn open_data(
        &mut self,
        source: &mut Source,
        bytes: &mut [u8],
        range: Range<usize>,
        index: u32,
        plain: Option<Result<Plain, DropReason>>,
        out: &mut ReceiveBatch,
    ) -> Result<(), DropReason> {
        let Peers { peers, sessions, paths, .. } = &mut self.peers;
        let session = sessions.get_mut(index).ok_or(DropReason::NoSession)?;
        if session.expires.is_some_and(|expires| expires <= self.now) {
            return Err(DropReason::NoSession);
        }
        let slot = session.peer;
        let peer = peers.get_mut(slot).ok_or(DropReason::NoPeer)?;
        let datagram = bytes.get_mut(range.clone()).ok_or(DropReason::Malformed)?;
        let opened = match plain {
            None => session.open.open(datagram),
            Some(plain) => session.open.accept(datagram, plain),
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                if reason == DropReason::BadTag && session.open.limit_near() {
                    out.push_notice(Notice::LimitNear { peer: peer.id, session: session.id });
                }
                return Err(reason);
            }
        };
        peer.counter.add(1, datagram.len() as u64);
        if !session.used {
            session.used = true;
            let latest = peer.latest.entry(session.series).or_default();
            *latest = session.number.max(*latest);
            out.push_order(EgressEvent::FirstOpened { peer: peer.id, session: session.id });
            out.push_notice(Notice::FirstOpened { peer: peer.id, session: session.id });
        }
        // Late datagrams say nothing about where the peer is now.
        if opened.newest && source.peer != Some(slot) {
            if peer.moved.is_none() && peer.path.as_ref().is_some_and(|path| path.is_path(&source.path)) {
                source.peer = Some(slot);
            } else if peer.latest.get(&session.series) == Some(&session.number) {
                let anywhere = self.rules.get(source.rules).is_some_and(|rules| rules.follows_streams);
                peer.note_path(slot, source.path, anywhere, paths, out);
            }
        }
        let payload = match opened.payload {
            Ok(payload) => payload,
            Err(why) => return self.take_elsewhere(source.traffic_class, range.len(), index, why, out),
        };
        let payload = range.start + payload.start..range.start + payload.end;
        let bytes_of = bytes.get_mut(payload.clone()).ok_or(DropReason::Malformed)?;
        let arrived = Arrived {
            peer,
            session: session.id,
            is_keepalive: session.is_keepalive,
            outer: &session.outer,
            selectors: session.selectors.as_deref(),
            selected: Selected { recent: &mut self.selected, session: index },
            traffic_class: source.traffic_class,
            len: range.len(),
            now: self.now,
        };
        let Some(ip) = arrived.take(bytes_of, out)? else { return Ok(()) };
        let packet = payload.start..payload.start + ip.len;
        let selected = session.selectors.is_some();
        match self.destination(Sender { slot, selected }, &ip, bytes_of)? {
            Destination::Device => out.push_packet(self.words, bytes, packet, &ip),
            Destination::OtherDevice(device) => out.push_packet_of(device, self.words, bytes, packet, &ip),
            Destination::Peer => out.push_relay(packet),
            Destination::Worker(worker) => out.pass_packet(worker, packet),
        }
        Ok(())
    }
}
