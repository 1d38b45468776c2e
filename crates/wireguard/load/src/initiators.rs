//! Initiators, each of one handshake, and the initiations that attackers forge or replay.
//!
//! The keys of the initiators follow from their numbers, so that a server can be configured with them before they begin.

use std::net::SocketAddr;
use std::time::SystemTime;

use adit_core::{Command, Instant, Path, Protocol as _};
use adit_load::{Kind, LoadError, SERIES, seed};
use adit_wireguard::{
    Changes, Interface, KEY_LEN, Params, PeerChange, PrivateKey, PublicKey, Sockets, WallClock,
};

/// The socket of an initiator, by the number that its machine knows it by.
const SOCKET: u32 = 0;
/// Initiators with numbers from here on are attackers: no server is configured with their keys.
const UNKNOWN_KEYS: u32 = 1 << 31;
/// mac1 and mac2, at the end of an initiation.
const MACS: usize = 32;
/// mac2 alone.
const MAC2: usize = 16;

/// The key of the server at which a load is aimed, written in 64 hexadecimal digits.
///
/// # Errors
/// The text is no key.
pub fn server_key(text: &str) -> Result<PublicKey, String> {
    let refused = || format!("{} hexadecimal digits are a key", 2 * KEY_LEN);
    if text.len() != 2 * KEY_LEN || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(refused());
    }
    let mut key = [0; KEY_LEN];
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| refused())?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| refused())?;
    }
    Ok(PublicKey(key))
}

/// The public keys of the first `count` initiators.
///
/// # Errors
/// An initiator cannot be made.
pub fn public_keys(count: u32) -> Result<Vec<PublicKey>, LoadError> {
    let key = |number| {
        let initiator = Initiator::new(number, None, Instant::ORIGIN)?;
        initiator.machine.public_key().ok_or_else(|| initiator_fault("it has no key"))
    };
    (0..count).map(key).collect()
}

/// The kinds of initiations that attackers send to the server with this key, each from many keys.
///
/// Those that are replayed are of the first initiators, which the server knows: it answers each of them once.
///
/// # Errors
/// The server's key is one that no agreement is possible with.
pub fn initiations(server: PublicKey) -> Result<Vec<Kind>, LoadError> {
    let of = |first: u32| -> Result<Vec<Vec<u8>>, LoadError> {
        let server = (server, SocketAddr::from(([192, 0, 2, 1], 1)));
        let make =
            |number| Initiator::new(first + number, Some(server), Instant::ORIGIN)?.initiate(Instant::ORIGIN);
        (0..SERIES).map(make).collect()
    };
    let unknown = of(UNKNOWN_KEYS)?;
    let with_end = |length: usize, byte: u8| -> Vec<Vec<u8>> {
        let replaced = |datagram: &Vec<u8>| -> Vec<u8> {
            let kept = datagram.len().saturating_sub(length);
            let end = std::iter::repeat_n(byte, length);
            datagram.iter().copied().take(kept).chain(end).collect()
        };
        unknown.iter().map(replaced).collect()
    };
    Ok(vec![
        Kind { name: "no mac1", datagrams: with_end(MACS, 0) },
        Kind { name: "mac1 right, cookie wrong", datagrams: with_end(MAC2, 0x55) },
        Kind { name: "mac1 right, cookie missing", datagrams: unknown },
        Kind { name: "replayed", datagrams: of(0)? },
    ])
}

/// A machine that initiates one handshake.
pub(crate) struct Initiator {
    machine: Interface,
    server: Option<PublicKey>,
}

impl Initiator {
    /// The initiator with this number, without or with a server.
    pub(crate) fn new(
        number: u32,
        server: Option<(PublicKey, SocketAddr)>,
        now: Instant,
    ) -> Result<Initiator, LoadError> {
        let mut key = [0x5a; KEY_LEN];
        key[8..12].copy_from_slice(&number.to_be_bytes());
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let peer = |(key, endpoint)| PeerChange { endpoint: Some(endpoint), ..PeerChange::new(key) };
        let params = Params {
            sockets: Sockets { port: 1, ipv4: Some(SOCKET), ipv6: Some(SOCKET) },
            configuration: Changes {
                private_key: Some(PrivateKey::new(key)),
                peers: server.map(peer).into_iter().collect(),
                ..Changes::default()
            },
            ..Params::new(WallClock { at: now, since_1970 })
        };
        let machine = Interface::new(params, now, seed()).map_err(initiator_fault)?;
        Ok(Initiator { machine, server: server.map(|(key, _)| key) })
    }

