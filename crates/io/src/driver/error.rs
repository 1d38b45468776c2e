//! Why a driver fails.

use std::io;
use std::net::IpAddr;

use adit_core::Transport;
use thiserror::Error;

use super::workers::MAX_WORKERS;
use crate::config::Listen;
use crate::tun::TunError;

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
    /// More endpoints in one tunnel than there may be.
    #[error("a tunnel cannot have more than 256 endpoints")]
    Endpoints,
    /// More devices in one tunnel than there may be.
    #[error("a tunnel cannot have more than 65,535 devices")]
    Devices,
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
    /// The TUN device was deleted while the driver ran. The protocol received [`adit_core::Command::Shutdown`], and has
    /// ended.
    #[error("the TUN device {0} was deleted by another program")]
    DeviceDeleted(String),
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
    let transport = match listen.transport {
        Transport::Udp => "UDP",
        Transport::Tcp => "TCP",
        Transport::Ip(protocol) => return ip_text(protocol, listen.address.ip(), source),
    };
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

fn ip_text(protocol: u8, address: IpAddr, source: &io::Error) -> String {
    let way_out = match source.kind() {
        io::ErrorKind::PermissionDenied => "sockets for IP protocols need root or CAP_NET_RAW".to_owned(),
        io::ErrorKind::AddrNotAvailable => format!("{address} is no address of this machine"),
        _ => "check the address and the protocol's number".to_owned(),
    };
    format!("cannot listen on IP protocol {protocol} at {address}: {source}: {way_out}")
}
