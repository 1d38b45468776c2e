//! WireGuard's adapter: runs [`Interface`]s on devices, and makes them known to `wg`.
//!
//! [`Tunnel::set_up`] makes the device and binds the sockets, [`Tunnel::listen`] lets `wg` in, [`Tunnel::run`] runs the
//! interface until it ends. [`crate::command`] is the program that `wg-quick` starts.

mod blocked;
mod clock;
mod codec;
mod observer;
mod orders;
mod timestamps;
pub(crate) mod uapi;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Instant;

use adit_core::{AddressKeeper, Ended, Severity, SharedPool, TunnelSettings};
use adit_guard::{HelperAccess, Policy};
use adit_io::{
    Buffers, Driver, DriverConfig, DriverError, SharedDevice, StreamOptions, TunConfig, TunError, UdpBinding,
};
use adit_system::{Fragmentation, SocketRouting};
use adit_wireguard::{Changes, Interface, Params};
use rand_core::{OsRng, TryRngCore as _};
use zeroize::Zeroizing;

use self::clock::ClockWatch;
use self::observer::InterfaceObserver;
use self::timestamps::TimestampFile;
use adit_host::access::AccessRules;
use adit_host::failure::Failure;
use adit_host::log::Logger;
use adit_host::sockets::{LOOK_EVERY, ListeningSocket, Server};

pub(crate) use self::blocked::list as blocked_list;
pub(crate) use self::observer::{Begin, Watch};
pub(crate) use self::orders::Orders;
pub(crate) use self::uapi::socket_path;

/// MTU of a new device in bytes: what is left of an Ethernet frame over IPv6, as wireguard-go has it.
pub(crate) const MTU: u16 = 1420;

/// The traffic class of handshakes: DSCP AF41 (`HANDSHAKE_DSCP` in Linux's drivers/net/wireguard/messages.h).
const HANDSHAKE_TRAFFIC_CLASS: u8 = 0x88;

/// An interface to run.
pub(crate) struct Settings {
    /// Its device and how that is driven: [`driver_config`], perhaps changed.
    pub(crate) driver: DriverConfig,
    /// The device's MTU in bytes.
    pub(crate) mtu: u16,
    /// TCP segments that pass fit the device's MTU, or this one, in bytes, if it is less.
    pub(crate) clamp_mss: u16,
    /// The system's settings of the tunnel: addresses, routes, name servers. `None`: others see to them.
    pub(crate) tunnel: Option<TunnelSettings>,
    /// Keys, port, firewall mark and peers.
    pub(crate) configuration: Changes,
    /// The parts that other endpoints of the tunnel have, too. `None`: there is no other. The device, the workers and
    /// the data plane in [`Settings::driver`] are then the tunnel's.
    pub(crate) shared: Option<SharedTunnel>,
}

/// The parts of a tunnel that its endpoints share.
#[derive(Clone, Default)]
pub(crate) struct SharedTunnel {
    /// The device with its data plane.
    pub(crate) device: SharedDevice,
    /// The addresses of the peers. Those that a peer of the interface has are not leased.
    pub(crate) pool: SharedPool,
}

/// An interface with its device and its sockets, not yet running.
pub(crate) struct Tunnel {
    driver: Driver<Interface>,
    params: Params,
    orders: Orders,
    timestamps: TimestampFile,
    uapi: Option<Server>,
    keeper: Option<AddressKeeper>,
    watch: Option<Watch>,
    log: Logger,
}

impl Tunnel {
    /// Makes the device and binds the UDP sockets. Nothing is left behind on an error.
    ///
    /// # Errors
    /// The resource that cannot be had, and why.
    pub(crate) fn set_up(settings: Settings, mut log: Logger) -> Result<Self, String> {
        let Settings { driver, mtu, clamp_mss, tunnel, configuration, shared } = settings;
        let workers = u32::try_from(driver.workers).unwrap_or(1);
        let driver = match &shared {
            None => own_driver(&driver),
            Some(shared) => Driver::join(driver, codec::session, &shared.device),
        };
        let mut driver = driver.map_err(|error| error.to_string())?;
        // A peer is answered from the address that it wrote to.
        driver.learn_local_addresses();
        driver.answer_unreachable();
        driver.learn_traffic_classes();
        driver.follow_mtu();
        driver.set_control_traffic_class(HANDSHAKE_TRAFFIC_CLASS);
        let port = configuration.listen_port.unwrap_or_default();
        let binding = UdpBinding { number: 0, port: Some(port), mark: configuration.fwmark };
        let sockets = driver.bind_udp(binding).map_err(|error| no_socket(port, &error))?;
        let timestamps = TimestampFile::of(driver.tun_name());
        let timestamp_floor = timestamps.read().unwrap_or_else(|why| {
            log.log(Severity::Warning, why);
            None
        });
        let (blocked, blocks_all) = blocked::at_start(&blocked_list(driver.tun_name()), &mut log);
        let params = Params {
            timestamp_floor,
            blocked,
            blocks_all,
            sockets: observer::sockets(sockets),
            mtu,
            clamp_mss: Some(clamp_mss),
            workers,
            tunnel,
            configuration,
            ..Params::new(clock::now())
        };
        let orders = Orders::new(driver.handle());
        let keeper = shared.map(|shared| shared.pool.keeper());
        Ok(Tunnel { driver, params, orders, timestamps, uapi: None, keeper, watch: None, log })
    }