    /// Its initiation.
    pub(crate) fn initiate(&mut self, now: Instant) -> Result<Vec<u8>, LoadError> {
        let peer = self.server.and_then(|key| self.machine.peer_id(&key));
        let peer = peer.ok_or_else(|| initiator_fault("it has no server"))?;
        self.machine.handle_command(now, Command::Rekey { peer });
        let mut datagram = Vec::new();
        match self.machine.poll_transmit(&mut datagram) {
            Some(_) => Ok(datagram),
            None => Err(initiator_fault("it cannot agree with the server's key")),
        }
    }

    /// Whether that is the right response.
    pub(crate) fn takes(&mut self, now: Instant, server: SocketAddr, response: &[u8]) -> bool {
        let path = Path::Udp { socket: SOCKET, remote: server };
        self.machine.handle_datagram(now, path, response).is_ok()
    }
}

fn initiator_fault<E: std::fmt::Display>(error: E) -> LoadError {
    LoadError::key("an initiator of handshakes")(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_wireguard::wire::{INITIATION_LEN, Message};

    fn server() -> (Interface, PublicKey) {
        let mut params = Params::new(WallClock {
            at: Instant::ORIGIN,
            since_1970: SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
        });
        params.configuration = Changes {
            private_key: Some(PrivateKey::new([9; 32])),
            peers: public_keys(SERIES).unwrap().into_iter().map(PeerChange::new).collect(),
            ..Changes::default()
        };
        let server = Interface::new(params, Instant::ORIGIN, [1; 32]).unwrap();
        let key = server.public_key().unwrap();
        (server, key)
    }

    #[test]
    fn a_key_is_read() {
        assert_eq!(server_key(&"0f".repeat(32)), Ok(PublicKey([15; 32])));
        for wrong in ["", "0f", &"0g".repeat(32), &"+f".repeat(32), &"0f".repeat(33)] {
            assert!(server_key(wrong).is_err(), "{wrong}");
        }
    }

    /// Each kind is refused at the place that it is meant for.
    #[test]
    fn a_server_refuses_each_kind_for_its_own_reason() {
        let (mut server, key) = server();
        let path = Path::Udp { socket: 0, remote: ([192, 0, 2, 9], 9).into() };
        let mut taken = Vec::new();
        for kind in initiations(key).unwrap() {
            let mut different = kind.datagrams.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), SERIES as usize, "{}", kind.name);
            assert!(kind.datagrams.iter().all(|datagram| datagram.len() == INITIATION_LEN));
            let first = &kind.datagrams[0];
            assert!(matches!(Message::parse(first), Ok(Message::Initiation(_))));
            let once = server.handle_datagram(Instant::ORIGIN, path, first);
            let again = server.handle_datagram(Instant::ORIGIN, path, first);
            taken.push((kind.name, format!("{once:?}"), format!("{again:?}")));
        }
        let reasons: Vec<&str> = taken.iter().map(|(_, once, _)| once.as_str()).collect();
        assert!(reasons[0].contains("mac1"), "{taken:?}");
        assert!(reasons[1].contains("no peer has") && reasons[2].contains("no peer has"), "{taken:?}");
        assert_eq!(reasons[3], "Ok(())", "{taken:?}");
        assert!(taken[3].2.contains("Replayed"), "{taken:?}");
    }

    #[test]
    fn an_initiator_takes_the_response() {
        let (mut server, key) = server();
        let address = SocketAddr::from(([192, 0, 2, 1], 1194));
        let mut initiator = Initiator::new(7, Some((key, address)), Instant::ORIGIN).unwrap();
        let initiation = initiator.initiate(Instant::ORIGIN).unwrap();
        let path = Path::Udp { socket: 0, remote: ([192, 0, 2, 9], 9).into() };
        server.handle_datagram(Instant::ORIGIN, path, &initiation).unwrap();
        let mut response = Vec::new();
        server.poll_transmit(&mut response).unwrap();
        assert!(initiator.takes(Instant::ORIGIN, address, &response));
        assert!(!initiator.takes(Instant::ORIGIN, address, &response), "it was taken");
    }
}
