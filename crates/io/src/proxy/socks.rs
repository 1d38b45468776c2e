//! SOCKS5 (RFC 1928), with a username and a password (RFC 1929).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use zeroize::Zeroizing;

use super::{Association, Conversation, CredentialsWanted, ProxyCredentials};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USERNAME_AND_PASSWORD: u8 = 2;
const NOTHING_ACCEPTABLE: u8 = 0xFF;
/// The version of the exchange of username and password.
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const UDP_ASSOCIATE: u8 = 3;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Has the proxy connect, by name where that is no address.
pub(super) fn connect(
    mut conversation: Conversation,
    credentials: Option<&ProxyCredentials>,
    (host, port): (&str, u16),
) -> io::Result<TcpStream> {
    greet(&mut conversation, credentials)?;
    let mut target = Vec::new();
    match host.parse::<IpAddr>() {
        Ok(address) => put_address(&mut target, SocketAddr::new(address, port)),
        Err(_) => {
            let length = u8::try_from(host.len()).map_err(|_| io::Error::other("the name is too long"))?;
            target.extend_from_slice(&[NAME, length]);
            target.extend_from_slice(host.as_bytes());
            target.extend_from_slice(&port.to_be_bytes());
        }
    }
    request(&mut conversation, CONNECT, &target)?;
    conversation.into_stream()
}

/// Has the proxy relay datagrams.
pub(super) fn associate(
    mut conversation: Conversation,
    credentials: Option<&ProxyCredentials>,
    remote: SocketAddr,
) -> io::Result<Association> {
    let proxy = conversation.stream.peer_addr()?;
    greet(&mut conversation, credentials)?;
    // Where our datagrams will come from is not known yet (RFC 1928 §4).
    let any = if proxy.is_ipv4() { IpAddr::from([0, 0, 0, 0]) } else { IpAddr::from([0_u16; 8]) };
    let mut from = Vec::new();
    put_address(&mut from, SocketAddr::new(any, 0));
    let bound = request(&mut conversation, UDP_ASSOCIATE, &from)?;
    let bound = bound.ok_or_else(|| other("it says where to send datagrams by a name, not an address"))?;
    let relay = match bound.ip().is_unspecified() {
        // Many mean: where you are connected to.
        true => SocketAddr::new(proxy.ip(), bound.port()),
        false => bound,
    };
    if relay.port() == 0 {
        return Err(other("it names no port for datagrams"));
    }
    // Two reserved bytes, and no fragments (RFC 1928 §7).
    let mut header = vec![0, 0, 0];
    put_address(&mut header, remote);
    Ok(Association { connection: conversation.into_stream()?, relay, header })
}

/// Agrees on an authentication, and does it.
fn greet(conversation: &mut Conversation, credentials: Option<&ProxyCredentials>) -> io::Result<()> {
    let methods: &[u8] = match credentials {
        None => &[VERSION, 1, NO_AUTHENTICATION],
        Some(_) => &[VERSION, 2, NO_AUTHENTICATION, USERNAME_AND_PASSWORD],
    };
    conversation.write(methods)?;
    let mut chosen = [0; 2];
    conversation.read(&mut chosen)?;
    match (chosen, credentials) {
        ([VERSION, NO_AUTHENTICATION], _) => Ok(()),
        ([VERSION, USERNAME_AND_PASSWORD], Some(credentials)) => log_in(conversation, credentials),
        ([VERSION, NOTHING_ACCEPTABLE], None) => Err(CredentialsWanted::error(false)),
        ([VERSION, _], _) => Err(refused("it asks for an authentication that adit does not have")),
        _ => Err(not_socks()),
    }
}

/// RFC 1929.
fn log_in(conversation: &mut Conversation, credentials: &ProxyCredentials) -> io::Result<()> {
    let mut message = Zeroizing::new(Vec::with_capacity(3 + 2 * usize::from(u8::MAX)));
    message.push(PASSWORD_VERSION);
    for text in [&credentials.username, &credentials.password] {
        let length = u8::try_from(text.len())
            .map_err(|_| other("a username or password of more than 255 bytes cannot be given to it"))?;
        message.push(length);
        message.extend_from_slice(text.as_bytes());
    }
    conversation.write(&message)?;
    let mut verdict = [0; 2];
    conversation.read(&mut verdict)?;
    match verdict {
        [_, 0] => Ok(()),
        _ => Err(CredentialsWanted::error(true)),
    }
}

/// Makes a request, and gives the address of the reply; `None` if that is a name.
fn request(conversation: &mut Conversation, command: u8, target: &[u8]) -> io::Result<Option<SocketAddr>> {
    let mut message = vec![VERSION, command, 0];
    message.extend_from_slice(target);
    conversation.write(&message)?;
    let mut start = [0; 4];
    conversation.read(&mut start)?;
    let [VERSION, outcome, _, kind] = start else { return Err(not_socks()) };
    if outcome != 0 {
        return Err(refused(reason(outcome)));
    }
    let address = match kind {
        IPV4 => {
            let mut address = [0; 4];
            conversation.read(&mut address)?;
            Some(IpAddr::V4(Ipv4Addr::from(address)))
        }
        IPV6 => {
            let mut address = [0; 16];
            conversation.read(&mut address)?;
            Some(IpAddr::V6(Ipv6Addr::from(address)))
        }
        NAME => {
            let mut length = [0];
            conversation.read(&mut length)?;
            conversation.read(&mut vec![0; usize::from(length[0])])?;
            None
        }
        _ => return Err(not_socks()),
    };
    let mut port = [0; 2];
    conversation.read(&mut port)?;
    Ok(address.map(|address| SocketAddr::new(address, u16::from_be_bytes(port))))
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            out.push(IPV4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(IPV6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_be_bytes());
}

/// The replies of RFC 1928 §6.
fn reason(outcome: u8) -> &'static str {
    match outcome {
        2 => "its rules do not allow this connection",
        3 => "it says that the network is unreachable",
        4 => "it says that the host is unreachable",
        5 => "it says that the connection was refused",
        6 => "it says that the connection took too long",
        7 => "it does not have this command (datagrams, for instance: use TCP)",
        8 => "it does not know this kind of address",
        _ => "it says that it failed",
    }
}

fn not_socks() -> io::Error {
    other("what it answers is not SOCKS5")
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn other(why: &str) -> io::Error {
    io::Error::other(why)
}
