//! A client and a server joined in memory, without loss: the smallest network there is.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test support; each test file uses its part"
)]

pub mod judged;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use adit_core::{
    Cipher, Command, ConnectionId, Drive, Instant, Notice, Path, PeerId, Protocol, SessionLimits, Transport,
    UnixTime, drive,
};
use adit_openvpn::access::AccessParams;
use adit_openvpn::credentials::{Credentials, TlsEnvironment, client_tls, server_tls};
use adit_openvpn::params::{
    AdmissionParams, ClientParams, ControlParams, DataParams, ExitNotify, Keepalive, PerClientParams,
    RemoteParams, ServerParams,
};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::{Client, PeerRequirements, Server, TlsConfig};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
};
use rustls::pki_types::UnixTime as PkiTime;
use rustls::time_provider::TimeProvider;

/// 2026-01-01, inside the certificates' validity.
pub const WALL: u64 = 1_767_225_600;

#[derive(Debug)]
struct FixedTime(u64);

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<PkiTime> {
        Some(PkiTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

pub fn environment() -> TlsEnvironment {
    TlsEnvironment::new(Arc::new(FixedTime(WALL)))
}

/// The serial number of a name's certificate.
pub fn serial(name: &str) -> u64 {
    name.bytes().fold(1 << 62, |number, byte| number ^ (number << 5) ^ u64::from(byte)) >> 1
}

/// One authority and what it signs.
pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { params, key, pem }
    }

    pub fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> Credentials {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        params.serial_number = Some(SerialNumber::from(serial(name)));
        self.sign(params)
    }

    /// A list that revokes these serial numbers, good until the end of that year.
    pub fn revoke(&self, serials: &[u64], until: i32) -> Vec<u8> {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: rcgen::date_time_ymd(2025, 6, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2025, 6, 1),
            next_update: rcgen::date_time_ymd(until, 12, 31),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let issuer = Issuer::from_params(&self.params, &self.key);
        list.signed_by(&issuer).unwrap().pem().unwrap().into_bytes()
    }

    pub fn sign(&self, params: CertificateParams) -> Credentials {
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Credentials {
            ca: self.pem.clone().into_bytes(),
            certificate: certificate.pem().into_bytes(),
            private_key: key.serialize_pem().into_bytes().into(),
        }
    }
}

pub fn requirements() -> PeerRequirements {
    PeerRequirements { require_usage: true, ..PeerRequirements::default() }
}

pub fn client_params(credentials: &Credentials, wrap: WrapConfig, transport: Transport) -> ClientParams {
    let tls = client_tls(credentials, requirements(), &environment()).unwrap();
    let control = ControlParams::new(wrap, TlsConfig::Client(tls), UnixTime(WALL));
    let remote = RemoteParams { exit_notify: true, ..RemoteParams::new("server".to_owned(), transport) };
    ClientParams::new(control, vec![remote])
}

pub fn server_params(credentials: &Credentials, wrap: WrapConfig) -> ServerParams {
    let tls = server_tls(credentials, requirements(), &environment()).unwrap();
    let push = [
        "route 10.20.0.0 255.255.0.0",
        "route-gateway 10.8.0.1",
        "topology subnet",
        "ping 10",
        "ping-restart 60",
    ];
    ServerParams {
        control: ControlParams::new(wrap, TlsConfig::Server(tls), UnixTime(WALL)),
        data: DataParams::default(),
        address4: Some("10.8.0.1/24".parse().unwrap()),
        pool4: Some(("10.8.0.2".parse().unwrap(), "10.8.0.254".parse().unwrap())),
        address6: Some("fd00:8::1/64".parse().unwrap()),
        pool6: Some("fd00:8::1000/64".parse().unwrap()),
        push: push.map(str::to_owned).to_vec(),
        routes: Vec::new(),
        keepalive: Keepalive {
            ping: Some(Duration::from_secs(10)),
            timeout: Some(Duration::from_secs(120)),
            exit: false,
        },
        limits: SessionLimits::default(),
        client_to_client: false,
        duplicate_cn: false,
        max_clients: 100,
        exit_notify: ExitNotify::Restart,
        per_client: PerClientParams::default(),
        access: AccessParams::default(),
        admission: AdmissionParams::default(),
        point: None,
    }
}

/// Whether the data plane may follow the peer by itself.
pub fn roams(events: &[Event]) -> Option<bool> {
    events.iter().find_map(|event| match event {
        Event::Data(DataEvent::AddPeer(config)) => Some(config.roams),
        _ => None,
    })
}

/// How much has passed so far between an end and that peer: packets and bytes, received and sent. No messages.
pub fn traffic(peer: PeerId, packets: (u64, u64), bytes: (u64, u64)) -> Notice {
    Notice::Traffic {
        peer,
        received: packets.0,
        sent: packets.1,
        received_bytes: bytes.0,
        sent_bytes: bytes.1,
        message_bytes: 0,
    }
}

/// The client of a pair while it is drained.
struct ClientEnd<'a> {
    pair: &'a mut Pair,
    datagrams: VecDeque<Vec<u8>>,
}

impl Drive for ClientEnd<'_> {
    type Protocol = Client;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Client {
        &mut self.pair.client
    }

    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        let pair = &mut *self.pair;
        if let Event::Open { .. } = event {
            pair.connections += 1;
            let path = pair.server_path();
            pair.client.handle_command(pair.now, Command::Opened { path });
            if pair.transport == Transport::Tcp {
                let path = pair.client_path();
                pair.server.handle_command(pair.now, Command::Opened { path });
            }
        }
        if let (Event::Up(_), Some(reason)) = (&event, pair.refusal) {
            pair.client.handle_command(pair.now, Command::NotUp { reason: reason.to_owned() });
        }
        pair.client_events.push(event);
        Ok(())
    }

    fn transmit(&mut self, _: Path, datagram: &[u8]) -> Result<(), Infallible> {
        self.datagrams.push_back(datagram.to_vec());
        Ok(())
    }
}

