//! The control thread: the protocol, its time, and its orders.

mod connections;
mod datagrams;
mod events;
mod inspect;
mod network;
mod opening;
mod remotes;
mod sending;
mod settings;
mod sockets;
mod stages;
mod time;
mod transmit_queue;
mod undecided;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use adit_core::{
    Command, Drive, Ended, Event, EventOf, Instant, Notice, Path, PeerId, Protocol, Report, Severity,
    SourcePrefix, drive,
};
use adit_system::MARK;

use self::connections::Connections;
use self::datagrams::Waiting;
use self::network::Network;
use self::remotes::Remotes;
use self::sockets::{SocketOptions, Sockets};
use self::stages::Stages;
pub(super) use self::undecided::Sharing;
use self::undecided::Undecided;
use super::MakeCodec;
use super::carriers::Carriers;
#[cfg(debug_assertions)]
use super::mail::DataMail;
use super::mail::Mail;
use super::moderation::Moderation;
use super::mtu::MtuWatch;
use super::network::NetworkWatch;
use super::overflow::Overflow;
use super::path_mtus::PathMtus;
use super::source_check::SourceCheck;
use super::status::LossCounters;
use super::workers::Workers;
use super::{Bound, Driver, DriverError, Observer, Order};
use crate::clock;
use crate::config::DriverConfig;
use crate::mailbox::{MailReceiver, Mailbox};
use crate::offload::OffloadStatus;
use crate::poller::{Interest, Poller, Token};
use crate::staged_queue::StagedQueue;
use crate::tun::Tun;

/// How often totals are turned into notices.
const TICK: Duration = Duration::from_secs(1);
/// Mails taken before datagrams are handled.
const MAIL_BATCH: usize = 256;
/// Rounds of both before timers are looked at again.
const WORK_BATCHES: usize = 8;
/// The port of sockets for an IP protocol.
const NO_PORT: u16 = 0;
/// How long the thread rests while control datagrams come by the ten thousands.
const REST: Duration = Duration::from_micros(100);

