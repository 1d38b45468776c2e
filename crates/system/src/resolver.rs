//! Name resolution by marked datagrams: how a client finds its servers while the tunnel, or the kill switch, keeps the
//! system's resolver from its name servers.
//!
//! The system's resolver may have the tunnel's own name servers, which a dead tunnel does not reach; and its queries
//! have no mark. Queries of this module are for the names of servers alone, and go to the name servers that the system
//! has without the tunnel.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use domain::base::iana::{Class, Rcode};
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::dep::octseq::array::Array;
use domain::rdata::{A, Aaaa};
use rand_core::{OsRng, TryRngCore as _};

use crate::mark;

/// A name of up to 255 bytes (RFC 1035 §2.3.4).
type HostName = Name<Array<255>>;
/// A query.
type Query = Message<Array<512>>;

/// How long one name server has to answer. The whole is bounded by the number of servers.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// Name servers that are asked, as the C library does (resolv.h `MAXNS`).
const MAX_SERVERS: usize = 3;
/// The port of name servers (RFC 1035 §4.2.1).
const PORT: u16 = 53;
/// The longest answer over UDP without EDNS (RFC 1035 §4.2.1); some send more.
const LONGEST: usize = 4096;

/// Name servers, and the mark of the queries that reach them beside the tunnel.
#[derive(Clone, Debug)]
pub struct MarkedServers {
    /// The addresses of the servers.
    pub servers: Vec<IpAddr>,
    /// The firewall mark.
    pub mark: u32,
}

/// How names are resolved.
#[derive(Clone, Debug)]
pub enum Resolving {
    /// By the system's resolver.
    System,
    /// The system's resolver may not reach its name servers, because of the tunnel or the kill switch: these name
    /// servers are asked by marked datagrams as well.
    Marked(MarkedServers),
}

