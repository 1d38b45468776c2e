//! WireGuard over TCP: where the file has peers come by TCP, and whom it reaches so.

use std::sync::Arc;
use std::time::Duration;

use adit_config::wireguard::{Config, HttpUrl, Peer};
use adit_core::{Preamble, Transport};
use adit_io::{DriverConfig, Family, Listen, Remote, StreamOptions};
use adit_wireguard::upgrade::{Acceptor, Initiator};

/// Connections beside one for each peer: those that no peer uses yet, and those that clients have left behind.
const SPARE_CONNECTIONS: usize = 4096;
/// How long a connection may take to come about, for each address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The peers that are reached over TCP, in the order of their numbers. They hold until the tunnel ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Streams(Vec<([u8; 32], HttpUrl)>);

impl Streams {
    /// Those of the file at the start.
    pub(super) fn new(config: &Config) -> Self {
        let with_key = |peer: &Peer| Some((peer.public_key, peer.tcp.clone()?));
        Streams(config.peers.iter().filter_map(with_key).collect())
    }

    /// The number of the remote by which that peer is reached.
    pub(super) fn number(&self, peer: &Peer) -> Option<usize> {
        let url = peer.tcp.as_ref()?;
        self.0.iter().position(|(key, known)| *key == peer.public_key && known == url)
    }

    /// Whether a file says otherwise.
    pub(super) fn differ(&self, config: &Config) -> bool {
        let wanted = config.peers.iter().filter(|peer| peer.tcp.is_some());
        let is_known = |peer: &Peer| self.number(peer).is_some();
        wanted.clone().count() != self.0.len() || !wanted.clone().all(is_known)
    }

    /// Has a driver listen and connect. What is sent has the tunnel's firewall mark.
    pub(super) fn set_up(&self, driver: &mut DriverConfig, config: &Config, mark: u32) {
        let listen = config.interface.listen_tcp.map(|address| Listen { transport: Transport::Tcp, address });
        if listen.is_some() {
            driver.max_connections = config.peers.len() + SPARE_CONNECTIONS;
        }
        driver.listen.extend(listen);
        driver.remotes = self.0.iter().map(|(_, url)| remote(url, mark)).collect();
        let initiator =
            |url: &HttpUrl| Arc::new(Initiator::new(&url.authority, &url.target)) as Arc<dyn Preamble>;
        driver.streams = StreamOptions {
            accepted: Some(Arc::new(Acceptor)),
            remotes: self.0.iter().map(|(_, url)| initiator(url)).enumerate().collect(),
            mark,
        };
    }
}

fn remote(url: &HttpUrl, mark: u32) -> Remote {
    Remote {
        host: url.host.clone(),
        random_hostname: false,
        port: url.port,
        transport: Transport::Tcp,
        family: Family::Any,
        bind: None,
        connect_timeout: CONNECT_TIMEOUT,
        proxy: None,
        mark: Some(mark),
    }
}
