//! The events of the interface, as lines of the log; and its requests to the program.

use std::collections::BTreeMap;

use adit_core::{AddressKeeper, Ended, IpNet, PeerId, Protocol as _, Severity};
use adit_io::{Handle, Observer, UdpBinding, UdpSockets};
use adit_wireguard::{ConfigureError, Event, Interface, Reply, Request, Sockets};

use super::orders::Orders;
use super::timestamps::TimestampFile;
use adit_host::log::Logger;

/// Writes events to the log and does what the interface asks.
pub(super) struct InterfaceObserver<'a> {
    pub(super) log: Logger,
    pub(super) handle: Handle<Interface>,
    pub(super) orders: Orders,
    pub(super) timestamps: TimestampFile,
    /// The names of the peers that are up.
    pub(super) names: BTreeMap<PeerId, String>,
    /// The addresses of the tunnel's peers, if it has other endpoints.
    pub(super) keeper: Option<AddressKeeper>,
    /// Told of each event.
    pub(super) watch: Option<Watch>,
    /// Called once, when all is set up.
    pub(super) begin: Option<Begin<'a>>,
}

/// The action when an interface is set up and has received nothing yet. An error ends it.
pub(crate) type Begin<'a> = Box<dyn FnOnce() -> Result<(), String> + 'a>;

/// The receiver of each event of an interface.
pub(crate) type Watch = Box<dyn Fn(&Event) + Send>;

impl Observer<Interface> for InterfaceObserver<'_> {
    fn event(&mut self, event: &Event, tun_name: &str) {
        if let Some(watch) = &self.watch {
            watch(event);
        }
        match event {
            Event::Report(report) => self.log.log(report.severity, report),
            Event::Up(settings) => {
                let addresses: Vec<String> = settings.addresses.iter().map(ToString::to_string).collect();
                let addresses = addresses.join(", ");
                let text = format_args!("interface up: {tun_name} {addresses}, MTU {}", settings.mtu);
                self.log.log(Severity::Info, text);
            }
            Event::PeerUp { peer, info } => {
                self.names.insert(*peer, info.name.clone());
                self.log.log(Severity::Info, format_args!("{}: {} connected", info.path, info.name));
            }
            Event::PeerDown { peer, reason } => {
                let name = self.names.remove(peer).unwrap_or_default();
                self.log.log(Severity::Debug, format_args!("{name} down: {reason}"));
            }
            Event::Ended(Ended::Shutdown) => self.log.log(Severity::Info, "ended on request"),
            // The caller that runs the interface logs why.
            Event::Ended(Ended::Failed(_)) => {}
            // They go elsewhere, or WireGuard has no such thing.
            Event::Data(_) | Event::Request(_) | Event::LeasesMoved => {}
            Event::Down | Event::Open { .. } | Event::Close { .. } => {}
        }
    }

    fn request(&mut self, request: Request, _tun_name: &str) {
        match request {
            Request::Rebind { listen_port, fwmark } => {
                let binding = UdpBinding { number: 0, port: listen_port, mark: fwmark };
                self.handle.bind_udp(
                    binding,
                    Box::new(|interface, now, outcome| {
                        let outcome = outcome.map(sockets).map_err(refused);
                        interface.handle_reply(now, Reply::Rebound(outcome));
                    }),
                );
            }
            Request::Configured { id, outcome } => {
                if let Err(error) = &outcome {
                    self.log.log(Severity::Error, format_args!("nothing was configured: {error}"));
                } else if let Some(keeper) = self.keeper.clone() {
                    self.handle.inspect(Box::new(move |interface, _, _| keep_addresses(&keeper, interface)));
                }
                self.orders.answer(id, outcome);
            }
            Request::SaveTimestamp(timestamp) => {
                if let Some(why) = self.timestamps.save(timestamp) {
                    self.log.log(Severity::Warning, why);
                }
            }
        }
    }

    fn started(&mut self) -> Result<(), String> {
        self.begin.take().map_or(Ok(()), |begin| begin())
    }
}

/// Keeps the pool of a tunnel from leasing the addresses of the interface's peers.
pub(super) fn keep_addresses(keeper: &AddressKeeper, interface: &Interface) {
    let peers = interface.status().peers;
    let prefixes = peers.iter().flat_map(|peer| &peer.detail.allowed_ips);
    let hosts = prefixes.filter(|prefix| prefix.prefix_len() == prefix.max_prefix_len());
    keeper.keep(hosts.map(IpNet::addr).collect());
}

/// The driver's sockets, as the machine knows them.
pub(super) fn sockets(sockets: UdpSockets) -> Sockets {
    let UdpSockets { port, ipv4, ipv6 } = sockets;
    Sockets { port, ipv4, ipv6 }
}

fn refused(error: std::io::Error) -> ConfigureError {
    // Linux's EIO, for an error that has no number.
    let errno = error.raw_os_error().unwrap_or(5);
    ConfigureError::Socket { errno, text: error.to_string() }
}
