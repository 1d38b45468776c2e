//! Two endpoints on one device: a server on UDP and one on TCP, whose peers have the same ids.

use adit_dataplane::codec::{Class, Demultiplexer};

use super::workers::{Many, Marks, inner, look, session, udp_packet};
use super::*;
use crate::driver::ids::EndpointId;

/// The number that is added to the numbers of the clients on TCP for their inner addresses.
const ON_TCP: u8 = 50;

/// An endpoint at work.
pub(super) struct Endpoint {
    pub(super) handle: Handle<Many>,
    pub(super) address: SocketAddr,
    notices: Receiver<Notice>,
    thread: JoinHandle<Result<Ended, DriverError>>,
}

impl Endpoint {
    fn start(transport: Transport, shift: u8, device: &SharedDevice) -> Self {
        Self::run(Self::join(transport, "127.0.0.1:0", device), shift)
    }

    /// An endpoint with its sockets, not yet running.
    pub(super) fn join(transport: Transport, address: &str, device: &SharedDevice) -> Driver<Many> {
        let mut config = server_config(transport, address);
        config.workers = 2;
        config.dataplane.client_to_client = true;
        Driver::join(config, make_codec, device).unwrap()
    }

    pub(super) fn run(driver: Driver<Many>, shift: u8) -> Self {
        let (handle, address) = (driver.handle(), driver.local_addresses()[0]);
        let ((heard, notices), (log, events)) = (channel(), channel());
        let protocol = Many::new(shift, Some(heard));
        let thread = thread::spawn(move || driver.run(protocol, &mut Log(log)));
        let is_up = |heard| matches!(heard, Heard::Event(word) if word == "up tun0");
        assert!((0..10).any(|_| is_up(events.recv_timeout(TIMEOUT).unwrap())));
        // The device is up before datagrams are read.
        look(&handle);
        Endpoint { handle, address, notices, thread }
    }

    /// The ids of its peers, and how many datagrams each sent.
    fn peers(&self) -> Vec<(u32, u64)> {
        let (snapshot, _) = look(&self.handle);
        snapshot.peers.iter().map(|peer| (peer.peer.0, peer.packets_received)).collect()
    }

    /// The first notices are of these peers.
    fn first_opened(&self, peers: [u32; 2]) {
        let mut opened: Vec<u32> = Vec::new();
        while opened.len() < peers.len() {
            if let Notice::FirstOpened { peer, session } = self.notices.recv_timeout(TIMEOUT).unwrap() {
                assert_eq!(session, session_id(peer));
                opened.push(peer.0);
            }
        }
        opened.sort_unstable();
        assert_eq!(opened, peers);
    }

    pub(super) fn stop(self) {
        assert!(self.handle.command(Command::Shutdown));
        assert_eq!(self.thread.join().unwrap().unwrap(), Ended::Shutdown);
    }
}

/// The wire of a client.
enum Wire {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

impl Wire {
    fn connect(transport: Transport, server: SocketAddr) -> Self {
        match transport {
            Transport::Udp | Transport::Ip(_) => {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                socket.set_read_timeout(Some(TIMEOUT)).unwrap();
                socket.connect(server).unwrap();
                Wire::Udp(socket)
            }
            Transport::Tcp => {
                let stream = TcpStream::connect(server).unwrap();
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                Wire::Tcp(stream)
            }
        }
    }

    fn send(&mut self, datagram: &[u8]) {
        match self {
            Wire::Udp(socket) => assert_eq!(socket.send(datagram).unwrap(), datagram.len()),
            Wire::Tcp(stream) => {
                let length = u16::try_from(datagram.len()).unwrap().to_be_bytes();
                stream.write_all(&[&length, datagram].concat()).unwrap();
            }
        }
    }

    fn receive(&mut self) -> Vec<u8> {
        match self {
            Wire::Udp(socket) => {
                let mut buffer = [0; 2000];
                let length = socket.recv(&mut buffer).unwrap();
                buffer[..length].to_vec()
            }
            Wire::Tcp(stream) => {
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut record = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut record).unwrap();
                record
            }
        }
    }
}

