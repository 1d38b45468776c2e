//! The control thread: the protocol, its time, and what it asks of the world.

mod inspect;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use adit_core::{
    Command, ConnectionId, DataEvent, Drive, Ended, Event, EventOf, Instant, Notice, OpenFailure, Path,
    PeerId, Protocol, Rejected, Report, Severity, SourcePrefix, Transport, TunnelSettings, drive,
};
use adit_dataplane::StreamError;

use super::MakeCodec;
use super::counters::LinkCounters;
use super::mail::{DataMail, Mail};
use super::network::NetworkWatch;
use super::overflow::Overflow;
use super::status::{LossCounters, count};
use super::workers::{Workers, or_install};
use super::{Driver, DriverError, Observer, Order};
use crate::clock;
use crate::config::Remote;
use crate::fair_queue::FairQueue;
use crate::helper::HelperAccess;
use crate::mailbox::{MailReceiver, Mailbox};
use crate::offload::OffloadStatus;
use crate::opener::{self, KnownAddresses, Opened};
use crate::poller::{Interest, Poller, Token};
use crate::system::System;
use crate::tcp::Listener;
use crate::tun::Tun;
use crate::udp::{UdpOptions, UdpSocket};

/// How often totals are turned into notices.
const TICK: Duration = Duration::from_secs(1);
/// Between two lines in the log about datagrams that do not parse or verify.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);
/// Mails taken before datagrams are handled.
const MAIL_BATCH: usize = 256;
/// Datagrams handled before mails are taken again.
const DATAGRAM_BATCH: usize = 32;
/// Rounds of both before timers are looked at again.
const WORK_BATCHES: usize = 8;
/// Datagrams that may wait for their turn, of all addresses. One alone may have half of it: a thousand clients behind
/// one address that all come back at once send some five each.
const DATAGRAM_LIMIT: usize = 16_384;
/// Connections accepted before the rest has its turn.
const ACCEPT_BATCH: usize = 16;
/// Between two lines in the log about datagrams that a listening socket could not send.
const SEND_COMPLAIN_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Control<'a, P: Protocol> {
    protocol: P,
    observer: &'a mut dyn Observer<P>,
    tun: Arc<Tun>,
    system: System,
    link: LinkCounters,
    /// Who opens paths in place of this process.
    helper: Option<HelperAccess>,
    remotes: Vec<Remote>,
    attempts: BTreeMap<usize, usize>,
    known_addresses: KnownAddresses,
    kill_switch: bool,
    offloads: OffloadStatus,
    udp_options: UdpOptions,
    listeners: Vec<Listener>,
    /// The system had no descriptor left for a connection; the listeners rest until the next tick.
    listeners_rest: bool,
    /// Sockets that nothing is received from yet.
    bound: Vec<Vec<UdpSocket>>,
    /// The workers' sockets at each address; control datagrams leave by the first worker's.
    sockets: BTreeMap<u32, Vec<Arc<UdpSocket>>>,
    next_socket: u32,
    /// Sockets from this number on were opened for one remote; those below listen, and stay.
    first_opened: u32,
    connections: BTreeMap<ConnectionId, Path>,
    max_connections: usize,
    next_connection: u32,
    /// What was last told of each peer's totals.
    peers: BTreeMap<PeerId, (u64, u64)>,
    losses: Arc<LossCounters>,
    mail: MailReceiver<Mail>,
    /// Control datagrams over UDP that wait for their turn.
    datagrams: FairQueue<SourcePrefix, (Path, Vec<u8>)>,
    /// For the threads that open paths.
    own_mail: Mailbox<Mail>,
    orders: mpsc::Receiver<Order<P>>,
    workers: Workers,
    codec: MakeCodec<P>,
    poller: Poller,
    next_tick: Instant,
    overflow: Overflow,
    /// Packets that may wait in the TUN device.
    txqueuelen: u32,
    next_complaint: Instant,
    network: NetworkWatch,
    send_error: Option<io::ErrorKind>,
    next_send_complaint: Instant,
    scratch: Vec<u8>,
    ended: Option<Ended>,
}

