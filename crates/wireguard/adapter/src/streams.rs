//! WireGuard over TCP: the address where peers connect, and the peers that are connected to.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use adit_core::{Preamble, Transport};
use adit_io::{DriverConfig, Family, Listen, Remote, StreamOptions, TlsClient};
use adit_wireguard::PublicKey;
use adit_wireguard::upgrade::{Acceptor, Initiator};
use adit_wireguard_config::{Config, HttpUrl, Peer};

use adit_host::failure::Failure;

/// Connections beside one for each peer: those that no peer uses yet, and those that clients have left behind.
const SPARE_CONNECTIONS: usize = 4096;
/// How long a connection may take to come about, for each address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The peers that are reached over TCP, in the order of their numbers. They hold until the tunnel ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Vec<Stream>);

/// How one of them is reached.
#[derive(Clone, Debug)]
struct Stream {
    key: PublicKey,
    url: HttpUrl,
    authorities: Option<PathBuf>,
    /// With `https://`.
    tls: Option<TlsClient>,
}

impl Stream {
    /// Reads the certificates of authorities, if the URL needs them.
    fn new(peer: &Peer, url: &HttpUrl) -> Result<Self, String> {
        let authorities = peer.tcp_ca.clone();
        let tls = url.tls.then(|| TlsClient::new(&url.host, authorities.as_deref())).transpose()?;
        Ok(Stream { key: peer.public_key, url: url.clone(), authorities, tls })
    }

    fn is_of(&self, peer: &Peer) -> bool {
        self.key == peer.public_key && Some(&self.url) == peer.tcp.as_ref() && self.authorities == peer.tcp_ca
    }
}

impl Streams {
    /// The connections of the file at the start.
    ///
    /// # Errors
    /// The certificates of authorities cannot be read, with the line of the peer.
    pub(crate) fn new(file: &Path, config: &Config) -> Result<Self, Failure> {
        let with_url = config.peers.iter().filter_map(|peer| Some((peer, peer.tcp.as_ref()?)));
        let streams = with_url.map(|(peer, url)| {
            let setting = if peer.tcp_ca.is_some() { "tcp-ca" } else { "tcp" };
            let place = |why: String| format!("{}:{}: {setting}: {why}", file.display(), peer.line);
            Stream::new(peer, url).map_err(|why| Failure::Configuration(place(why)))
        });
        Ok(Streams(streams.collect::<Result<_, Failure>>()?))
    }

    /// The number of the remote by which that peer is reached.
    pub(crate) fn number(&self, peer: &Peer) -> Option<usize> {
        self.0.iter().position(|stream| stream.is_of(peer))
    }

    /// Whether a file says otherwise.
    pub(crate) fn differ(&self, config: &Config) -> bool {
        let wanted = config.peers.iter().filter(|peer| peer.tcp.is_some());
        let is_known = |peer: &Peer| self.number(peer).is_some();
        wanted.clone().count() != self.0.len() || !wanted.clone().all(is_known)
    }

    /// Has a driver listen and connect. Sent packets have the tunnel's firewall mark.
    pub(crate) fn set_up(&self, driver: &mut DriverConfig, config: &Config, mark: u32) {
        let listen = config.interface.listen_tcp.map(|address| Listen { transport: Transport::Tcp, address });
        if listen.is_some() {
            driver.max_connections = config.peers.len() + SPARE_CONNECTIONS;
        }
        driver.listen.extend(listen);
        driver.remotes = self.0.iter().map(|stream| remote(&stream.url, mark)).collect();
        let initiator =
            |url: &HttpUrl| Arc::new(Initiator::new(&url.authority, &url.target)) as Arc<dyn Preamble>;
        let tls = self.0.iter().map(|stream| stream.tls.clone()).enumerate();
        driver.streams = StreamOptions {
            accepted: Some(Arc::new(Acceptor)),
            remotes: self.0.iter().map(|stream| initiator(&stream.url)).enumerate().collect(),
            tls: tls.filter_map(|(number, tls)| Some((number, tls?))).collect(),
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