/// A client without a driver.
pub(super) struct Client {
    wire: Wire,
    peer: Peer,
    path: Path,
    pub(super) inner: [u8; 4],
}

impl Client {
    pub(super) fn connect(
        transport: Transport,
        server: SocketAddr,
        number: u8,
        shift: u8,
        marks: Marks,
    ) -> Self {
        let mut wire = Wire::connect(transport, server);
        wire.send(&[CONTROL, number, marks as u8]);
        assert_eq!(wire.receive(), [CONTROL, b'!']);
        let path = Path::Udp { socket: 0, remote: server };
        let (egress, ingress, _) = adit_dataplane::new(config(Role::Client).dataplane);
        let mut peer = Peer { egress, ingress, transmit_batch: TransmitBatch::new() };
        for event in session(Role::Client, number, marks, path, 0) {
            let (out, into) = split(event, make_codec);
            out.into_iter().for_each(|event| peer.egress.apply(event, &mut peer.transmit_batch));
            into.into_iter().for_each(|event| peer.ingress.apply(event));
        }
        Client { wire, peer, path, inner: inner(shift + number) }
    }

    pub(super) fn send(&mut self, to: [u8; 4], payload: &[u8]) {
        let sealed = self.peer.seal(&udp_packet(self.inner, to, payload));
        self.wire.send(&sealed);
    }

    /// The payload of the next UDP packet that comes to it.
    pub(super) fn receive(&mut self) -> Vec<u8> {
        loop {
            let mut datagram = self.wire.receive();
            if let Some(packet) = self.peer.open(self.path, &mut datagram)
                && packet[9] == 17
            {
                return packet[28..].to_vec();
            }
        }
    }
}

pub(super) fn two_on(endpoint: &Endpoint, transport: Transport, shift: u8) -> Vec<Client> {
    let marks = [Marks::Number, Marks::Bare];
    let connect = |(number, marks)| Client::connect(transport, endpoint.address, number, shift, marks);
    (0..).zip(marks).map(connect).collect()
}

/// Each client asks an application behind the device, and has its answer.
pub(super) fn through_the_device(clients: &mut [Client], rounds: u8) {
    let application = bind_free("10.9.0.1:5000");
    application.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut buffer = [0; 2000];
    for round in 0..rounds {
        for client in &mut *clients {
            client.send([10, 9, 0, 1], &[round]);
            let (length, from) = application.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from.ip()), (&[round][..], IpAddr::from(client.inner)));
            application.send_to(&[round, b'!'], from).unwrap();
            assert_eq!(client.receive(), [round, b'!']);
        }
    }
}

#[test]
fn peers_of_two_endpoints_reach_each_other_and_one_endpoint_outlives_the_other() {
    in_fresh_network(|| {
        let device = SharedDevice::default();
        let udp = Endpoint::start(Transport::Udp, 0, &device);
        let tcp = Endpoint::start(Transport::Tcp, ON_TCP, &device);
        let mut clients = two_on(&udp, Transport::Udp, 0);
        clients.extend(two_on(&tcp, Transport::Tcp, ON_TCP));
        through_the_device(&mut clients, 5);
        let all: Vec<[u8; 4]> = clients.iter().map(|client| client.inner).collect();
        for from in 0..all.len() {
            for to in (0..all.len()).filter(|to| *to != from) {
                clients[from].send(all[to], &all[from]);
                assert_eq!(clients[to].receive(), all[from]);
            }
        }
        // Both endpoints have the same ids, each with its own clients: 5 packets to the device and one to
        // each other.
        udp.first_opened([0, 1]);
        tcp.first_opened([0, 1]);
        for endpoint in [&udp, &tcp] {
            assert_eq!(endpoint.peers(), [(0, 8), (1, 8)]);
            assert_eq!(look(&endpoint.handle).1.losses, Losses::default());
        }

        // The first endpoint, which created the device, ends while the other carries packets.
        thread::scope(|scope| {
            let busy = scope.spawn(|| through_the_device(&mut clients[2..], 100));
            udp.stop();
            busy.join().unwrap();
        });
        through_the_device(&mut clients[2..], 3);
        // Datagrams of its clients reach no endpoint.
        let Wire::Udp(socket) = &clients[0].wire else { unreachable!() };
        let _ = socket.send(&[CONTROL, 0, 0]);
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(socket.recv(&mut [0; 10]).is_err());
        assert_eq!(tcp.peers().len(), 2);
        tcp.stop();
        assert_no_device();

        // The device can be created anew.
        let again = Endpoint::start(Transport::Tcp, ON_TCP, &device);
        through_the_device(&mut two_on(&again, Transport::Tcp, ON_TCP), 1);
        again.stop();
        assert_no_device();
    });
}

