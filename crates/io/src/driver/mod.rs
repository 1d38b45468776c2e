//! The driver: threads around a protocol and a data plane.
//!
//! *Data* takes packets from the TUN device to the network (egress) and datagrams from the network to the TUN
//! device (ingress), and *control* (the caller's own thread) drives the protocol: control datagrams, timers,
//! commands, settings. Neither waits for the other.

mod binding;
mod carriers;
mod control;
mod counters;
mod data;
mod device;
mod devices;
mod egress;
mod endpoint_sockets;
mod error;
mod forward;
mod forwarding;
mod handle;
mod ids;
mod ingress;
mod lending;
mod mail;
mod members;
mod moderation;
mod mtu;
mod network;
mod overflow;
mod path_mtus;
#[cfg(debug_assertions)]
mod probe;
mod secondary_endpoints;
mod setup;
mod source_check;
mod sources;
mod status;
#[cfg(test)]
mod tests;
mod threads;
mod transports;
mod workers;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc;

use adit_access::Rules;
use adit_core::{DeviceId, Ended, Install, IpNet, Protocol};
use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::{Demultiplexer, SessionCodec};
use adit_system::Network;

pub use self::binding::{BindAnswer, IpBinding, UdpBinding, UdpSockets};
use self::binding::{Numbered, Ports};
use self::carriers::Carriers;
use self::control::{Control, Sharing};
use self::counters::LinkCounters;
pub use self::device::SharedDevice;
use self::device::{Device, Membership};
pub use self::error::DriverError;
pub(crate) use self::handle::Order;
pub use self::handle::{Change, Handle, Inspection, Observer};
use self::mail::{Mail, Member};
use self::setup::{Listening, Setup};
pub use self::status::{IoStatus, Losses, WorkerStatus};
pub use self::workers::MAX_WORKERS;
use self::workers::Workers;
#[cfg(doc)]
use crate::config::UdpSource;
use crate::config::{DriverConfig, Remote};
use crate::helper::{DriverHelper, HelperNeeds};
use crate::mailbox::{MailReceiver, Mailbox, mailbox};
use crate::port_share::Forwarder;
use crate::system::System;
use crate::tcp::Listener;
use crate::tun::{Tun, TunConfig};
use crate::udp::UdpOptions;

/// How late timers of the driver's threads may be, in nanoseconds.
const TIMER_SLACK: Option<NonZeroU64> = NonZeroU64::new(1000);

/// Makes the codec of a session from the parameters that its protocol gives.
pub type MakeCodec<P> = fn(&Install<<P as Protocol>::Codec>) -> Result<SessionCodec, AeadError>;

/// The sockets at one UDP address, one for each worker, with their number.
struct Bound {
    numbered: Numbered,
    /// Tells datagrams apart there; `None`: the data plane's does.
    demultiplexer: Option<Arc<dyn Demultiplexer>>,
    /// The sockets say which of our addresses each datagram came to.
    learns_local: bool,
}

/// Everything that was set up, not yet running.
pub struct Driver<P: Protocol> {
    config: DriverConfig,
    device: Arc<Device>,
    system: System,
    /// The device's number.
    index: u32,
    link: LinkCounters,
    udp_options: UdpOptions,
    sockets: Vec<Bound>,
    ports: Ports,
    /// The sockets of the ports, by the port's number.
    pairs: BTreeMap<usize, Vec<Numbered>>,
    listeners: Vec<Listener>,
    /// Devices beside the main one.
    devices: Vec<(DeviceId, Arc<Tun>)>,
    carriers: Carriers,
    mail: Mailbox<Mail>,
    mail_receiver: MailReceiver<Mail>,
    orders: mpsc::Sender<Order<P>>,
    order_receiver: mpsc::Receiver<Order<P>>,
    helper: Option<Arc<dyn DriverHelper>>,
    /// The forwarder of connections at a shared port that are not of the protocol.
    sharing: Option<Sharing>,
    answers_unreachable: bool,
    /// The traffic class of control datagrams.
    control_class: u8,
    follows_mtu: bool,
    /// The access rules at the start.
    rules: Option<Arc<Rules>>,
    make_codec: MakeCodec<P>,
}

