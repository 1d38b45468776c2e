//! The control thread: the protocol, its time, and what it asks of the world.

mod connections;
mod datagrams;
mod events;
mod inspect;
mod opening;
mod settings;
mod sockets;
mod stages;
mod time;
mod transmit_queue;
mod undecided;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use adit_core::{
    Command, ConnectionId, Drive, Ended, Event, EventOf, Instant, Notice, Path, PeerId, Protocol, Report,
    Severity, SourcePrefix, drive,
};
use adit_dataplane::codec::Demultiplexer;

use self::datagrams::Waiting;
use self::transmit_queue::TransmitQueue;
pub(super) use self::undecided::Sharing;
use self::undecided::Undecided;
use super::MakeCodec;
use super::binding::Binder;
use super::counters::LinkCounters;
#[cfg(debug_assertions)]
use super::mail::DataMail;
use super::mail::Mail;
use super::moderation::Moderation;
use super::mtu::MtuWatch;
use super::network::NetworkWatch;
use super::overflow::Overflow;
use super::path_mtus::PathMtus;
use super::source_check::SourceCheck;
use super::sources::Sources;
use super::status::LossCounters;
use super::workers::Workers;
use super::{Bound, Driver, DriverError, Observer, Order};
use crate::clock;
use crate::config::{Remote, StreamOptions, UdpSource};
use crate::helper::HelperAccess;
use crate::mailbox::{MailReceiver, Mailbox};
use crate::mark;
use crate::offload::OffloadStatus;
use crate::opener::KnownAddresses;
use crate::poller::{Interest, Poller, Token};
use crate::staged_queue::StagedQueue;
use crate::system::System;
use crate::tcp::Listener;
use crate::tun::Tun;
use crate::udp::{UdpOptions, UdpSocket};
use stages::Stages;

/// How often totals are turned into notices.
const TICK: Duration = Duration::from_secs(1);
/// Mails taken before datagrams are handled.
const MAIL_BATCH: usize = 256;
/// Rounds of both before timers are looked at again.
const WORK_BATCHES: usize = 8;
/// How long the thread rests while control datagrams come by the ten thousands.
const REST: Duration = Duration::from_micros(100);