impl<'a, P: Protocol> Control<'a, P> {
    pub(super) fn new(
        driver: Driver<P>,
        protocol: P,
        observer: &'a mut dyn Observer<P>,
        workers: Workers,
        losses: Arc<LossCounters>,
    ) -> io::Result<Self> {
        let changes_routing = driver.config.changes_routing;
        let mut control = Control {
            protocol,
            observer,
            tun: driver.tun,
            system: driver.system,
            link: driver.link,
            helper: driver.helper,
            remotes: driver.config.remotes,
            attempts: BTreeMap::new(),
            known_addresses: KnownAddresses::default(),
            kill_switch: driver.config.kill_switch,
            offloads: driver.offloads,
            udp_options: driver.udp_options,
            listeners: driver.listeners,
            listeners_rest: true,
            bound: driver.sockets,
            sockets: BTreeMap::new(),
            next_socket: 0,
            first_opened: 0,
            connections: BTreeMap::new(),
            max_connections: driver.config.max_connections,
            next_connection: 0,
            peers: BTreeMap::new(),
            losses,
            mail: driver.mail_receiver,
            datagrams: FairQueue::new(DATAGRAM_LIMIT),
            own_mail: driver.mail,
            orders: driver.order_receiver,
            workers,
            codec: driver.codec,
            poller: Poller::new()?,
            next_tick: clock() + TICK,
            overflow: Overflow::new(clock()),
            txqueuelen: driver.config.tun.txqueuelen,
            next_complaint: clock(),
            network: NetworkWatch::new(),
            send_error: None,
            next_send_complaint: clock(),
            scratch: Vec::new(),
            ended: None,
        };
        control.poller.add(&control.mail, Token::Mail, Interest::Read)?;
        if changes_routing {
            for report in control.system.recover() {
                control.tell(report);
            }
        }
        Ok(control)
    }

    /// Runs until the protocol has ended or a thread failed.
    pub(super) fn run(mut self) -> Result<Ended, DriverError> {
        let mut ready = Vec::new();
        self.pump();
        self.observer.started().map_err(DriverError::NotConfined)?;
        #[cfg(debug_assertions)]
        self.probe();
        self.begin_to_receive().map_err(DriverError::Start)?;
        loop {
            if let Some(ended) = self.ended.take() {
                return Ok(ended);
            }
            let now = clock();
            let routes = self.network.due(self.system.takes_all());
            let due = [self.protocol.poll_timeout(), routes]
                .into_iter()
                .flatten()
                .fold(self.next_tick, Instant::min);
            self.poller.wait(Some(due - now), &mut ready).map_err(DriverError::Start)?;
            for event in &ready {
                match event.token {
                    Token::Mail => self.mail.acknowledge(),
                    Token::Listener(number) => self.accept(number),
                    Token::Routes => self.network.woke(&self.poller),
                    Token::Tun | Token::Udp(_) | Token::Tcp(_) | Token::Forwards => {}
                }
            }
            self.follow_network();
            self.work()?;
            self.take_orders();
            self.check_time();
        }
    }

    #[cfg(debug_assertions)]
    fn probe(&mut self) {
        if super::probe::is_wanted() {
            self.report(Severity::Info, None, super::probe::attempt("control"));
            self.workers.post_first(DataMail::Probe);
            self.workers.wake();
        }
    }

    /// Begins to receive from all sockets. Before this the process still has its rights.
    fn begin_to_receive(&mut self) -> io::Result<()> {
        for sockets in std::mem::take(&mut self.bound) {
            self.add_sockets(sockets);
        }
        self.first_opened = self.next_socket;
        self.watch_listeners()
    }

    fn watch_network(&mut self) {
        let wanted = self.system.depends_on_network();
        self.network.set(wanted, &self.poller, || self.system.watch());
    }

    /// The network may have changed.
    fn follow_network(&mut self) {
        let now = clock();
        if self.network.is_due(now, self.system.takes_all(), &self.poller) {
            self.system.follow();
            self.network.looked(now, clock());
            if let Some(reason) = self.system.lacks() {
                self.protocol.handle_command(clock(), Command::NotUp { reason });
                self.pump();
            }
        }
    }