impl<P: Protocol> fmt::Debug for Driver<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("tun", &self.device.tun.name()).finish_non_exhaustive()
    }
}

impl<P: Protocol> Driver<P> {
    /// Creates the TUN device and binds the sockets of the configuration. Nothing is left behind on an error.
    /// `make_codec` makes the data plane's codec of a session from the protocol's parameters.
    ///
    /// # Errors
    /// The part that cannot be set up, and why.
    pub fn new(config: DriverConfig, make_codec: MakeCodec<P>) -> Result<Self, DriverError> {
        Self::on(Device::create(&config, false)?, config, make_codec)
    }

    /// A driver for another endpoint of a tunnel: it uses the device of the endpoints before it, and creates the device
    /// if it is the first. The settings in `config` of the device, the workers and the data plane must be the same for
    /// all endpoints, and those of the first endpoint hold; but the demultiplexer is that of each endpoint's protocol.
    /// Peers' ids are below 2^24, and those of sessions below 2^48.
    ///
    /// # Errors
    /// The part that cannot be set up, and why.
    pub fn join(
        config: DriverConfig,
        make_codec: MakeCodec<P>,
        device: &SharedDevice,
    ) -> Result<Self, DriverError> {
        Self::on(device.get(&config)?, config, make_codec)
    }

    fn on(shared: Arc<Device>, config: DriverConfig, make_codec: MakeCodec<P>) -> Result<Self, DriverError> {
        let name = shared.tun.name();
        let device = |source| DriverError::Device { name: name.to_owned(), source };
        let mut routing = setup::routing(&config, &shared).map_err(device)?;
        let udp_options = setup::udp_options(&config, &shared);
        let homes = if config.multihome { routing.addresses().map_err(device)? } else { Vec::new() };
        let setup = Setup { config: &config, device: &shared, udp: &udp_options, homes: &homes };
        let Listening { sockets, listeners } = Listening::new(&setup)?;
        let (mail, mail_receiver) = mailbox().map_err(DriverError::Start)?;
        let (orders, order_receiver) = mpsc::channel();
        let index = routing.device();
        let link = LinkCounters::new(name, index).map_err(device)?;
        let system = setup::system(&config, routing);
        let ports = setup::ports(&config, &shared, udp_options);
        Ok(Driver {
            config,
            device: shared,
            system,
            index,
            link,
            udp_options,
            sockets,
            ports,
            pairs: BTreeMap::new(),
            listeners,
            devices: Vec::new(),
            carriers: Carriers::default(),
            mail,
            mail_receiver,
            orders,
            order_receiver,
            helper: None,
            sharing: None,
            answers_unreachable: false,
            control_class: 0,
            follows_mtu: false,
            rules: None,
            make_codec,
        })
    }

    /// Name of the TUN device.
    pub fn tun_name(&self) -> &str {
        self.device.tun.name()
    }

    /// The kernel's number of the TUN device; 0 if it was handed over and is in another network namespace.
    pub fn tun_index(&self) -> u32 {
        self.index
    }

    /// The work that a helper has to do for this driver: reach its remotes, bind and mark the sockets of
    /// [`Handle::bind_udp`] if [`Driver::bind_udp`] was called, and with `network` set up the device for it.
    pub fn helper_needs(&self, network: bool) -> HelperNeeds {
        let network = network.then(|| Network {
            device: self.device.tun.name().to_owned(),
            resolv_conf: self.config.resolv_conf.clone(),
            changes_routing: self.config.changes_routing,
            shared: self.device.is_shared,
            leaves_device: self.config.execution.leaves_device,
            mark: self.config.socket_routing.mark,
        });
        let is_low = |remote: &Remote| remote.bind.is_some_and(|bind| (1..1024).contains(&bind.port()));
        HelperNeeds {
            network,
            remotes: self.config.remotes.clone(),
            udp: self.udp_options,
            binds_udp: self.ports.is_used(),
            kill_switch: self.config.kill_switch,
            port_share: self.config.port_share.clone(),
            low_ports: self.config.remotes.iter().any(is_low),
        }
    }