pub(super) struct Control<'a, P: Protocol> {
    protocol: P,
    observer: &'a mut dyn Observer<P>,
    tun: Arc<Tun>,
    system: System,
    link: LinkCounters,
    /// `None`: no session depends on the device's MTU.
    mtu: Option<MtuWatch>,
    /// Who opens paths in place of this process.
    helper: Option<HelperAccess>,
    remotes: Vec<Remote>,
    /// Of UDP sockets that have one of their own.
    demultiplexers: BTreeMap<UdpSource, Arc<dyn Demultiplexer>>,
    attempts: BTreeMap<usize, usize>,
    /// The UDP paths that were opened last.
    opened_last: BTreeMap<usize, Path>,
    known_addresses: KnownAddresses,
    kill_switch: bool,
    offloads: OffloadStatus,
    udp_options: UdpOptions,
    listeners: Vec<Listener>,
    /// Connections at a shared port that are not the protocol's yet.
    undecided: Option<Undecided>,
    /// The system had no descriptor left for a connection; the listeners rest until the next tick.
    listeners_rest: bool,
    /// Sockets that nothing is received from yet.
    bound: Vec<Bound>,
    /// The workers' sockets at each address; control datagrams leave by the first worker's.
    sockets: BTreeMap<u32, Vec<Arc<UdpSocket>>>,
    sources: Arc<Sources>,
    /// `None`: no socket learns its local addresses, or the system does not allow to listen.
    source_check: Option<SourceCheck>,
    path_mtus: PathMtus,
    /// The firewall mark of the sockets that were bound for remotes or configured addresses.
    mark: u32,
    /// The traffic class of control datagrams over UDP.
    traffic_class: u8,
    /// Those for both address families on one port, and how others are bound in their place.
    binder: Binder,
    /// Those of all sockets that listen, and stay; the others were opened for one remote.
    listening: BTreeSet<u32>,
    connections: BTreeMap<ConnectionId, Path>,
    streams: StreamOptions,
    /// Connections to remotes whose preamble is not complete: of which remote, and until when it must be.
    preparing: BTreeMap<ConnectionId, (usize, Instant)>,
    max_connections: usize,
    /// What was last told of each peer's totals.
    peers: BTreeMap<PeerId, (u64, u64)>,
    /// What was lost here; the device has its own.
    losses: Arc<LossCounters>,
    mail: MailReceiver<Mail>,
    /// Control datagrams that wait for their turn, and the ends of connections behind those that came by them.
    datagrams: StagedQueue<SourcePrefix, Waiting>,
    /// Datagrams that leave together.
    transmit_queue: TransmitQueue,
    /// For the threads that open paths.
    own_mail: Mailbox<Mail>,
    orders: mpsc::Receiver<Order<P>>,
    workers: Workers,
    make_codec: MakeCodec<P>,
    poller: Poller,
    next_tick: Instant,
    overflow: Overflow,
    /// Packets that may wait in the TUN device.
    txqueuelen: u32,
    next_complaint: Instant,
    network: NetworkWatch,
    stages: Stages<P>,
    send_error: Option<io::ErrorKind>,
    next_send_complaint: Instant,
    scratch: Vec<u8>,
    moderation: Moderation,
    device_deleted: bool,
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
        let mark = driver.config.socket_routing.mark;
        let mark = mark.unwrap_or(if driver.config.remotes.is_empty() { 0 } else { mark::MARK });
        let mut control = Control {
            protocol,
            observer,
            tun: Arc::clone(&driver.device.tun),
            system: driver.system,
            link: driver.link,
            mtu: None,
            helper: driver.helper,
            remotes: driver.config.remotes,
            demultiplexers: driver.config.demultiplexers,
            attempts: BTreeMap::new(),
            opened_last: BTreeMap::new(),
            known_addresses: KnownAddresses::default(),
            kill_switch: driver.config.kill_switch,
            offloads: driver.device.offloads.clone(),
            udp_options: driver.udp_options,
            undecided: driver
                .sharing
                .map(|sharing| Undecided::new(sharing, Arc::clone(&driver.config.dataplane.demultiplexer))),
            listeners: driver.listeners,
            listeners_rest: true,
            bound: driver.sockets,
            sockets: BTreeMap::new(),
            sources: Arc::clone(&driver.device.sources),
            source_check: None,
            path_mtus: PathMtus::new(),
            mark,
            traffic_class: driver.control_class,
            binder: driver.binder,
            listening: BTreeSet::new(),
            connections: BTreeMap::new(),
            streams: driver.config.streams,
            preparing: BTreeMap::new(),
            max_connections: driver.config.max_connections,
            peers: BTreeMap::new(),
            losses,
            mail: driver.mail_receiver,
            datagrams: StagedQueue::new(),
            transmit_queue: TransmitQueue::default(),
            own_mail: driver.mail,
            orders: driver.order_receiver,
            workers,
            make_codec: driver.make_codec,
            poller: Poller::new()?,
            next_tick: clock() + TICK,
            overflow: Overflow::new(clock()),
            txqueuelen: driver.config.tun.txqueuelen,
            next_complaint: clock(),
            network: NetworkWatch::new(),
            stages: Stages::new(driver.config.execution),
            send_error: None,
            next_send_complaint: clock(),
            scratch: Vec::new(),
            moderation: Moderation::new(REST, clock()),
            device_deleted: false,
            ended: None,
        };
        control.poller.add(&control.mail, Token::Mail, Interest::Read)?;
        if driver.follows_mtu {
            control.mtu = MtuWatch::new(driver.index, &control.poller);
            control.follow_mtu();
        }
        if control.binder.learns_local_addresses() {
            control.source_check = SourceCheck::new(&control.poller).ok();
        }
        // The protocol's first datagrams leave by them; what comes waits in them.
        driver.pair.into_iter().for_each(|numbered| control.know_bound(numbered));
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
                return self.outcome(ended);
            }
            let now = clock();
            let routes = self.network.due(self.system.takes_all());
            let sources = self.source_check.as_ref().and_then(SourceCheck::due);
            let due = [self.protocol.poll_timeout(), routes, sources]
                .into_iter()
                .flatten()
                .fold(self.next_tick, Instant::min);
            self.poller.wait(Some(due - now), &mut ready).map_err(DriverError::Start)?;
            for event in &ready {
                match event.token {
                    Token::Mail => self.mail.acknowledge(),
                    Token::Listener(number) => self.accept(number),
                    Token::Routes => self.network.woke(&self.poller),
                    Token::Device => {
                        self.follow_mtu();
                        self.pump();
                    }
                    Token::SourceRoutes => self.routes_changed(),
                    Token::Undecided(number) => self.decide(number),
                    Token::Tun | Token::Udp(_) | Token::Tcp(_) | Token::Forwards => {}
                }
            }
            self.follow_network();
            self.check_sources();
            self.work()?;
            self.take_orders();
            self.check_time();
            self.rest();
        }
    }

    /// Lets control datagrams gather while they come by the ten thousands, if all that came is done.
    fn rest(&self) {
        if let Some(rest) = self.moderation.rest(clock)
            && self.mail.waiting() == 0
            && self.datagrams.is_empty()
        {
            thread::sleep(rest);
        }
    }

    fn outcome(&self, ended: Ended) -> Result<Ended, DriverError> {
        match self.device_deleted {
            true => Err(DriverError::DeviceDeleted(self.tun.name().to_owned())),
            false => Ok(ended),
        }
    }

    /// Nothing can be carried any more, but peers can be told.
    fn device_deleted(&mut self) {
        if !std::mem::replace(&mut self.device_deleted, true) {
            self.protocol.handle_command(clock(), Command::Shutdown);
        }
    }

    #[cfg(debug_assertions)]
    fn probe(&mut self) {
        if super::probe::is_wanted() {
            self.report(Severity::Info, None, super::probe::attempt("control"));
            self.workers.post_first(DataMail::Probe(self.workers.membership().id));
            self.workers.wake();
        }
    }

    /// Begins to receive from all sockets. Before this the process still has its rights.
    fn begin_to_receive(&mut self) -> io::Result<()> {
        for Bound { numbered, demultiplexer } in std::mem::take(&mut self.bound) {
            self.listening.insert(numbered.0);
            self.add_sockets(numbered, demultiplexer.as_ref());
        }
        self.receive_from_bound();
        self.watch_listeners()
    }

    /// Takes what came, and handles some of the datagrams.
    fn work(&mut self) -> Result<(), DriverError> {
        for _ in 0..WORK_BATCHES {
            self.transmit_queue.gather(self.moderation.is_high());
            let all = self.take_mail();
            self.handle_datagrams();
            self.flush();
            let all = all?;
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
                // Anybody can send these, so each stage and each address has its turn when many wait.
                Mail::Datagram { path, bytes } if self.is_behind() => {
                    self.wait_for_turn(path, bytes);
                    continue;
                }
                Mail::Datagram { path, bytes } => self.datagram(now, path, &bytes),
                Mail::Notice(Notice::Moved { peer, path }) => {
                    let path = self.present_path(path);
                    self.protocol.handle_notice(now, Notice::Moved { peer, path });
                }
                Mail::Notice(notice) => self.protocol.handle_notice(now, notice),
                Mail::AddressLearnt { number, local } => {
                    self.protocol.handle_command(now, Command::SocketBound { socket: number, local });
                }
                Mail::Reaching { addresses, go } => {
                    self.system.bypass(&addresses);
                    self.watch_network();
                    // It may have given up waiting.
                    let _ = go.try_send(());
                }
                Mail::Opened { remote, result } => self.opened(now, remote, result),
                Mail::Refused { remote, address, why } => self.refused(now, remote, address, why),
                Mail::Broken { connection, reason } => {
                    self.end_in_turn(now, connection, Waiting::Broken(connection, reason));
                }
                Mail::Prepared(connection) => self.prepared(now, connection),
                Mail::NotFramed { connection, why } => {
                    self.end_in_turn(now, connection, Waiting::NotFramed(connection, why));
                }
                Mail::DeviceDeleted => self.device_deleted(),
                Mail::LeasesMoved => self.protocol.handle_command(now, Command::LeasesMoved),
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
                Order::BindUdp(order) => {
                    self.bind_udp(order);
                    continue;
                }
                Order::Inspect(inspection) => {
                    self.inspect(inspection);
                    continue;
                }
                Order::GoOn => self.go_on(),
            }
            self.pump();
        }
    }

    fn tell(&mut self, report: Report) {
        self.observer.event(&Event::Report(report), self.tun.name());
    }

    fn report(&mut self, severity: Severity, path: Option<Path>, text: String) {
        self.observer.event(&Event::Report(Report { severity, path, text }), self.tun.name());
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
