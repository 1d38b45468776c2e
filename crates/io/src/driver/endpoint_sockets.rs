//! The sockets and connections of endpoints, as a data thread begins and ends to use them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use adit_core::{ConnectionId, Path};
use adit_dataplane::codec::Demultiplexer;

use super::data::Running;
use super::ids::EndpointId;
use super::secondary_endpoints::{SecondaryEndpoint, Together};
use crate::udp::UdpSocket;

impl Running {
    /// A socket has one more secondary. It is received from, whether its primary has begun to or not.
    pub(super) fn add_secondary(
        &mut self,
        number: u32,
        socket: Arc<UdpSocket>,
        secondary: SecondaryEndpoint,
    ) -> Result<(), String> {
        self.transports.secondaries.add(number, secondary);
        self.transports.use_socket(number, socket, &self.poller).map_err(no_socket)?;
        self.classify_at(number);
        Ok(())
    }

    /// A socket has its primary, and tells datagrams apart in a way of its own, or else in its endpoint's.
    pub(super) fn add_host(
        &mut self,
        (endpoint, number): (EndpointId, u32),
        socket: Arc<UdpSocket>,
        own: Option<Arc<dyn Demultiplexer>>,
    ) -> Result<(), String> {
        self.transports.use_socket(number, socket, &self.poller).map_err(no_socket)?;
        let own = own.or_else(|| self.members.demultiplexer(endpoint));
        self.transports.set_primary(number, endpoint, own);
        self.classify_at(number);
        Ok(())
    }

    /// An endpoint uses a socket no more, which is closed when no other endpoint does.
    pub(super) fn leave_socket(&mut self, endpoint: EndpointId, number: u32) {
        if self.transports.primary(number) == Some(endpoint) {
            self.transports.forget_addresses(number);
        }
        self.transports.leave(number, endpoint, &self.poller);
        self.classify_at(number);
    }

    /// Has the datagrams at a socket classified for all endpoints that use it.
    fn classify_at(&mut self, number: u32) {
        let path = socket_path(number);
        let own = self.transports.demultiplexer(number);
        let demultiplexer = match self.transports.secondaries.at(number) {
            [] => own,
            secondaries => {
                let has_primary = self.transports.primary(number).is_some();
                let primary = || own.or_else(|| self.ingress.default_demultiplexer());
                let primary = if has_primary { primary() } else { None };
                Some(Arc::new(Together { primary, secondaries: secondaries.to_vec() })
                    as Arc<dyn Demultiplexer>)
            }
        };
        match demultiplexer {
            Some(demultiplexer) => self.ingress.set_demultiplexer(&path, demultiplexer),
            None => self.ingress.forget_demultiplexer(&path),
        }
    }

    pub(super) fn close_connection(&mut self, id: ConnectionId) {
        if let Some(connection) = self.transports.connection(id) {
            self.ingress.forget_demultiplexer(&connection.path);
        }
        self.transports.close(id);
    }

    /// The endpoint ends: nothing is received for it any more. Its peers are gone already.
    pub(super) fn remove_endpoint(&mut self, endpoint: EndpointId) {
        for number in self.transports.sockets_of(endpoint) {
            self.leave_socket(endpoint, number);
        }
        for id in self.transports.connections_of(endpoint) {
            self.close_connection(id);
        }
        self.members.remove(endpoint);
        self.devices.remove_of(endpoint, &self.poller);
        self.egress.answer_unreachable(self.members.answer_unreachable());
    }
}

/// A path by that socket.
fn socket_path(number: u32) -> Path {
    Path::Udp { socket: number, remote: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)) }
}

fn no_socket(error: io::Error) -> String {
    format!("cannot wait for a UDP socket: {error}")
}
