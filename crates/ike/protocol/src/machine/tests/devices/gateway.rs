//! A gateway that devices call.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_core::{Command, Instant, Path, Protocol as _};

use super::super::Event;
use super::super::world::seconds;
use super::habits::Habits;
use crate::machine::{Endpoint, FamilySockets, Params, Sockets};

/// A gateway with sockets of both families, alone.
pub(super) struct Gateway {
    pub(super) end: Endpoint,
    pub(super) now: Instant,
    /// The lines of its log.
    pub(super) log: Vec<String>,
    /// How many IKE SAs devices have begun: each has an SPI of its own.
    pub(super) called: u64,
}

/// The address of an end in a family.
pub(super) fn address(is_v6: bool, last: u16) -> IpAddr {
    match is_v6 {
        true => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]),
        false => IpAddr::from([192, 0, 2, last.to_be_bytes()[1]]),
    }
}

impl Gateway {
    pub(super) fn new(params: Params) -> Self {
        let family = |socket| FamilySockets { ipv4: Some(socket), ipv6: Some(socket + 3) };
        let sockets = Sockets { plain: family(0), marked: family(1), esp: family(2) };
        let now = Instant::ORIGIN + seconds(1000);
        let mut end = Endpoint::new(Params { sockets, ..params }, now, [2; 32]).expect("parameters");
        for (socket, port) in [(0, 500), (1, 4500), (2, 0)] {
            for (socket, is_v6) in [(socket, false), (socket + 3, true)] {
                let local = SocketAddr::new(address(is_v6, 1), port);
                end.handle_command(now, Command::SocketBound { socket, local });
            }
        }
        let mut gateway = Gateway { end, now, log: Vec::new(), called: 0 };
        gateway.drain();
        gateway
    }

    /// The datagrams that it sends.
    fn drain(&mut self) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        loop {
            while let Some(event) = self.end.poll_event() {
                if let Event::Report(report) = event {
                    self.log.push(report.to_string());
                }
            }
            let mut bytes = Vec::new();
            if self.end.poll_transmit(&mut bytes).is_none() {
                return sent;
            }
            sent.push(bytes);
        }
    }

    /// Time passes, in which the device is silent.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.end.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.end.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    /// The inner addresses of its peers.
    pub(super) fn inner(&self) -> Vec<Vec<IpAddr>> {
        self.end.peers().into_iter().map(|(_, info)| info.detail.peer_inner).collect()
    }
}

/// Gives the gateway a message of the device, and gives the messages that it sends then.
pub(super) fn deliver(
    gateway: &mut Gateway,
    habits: &Habits,
    is_v6: bool,
    is_marked: bool,
    bytes: &[u8],
) -> Vec<Vec<u8>> {
    let (socket, port) = if is_marked { (1, 4500) } else { (0, 500) };
    let remote = SocketAddr::new(address(is_v6, habits.number), port);
    let path = Path::Udp { socket: if is_v6 { socket + 3 } else { socket }, remote };
    let marker: &[u8] = if is_marked { &[0; 4] } else { &[] };
    let _ = gateway.end.handle_datagram(gateway.now, path, &[marker, bytes].concat());
    let without = |bytes: Vec<u8>| bytes.strip_prefix(marker).map(<[u8]>::to_vec);
    gateway.drain().into_iter().filter_map(without).collect()
}