#[test]
fn a_fault_in_one_endpoint_leaves_the_other() {
    in_fresh_network(|| {
        let device = SharedDevice::default();
        let (mut toy, heard) = Toy::new(Role::Server, "10.9.0.1/24");
        toy.panics = true;
        let driver = Driver::join(server_config(Transport::Udp, "127.0.0.1:0"), make_codec, &device).unwrap();
        let address = driver.local_addresses()[0];
        let mut log = Log(toy.heard.clone());
        let faulty = thread::spawn(move || driver.run(toy, &mut log));
        heard.recv_timeout(TIMEOUT).unwrap();
        let tcp = Endpoint::start(Transport::Tcp, ON_TCP, &device);
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(&[CONTROL], address).unwrap();
        assert!(faulty.join().is_err());
        through_the_device(&mut two_on(&tcp, Transport::Tcp, ON_TCP), 3);
        tcp.stop();
        assert_no_device();
    });
}

#[test]
fn a_deleted_device_ends_all_its_endpoints() {
    in_fresh_network(|| {
        let device = SharedDevice::default();
        let endpoints =
            [Transport::Udp, Transport::Tcp].map(|transport| Endpoint::start(transport, 0, &device));
        assert!(process::Command::new("ip").args(["link", "delete", "tun0"]).status().unwrap().success());
        for endpoint in endpoints {
            let error = endpoint.thread.join().unwrap().unwrap_err();
            assert!(matches!(&error, DriverError::DeviceDeleted(name) if name == "tun0"), "{error}");
        }
    });
}

#[test]
fn an_endpoint_that_comes_while_the_last_one_goes_has_the_device_anew() {
    in_fresh_network(|| {
        let device = SharedDevice::default();
        let join = || {
            let mut config = server_config(Transport::Udp, "127.0.0.1:0");
            config.tun.name = Some("tun0".to_owned());
            Driver::<Many>::join(config, make_codec, &device)
        };
        let mut last = join().unwrap();
        for _ in 0..20 {
            let going = thread::spawn(move || drop(last));
            last = join().unwrap();
            going.join().unwrap();
        }
        drop(last);
        assert_no_device();
    });
}

#[test]
fn a_listener_that_fails_leaves_the_device_to_the_others() {
    in_fresh_network(|| {
        let device = SharedDevice::default();
        let udp = Endpoint::start(Transport::Udp, 0, &device);
        let taken = server_config(Transport::Udp, &udp.address.to_string());
        let error = Driver::<Many>::join(taken, make_codec, &device).unwrap_err().to_string();
        assert!(error.contains("cannot listen on UDP"), "{error}");
        through_the_device(&mut two_on(&udp, Transport::Udp, 0), 1);
        udp.stop();
        assert_no_device();
    });
}

#[test]
fn a_demultiplexer_finds_the_sessions_of_its_endpoint() {
    let own: Arc<dyn Demultiplexer> = Arc::new(Sockets(Role::Server));
    assert!(Arc::ptr_eq(&EndpointId(0).demultiplexer(&own), &own));
    let numbered = EndpointId(3).demultiplexer(&own);
    let (with_number, without) = ([1, 0, 0, 0, 7], [2]);
    let session = EndpointId(3).session(session_id(PeerId(7)));
    assert_eq!(numbered.classify(&with_number), Class::Session(session));
    assert_eq!(numbered.classify(&without), Class::Path);
    assert_eq!(numbered.session_of(EndpointId(3).peer(PeerId(7)), &without), Some(session));
    assert_eq!(numbered.steering(), own.steering());
}
