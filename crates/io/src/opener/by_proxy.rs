//! Paths to remotes by a proxy.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use adit_core::{OpenFailure, Transport};

use super::{KnownAddresses, Opened, Resolving, any_address, bind_udp, connect, wanted_name};
use crate::config::{Family, Remote};
use crate::proxy::{CredentialsWanted, Proxy};
use crate::tcp;
use crate::udp::UdpOptions;

/// The proxy as if it were the remote, over TCP.
pub(super) fn as_remote(remote: &Remote, proxy: &Proxy) -> Remote {
    // Datagrams leave from the local address of the file; the connection to the proxy from any.
    let (family, bind) = match remote.transport {
        Transport::Tcp => (remote.family, remote.bind),
        Transport::Udp | Transport::Ip(_) => (Family::Any, None),
    };
    Remote {
        host: proxy.host.clone(),
        random_hostname: false,
        port: proxy.port,
        transport: Transport::Tcp,
        family,
        bind,
        connect_timeout: remote.connect_timeout,
        proxy: None,
        mark: remote.mark,
    }
}

/// Whether we resolve the remote's own name: a proxy for TCP does it itself.
pub(super) fn resolves(remote: &Remote) -> bool {
    remote.proxy.is_none() || remote.transport == Transport::Udp
}

/// Has the proxy reach the remote. An error names the proxy: it is between us and all that we know of the remote.
pub(super) fn open(
    (remote, proxy): (&Remote, &Proxy),
    attempt: usize,
    options: &UdpOptions,
    (known, resolving): (&KnownAddresses, &Resolving),
    prepare: &mut impl FnMut(Vec<IpAddr>),
) -> Result<Opened, OpenFailure> {
    let to_proxy = as_remote(remote, proxy);
    let proxies = known.in_turn(&to_proxy, attempt, resolving).map_err(|failure| of_proxy(proxy, failure))?;
    // Each attempt tries one address of a remote that datagrams go to, as nothing answers when it is the wrong one.
    let target = match remote.transport {
        Transport::Tcp => None,
        Transport::Udp | Transport::Ip(_) => known.in_turn(remote, attempt, resolving)?.first().copied(),
    };
    prepare(proxies.iter().map(SocketAddr::ip).collect());
    let (mut failures, mut refused) = (Vec::new(), None);
    for address in proxies {
        let dial = |timeout: Duration| connect(&to_proxy, address, options, timeout);
        let result = match target {
            None => by_connection(remote, proxy, dial).map(|stream| Opened::Tcp(stream, address)),
            Some(target) => by_datagrams(remote, proxy, (target, options), dial, prepare),
        };
        match result {
            Ok(opened) => return Ok(opened),
            Err(error) => {
                refused = CredentialsWanted::of(&error).map(|wanted| wanted.refused).or(refused);
                failures.push(format!("{address}: {error}"));
            }
        }
    }
    let why = failures.join("; ");
    let text = format!("cannot reach `{}` by the proxy `{}` at {why}", remote.host, proxy.host);
    Err(match refused {
        Some(refused) => OpenFailure::NeedsCredentials { text, refused },
        None => OpenFailure::Unreachable(text),
    })
}

fn of_proxy(proxy: &Proxy, failure: OpenFailure) -> OpenFailure {
    let named = |text: String| format!("the proxy `{}:{}`: {text}", proxy.host, proxy.port);
    match failure {
        OpenFailure::UnknownName(text) => OpenFailure::UnknownName(named(text)),
        OpenFailure::Unreachable(text) => OpenFailure::Unreachable(named(text)),
        // It was not asked yet.
        other @ OpenFailure::NeedsCredentials { .. } => other,
    }
}

fn by_connection(
    remote: &Remote,
    proxy: &Proxy,
    dial: impl Fn(Duration) -> io::Result<TcpStream>,
) -> io::Result<TcpStream> {
    let host = wanted_name(remote).map_err(|failure| io::Error::other(failure.text().to_owned()))?;
    let stream = proxy.connect((host.as_ref(), remote.port), remote.connect_timeout, dial)?;
    tcp::prepare(stream)
}

fn by_datagrams(
    remote: &Remote,
    proxy: &Proxy,
    (target, options): (SocketAddr, &UdpOptions),
    dial: impl FnOnce(Duration) -> io::Result<TcpStream>,
    prepare: &mut impl FnMut(Vec<IpAddr>),
) -> io::Result<Opened> {
    let association = proxy.associate(target, remote.connect_timeout, dial)?;
    let relay = association.relay;
    prepare(vec![relay.ip()]);
    let port = remote.bind.map_or(0, |bind| bind.port());
    let local = match remote.bind {
        Some(bind) if !bind.ip().is_unspecified() && bind.is_ipv4() == relay.is_ipv4() => bind,
        _ => any_address(relay, port),
    };
    let socket = bind_udp(remote, local, options)?;
    Ok(Opened::Udp(socket.by_association(association), relay))
}