    /// Has a helper that does the work of [`Driver::helper_needs`] do it in place of this process, which is about to give up the
    /// right to.
    ///
    /// # Errors
    /// When the helper is gone.
    pub fn use_helper(&mut self, helper: impl DriverHelper + 'static, network: bool) -> io::Result<()> {
        if network {
            self.system = System::Helper(helper.network()?);
        }
        if self.ports.is_used() {
            self.ports.use_helper(helper.sockets()?);
        }
        if self.config.port_share.is_some() {
            self.sharing = Some(Sharing::Helper(helper.forwarding()?));
        }
        self.helper = Some(Arc::new(helper));
        Ok(())
    }

    /// Has packets from the device that cannot be carried answered with ICMP destination unreachable while the driver runs:
    /// those for which no endpoint of the device has a peer, and those that wait for a peer that cannot be reached
    /// ([`adit_dataplane::Egress::answer_unreachable`]).
    pub fn answer_unreachable(&mut self) {
        self.answers_unreachable = true;
    }

    /// Has the sockets that [`Driver::bind_udp`] and [`Handle::bind_udp`] bind from now on learn which of this
    /// machine's addresses each datagram comes to. Each address at each socket then has a number of its own, which the
    /// protocol learns as if it were a socket ([`adit_core::Command::SocketBound`], with the address) and which the
    /// paths of such datagrams have. A datagram sent by the address's number leaves from that address, or from one that
    /// the system chooses when it refuses the address, until a datagram comes to the address again. A datagram sent by
    /// the number of the socket itself leaves from the address that the system chooses. When a route changes so that it
    /// leads to a peer by another device than that of the address, the driver tells the protocol
    /// ([`adit_core::Command::RouteChanged`]).
    ///
    /// At most 4,096 addresses of a socket have a number at once; those not used for three minutes give way. The datagrams
    /// of others have the number of the socket itself. All are gone with their socket.
    pub fn learn_local_addresses(&mut self) {
        self.ports.learn_local_addresses();
    }

    /// Has the sockets that [`Driver::bind_udp`] and [`Handle::bind_udp`] bind or use from now on say which traffic class the
    /// IP header around each datagram has, for sessions that heed it ([`adit_dataplane::TrafficClass`]).
    pub fn learn_traffic_classes(&mut self) {
        self.ports.learn_traffic_classes();
    }

    /// Has all sessions of the device follow its MTU ([`adit_dataplane::codec::Sealer::set_mtu`]) from when the driver
    /// begins to run: 1,280 bytes while the device is in another network namespace, which does not report it.
    pub fn follow_mtu(&mut self) {
        self.follows_mtu = true;
    }

    /// Has the data plane judge packets by these access rules from the first packet on: see [`Handle::set_rules`].
    pub fn set_rules(&mut self, rules: Arc<Rules>) {
        self.rules = Some(rules);
    }

    /// Gives the protocol's own datagrams over UDP this traffic class; 0 at first.
    pub fn set_control_traffic_class(&mut self, traffic_class: u8) {
        self.control_class = traffic_class;
    }

    /// Binds UDP sockets for both address families, or marks them anew, before the driver runs: see
    /// [`Handle::bind_udp`]. Nothing is received from them before [`Observer::started`]; datagrams that come until then
    /// wait in them. The protocol will learn them by the same numbers.
    ///
    /// # Errors
    /// The system's refusal, with its number. Then the sockets and the mark are as before.
    pub fn bind_udp(&mut self, binding: UdpBinding) -> io::Result<UdpSockets> {
        let pair = self.pairs.entry(binding.number).or_default();
        let present = pair.iter().flat_map(|(_, sockets)| sockets).map(|socket| &**socket);
        let new = self.ports.bind(binding, present, || self.device.sources.next_number())?;
        if !new.is_empty() {
            *pair = new;
        }
        Ok(self.ports.sockets(binding.number))
    }