/// The control thread's state. The part of it that concerns only sockets, connections, remotes or the network is in the
/// struct of that name.
pub(super) struct Control<'a, P: Protocol> {
    protocol: P,
    observer: &'a mut dyn Observer<P>,
    tun: Arc<Tun>,
    offloads: OffloadStatus,
    sockets: Sockets,
    connections: Connections,
    remotes: Remotes,
    network: Network<P>,
    /// The totals of each peer that the protocol heard last.
    peers: BTreeMap<PeerId, (u64, u64)>,
    /// The losses in this thread; the device counts the losses of the data threads.
    losses: Arc<LossCounters>,
    mail: MailReceiver<Mail>,
    /// Control datagrams that wait for their turn, and the ends of connections behind those that came by them.
    datagrams: StagedQueue<SourcePrefix, Waiting>,
    /// The mailbox for the threads that open paths.
    own_mail: Mailbox<Mail>,
    orders: mpsc::Receiver<Order<P>>,
    workers: Workers,
    carriers: Carriers,
    make_codec: MakeCodec<P>,
    poller: Poller,
    next_tick: Instant,
    next_complaint: Instant,
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
        let Driver { config, device, ports, pairs, .. } = driver;
        let poller = Poller::new()?;
        poller.add(&driver.mail_receiver, Token::Mail, Interest::Read)?;
        let own = &config.dataplane.demultiplexer;
        let undecided = driver.sharing.map(|sharing| Undecided::new(sharing, Arc::clone(own)));
        let mtu = driver.follows_mtu.then(|| MtuWatch::new(driver.index, &poller)).flatten();
        let learns = ports.learns_local_addresses() || driver.sockets.iter().any(|bound| bound.learns_local);
        let mut control = Control {
            protocol,
            observer,
            tun: Arc::clone(&device.tun),
            offloads: device.offloads.clone(),
            sockets: Sockets::new(SocketOptions {
                udp: driver.udp_options,
                mark: own_mark(&config),
                traffic_class: driver.control_class,
                bound: driver.sockets,
                sources: Arc::clone(&device.sources),
                ports,
            }),
            connections: Connections::new(
                driver.listeners,
                undecided,
                config.streams,
                config.max_connections,
            ),
            remotes: Remotes::new(config.remotes, config.demultiplexers, driver.helper, config.kill_switch),
            network: Network {
                system: driver.system,
                link: driver.link,
                mtu,
                watch: NetworkWatch::new(),
                source_check: learns.then(|| SourceCheck::new(&poller).ok()).flatten(),
                path_mtus: PathMtus::new(),
                stages: Stages::new(config.execution),
                overflow: Overflow::new(clock()),
                txqueuelen: config.tun.txqueuelen,
            },
            peers: BTreeMap::new(),
            losses,
            mail: driver.mail_receiver,
            datagrams: StagedQueue::new(),
            own_mail: driver.mail,
            orders: driver.order_receiver,
            workers,
            carriers: driver.carriers,
            make_codec: driver.make_codec,
            poller,
            next_tick: clock() + TICK,
            next_complaint: clock(),
            scratch: Vec::new(),
            moderation: Moderation::new(REST, clock()),
            device_deleted: false,
            ended: None,
        };
        control.follow_mtu();
        driver.devices.iter().for_each(|(id, tun)| control.workers.add_device(*id, tun));
        // The protocol's first datagrams leave by them; datagrams that come wait in them.
        for (port, pair) in pairs {
            pair.into_iter().for_each(|numbered| control.know_bound(port, numbered));
        }
        if config.changes_routing {
            for report in control.network.system.recover() {
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
            let due = [self.protocol.poll_timeout(), self.network.due()];
            let due = due.into_iter().flatten().fold(self.next_tick, Instant::min);
            self.poller.wait(Some(due - now), &mut ready).map_err(DriverError::Start)?;
            ready.iter().for_each(|event| self.look_after(event.token));
            self.follow_network();
            self.check_sources();
            self.work()?;
            self.take_orders();
            self.check_time();
            self.rest();
        }
    }

    fn look_after(&mut self, token: Token) {
        match token {
            Token::Mail => self.mail.acknowledge(),
            Token::Listener(number) => self.accept(number),
            Token::Routes => self.network.watch.woke(&self.poller),
            Token::DeviceChange => {
                self.follow_mtu();
                self.pump();
            }
            Token::SourceRoutes => self.network.routes_changed(&self.poller),
            Token::Undecided(number) => self.decide(number),
            Token::Tun | Token::Device(_) | Token::Udp(_) | Token::Tcp(_) | Token::Forwards => {}
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

    /// Ends the protocol, which can still send messages to its peers, although packets can no longer be
    /// carried.
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
        for Bound { numbered, demultiplexer, learns_local } in std::mem::take(&mut self.sockets.waiting) {
            self.sockets.listening.insert(numbered.0);
            if learns_local {
                self.sockets.sources.add_socket(numbered.0, NO_PORT);
            }
            self.add_sockets(numbered, demultiplexer.as_ref());
        }
        self.sockets.ports.numbers().into_iter().for_each(|port| self.receive_from_bound(port));
        self.connections.watch_listeners(&self.poller)
    }

    /// Takes the mail, and handles some of the datagrams.
    fn work(&mut self) -> Result<(), DriverError> {
        for _ in 0..WORK_BATCHES {
            self.sockets.transmit_queue.gather(self.moderation.is_high());
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
                    let path = self.sockets.present_path(path);
                    self.protocol.handle_notice(now, Notice::Moved { peer, path });
                }
                Mail::Notice(notice) => self.protocol.handle_notice(now, notice),
                Mail::AddressLearnt { number, local } => {
                    self.protocol.handle_command(now, Command::SocketBound { socket: number, local });
                }
                Mail::Reaching { addresses, go } => {
                    self.network.bypass(&addresses, &self.poller);
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

    /// Carries out the protocol's events: keys first, then the datagrams that tell the peer of them; and
    /// again, as last words are followed by events. Most rounds of a handshake have nothing for the data
    /// threads, which then sleep on.
    fn pump(&mut self) {
        let mut datagram = std::mem::take(&mut self.scratch);
        let Ok(()) = drive(self, &mut datagram);
        self.scratch = datagram;
        self.workers.wake();
    }

    /// Carries out the orders of a [`super::Handle`].
    fn take_orders(&mut self) {
        while self.ended.is_none()
            && let Ok(order) = self.orders.try_recv()
        {
            match order {
                Order::Command(command) => self.protocol.handle_command(clock(), command),
                Order::Reply(reply) => self.protocol.handle_reply(clock(), reply),
                Order::SetRules(rules) => self.workers.set_rules(&rules),
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

/// The firewall mark of the sockets that are bound for remotes or configured addresses.
fn own_mark(config: &DriverConfig) -> u32 {
    config.socket_routing.mark.unwrap_or(if config.remotes.is_empty() { 0 } else { MARK })
}
