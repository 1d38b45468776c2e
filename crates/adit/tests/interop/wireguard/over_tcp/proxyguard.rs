//! Both ends of ProxyGuard, as its technical.md describes them and its client.go, server.go and tunnel.go do it. Their
//! requirements on headers are those of the originals. TCP is blocking, and each direction has a thread.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use adit_testbed::Namespace;

/// How often a thread that waits for UDP looks whether its connection has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The client: datagrams to a port of UDP go to a server over TCP, and those of the server come back.
pub(super) struct Client {
    address: SocketAddr,
    tcp: TcpStream,
}

impl Client {
    pub(super) fn start(namespace: &Namespace, server: SocketAddr) -> Self {
        let open = || -> io::Result<(UdpSocket, TcpStream)> {
            Ok((UdpSocket::bind("127.0.0.1:0")?, TcpStream::connect(server)?))
        };
        let (udp, mut tcp) = namespace.enter(open).unwrap().unwrap();
        let headers = "User-Agent: Go-http-client/1.1\r\nConnection: Upgrade\r\nUpgrade: UoTLV/1";
        let request = format!("GET /proxyguard HTTP/1.1\r\nHost: {server}\r\n{headers}\r\n\r\n");
        tcp.write_all(request.as_bytes()).unwrap();
        let answer = head(&mut tcp).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert_eq!([header(&answer, "Connection"), header(&answer, "Upgrade")], ["Upgrade", "UoTLV/1"]);
        let address = udp.local_addr().unwrap();
        let peer = Arc::new(Mutex::new(None));
        let (heard, back) = (Arc::clone(&peer), udp.try_clone().unwrap());
        let ended = carry(
            (udp, tcp.try_clone().unwrap()),
            move |source| *heard.lock().unwrap() = Some(source),
            move |datagram| {
                let peer = *peer.lock().unwrap();
                peer.into_iter().for_each(|peer| drop(back.send_to(datagram, peer)));
            },
        );
        ended.unwrap();
        Client { address, tcp }
    }

    /// Where WireGuard's client is to send.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.tcp.shutdown(Shutdown::Both);
    }
}

/// The server: each connection has a socket of UDP.
pub(super) struct Server(Arc<Mutex<Vec<TcpStream>>>);

impl Server {
    pub(super) fn start(namespace: &Namespace, at: SocketAddr, to: SocketAddr) -> Self {
        let connections = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::downgrade(&connections);
        // Threads stay in the namespace in which they begin.
        let begin = move || -> io::Result<()> {
            let listener = TcpListener::bind(at)?;
            listener.set_nonblocking(true)?;
            thread::spawn(move || {
                while let Some(accepted) = kept.upgrade() {
                    match listener.accept() {
                        Ok((tcp, _)) => accepted.lock().unwrap().extend(accept(tcp, to)),
                        Err(_) => thread::sleep(LOOK_EVERY),
                    }
                }
            });
            Ok(())
        };
        namespace.enter(begin).unwrap().unwrap();
        Server(connections)
    }

    /// Connections that have switched protocols.
    pub(super) fn accepted(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(super) fn close_all(&self) {
        self.0.lock().unwrap().iter().for_each(|tcp| drop(tcp.shutdown(Shutdown::Both)));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close_all();
    }
}

fn accept(mut tcp: TcpStream, to: SocketAddr) -> Option<TcpStream> {
    let request = head(&mut tcp).ok()?;
    let is = |name: &str, value: &str| header(&request, name).eq_ignore_ascii_case(value);
    if !request.starts_with("GET /") || !is("Connection", "Upgrade") || !is("Upgrade", "UoTLV/1") {
        let _ = tcp.write_all(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n");
        return None;
    }
    let headers = "Connection: Upgrade\r\nUpgrade: UoTLV/1\r\nDate: Tue, 24 Nov 2026 23:00:00 GMT";
    tcp.write_all(format!("HTTP/1.1 101 Switching Protocols\r\n{headers}\r\n\r\n").as_bytes()).ok()?;
    let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
    udp.connect(to).ok()?;
    let out = udp.try_clone().ok()?;
    carry((udp, tcp.try_clone().ok()?), |_| (), move |datagram| drop(out.send(datagram))).ok()?;
    Some(tcp)
}

/// Reads up to the end of the headers, and no byte more.
fn head(tcp: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        tcp.read_exact(&mut byte)?;
        head.extend(byte);
    }
    String::from_utf8(head).map_err(io::Error::other)
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(found, _)| *found == name).map_or("", |(_, value)| value)
}

/// Carries datagrams both ways until the connection ends, on threads of their own.
fn carry(
    (udp, mut tcp): (UdpSocket, TcpStream),
    mut heard: impl FnMut(SocketAddr) + Send + 'static,
    send: impl Fn(&[u8]) + Send + 'static,
) -> io::Result<()> {
    let mut records = tcp.try_clone()?;
    udp.set_read_timeout(Some(LOOK_EVERY))?;
    let open = Arc::new(());
    let is_open = Arc::downgrade(&open);
    thread::spawn(move || {
        let _open = open;
        let mut prefix = [0; 2];
        while records.read_exact(&mut prefix).is_ok() {
            let mut datagram = vec![0; u16::from_be_bytes(prefix).into()];
            if records.read_exact(&mut datagram).is_err() {
                return;
            }
            send(&datagram);
        }
    });
    thread::spawn(move || {
        let mut buffer = vec![0; 2 + 65_535];
        while is_open.strong_count() > 0 {
            let Ok((length, from)) = udp.recv_from(&mut buffer[2..]) else { continue };
            heard(from);
            buffer[..2].copy_from_slice(&u16::try_from(length).unwrap().to_be_bytes());
            if tcp.write_all(&buffer[..2 + length]).is_err() {
                return;
            }
        }
    });
    Ok(())
}