/// The server of a pair while it is drained.
struct ServerEnd<'a> {
    pair: &'a mut Pair,
    datagrams: VecDeque<Vec<u8>>,
}

impl Drive for ServerEnd<'_> {
    type Protocol = Server;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Server {
        &mut self.pair.server
    }

    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        self.pair.server_events.push(event);
        Ok(())
    }

    fn transmit(&mut self, _: Path, datagram: &[u8]) -> Result<(), Infallible> {
        self.datagrams.push_back(datagram.to_vec());
        Ok(())
    }
}

/// Both ends and the wire between them.
pub struct Pair {
    pub client: Client,
    pub server: Server,
    pub now: Instant,
    pub client_events: Vec<Event>,
    pub server_events: Vec<Event>,
    transport: Transport,
    connections: u32,
    /// The server hears nothing.
    pub cut: bool,
    /// Why the client's system refuses the settings of the tunnel.
    pub refusal: Option<&'static str>,
}

impl Pair {
    pub fn new(client: ClientParams, server: ServerParams) -> Self {
        Pair::starting(client, server, None)
    }

    /// The client's system refuses the settings of the tunnel for that reason.
    pub fn refusing(client: ClientParams, server: ServerParams, reason: &'static str) -> Self {
        Pair::starting(client, server, Some(reason))
    }

    fn starting(client: ClientParams, server: ServerParams, refusal: Option<&'static str>) -> Self {
        let transport = client.remotes[0].transport;
        let now = Instant::ORIGIN + Duration::from_secs(1);
        let mut pair = Pair {
            client: Client::new(client, now, [1; 32]),
            server: Server::new(server, now, [2; 32]),
            now,
            client_events: Vec::new(),
            server_events: Vec::new(),
            transport,
            connections: 0,
            cut: false,
            refusal,
        };
        pair.exchange();
        pair
    }

    /// The server's name for the client's path.
    pub fn client_path(&self) -> Path {
        let port = 40_000 + u16::try_from(self.connections).unwrap();
        self.path(([192, 0, 2, 2], port).into())
    }

    pub fn server_path(&self) -> Path {
        self.path(([192, 0, 2, 1], 1194).into())
    }

    fn path(&self, remote: std::net::SocketAddr) -> Path {
        match self.transport {
            Transport::Udp => Path::Udp { socket: self.connections, remote },
            Transport::Tcp => Path::Tcp { connection: ConnectionId(self.connections), remote },
        }
    }

    /// Delivers everything until both are silent.
    pub fn exchange(&mut self) {
        loop {
            let to_server = self.drain_client();
            let to_client = self.drain_server();
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
            if self.cut {
                continue;
            }
            for datagram in to_server {
                let _ = self.server.handle_datagram(self.now, self.client_path(), &datagram);
            }
            for datagram in to_client {
                let _ = self.client.handle_datagram(self.now, self.server_path(), &datagram);
            }
        }
    }

    fn drain_client(&mut self) -> VecDeque<Vec<u8>> {
        let mut end = ClientEnd { pair: self, datagrams: VecDeque::new() };
        let Ok(()) = drive(&mut end, &mut Vec::new());
        end.datagrams
    }

    fn drain_server(&mut self) -> VecDeque<Vec<u8>> {
        let mut end = ServerEnd { pair: self, datagrams: VecDeque::new() };
        let Ok(()) = drive(&mut end, &mut Vec::new());
        end.datagrams
    }

    /// Lets time pass, waking both ends when they ask for it.
    pub fn advance(&mut self, time: Duration) {
        let end = self.now + time;
        let mut wakeups = 0;
        loop {
            wakeups += 1;
            assert!(
                wakeups < 10_000,
                "woken again and again: {:?} {:?}",
                self.client.poll_timeout(),
                self.server.poll_timeout()
            );
            let next = [self.client.poll_timeout(), self.server.poll_timeout()].into_iter().flatten().min();
            match next {
                Some(at) if at <= end => self.now = self.now.max(at),
                _ => break,
            }
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
            self.exchange();
        }
        self.now = end;
    }

    /// Lets time pass while packets flow both ways.
    pub fn advance_busy(&mut self, time: Duration) {
        self.advance_with_traffic(time, false);
    }

    /// Lets time pass while only pings flow both ways.
    pub fn advance_pinging(&mut self, time: Duration) {
        self.advance_with_traffic(time, true);
    }

    fn advance_with_traffic(&mut self, time: Duration, messages: bool) {
        for second in 0..time.as_secs() {
            self.advance(Duration::from_secs(1));
            let count = second + 1;
            let traffic = |peer| Notice::Traffic {
                peer,
                received: count,
                sent: count,
                received_bytes: count,
                sent_bytes: count,
                message_bytes: if messages { 2 * count } else { 0 },
            };
            self.client.handle_notice(self.now, traffic(PeerId::SERVER));
            self.server.handle_notice(self.now, traffic(PeerId(0)));
            self.exchange();
        }
    }

    pub fn is_up(&self) -> bool {
        self.client.peers().len() == 1 && self.server.peers().len() == 1
    }

    pub fn cipher(&self) -> Option<Cipher> {
        self.client.peers().first().map(|(_, info)| info.cipher)
    }
}
