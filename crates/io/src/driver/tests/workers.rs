//! A server with two workers: every client reaches it, whichever worker serves it and wherever the kernel
//! brings its datagrams.

use std::collections::BTreeMap;

use adit_dataplane::Snapshot;

use super::*;

/// Its clients say hello with `[CONTROL, number, header]`.
pub(super) struct Many {
    events: VecDeque<Event>,
    transmits: VecDeque<(Path, Vec<u8>)>,
    /// Added to the number of a client, it makes its inner address.
    shift: u8,
    /// Receives the data plane's notices.
    heard: Option<Sender<Notice>>,
}

impl Many {
    pub(super) fn new(shift: u8, heard: Option<Sender<Notice>>) -> Self {
        let addresses = vec!["10.9.0.1/24".parse().unwrap()];
        let up = Event::Up(TunnelSettings { addresses, mtu: 1400, ..TunnelSettings::default() });
        Many { events: [up].into(), transmits: VecDeque::new(), shift, heard }
    }
}

/// How a client marks its data, as [`Header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    Number,
    NoNumber,
    Bare,
}

/// Every client: its number, which worker serves it, and its marks.
const CLIENTS: [(u8, Marks); 6] = [
    (0, Marks::Number),
    (1, Marks::Number),
    (2, Marks::NoNumber),
    (3, Marks::NoNumber),
    (4, Marks::Bare),
    (5, Marks::Bare),
];

pub(super) fn inner(number: u8) -> [u8; 4] {
    [10, 9, 0, 10 + number]
}

/// The sessions of client `number`, as it or the server has them.
pub(super) fn session(role: Role, number: u8, marks: Marks, path: Path, shift: u8) -> [DataEvent<Codec>; 3] {
    let peer = if role == Role::Server { PeerId(number.into()) } else { PeerId::SERVER };
    let header = match (marks, role) {
        (Marks::Bare, _) => Header::Bare,
        (Marks::NoNumber, Role::Client) => Header::NoNumber,
        _ => Header::Number(number.into()),
    };
    let (up, down) = (number, 0x80 | number);
    let (seal, open) = if role == Role::Client { (up, down) } else { (down, up) };
    let routes = match role {
        Role::Client => vec!["0.0.0.0/0".parse().unwrap()],
        Role::Server => vec![IpNet::from(IpAddr::from(inner(shift + number)))],
    };
    let session = session_id(peer);
    let codec = Codec { header, seal, open };
    [
        DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer,
            path: Some(path),
            routes,
            selectors: Default::default(),
            max_mss: None,
            roams: true,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })),
        DataEvent::Install(Box::new(Install::new(peer, session, codec))),
        DataEvent::Activate { peer, session },
    ]
}

impl Protocol for Many {
    type Request = ();
    type Reply = ();
    type Detail = ();
    type Codec = Codec;

    fn handle_datagram(&mut self, _now: Instant, path: Path, datagram: &[u8]) -> Result<(), Rejected> {
        let [_, number, marks] = *datagram else { return Err(Rejected::Malformed("no hello")) };
        let marks = [Marks::Number, Marks::NoNumber, Marks::Bare][usize::from(marks)];
        let session = session(Role::Server, number, marks, path, self.shift);
        self.events.extend(session.into_iter().map(Event::Data));
        self.transmits.push_back((path, vec![CONTROL, b'!']));
        Ok(())
    }

    fn handle_command(&mut self, _now: Instant, command: Command) {
        if command == Command::Shutdown {
            self.events.push_back(Event::Ended(Ended::Shutdown));
        }
    }

    fn handle_reply(&mut self, _now: Instant, (): ()) {}

    fn handle_notice(&mut self, _now: Instant, notice: Notice) {
        if let Some(heard) = &self.heard {
            let _ = heard.send(notice);
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        let (path, datagram) = self.transmits.pop_front()?;
        buf.extend_from_slice(&datagram);
        Some(path)
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn peers(&self) -> Vec<(PeerId, PeerInfo<()>)> {
        Vec::new()
    }

    fn tables(&self) -> Vec<TableUsage> {
        Vec::new()
    }
}

/// A client without a driver.
struct Client {
    number: u8,
    socket: UdpSocket,
    peer: Peer,
    path: Path,
}

impl Client {
    /// Says hello until the server answers.
    fn connect(server: SocketAddr, number: u8, marks: Marks) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.connect(server).unwrap();
        socket.send(&[CONTROL, number, marks as u8]).unwrap();
        let mut answer = [0; 10];
        assert_eq!(socket.recv(&mut answer).unwrap(), 2);
        let path = Path::Udp { socket: 0, remote: server };
        let (egress, ingress, _) = adit_dataplane::new(config(Role::Client).dataplane);
        let mut peer = Peer { egress, ingress, transmit_batch: TransmitBatch::new() };
        for event in session(Role::Client, number, marks, path, 0) {
            let (out, into) = split(event, make_codec);
            out.into_iter().for_each(|event| peer.egress.apply(event, &mut peer.transmit_batch));
            into.into_iter().for_each(|event| peer.ingress.apply(event));
        }
        Client { number, socket, peer, path }
    }

    fn send(&mut self, to: [u8; 4], payload: &[u8]) {
        let sealed = self.peer.seal(&udp_packet(inner(self.number), to, payload));
        self.socket.send(&sealed).unwrap();
    }

    /// The payload of the next UDP packet that comes to it.
    fn receive(&mut self) -> Vec<u8> {
        let mut buffer = [0; 2000];
        loop {
            let length = self.socket.recv(&mut buffer).unwrap();
            if let Some(packet) = self.peer.open(self.path, &mut buffer[..length]) {
                return packet[28..].to_vec();
            }
        }
    }
}

/// A packet from port 7 to port 5000, without a UDP checksum.
pub(super) fn udp_packet(from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = |headers: usize| u16::try_from(headers + payload.len()).unwrap().to_be_bytes();
    let [total, udp] = [length(28), length(8)];
    let mut header = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0];
    header.extend(from);
    header.extend(to);
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap();
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    [&header[..], &[0, 7, 0x13, 0x88, udp[0], udp[1], 0, 0], payload].concat()
}