    /// Creates another device of the tunnel, before the driver runs, for peers whose [`adit_core::PeerConfig::device`] names
    /// it: their packets come from it and go to it. It has these addresses and is up. Nothing else of it is set: routes are the
    /// caller's, and sessions do not follow its MTU. It goes with the endpoint.
    ///
    /// # Errors
    /// The part that cannot be set up, and why.
    pub fn add_device(&mut self, config: &TunConfig, addresses: &[IpNet]) -> Result<DeviceId, DriverError> {
        let tun = Tun::create(config)?;
        setup::take_up(tun.name(), addresses)
            .map_err(|source| DriverError::Device { name: tun.name().to_owned(), source })?;
        let id = self.device.next_device().ok_or(DriverError::Devices)?;
        self.devices.push((id, Arc::new(tun)));
        Ok(id)
    }

    /// Has the carrier of a device of [`Driver::add_device`] follow its peers, so that routing daemons see the state of the link: the
    /// device has a carrier while one of its peers has a session, or has packets wait for one ([`adit_core::PeerConfig::staging`]).
    /// It has none at first.
    ///
    /// # Errors
    /// When the kernel refuses it, which then leaves the device its carrier.
    pub fn follow_peers(&mut self, device: DeviceId) -> io::Result<()> {
        let tun = self.devices.iter().find(|(id, _)| *id == device).map(|(_, tun)| Arc::clone(tun));
        tun.map_or(Ok(()), |tun| self.carriers.follow(device, tun))
    }

    /// Binds sockets for an IP protocol to all addresses of both families, before the driver runs. Nothing is received from
    /// them before [`Observer::started`]. They learn their local addresses and traffic classes as the sockets of
    /// [`Driver::bind_udp`] do. [`UdpSource::Ip`] names their demultiplexer. Each address that they learn, and the sockets
    /// themselves, have port 0.
    ///
    /// # Errors
    /// The system's refusal: without `CAP_NET_RAW`, `EPERM`.
    pub fn bind_ip(&mut self, binding: IpBinding) -> io::Result<UdpSockets> {
        let setup = Setup { config: &self.config, device: &self.device, udp: &self.udp_options, homes: &[] };
        let (bound, sockets) = setup.bind_ip_pair(binding, self.ports.options())?;
        self.sockets.extend(bound);
        Ok(sockets)
    }

    /// The addresses that are waited at, with the ports that the system chose where 0 was asked for: UDP
    /// first, then TCP.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        let groups = self.sockets.iter().map(|bound| &bound.numbered).chain(self.pairs.values().flatten());
        let udp = groups.filter_map(|(_, group)| group.first()).map(|socket| socket.local_address());
        udp.chain(self.listeners.iter().map(Listener::local_address)).flatten().collect()
    }

    /// A way to speak to the driver while it runs.
    pub fn handle(&self) -> Handle<P> {
        Handle { orders: self.orders.clone(), mail: self.mail.clone() }
    }

    /// Runs the protocol on this thread until it ends. When this returns, its routes and sockets are gone, and with the
    /// last endpoint the device and the data threads.
    ///
    /// # Errors
    /// Why it could not go on. [`DriverError::DeviceDeleted`] comes after the protocol has ended in order.
    pub fn run(mut self, protocol: P, observer: &mut dyn Observer<P>) -> Result<Ended, DriverError> {
        if self.sharing.is_none()
            && let Some(share) = &self.config.port_share
        {
            self.sharing = Some(Sharing::Own(Forwarder::start(share).map_err(DriverError::Start)?));
        }
        // A rest of 100 µs is to take 100 µs, not 150. The data threads inherit it from this one.
        let _ = rustix::thread::set_current_timer_slack(TIMER_SLACK);
        let losses = Arc::default();
        let member = Member {
            control: self.mail.clone(),
            losses: Arc::clone(&losses),
            demultiplexer: None,
            answers_unreachable: self.answers_unreachable,
        };
        let own = &self.config.dataplane.demultiplexer;
        let membership = Membership::new(Arc::clone(&self.device), own, member)?;
        let workers = Workers::new(membership);
        self.rules.take().iter().for_each(|rules| workers.set_rules(rules));
        let control = Control::new(self, protocol, observer, workers, losses).map_err(DriverError::Start)?;
        control.run()
    }
}
