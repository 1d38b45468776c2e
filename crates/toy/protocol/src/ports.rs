//! An endpoint that answers at two ports which are bound while it runs, as IKEv2 does at 500 and 4500.

use std::net::{IpAddr, SocketAddr};

use adit_core::{Instant, Path, PeerId};

use crate::endpoint::Endpoint;

/// Which of the two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// A port for control messages alone.
    Control,
    /// A port for data, and for control messages behind a marker.
    Data,
}

/// The sockets of a port, by the driver's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortSockets {
    /// The socket that talks to IPv4 addresses.
    pub ipv4: Option<u32>,
    /// The socket that talks to IPv6 addresses.
    pub ipv6: Option<u32>,
}

impl PortSockets {
    /// The path to the same address by these sockets; the path as it is, if none of them talks to that address.
    fn lead(self, path: Path) -> Path {
        let socket = match path.remote().ip().to_canonical() {
            IpAddr::V4(_) => self.ipv4,
            IpAddr::V6(_) => self.ipv6,
        };
        socket.map_or(path, |socket| path.by_socket(socket))
    }
}

/// Our addresses to which a peer sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalAddresses {
    /// The address of its control messages.
    pub control: Option<SocketAddr>,
    /// The address of its data.
    pub data: Option<SocketAddr>,
}

impl Endpoint {
    /// Gives the port these sockets in place of others: messages to peers by that port leave by these.
    pub fn rebound(&mut self, now: Instant, port: Port, sockets: PortSockets) {
        self.shared.now = now;
        for peer in &mut self.peers {
            let of_port = peer.control.filter(|control| control.marked == (port == Port::Data));
            if let Some(control) = of_port {
                peer.control = Some(control.at(sockets.lead(control.path)));
            }
            if let Some(path) = peer.data_path().filter(|_| port == Port::Data) {
                peer.roamed(sockets.lead(path), &mut self.shared);
            }
        }
    }

    /// Our addresses to which a peer sends; none where the driver does not say it.
    pub fn local_addresses(&self, peer: PeerId) -> LocalAddresses {
        let Some(peer) = self.peers.get(peer.0 as usize) else { return LocalAddresses::default() };
        let local = |path: Path| self.shared.locals.get(&path.socket()?).copied();
        LocalAddresses {
            control: peer.control.and_then(|control| local(control.path)),
            data: peer.data_path().and_then(local),
        }
    }
}
