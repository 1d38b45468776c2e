//! Clients whose address changes while nothing may be lost: the reply to the first packet from the new address
//! arrives.

use std::net::SocketAddr;

use adit_core::{Path, Transport};

use crate::openvpn::event::Event;
use crate::openvpn::identity::client_name;
use crate::openvpn::limits::CLIENT;
use crate::openvpn::model::SERVER;
use crate::openvpn::net::Net;
use crate::openvpn::world::World;
use crate::violation::Violation;

/// The payload of an inner packet from a new address, and of the reply to it.
const PAYLOAD: usize = 64;

impl World {
    /// In a calm part, a client gets another address now and then, and sends a packet from there.
    pub(crate) fn roam(&mut self) -> Result<(), Violation> {
        let pause = self.rng.roaming.millis(2000, 6000);
        self.schedule(self.now + pause, Event::Roam);
        let client = self.rng.roaming.between(1, self.scenario.clients as u64) as usize;
        if !self.must_arrive(client) {
            return Ok(());
        }
        let known = self.known_address(client);
        let Some(address) = known.and_then(|known| self.net.roam(client, known)) else { return Ok(()) };
        self.log(format_args!("client {client} roams to {address}"));
        self.send_small(client, true)
    }

    /// The UDP address of a client, as the server's protocol knows it.
    fn known_address(&self, client: usize) -> Option<SocketAddr> {
        let peers = self.hosts[SERVER].end.as_ref()?.machine.peers();
        let (_, info) = peers.into_iter().find(|(_, info)| info.name == client_name(client))?;
        Some(info.path.remote()).filter(|_| info.path.transport() == Transport::Udp)
    }

    /// A datagram comes to the server. The first that it opens from a client's new address is answered at once,
    /// before its protocol handles the notice of the new address.
    pub(crate) fn receive_from(&mut self, from: SocketAddr, datagram: Vec<u8>) -> Result<(), Violation> {
        let path: Path = Net::server_path(from);
        let Some(client) = self.net.roamed(from) else { return self.receive(SERVER, path, datagram) };
        let before = self.opened_by_server();
        self.receive(SERVER, path, datagram)?;
        if self.opened_by_server() == before {
            return Ok(());
        }
        self.net.confirm_address(from);
        self.send_small(client, false)
    }

    /// Datagrams that the server opened.
    fn opened_by_server(&self) -> u64 {
        self.hosts[SERVER].end.as_ref().map_or(0, |server| server.counters.snapshot().ingress.packets)
    }

    /// A small packet passes through a client's tunnel, up to the server or down from it.
    fn send_small(&mut self, client: usize, up: bool) -> Result<(), Violation> {
        let theirs = self.model.tunnels[client - 1].server.as_ref().and_then(|(_, all)| all.first().copied());
        let ours = self.model.server_addresses.first().copied();
        let (Some(theirs), Some(ours)) = (theirs, ours) else { return Ok(()) };
        let expected = self.must_arrive(client);
        let ends = [(client, theirs), (SERVER, ours)];
        let ([from, to], side) = if up { (ends, CLIENT) } else { ([ends[1], ends[0]], SERVER) };
        self.checks.limits.record_packet(self.now, client, side);
        let packet = self.model.send(self.now, from, to, PAYLOAD, (false, expected));
        if let Some(end) = self.hosts[from.0].end.as_mut() {
            end.send_packets(&[packet]);
        }
        self.settle(from.0)
    }
}
