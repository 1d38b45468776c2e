//! The driver: two threads around a protocol and a data plane.
//!
//! *Data* takes packets from the TUN device to the network (egress) and datagrams from the network to the TUN
//! device (ingress), and *control* (the caller's own thread) drives the protocol: control datagrams, timers,
//! commands, settings. Neither waits for the other.

mod control;
mod counters;
mod data;
mod egress;
mod forward;
mod ingress;
mod links;
mod mail;
mod network;
mod overflow;
#[cfg(debug_assertions)]
mod probe;
mod status;
#[cfg(test)]
mod tests;
mod workers;

use std::any::Any;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use adit_core::{Command, Ended, EventOf, Framing, Install, Instant, Protocol, Transport};
use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::{SessionCodec, session_codec};
use adit_dataplane::{MergePolicy, Snapshot};
use thiserror::Error;

use self::control::Control;
use self::counters::LinkCounters;
use self::data::DataLoop;
use self::forward::OtherWorkers;
use self::mail::{DataMail, Mail};
use self::status::LossCounters;
pub use self::status::{IoStatus, Losses, WorkerStatus};
pub use self::workers::MAX_WORKERS;
use self::workers::{Worker, Workers};
use crate::config::{DriverConfig, Listen, Remote};
use crate::dns::NameServers;
use crate::helper::{self, HelperAccess, Policy};
use crate::mailbox::{MailReceiver, Mailbox, mailbox};
use crate::offload::{OffloadState, OffloadStatus, OffloadSwitches};
use crate::privileges::allow_many_descriptors;
use crate::routing::Routing;
use crate::system::{System, SystemSettings};
use crate::tcp::Listener;
use crate::tun::{Tun, TunError};
use crate::udp::{self, UdpOptions, UdpSocket};

/// Why the driver cannot start, or had to stop.
#[derive(Debug, Error)]
pub enum DriverError {
    /// There is no TUN device.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The TUN device exists but cannot be set up.
    #[error("cannot set up the TUN device {name}: {source}")]
    Device {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// More workers than there may be.
    #[error("{0} workers are too many: {MAX_WORKERS} is the most")]
    Workers(usize),
    /// A local address cannot be waited at.
    #[error("{}", listen_text(.listen, .source))]
    Listen {
        /// The address.
        listen: Listen,
        /// Why.
        source: io::Error,
    },
    /// The system refused something that every program may ask for.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// The rights that are needed no more could not be given up.
    #[error("{0}")]
    NotConfined(String),
    /// One of the threads failed.
    #[error("the {thread} thread failed: {why}")]
    Thread {
        /// Its name.
        thread: &'static str,
        /// Why.
        why: String,
    },
}

fn listen_text(listen: &Listen, source: &io::Error) -> String {
    let transport = transport_name(listen.transport);
    let address = listen.address;
    let port = address.port();
    let way_out = match source.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another program uses {transport} port {port} (`ss -lnp 'sport = {port}'` names it); stop it or \
             choose another `port`"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!("{} is no address of this machine; correct or remove `local`", address.ip())
        }
        io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 need root or CAP_NET_BIND_SERVICE; choose a `port` above {port}")
        }
        _ => "check `local` and `port`".to_owned(),
    };
    format!("cannot listen on {transport} {address}: {source}: {way_out}")
}

fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Udp => "UDP",
        Transport::Tcp => "TCP",
    }
}

/// The host's and the protocol's adapter's side of a driver: gets its events, on the control thread. It must not block.
pub trait Observer<P: Protocol> {
    /// Everything but [`Event::Data`] and [`Event::Request`]. [`Event::Up`] comes after its settings were applied, and
    /// what could not be applied comes as [`Event::Report`] before it.
    ///
    /// [`Event::Data`]: adit_core::Event::Data
    /// [`Event::Request`]: adit_core::Event::Request
    /// [`Event::Report`]: adit_core::Event::Report
    /// [`Event::Up`]: adit_core::Event::Up
    fn event(&mut self, event: &EventOf<P>, tun_name: &str);

    /// What the protocol asks of its adapter. The answer goes to [`Handle::reply`].
    fn request(&mut self, request: P::Request, tun_name: &str);