    /// The name of its device.
    pub(crate) fn device(&self) -> &str {
        self.driver.tun_name()
    }

    /// The tasks of a helper of the tunnel: to bind and mark sockets, write the timestamp, remove the file of the socket at which
    /// the tunnel listens now, and with `network` set up the device.
    pub(crate) fn policy(&self, network: bool) -> Policy {
        Policy {
            state_file: Some(self.timestamps.path().to_owned()),
            removed_at_end: self.uapi.iter().map(|uapi| uapi.path().to_owned()).collect(),
            ..Policy::from(self.driver.helper_needs(network))
        }
    }

    /// Has a helper that was started with [`Tunnel::policy`] do this from now on.
    ///
    /// # Errors
    /// When the helper is gone.
    pub(crate) fn use_helper(&mut self, helper: &HelperAccess, network: bool) -> io::Result<()> {
        self.timestamps.use_helper(helper.files()?);
        self.driver.use_helper(helper.clone(), network)
    }

    /// Reads the access rules beside a file, by which packets are judged from the first one on.
    ///
    /// # Errors
    /// The mistakes of the rules, or why they cannot be read.
    pub(crate) fn begin_rules(&mut self, file: &Path) -> Result<AccessRules, Failure> {
        AccessRules::begin(file, &mut self.driver, &mut self.log)
    }

    /// A way to speak to the interface while it runs.
    pub(crate) fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// Has what happens at the interface told.
    pub(crate) fn watch(&mut self, watch: Watch) {
        self.watch = Some(watch);
    }

    /// Lets `wg` speak to the interface by this socket.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn listen(&mut self, socket: ListeningSocket) -> io::Result<()> {
        self.uapi = Some(uapi::serve(socket, self.orders(), self.log.clone())?);
        Ok(())
    }

    /// Runs the interface until it ends. `begin` is called when all is set up and nothing was received yet.
    ///
    /// # Errors
    /// Why it could not begin, or go on.
    pub(crate) fn run(self, begin: Begin<'_>) -> Result<Ended, DriverError> {
        let Tunnel { driver, params, orders, timestamps, uapi, keeper, watch, log } = self;
        let handle = driver.handle();
        let mut seed = Zeroizing::new([0; 32]);
        OsRng
            .try_fill_bytes(&mut *seed)
            .map_err(|error| DriverError::Start(io::Error::other(error.to_string())))?;
        let interface = Interface::new(params, adit_io::clock(), *seed)
            .map_err(|error| DriverError::Start(io::Error::other(error)))?;
        if let Some(keeper) = &keeper {
            observer::keep_addresses(keeper, &interface);
        }
        let _clock = ClockWatch::start(handle.clone()).map_err(DriverError::Start)?;
        let begin = Some(begin);
        let mut observer = InterfaceObserver {
            log,
            handle,
            orders: orders.clone(),
            timestamps,
            names: BTreeMap::new(),
            keeper,
            watch,
            begin,
        };
        let ended = driver.run(interface, &mut observer);
        orders.end();
        drop(uapi);
        ended
    }
}

/// The driver of a device that the interface has for itself. A device that is in use has a moment to go, as the socket of `wg`
/// has: that of a process that was just killed, whose descriptors the kernel has not closed yet.
fn own_driver(config: &DriverConfig) -> Result<Driver<Interface>, DriverError> {
    let deadline = Instant::now() + uapi::LEAVING;
    loop {
        match Driver::new(config.clone(), codec::session) {
            Err(DriverError::Tun(TunError::Busy(_))) if Instant::now() < deadline => {
                thread::sleep(LOOK_EVERY);
            }
            outcome => return outcome,
        }
    }
}

/// How a device is driven that changes nothing of the system but itself.
pub(crate) fn driver_config(tun: TunConfig, workers: usize) -> DriverConfig {
    DriverConfig {
        tun,
        // Peers come and go while it runs.
        single_peer: false,
        changes_routing: false,
        // The sockets are bound by `Driver::bind_udp`.
        listen: Vec::new(),
        multihome: false,
        remotes: Vec::new(),
        buffers: Buffers::default(),
        // As the kernel's WireGuard has it (`df` in drivers/net/wireguard/socket.c).
        socket_routing: SocketRouting { fragmentation: Fragmentation::Allowed, ..SocketRouting::default() },
        port_share: None,
        workers,
        max_connections: 0,
        resolv_conf: None,
        kill_switch: false,
        dataplane: adit_dataplane::Config::new(adit_wireguard_codec::Sockets),
        execution: adit_io::Execution::default(),
        demultiplexers: BTreeMap::new(),
        streams: StreamOptions::default(),
    }
}

fn no_socket(port: u16, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot bind UDP port {port}: {error}: `ss -lnup 'sport = {port}'` names the program; stop it or choose another port"
        ),
        _ => format!("cannot bind UDP port {port}: {error}"),
    }
}