/// The addresses of `host`, by the first of these servers that answers. Empty if it says that there are none.
///
/// # Errors
/// When `host` is no name, or no server answers.
pub fn ask_marked(MarkedServers { servers, mark }: &MarkedServers, host: &str) -> io::Result<Vec<IpAddr>> {
    let name: HostName =
        host.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("{error}")))?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the system names no name server");
    for server in servers.iter().take(MAX_SERVERS) {
        match ask_one(SocketAddr::new(*server, PORT), *mark, &name) {
            Ok(addresses) => return Ok(addresses),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Asks for both families at once.
fn ask_one(server: SocketAddr, mark: u32, name: &HostName) -> io::Result<Vec<IpAddr>> {
    let any: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    mark::set_to(socket.as_fd(), mark)?;
    // Datagrams of other senders are not received.
    socket.connect(server)?;
    let mut open = Vec::new();
    for kind in [Rtype::A, Rtype::AAAA] {
        let query = query(name, kind)?;
        socket.send(query.as_slice())?;
        open.push(query);
    }
    let until = Instant::now() + TIMEOUT;
    let mut found = Vec::new();
    let mut buffer = [0; LONGEST];
    while !open.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        socket.set_read_timeout(Some(left))?;
        let length = match socket.recv(&mut buffer) {
            Ok(length) => length,
            Err(error) if is_timeout(&error) => break,
            Err(error) => return Err(error),
        };
        let bytes = buffer.get(..length).unwrap_or_default();
        if let Some((index, addresses)) = read_answer(bytes, &open)? {
            open.swap_remove(index);
            found.extend(addresses);
        }
    }
    match open.len() {
        0 => Ok(found),
        // One family's answer is better than none.
        1 if !found.is_empty() => Ok(found),
        _ => Err(io::ErrorKind::TimedOut.into()),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn query(name: &HostName, kind: Rtype) -> io::Result<Query> {
    let mut builder = MessageBuilder::from_target(Array::new()).map_err(no_room)?;
    let mut id = [0; 2];
    OsRng.try_fill_bytes(&mut id).map_err(|error| io::Error::other(format!("no randomness: {error}")))?;
    builder.header_mut().set_id(u16::from_ne_bytes(id));
    builder.header_mut().set_rd(true);
    let mut builder = builder.question();
    builder.push((name, kind, Class::IN)).map_err(no_room)?;
    Ok(builder.into_message())
}

fn no_room(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("the query does not fit: {error}"))
}

/// Which of the queries a datagram answers, and the addresses in it. `None` if none.
///
/// # Errors
/// When the server says that it cannot tell.
fn read_answer(bytes: &[u8], open: &[Query]) -> io::Result<Option<(usize, Vec<IpAddr>)>> {
    let Ok(message) = Message::from_octets(bytes) else { return Ok(None) };
    let Some(index) = open.iter().position(|query| message.is_answer(query)) else { return Ok(None) };
    match message.header().rcode() {
        Rcode::NOERROR | Rcode::NXDOMAIN => {}
        other => return Err(io::Error::other(format!("the name server answers {other}"))),
    }
    let mut addresses = Vec::new();
    if let Ok(answer) = message.answer() {
        addresses.extend(answer.limit_to::<A>().flatten().map(|record| IpAddr::V4(record.data().addr())));
    }
    if let Ok(answer) = message.answer() {
        addresses.extend(answer.limit_to::<Aaaa>().flatten().map(|record| IpAddr::V6(record.data().addr())));
    }
    Ok(Some((index, addresses)))
}

/// Reads a datagram as the answer to questions for both families, which have its id. Gives how many addresses it has.
///
/// # Panics
///
/// If it has more than there is room for.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_any_answer(bytes: &[u8]) -> usize {
    let Ok(name) = "two.example".parse() else { return 0 };
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    let with_id = |mut query: Query| {
        query.header_mut().set_id(id);
        query
    };
    let open: Vec<_> =
        [Rtype::A, Rtype::AAAA].into_iter().flat_map(|kind| query(&name, kind)).map(with_id).collect();
    let Ok(Some((index, addresses))) = read_answer(bytes, &open) else { return 0 };
    // A name of two bytes at least, type, class, lifetime, length and an address (RFC 1035 §4.1.3).
    assert!(index < 2 && addresses.len() * 16 <= bytes.len(), "{addresses:?}");
    addresses.len()
}

#[cfg(test)]
mod tests {
    use domain::base::iana::Rcode;
    use proptest::prelude::*;

    use super::*;

    fn marked(servers: &[&str]) -> MarkedServers {
        let servers = servers.iter().map(|server| server.parse().unwrap()).collect();
        MarkedServers { servers, mark: mark::MARK }
    }

    fn name() -> HostName {
        "two.example".parse().unwrap()
    }

    /// A server's answer to `query`.
    fn answer(query: &Query, rcode: Rcode, addresses: &[[u8; 4]]) -> Vec<u8> {
        let builder = MessageBuilder::from_target(Array::<512>::new()).unwrap();
        let mut builder = builder.start_answer(query, rcode).unwrap();
        for address in addresses {
            let [a, b, c, d] = *address;
            builder.push((name(), 60, A::from_octets(a, b, c, d))).unwrap();
        }
        builder.finish().as_ref().to_vec()
    }

    #[test]
    fn a_response_is_taken_for_its_query_alone() {
        let open = [query(&name(), Rtype::A).unwrap(), query(&name(), Rtype::AAAA).unwrap()];
        let bytes = answer(&open[0], Rcode::NOERROR, &[[192, 0, 2, 1], [192, 0, 2, 2]]);
        let (index, addresses) = read_answer(&bytes, &open).unwrap().unwrap();
        assert_eq!((index, addresses.len(), read_any_answer(&bytes)), (0, 2, 2));
        let mut other = bytes.clone();
        other[0] ^= 1;
        assert_eq!(read_answer(&other, &open).unwrap(), None, "another id");
        let other = query(&"evil.example".parse().unwrap(), Rtype::A).unwrap();
        assert_eq!(read_answer(&answer(&other, Rcode::NOERROR, &[]), &open).unwrap(), None);
        let none = answer(&open[1], Rcode::NXDOMAIN, &[]);
        assert_eq!(read_answer(&none, &open).unwrap(), Some((1, Vec::new())));
        assert!(read_answer(&answer(&open[1], Rcode::SERVFAIL, &[]), &open).is_err());
        assert_eq!(read_answer(&bytes[..11], &open).unwrap(), None);
    }

    #[test]
    fn what_is_no_name_is_not_asked_for() {
        let error = ask_marked(&marked(&["127.0.0.1"]), "no..name").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(ask_marked(&marked(&[]), "a.example").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    proptest! {
        #[test]
        fn anything_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..80_usize) {
            let open = [query(&name(), Rtype::A).unwrap()];
            let _ = read_answer(&bytes, &open);
            let mut genuine = answer(&open[0], Rcode::NOERROR, &[[192, 0, 2, 1]]);
            genuine.truncate(genuine.len().saturating_sub(cut));
            genuine.extend_from_slice(&bytes);
            let _ = read_answer(&genuine, &open);
        }
    }
}