    /// All is set up, and the settings of a server are applied; nothing was received yet. Rights that are needed no
    /// more can be given up here, once.
    ///
    /// # Errors
    /// Why the driver must not go on.
    fn started(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// A look at the protocol, the data plane's counters and the driver.
pub type Inspection<P> = Box<dyn FnOnce(&P, &Snapshot, &IoStatus) + Send>;

/// A change of the protocol's settings, at that time.
pub type Change<P> = Box<dyn FnOnce(&mut P, Instant) + Send>;

/// What a [`Handle`] sends to the control thread.
pub(crate) enum Order<P: Protocol> {
    Change(Change<P>),
    Command(Command),
    Reply(P::Reply),
    Inspect(Inspection<P>),
}

/// Speaks to a running driver, from any thread. Orders are carried out in the order in which they were given.
pub struct Handle<P: Protocol> {
    orders: mpsc::Sender<Order<P>>,
    mail: Mailbox<Mail>,
}

impl<P: Protocol> Clone for Handle<P> {
    fn clone(&self) -> Self {
        Handle { orders: self.orders.clone(), mail: self.mail.clone() }
    }
}

impl<P: Protocol> fmt::Debug for Handle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

impl<P: Protocol> Handle<P> {
    /// Gives the protocol an order. False when the driver has ended.
    pub fn command(&self, command: Command) -> bool {
        self.send(Order::Command(command))
    }

    /// Gives the protocol an answer to one of its requests, or an order that only it knows. False when the driver has
    /// ended.
    pub fn reply(&self, reply: P::Reply) -> bool {
        self.send(Order::Reply(reply))
    }

    /// Calls `inspection` soon on the control thread. It is dropped without a call when the driver has ended, or
    /// ends first.
    pub fn inspect(&self, inspection: Inspection<P>) -> bool {
        self.send(Order::Inspect(inspection))
    }

    /// Changes the protocol's settings soon, on the control thread. The change is dropped unmade when the driver has
    /// ended, or ends first; false if that is known already.
    pub fn change(&self, change: Change<P>) -> bool {
        self.send(Order::Change(change))
    }

    fn send(&self, order: Order<P>) -> bool {
        let there = self.orders.send(order).is_ok();
        self.mail.wake();
        there
    }
}

/// Makes the codec of a session from the parameters that its protocol gives.
pub type MakeCodec<P> = fn(&Install<<P as Protocol>::Codec>) -> Result<SessionCodec, AeadError>;

/// Everything that was set up, not yet running.
pub struct Driver<P: Protocol> {
    config: DriverConfig,
    tun: Arc<Tun>,
    /// The TUN device's other queues, one for each worker but the first.
    queues: Vec<Tun>,
    system: System,
    /// The device's number.
    index: u32,
    link: LinkCounters,
    offloads: OffloadStatus,
    udp_options: UdpOptions,
    /// At each address one socket for each worker.
    sockets: Vec<Vec<UdpSocket>>,
    listeners: Vec<Listener>,
    mail: Mailbox<Mail>,
    mail_receiver: MailReceiver<Mail>,
    orders: mpsc::Sender<Order<P>>,
    order_receiver: mpsc::Receiver<Order<P>>,
    helper: Option<HelperAccess>,
    codec: MakeCodec<P>,
}

impl<P: Protocol> fmt::Debug for Driver<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("tun", &self.tun.name()).finish_non_exhaustive()
    }
}

impl<P: Protocol<Codec = Framing>> Driver<P> {
    /// A driver of a protocol whose codec parameters are in the core.
    ///
    /// # Errors
    /// As [`Driver::with_codec`].
    pub fn new(config: DriverConfig) -> Result<Self, DriverError> {
        Self::with_codec(config, session_codec)
    }
}

