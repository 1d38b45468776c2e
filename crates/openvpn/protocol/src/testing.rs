//! Support for tests of this crate and fuzz targets of its machines: credentials of an authority, parameters of a
//! client and a server, and both joined in memory. Built for tests and with the feature `testing` alone.
#![allow(clippy::unwrap_used, reason = "test support fails by panicking")]

mod authority;
pub mod judged;
pub mod messages;
mod pair;

use std::time::Duration;

use adit_core::{Notice, PeerActivity, PeerId, PeerLimits, PeerOrder, RouteTable, Transport, UnixTime};

pub use self::authority::{Authority, WALL, environment, serial};
pub use self::pair::Pair;
use crate::access::AccessParams;
use crate::credentials::{Credentials, client_tls, server_tls};
use crate::params::{
    AdmissionParams, ClientParams, ControlParams, DataParams, ExitNotify, Keepalive, PerClientParams,
    RemoteParams, ServerParams,
};
use crate::request::{DataEvent, Event};
use crate::wrap::WrapConfig;
use crate::{PeerRequirements, TlsConfig};

/// A peer's certificate must be for its end.
pub fn requirements() -> PeerRequirements {
    PeerRequirements { require_usage: true, ..PeerRequirements::default() }
}

/// A client of one server, with the exit notice.
pub fn client_params(credentials: &Credentials, wrap: WrapConfig, transport: Transport) -> ClientParams {
    let tls = client_tls(credentials, requirements(), &environment()).unwrap();
    let control = ControlParams::new(wrap, TlsConfig::Client(tls), UnixTime(WALL));
    let remote = RemoteParams { exit_notify: true, ..RemoteParams::new("server".to_owned(), transport) };
    ClientParams::new(control, vec![remote])
}

/// A server with pools of IPv4 and IPv6 addresses that pushes a route and pings.
pub fn server_params(credentials: &Credentials, wrap: WrapConfig) -> ServerParams {
    let tls = server_tls(credentials, requirements(), &environment()).unwrap();
    let push = [
        "route 10.20.0.0 255.255.0.0",
        "route-gateway 10.8.0.1",
        "topology subnet",
        "ping 10",
        "ping-restart 60",
    ];
    ServerParams {
        control: ControlParams::new(wrap, TlsConfig::Server(tls), UnixTime(WALL)),
        data: DataParams::default(),
        address4: Some("10.8.0.1/24".parse().unwrap()),
        pool4: Some(("10.8.0.2".parse().unwrap(), "10.8.0.254".parse().unwrap())),
        address6: Some("fd00:8::1/64".parse().unwrap()),
        pool6: Some("fd00:8::1000/64".parse().unwrap()),
        push: push.map(str::to_owned).to_vec(),
        routes: Vec::new(),
        table: RouteTable::Main,
        keepalive: Keepalive {
            ping: Some(Duration::from_secs(10)),
            timeout: Some(Duration::from_secs(120)),
            exit: false,
        },
        limits: PeerLimits::default(),
        client_to_client: false,
        duplicate_cn: false,
        max_clients: 100,
        exit_notify: ExitNotify::Restart,
        per_client: PerClientParams::default(),
        access: AccessParams::default(),
        admission: AdmissionParams::default(),
        point_to_point: None,
        scripts: None,
    }
}

/// Whether the data plane may follow the peer by itself.
pub fn roams(events: &[Event]) -> Option<bool> {
    events.iter().find_map(|event| match event {
        Event::Data(DataEvent::Peer(PeerOrder::Add(config))) => Some(config.roams),
        _ => None,
    })
}

/// How much has passed so far between an end and that peer: packets and bytes, received and sent. No messages, and no
/// sign of life.
pub fn traffic(peer: PeerId, packets: (u64, u64), bytes: (u64, u64)) -> Notice {
    Notice::Traffic {
        peer,
        received: packets.0,
        sent: packets.1,
        received_bytes: bytes.0,
        sent_bytes: bytes.1,
        message_bytes: 0,
        activity: PeerActivity::default(),
    }
}