pub(super) fn look(handle: &Handle<Many>) -> (Snapshot, IoStatus) {
    let (tell, told) = channel();
    handle.inspect(Box::new(move |_, snapshot, status| {
        let _ = tell.send((snapshot.clone(), status.clone()));
    }));
    told.recv_timeout(TIMEOUT).unwrap()
}

#[test]
fn two_workers_serve_all_clients() {
    in_fresh_network(|| {
        let mut config = server_config(Transport::Udp, "127.0.0.1:0");
        config.workers = 2;
        config.dataplane.client_to_client = true;
        let driver = Driver::new(config, make_codec).unwrap();
        let (handle, server) = (driver.handle(), driver.local_addresses()[0]);
        let protocol = Many::new(0, None);
        let (heard, log) = channel();
        let thread = thread::spawn(move || driver.run(protocol, &mut Log(heard)));
        let up = |heard| matches!(heard, Heard::Event(word) if word.starts_with("up"));
        assert!((0..10).any(|_| up(log.recv_timeout(TIMEOUT).unwrap())));

        let mut clients: Vec<Client> =
            CLIENTS.into_iter().map(|(number, marks)| Client::connect(server, number, marks)).collect();
        through_the_device(&mut clients);
        to_each_other(&mut clients);

        let (snapshot, status) = look(&handle);
        let by_peer: BTreeMap<u32, u64> =
            snapshot.peers.iter().map(|peer| (peer.peer.0, peer.packets_received)).collect();
        // 20 packets to the device and one to each other client.
        assert_eq!(by_peer, (0..6).map(|number| (number, 25)).collect());
        assert_eq!(status.losses, Losses::default());
        let [even, odd] = status.workers[..] else { panic!("{status:?}") };
        // 1 and 3; the datagrams of a client without numbers arrive at the first worker, which therefore serves it.
        assert_eq!((even.peers, odd.peers), (4, 2));
        assert_eq!((even.packets_received, odd.packets_received), (100, 50));
        // All that client 2 sends comes to the second worker, and is served by the first.
        assert!(odd.handed_over >= 25, "{status:?}");

        from_new_addresses(&mut clients);
        assert!(handle.command(Command::Shutdown));
        assert_eq!(thread.join().unwrap().unwrap(), Ended::Shutdown);
        assert_no_device();
    });
}

/// Each client asks an application behind the server, which answers each.
fn through_the_device(clients: &mut [Client]) {
    let application = bind_free("10.9.0.1:5000");
    application.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut buffer = [0; 2000];
    for round in 0..20 {
        for client in &mut *clients {
            client.send([10, 9, 0, 1], &[round, client.number]);
        }
        for _ in 0..clients.len() {
            let (length, from) = application.recv_from(&mut buffer).unwrap();
            assert_eq!((length, buffer[0]), (2, round));
            assert_eq!(from.ip(), IpAddr::from(inner(buffer[1])));
            application.send_to(&[round, buffer[1], b'!'], from).unwrap();
        }
        for client in &mut *clients {
            assert_eq!(client.receive(), [round, client.number, b'!']);
        }
    }
}

/// Each client whose datagrams bear its number gets a new address and receives the first reply there, although this
/// protocol never answers [`Notice::Moved`].
fn from_new_addresses(clients: &mut [Client]) {
    let application = bind_free("10.9.0.1:5000");
    application.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut buffer = [0; 2000];
    for client in clients.iter_mut().take(2) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.connect(client.socket.peer_addr().unwrap()).unwrap();
        client.socket = socket;
        client.send([10, 9, 0, 1], b"here");
        let (_, from) = application.recv_from(&mut buffer).unwrap();
        application.send_to(b"there", from).unwrap();
        assert_eq!(client.receive(), b"there");
    }
}

/// Each client sends to each other.
fn to_each_other(clients: &mut [Client]) {
    for client in &mut *clients {
        for (other, _) in CLIENTS {
            if other != client.number {
                client.send(inner(other), &[b'c', client.number, other]);
            }
        }
    }
    for client in &mut *clients {
        let mut from: Vec<u8> = Vec::new();
        for _ in 1..CLIENTS.len() {
            let payload = client.receive();
            assert_eq!((payload[0], payload[2]), (b'c', client.number));
            from.push(payload[1]);
        }
        from.sort_unstable();
        let others = CLIENTS.map(|(number, _)| number).into_iter().filter(|number| *number != client.number);
        assert!(from.into_iter().eq(others));
    }
}

#[test]
fn too_many_workers_are_refused_and_a_client_has_one() {
    in_fresh_network(|| {
        let mut config = server_config(Transport::Udp, "127.0.0.1:0");
        config.workers = MAX_WORKERS + 1;
        let error = Driver::<Toy>::new(config, make_codec).unwrap_err().to_string();
        assert!(error.contains("9 workers") && error.contains('8'), "{error}");
        let mut config = client_config(Transport::Udp, "127.0.0.1:9".parse().unwrap());
        config.workers = MAX_WORKERS + 1;
        let driver = Driver::<Toy>::new(config, make_codec).unwrap();
        assert_eq!(driver.device.workers.len(), 1);
    });
}