impl<P: Protocol> Driver<P> {
    /// Creates the TUN device and binds what the configuration says. Nothing is left behind on an error. `codec` makes
    /// the data plane's codec of a session from the protocol's parameters.
    ///
    /// # Errors
    /// What cannot be set up, and why.
    pub fn with_codec(config: DriverConfig, codec: MakeCodec<P>) -> Result<Self, DriverError> {
        let workers = workers(&config)?;
        let mut queues = Tun::create_queues(&config.tun, workers)?;
        let tun = queues.remove(0);
        let device = |source| DriverError::Device { name: tun.name().to_owned(), source };
        let mut routing = Routing::new(tun.name()).map_err(device)?;
        routing.set_txqueuelen(config.tun.txqueuelen).map_err(device)?;
        if config.changes_routing {
            routing.set_tunnel_group().map_err(device)?;
        }
        let offloads = try_offloads(&tun, config.tun.offloads);
        let udp_options = UdpOptions {
            buffers: config.buffers,
            gso: offloads.udp_send.is_on(),
            gro: offloads.udp_receive.is_on(),
        };
        let homes = if config.multihome { routing.addresses().map_err(device)? } else { Vec::new() };
        let steering = config.dataplane.demultiplexer.steering();
        let mut sockets = Vec::new();
        let mut listeners = Vec::new();
        for listen in &config.listen {
            let failed = |source| DriverError::Listen { listen: *listen, source };
            match listen.transport {
                Transport::Udp => {
                    let group = UdpSocket::bind_group(listen.address, workers, steering, &udp_options)
                        .map_err(failed)?;
                    let beside =
                        UdpSocket::bind_beside(&group, &homes, steering, &udp_options).map_err(failed)?;
                    sockets.push(group);
                    sockets.extend(beside);
                }
                Transport::Tcp => {
                    listeners.push(Listener::bind(listen.address, config.buffers).map_err(failed)?)
                }
            }
        }
        if !listeners.is_empty() {
            allow_many_descriptors();
        }
        let (mail, mail_receiver) = mailbox().map_err(DriverError::Start)?;
        let (orders, order_receiver) = mpsc::channel();
        let link = LinkCounters::new(tun.name()).map_err(device)?;
        let index = routing.device();
        let name_servers = NameServers::new(index, config.resolv_conf.clone());
        let tun = Arc::new(tun);
        Ok(Driver {
            config,
            tun,
            queues,
            system: System::Own(Box::new(SystemSettings::new(routing, name_servers))),
            index,
            link,
            offloads,
            udp_options,
            sockets,
            listeners,
            mail,
            mail_receiver,
            orders,
            order_receiver,
            helper: None,
            codec,
        })
    }

    /// Name of the TUN device.
    pub fn tun_name(&self) -> &str {
        self.tun.name()
    }

    /// The kernel's number of the TUN device.
    pub fn tun_index(&self) -> u32 {
        self.index
    }

    /// What a helper has to do for this driver: reach its remotes, and with `network` set up the device for it.
    pub fn policy(&self, network: bool) -> Policy {
        let network = network.then(|| helper::Network {
            device: self.tun.name().to_owned(),
            resolv_conf: self.config.resolv_conf.clone(),
            changes_routing: self.config.changes_routing,
        });
        let is_low = |remote: &Remote| remote.bind.is_some_and(|bind| (1..1024).contains(&bind.port()));
        Policy {
            network,
            low_ports: self.config.remotes.iter().any(is_low),
            remotes: self.config.remotes.clone(),
            udp: Some(self.udp_options),
            kill_switch: self.config.kill_switch,
            ..Policy::default()
        }
    }

    /// Has a helper that was started with [`Driver::policy`] do this in place of this process, which is about to give
    /// up the right to.
    ///
    /// # Errors
    /// When the helper is gone.
    pub fn use_helper(&mut self, helper: HelperAccess, network: bool) -> io::Result<()> {
        if network {
            self.system = System::Helper(helper.network()?);
        }
        self.helper = Some(helper);
        Ok(())
    }

