//! A DHCP server of one address for the tests (RFC 2131).

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use adit_testbed::Namespace;
use socket2::{Domain, Socket, Type};

/// The fixed part of a message with the cookie.
const FIXED: usize = 240;

/// A server that leases one address, of which there may be another later. It ends with this guard.
pub(super) struct DhcpServer {
    address: Arc<Mutex<Ipv4Addr>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DhcpServer {
    /// A server at 10.9.0.1 on the device `tap0` of a namespace. Leases last eight seconds.
    pub(super) fn start(namespace: &Namespace, address: Ipv4Addr) -> Self {
        let socket = namespace
            .enter(|| {
                let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
                socket.set_broadcast(true).unwrap();
                socket.bind_device(Some(b"tap0")).unwrap();
                let any: std::net::SocketAddr = ([0, 0, 0, 0], 67).into();
                socket.bind(&any.into()).unwrap();
                UdpSocket::from(socket)
            })
            .unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let (address, ends) = (Arc::new(Mutex::new(address)), Arc::new(AtomicBool::new(false)));
        let (leased, ended) = (Arc::clone(&address), Arc::clone(&ends));
        let serve = move || {
            let mut buffer = [0; 1500];
            while !ended.load(Ordering::Relaxed) {
                let Ok(length) = socket.recv(&mut buffer) else { continue };
                let leased = *leased.lock().unwrap();
                if let Some(reply) = reply(&buffer[..length], leased) {
                    let own = Ipv4Addr::from(<[u8; 4]>::try_from(&buffer[12..16]).unwrap());
                    let to = if own.is_unspecified() { Ipv4Addr::BROADCAST } else { own };
                    let _ = socket.send_to(&reply, (to, 68));
                }
            }
        };
        DhcpServer { address, ends, thread: Some(std::thread::spawn(serve)) }
    }

    /// Leases another address from now on, and refuses the one before.
    pub(super) fn lease(&self, address: Ipv4Addr) {
        *self.address.lock().unwrap() = address;
    }
}

impl Drop for DhcpServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The answer to a client: an offer, a lease, or the refusal of another address.
fn reply(question: &[u8], leased: Ipv4Addr) -> Option<Vec<u8>> {
    let options = question.get(FIXED..)?;
    let kind = match (option(options, 53)?, option(options, 50).or_else(|| question.get(12..16))) {
        ([1], _) => 2,
        ([3], Some(address)) if address == leased.octets() => 5,
        ([3], _) => 6,
        _ => return None,
    };
    let mut reply = question[..FIXED].to_vec();
    reply[0] = 2;
    reply[16..20].copy_from_slice(&leased.octets());
    reply.extend_from_slice(&[53, 1, kind, 54, 4, 10, 9, 0, 1, 51, 4, 0, 0, 0, 8, 1, 4, 255, 255, 255, 0]);
    // The router, the name server and the time server.
    reply.extend_from_slice(&[3, 4, 10, 9, 0, 1, 6, 4, 10, 9, 0, 1, 42, 4, 10, 9, 0, 1, 255]);
    Some(reply)
}

fn option(mut options: &[u8], wanted: u8) -> Option<&[u8]> {
    while let [number, length, rest @ ..] = options {
        let (value, behind) = rest.split_at_checked((*length).into())?;
        if *number == wanted {
            return Some(value);
        }
        options = behind;
    }
    None
}