    /// Takes what came, and handles some of the datagrams.
    fn work(&mut self) -> Result<(), DriverError> {
        for _ in 0..WORK_BATCHES {
            let all = self.take_mail()?;
            self.handle_datagrams();
            if self.ended.is_some() || (all && self.datagrams.is_empty()) {
                return Ok(());
            }
        }
        // There may be more: do not sleep.
        self.own_mail.wake();
        Ok(())
    }

    /// True if that was all.
    fn take_mail(&mut self) -> Result<bool, DriverError> {
        for _ in 0..MAIL_BATCH {
            let Some(mail) = self.mail.take() else { return Ok(true) };
            let now = clock();
            match mail {
                // Anybody can send these, so each address has its turn when many wait.
                Mail::Datagram { path, bytes } if path.transport() == Transport::Udp && self.is_behind() => {
                    if !self.datagrams.offer(path.source_prefix(), (path, bytes)) {
                        count(&self.losses.control_full);
                    }
                    continue;
                }
                // Those of a connection keep their order with the news that it broke in any case.
                Mail::Datagram { path, bytes } => self.datagram(now, path, &bytes),
                Mail::Notice(notice) => self.protocol.handle_notice(now, notice),
                Mail::Reaching { addresses, go } => {
                    self.system.bypass(&addresses);
                    self.watch_network();
                    // It may have given up waiting.
                    let _ = go.try_send(());
                }
                Mail::Opened { remote, result } => self.opened(now, remote, result),
                Mail::Broken { connection, reason } => self.broken(now, connection, reason),
                Mail::NotFramed { connection, error } => self.not_framed(now, connection, error),
                #[cfg(debug_assertions)]
                Mail::Probed(outcome) => self.report(Severity::Info, None, outcome),
                Mail::Died { thread, why } => return Err(DriverError::Thread { thread, why }),
            }
            self.pump();
            if self.ended.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether more datagrams wait than are handled in a moment.
    fn is_behind(&self) -> bool {
        !self.datagrams.is_empty() || self.mail.waiting() >= DATAGRAM_BATCH
    }

    /// Handles some of the datagrams that wait. One that comes meanwhile waits for these.
    fn handle_datagrams(&mut self) {
        for _ in 0..DATAGRAM_BATCH {
            if self.ended.is_some() {
                return;
            }
            let Some((path, bytes)) = self.datagrams.take() else { return };
            self.datagram(clock(), path, &bytes);
            self.pump();
        }
    }

    fn datagram(&mut self, now: Instant, path: Path, bytes: &[u8]) {
        if let Err(why) = self.protocol.handle_datagram(now, path, bytes) {
            self.rejected(now, path, why);
        }
    }

    /// Counts a datagram that the protocol did not take. That ends use different keys, or one of them none, would
    /// show nowhere else; but anyone can send such datagrams, so the log hears of few.
    fn rejected(&mut self, now: Instant, path: Path, why: Rejected) {
        count(&self.losses.rejected);
        if matches!(why, Rejected::Unauthentic(_) | Rejected::Malformed(_)) {
            self.complain(now, path, format!("dropped a control datagram: {why}"));
        }
    }

    /// Says in the log what is wrong with what an unauthenticated peer sent, if nothing was said for a while.
    fn complain(&mut self, now: Instant, path: Path, text: String) {
        if now >= self.next_complaint {
            self.next_complaint = now + COMPLAIN_EVERY;
            self.report(Severity::Warning, Some(path), text);
        }
    }

    /// Totals first, so that a peer heard within this second is not taken for silent; then the timers.
    fn check_time(&mut self) {
        let now = clock();
        if now >= self.next_tick {
            self.next_tick += TICK;
            if self.next_tick < now {
                self.next_tick = now + TICK;
            }
            self.tell_totals(now);
            self.watch_queue(now);
            if self.listeners_rest {
                // If it fails again, so does the next tick.
                let _ = self.watch_listeners();
            }
        }
        if self.protocol.poll_timeout().is_some_and(|due| due <= now) {
            self.protocol.handle_timeout(now);
            self.pump();
        }
    }

    /// Says in the log that the TUN device drops packets, and what helps.
    fn watch_queue(&mut self, now: Instant) {
        if !self.overflow.is_due(now) {
            return;
        }
        let dropped = self.link.tx_dropped();
        if let Some(text) = self.overflow.look(now, dropped, self.tun.name(), self.txqueuelen) {
            self.report(Severity::Warning, None, text);
        }
    }

    fn tell_totals(&mut self, now: Instant) {
        let mut changed = Vec::new();
        for (peer, told) in &mut self.peers {
            if let Some(totals) = self.workers.traffic(*peer)
                && totals != *told
            {
                *told = totals;
                changed.push((*peer, totals));
            }
        }
        for (peer, (received, sent)) in changed {
            let (received_bytes, sent_bytes) = self.workers.traffic_bytes(peer).unwrap_or_default();
            let message_bytes = self.workers.message_bytes(peer).unwrap_or_default();
            let notice = Notice::Traffic { peer, received, sent, received_bytes, sent_bytes, message_bytes };
            self.protocol.handle_notice(now, notice);
            self.pump();
        }
    }

    /// Carries out what the protocol wants: keys first, then the datagrams that tell the peer of them; and
    /// again, as last words are followed by events. Most rounds of a handshake have nothing for the data
    /// threads, which then sleep on.
    fn pump(&mut self) {
        let mut datagram = std::mem::take(&mut self.scratch);
        let Ok(()) = drive(self, &mut datagram);
        self.scratch = datagram;
        self.workers.wake();
    }

    /// Carries out what came by a [`super::Handle`].
    fn take_orders(&mut self) {
        while self.ended.is_none()
            && let Ok(order) = self.orders.try_recv()
        {
            match order {
                Order::Command(command) => self.protocol.handle_command(clock(), command),
                Order::Reply(reply) => self.protocol.handle_reply(clock(), reply),
                Order::Change(change) => change(&mut self.protocol, clock()),
                Order::Inspect(inspection) => {
                    self.inspect(inspection);
                    continue;
                }
            }
            self.pump();
        }
    }

    fn carry_out(&mut self, event: EventOf<P>) {
        match event {
            Event::Data(event) => return self.data(event),
            Event::Open { remote } => self.open(remote),
            Event::Close { path } => self.close(path),
            Event::Up(ref settings) => {
                if let Err(reason) = self.up(settings) {
                    // A tunnel that lacks what it needs is not reported as up.
                    return self.protocol.handle_command(clock(), Command::NotUp { reason });
                }
            }
            Event::Down => {
                self.system.undo();
                self.watch_network();
            }
            Event::Request(request) => return self.observer.request(request, self.tun.name()),
            Event::Ended(ref ended) => self.ended = Some(ended.clone()),
            Event::PeerUp { .. } | Event::PeerDown { .. } | Event::Report(_) => {}
        }
        self.observer.event(&event, self.tun.name());
    }

    fn data(&mut self, event: DataEvent<P::Codec>) {
        match &event {
            DataEvent::AddPeer(config) => {
                self.peers.entry(config.peer).or_insert((0, 0));
            }
            DataEvent::RemovePeer(peer) => {
                self.peers.remove(peer);
            }
            _ => {}
        }
        match or_install(event) {
            Ok(order) => self.workers.order(order),
            // Keys that do not fit install nothing; what comes with them is counted as without a session.
            Err(install) => {
                if let Ok(codec) = (self.codec)(&install) {
                    self.workers.install(install.peer, install.session, codec);
                }
            }
        }
    }

    /// Sets the system up.
    ///
    /// # Errors
    /// What the tunnel cannot be without, and why the system refused it.
    fn up(&mut self, settings: &TunnelSettings) -> Result<(), String> {
        let reports = self.system.apply(settings);
        self.watch_network();
        let lacks = self.system.lacks();
        reports.into_iter().for_each(|report| self.tell(report));
        lacks.map_or(Ok(()), Err)
    }

    fn tell(&mut self, report: Report) {
        self.observer.event(&Event::Report(report), self.tun.name());
    }

    fn send(&mut self, path: Path, datagram: &[u8]) {
        match path {
            Path::Udp { socket, remote } => {
                let Some(socket) = self.sockets.get(&socket).and_then(|group| group.first()) else {
                    return count(&self.losses.no_path);
                };
                let result = socket.send(datagram, datagram.len(), remote);
                self.note_send(path, result);
            }
            Path::Tcp { connection, .. } => {
                self.workers.post_first(DataMail::Control { connection, datagram: datagram.to_vec() });
            }
        }
    }

    /// Reports a failure to send when it is another one than the last time.
    fn note_send(&mut self, path: Path, result: io::Result<()>) {
        let error = match result {
            Ok(()) => return self.send_error = None,
            Err(error) => error,
        };
        count(&self.losses.udp_send);
        // Anybody can make an answer fail, and another one leave in between.
        if matches!(path, Path::Udp { socket, .. } if socket < self.first_opened) {
            let now = clock();
            if now >= self.next_send_complaint {
                self.next_send_complaint = now + SEND_COMPLAIN_EVERY;
                self.report(Severity::Warning, Some(path), format!("cannot send: {error}"));
            }
            return;
        }
        if self.send_error != Some(error.kind()) {
            self.send_error = Some(error.kind());
            self.report(Severity::Warning, Some(path), format!("cannot send: {error}"));
        }
    }

    fn report(&mut self, severity: Severity, path: Option<Path>, text: String) {
        self.observer.event(&Event::Report(Report { severity, path, text }), self.tun.name());
    }

    fn open(&mut self, remote: usize) {
        let attempt = self.attempts.entry(remote).or_insert(0);
        let number = *attempt;
        *attempt += 1;
        let mail = self.own_mail.clone();
        let fail = |reason: String| {
            self.own_mail.post(Mail::Opened { remote, result: Err(OpenFailure::Unreachable(reason)) });
            self.own_mail.wake();
        };
        let Some(target) = self.remotes.get(remote).cloned() else {
            return fail(format!("there is no remote number {remote}"));
        };
        let options = self.udp_options;
        let known = self.known_addresses.clone();
        let helper = self.helper.clone();
        let resolving = self.system.resolving(self.kill_switch);
        let ahead = if helper.is_none() && self.attempts.len() == 1 && number == 0 {
            self.remotes.clone()
        } else {
            Vec::new()
        };
        let work = move || {
            let prepare = |addresses| {
                let (go, wait) = mpsc::sync_channel(1);
                mail.post(Mail::Reaching { addresses, go });
                mail.wake();
                // It is answered at once; if the driver ends meanwhile, that is an answer too.
                let _ = wait.recv();
            };
            let result = match helper {
                None => Ok(opener::open(&target, number, &options, (&known, &resolving), prepare)),
                Some(helper) => helper.open(remote, number, &options, prepare),
            };
            mail.post(match result {
                Ok(result) => Mail::Opened { remote, result },
                Err(error) => Mail::Died { thread: "helper", why: format!("no answer: {error}") },
            });
            mail.wake();
        };
        if ahead.len() > 1 {
            self.learn_ahead(ahead);
        }
        if let Err(error) = thread::Builder::new().name("adit-open".to_owned()).spawn(work) {
            fail(format!("cannot start a thread: {error}"));
        }
    }

    /// Resolves the names of all servers while the system's resolver works: later it may be in a dead tunnel.
    fn learn_ahead(&self, remotes: Vec<Remote>) {
        let (known, resolving) = (self.known_addresses.clone(), self.system.resolving(self.kill_switch));
        let work = move || known.learn(&remotes, &resolving);
        // Without it the names are resolved when they are needed.
        let _ = thread::Builder::new().name("adit-resolve".to_owned()).spawn(work);
    }

    fn opened(&mut self, now: Instant, remote: usize, result: Result<Opened, OpenFailure>) {
        let command = match result {
            Ok(Opened::Udp(socket, remote)) => {
                let socket = self.add_sockets(vec![socket]);
                Command::Opened { path: Path::Udp { socket, remote } }
            }
            Ok(Opened::Tcp(stream, remote)) => Command::Opened { path: self.add_connection(stream, remote) },
            Err(failure) => Command::OpenFailed { remote, failure },
        };
        self.protocol.handle_command(now, command);
    }

    fn add_sockets(&mut self, sockets: Vec<UdpSocket>) -> u32 {
        let number = self.next_socket;
        self.next_socket += 1;
        let sockets: Vec<Arc<UdpSocket>> = sockets.into_iter().map(Arc::new).collect();
        self.workers.add_sockets(number, &sockets);
        self.workers.wake();
        self.sockets.insert(number, sockets);
        number
    }

    fn add_connection(&mut self, stream: TcpStream, remote: SocketAddr) -> Path {
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let path = Path::Tcp { connection, remote };
        self.connections.insert(connection, path);
        self.workers.post_first(DataMail::AddConnection { connection, stream, path });
        self.workers.wake();
        path
    }

    fn close(&mut self, path: Path) {
        match path {
            Path::Udp { socket, .. } if socket < self.first_opened => {}
            Path::Udp { socket, .. } => {
                self.sockets.remove(&socket);
                self.workers.remove_sockets(socket);
            }
            Path::Tcp { connection, .. } => self.forget(connection),
        }
    }

    fn forget(&mut self, connection: ConnectionId) {
        if self.connections.remove(&connection).is_some() {
            self.workers.post_first(DataMail::CloseConnection(connection));
        }
    }

    fn broken(&mut self, now: Instant, connection: ConnectionId, reason: String) {
        let Some(path) = self.connections.get(&connection).copied() else { return };
        self.forget(connection);
        self.workers.wake();
        self.protocol.handle_command(now, Command::Closed { path, reason });
    }

    /// A client hears it by its protocol. A server's protocol has nothing to say of a connection before its first
    /// control packet, and what comes after one may be as wrong.
    fn not_framed(&mut self, now: Instant, connection: ConnectionId, error: StreamError) {
        if let Some(path) = self.connections.get(&connection).copied()
            && !self.listeners.is_empty()
        {
            count(&self.losses.rejected);
            self.complain(now, path, format!("closed a connection: {error}"));
        }
        self.broken(now, connection, error.to_string());
    }

    fn accept(&mut self, number: u32) {
        for _ in 0..ACCEPT_BATCH {
            let Some(listener) = usize::try_from(number).ok().and_then(|index| self.listeners.get(index))
            else {
                return;
            };
            match listener.accept() {
                Ok(_) if self.connections.len() >= self.max_connections => {
                    count(&self.losses.connections_refused)
                }
                Ok((stream, remote)) => {
                    let path = self.add_connection(stream, remote);
                    self.protocol.handle_command(clock(), Command::Opened { path });
                    self.pump();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    self.rest_listeners();
                    let text = format!("cannot accept TCP connections for a moment: {error}");
                    return self.report(Severity::Warning, None, text);
                }
            }
        }
    }

    fn watch_listeners(&mut self) -> io::Result<()> {
        for (number, listener) in (0..).zip(&self.listeners) {
            self.poller.add(listener, Token::Listener(number), Interest::Read)?;
        }
        self.listeners_rest = false;
        Ok(())
    }

    fn rest_listeners(&mut self) {
        self.listeners.iter().for_each(|listener| self.poller.remove(listener));
        self.listeners_rest = true;
    }
}

impl<P: Protocol> Drive for Control<'_, P> {
    type Protocol = P;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut P {
        &mut self.protocol
    }

    fn event(&mut self, event: EventOf<P>) -> Result<(), Infallible> {
        self.carry_out(event);
        Ok(())
    }

    fn transmit(&mut self, path: Path, datagram: &[u8]) -> Result<(), Infallible> {
        self.send(path, datagram);
        Ok(())
    }
}

/// The connection failed before it was accepted, or a signal came; the listener is well.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    )
}