    /// The addresses that are waited at, with the ports that the system chose where 0 was asked for: UDP
    /// first, then TCP.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        let udp = self.sockets.iter().filter_map(|group| group.first()).map(UdpSocket::local_address);
        udp.chain(self.listeners.iter().map(Listener::local_address)).flatten().collect()
    }

    /// A way to speak to the driver while it runs.
    pub fn handle(&self) -> Handle<P> {
        Handle { orders: self.orders.clone(), mail: self.mail.clone() }
    }

    /// Runs the protocol on this thread until it ends. When this returns, the routes, the device, the
    /// sockets and the threads are gone.
    pub fn run(mut self, protocol: P, observer: &mut dyn Observer<P>) -> Result<Ended, DriverError> {
        let losses = Arc::new(LossCounters::default());
        let mut threads = Threads::default();
        let workers = self.start_workers(&mut threads, &losses)?;
        let control = Control::new(self, protocol, observer, workers, losses).map_err(DriverError::Start)?;
        let outcome = control.run();
        drop(threads);
        outcome
    }

    /// Starts a data thread for each queue of the device.
    fn start_workers(
        &mut self,
        threads: &mut Threads,
        losses: &Arc<LossCounters>,
    ) -> Result<Workers, DriverError> {
        let mut queues = vec![Arc::clone(&self.tun)];
        queues.extend(std::mem::take(&mut self.queues).into_iter().map(Arc::new));
        let (mut boxes, mut receivers) = (Vec::new(), Vec::new());
        for _ in &queues {
            let (sender, receiver) = mailbox().map_err(DriverError::Start)?;
            boxes.push(sender);
            receivers.push(receiver);
        }
        let mut workers = Vec::new();
        for (number, (tun, forwards)) in queues.into_iter().zip(receivers).enumerate() {
            let (egress, ingress, counters) = adit_dataplane::new(self.config.dataplane.clone());
            let (mail, orders) = mailbox().map_err(DriverError::Start)?;
            let forwarded = Arc::new(AtomicU64::new(0));
            let data_loop = DataLoop {
                merge: merge_policy(&tun),
                tun,
                egress,
                ingress,
                mail: orders,
                forwards,
                others: OtherWorkers::new(boxes.clone(), Arc::clone(&forwarded)),
                control: self.mail.clone(),
                losses: Arc::clone(losses),
                back_pressure: self.config.single_peer,
            };
            threads.start(number, mail.clone(), self.mail.clone(), || data_loop.run())?;
            workers.push(Worker { mail, counters, forwarded });
        }
        Ok(Workers::new(workers))
    }
}

/// How many workers there will be. One peer is served by one worker.
fn workers(config: &DriverConfig) -> Result<usize, DriverError> {
    match config.workers {
        _ if config.single_peer => Ok(1),
        many if many > MAX_WORKERS => Err(DriverError::Workers(many)),
        some => Ok(some.max(1)),
    }
}

/// What the switches allow and the self-tests found to work.
fn try_offloads(tun: &Tun, switches: OffloadSwitches) -> OffloadStatus {
    let works = udp::self_test();
    let [tun_tcp, tun_udp] = tun.offload_states();
    OffloadStatus {
        tun_tcp,
        tun_udp,
        udp_send: OffloadState::new(switches.udp_send, &works.gso),
        udp_receive: OffloadState::new(switches.udp_receive, &works.gro),
    }
}

fn merge_policy(tun: &Tun) -> MergePolicy {
    let offloads = tun.offloads();
    match (offloads.tcp, offloads.udp) {
        (true, true) => MergePolicy::TcpAndUdp,
        (true, false) => MergePolicy::Tcp,
        (false, true) => MergePolicy::Udp,
        (false, false) => MergePolicy::Off,
    }
}

/// The data threads; they are stopped and waited for when this is dropped, also in a panic.
#[derive(Default)]
struct Threads {
    running: Vec<(Mailbox<DataMail>, JoinHandle<()>)>,
}

impl Threads {
    fn start(
        &mut self,
        number: usize,
        data: Mailbox<DataMail>,
        control: Mailbox<Mail>,
        body: impl FnOnce() -> Result<(), String> + Send + 'static,
    ) -> Result<(), DriverError> {
        let run = move || {
            let why = match catch_unwind(AssertUnwindSafe(body)) {
                Ok(Ok(())) => return,
                Ok(Err(why)) => why,
                Err(panic) => format!("a fault in adit: {}", panic_text(&*panic)),
            };
            control.post(Mail::Died { thread: "data", why });
            control.wake();
        };
        let name = format!("adit-data-{number}");
        let handle = thread::Builder::new().name(name).spawn(run).map_err(DriverError::Start)?;
        self.running.push((data, handle));
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for (data, _) in &self.running {
            data.post(DataMail::Stop);
            data.wake();
        }
        for (_, handle) in self.running.drain(..) {
            // The thread caught its own panic and told control of it.
            let _ = handle.join();
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without words")
}
