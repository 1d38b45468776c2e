//! A client with valid keys whose data packets come from two ports in turns.

use std::convert::Infallible;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime};

use adit_core::{Cipher, Command, Drive, Instant, Path, PeerId, Protocol as _, Transport, UnixTime, drive};
use adit_dataplane::{Config, Egress, Ingress, MergePolicy, ReceiveBatch, TransmitBatch, split};
use adit_load::Counters;
use adit_openvpn::data_message::PING;
use adit_openvpn::params::{ClientParams, ControlParams, DataParams, RemoteParams};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{Client, TlsConfig};

/// Packets that are sent before the sockets and timers are looked at again.
const BATCH: u64 = 32;
/// How long the thread waits when nothing is due.
const BEAT: Duration = Duration::from_micros(500);

/// The client, its data plane, and its two sockets.
struct Roamer {
    start: std::time::Instant,
    client: Client,
    egress: Egress,
    ingress: Ingress,
    receive_batch: ReceiveBatch,
    transmit_batch: TransmitBatch,
    path: Path,
    sockets: [UdpSocket; 2],
    up: bool,
}

/// Lets one client connect and then alternates its ports, `rate` packets a second, until `counters` say stop.
///
/// Runs in the calling thread.
pub(super) fn run(
    counters: &Counters,
    target: SocketAddr,
    wrap: WrapConfig,
    tls: TlsConfig,
    rate: u32,
) -> std::io::Result<()> {
    let mut roamer = Roamer::new(target, wrap, tls)?;
    let (mut since, mut sent) = (std::time::Instant::now(), 0_u64);
    roamer.follow();
    while !counters.is_stopped() {
        roamer.receive();
        roamer.tick();
        if !roamer.up {
            (since, sent) = (std::time::Instant::now(), 0);
            std::thread::sleep(BEAT);
            continue;
        }
        let due = (since.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        let count = due.saturating_sub(sent).min(BATCH);
        for _ in 0..count {
            roamer.send_ping(sent);
            sent += 1;
        }
        counters.add_begun(count);
        counters.add_done(count);
        if count == 0 {
            std::thread::sleep(BEAT);
        }
    }
    Ok(())
}

impl Roamer {
    fn new(target: SocketAddr, wrap: WrapConfig, tls: TlsConfig) -> std::io::Result<Roamer> {
        let open = || -> std::io::Result<UdpSocket> {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(target)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let control = ControlParams::new(wrap, tls, UnixTime(wall.as_secs()));
        let data = DataParams { ciphers: vec![Cipher::Aes256Gcm], ..DataParams::default() };
        let remote = RemoteParams::new("the server".to_owned(), Transport::Udp);
        let params = ClientParams { data, ..ClientParams::new(control, vec![remote]) };
        let (egress, ingress, _) = adit_dataplane::new(Config::new(adit_openvpn_codec::Client));
        // It protects nothing: the time is random enough.
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(&wall.as_nanos().to_be_bytes());
        Ok(Roamer {
            start: std::time::Instant::now(),
            client: Client::new(params, Instant::ORIGIN, seed),
            egress,
            ingress,
            receive_batch: ReceiveBatch::new(MergePolicy::Off),
            transmit_batch: TransmitBatch::new(),
            path: Path::Udp { socket: 0, remote: target },
            sockets: [open()?, open()?],
            up: false,
        })
    }

    fn now(&self) -> Instant {
        Instant::ORIGIN + self.start.elapsed()
    }

    /// The server's control packets go to where it last saw the client, which is either socket.
    fn receive(&mut self) {
        let mut buffer = [0; 2048];
        for index in 0..self.sockets.len() {
            let now = self.now();
            let Some(socket) = self.sockets.get(index) else { return };
            let Ok(length) = socket.recv(&mut buffer) else { continue };
            let Some(bytes) = buffer.get_mut(..length) else { continue };
            self.ingress.open_datagrams(self.path, bytes, 0, &mut self.receive_batch);
            for (path, range) in self.receive_batch.control() {
                if let Some(datagram) = bytes.get(range.clone()) {
                    let _ = self.client.handle_datagram(now, *path, datagram);
                }
            }
            for notice in self.receive_batch.notices().drain(..) {
                self.client.handle_notice(now, notice);
            }
            self.receive_batch.clear();
            self.follow();
        }
    }

    fn tick(&mut self) {
        let now = self.now();
        if self.client.poll_timeout().is_some_and(|at| at <= now) {
            self.client.handle_timeout(now);
            self.follow();
        }
    }

    fn send_ping(&mut self, number: u64) {
        let ping = DataEvent::Inject { peer: PeerId::SERVER, payload: PING.to_vec() };
        self.apply(ping);
        self.send_data((number % 2) as usize);
    }

    fn apply(&mut self, order: DataEvent) {
        let (egress, ingress) = split(order, adit_openvpn_codec::session);
        if let Some(order) = ingress {
            self.ingress.apply(order);
        }
        if let Some(order) = egress {
            self.egress.apply(order, &mut self.transmit_batch);
        }
    }

    fn send_data(&mut self, index: usize) {
        let Some(socket) = self.sockets.get(index) else { return };
        for batch in self.transmit_batch.iter() {
            for datagram in batch.bytes.chunks(batch.segment.max(1)) {
                let _ = socket.send(datagram);
            }
        }
        self.transmit_batch.clear();
    }

    /// Carries out the client's events.
    fn follow(&mut self) {
        let Ok(()) = drive(self, &mut Vec::new());
        self.send_data(0);
    }
}

impl Drive for Roamer {
    type Protocol = Client;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Client {
        &mut self.client
    }

    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        match event {
            Event::Data(order) => self.apply(order),
            Event::Open { .. } => {
                let now = self.now();
                self.client.handle_command(now, Command::Opened { path: self.path });
            }
            Event::Up(_) => self.up = true,
            Event::Down => self.up = false,
            _ => {}
        }
        Ok(())
    }

    fn transmit(&mut self, _: Path, datagram: &[u8]) -> Result<(), Infallible> {
        if let Some(socket) = self.sockets.first() {
            let _ = socket.send(datagram);
        }
        Ok(())
    }
}
