//! Two drivers with the small protocol of `adit-toy`, which the driver does not know: a responder whose configuration
//! names no endpoint, with two workers, and an initiator in another network namespace.

use std::net::UdpSocket;
use std::sync::Arc;

use adit_core::{EventOf, Selector, UnixTime};
use adit_dataplane::codec::Demultiplexer;
use adit_dataplane::{DropReason, Snapshot};
use adit_toy::{Endpoint, PeerSettings, Remotes, Settings};
use adit_toy_codec::{ControlSocket, DataSocket, session};

use super::*;
use crate::config::UdpSource;

type Event = EventOf<Endpoint>;

/// The responder's sockets: for control messages alone, and for data.
const CONTROL: &str = "192.0.2.1:500";
const DATA: &str = "192.0.2.1:4500";
/// The port in the selectors.
pub(super) const PORT: u16 = 7000;
/// The port to which the responder may send, but at which the initiator must not receive.
const REFUSED_BY_RECEIVER: u16 = 7001;
const REFUSED_BY_SENDER: u16 = 9;
/// The responder's number of the initiator, which the second worker serves.
pub(super) const INITIATOR: PeerId = PeerId(1);

/// An end at work.
pub(super) struct End {
    pub(super) handle: Handle<Endpoint>,
    events: Receiver<Event>,
    thread: JoinHandle<Result<Ended, DriverError>>,
}

/// The state of an end.
pub(super) struct Look {
    /// The peers that are up.
    peers: Vec<PeerInfo<()>>,
    pub(super) snapshot: Snapshot,
    /// Packets that came to each worker.
    workers: Vec<u64>,
}

struct Record(Sender<Event>);

impl Observer<Endpoint> for Record {
    fn event(&mut self, event: &Event, _tun_name: &str) {
        let _ = self.0.send(event.clone());
    }

    fn request(&mut self, (): (), _tun_name: &str) {}
}

impl End {
    fn start(config: DriverConfig, address: &str, peers: Vec<PeerSettings>) -> End {
        End::run(Driver::new(config, session).unwrap(), address, peers)
    }

    /// Runs that driver, until [`End::stop`].
    pub(super) fn run(driver: Driver<Endpoint>, address: &str, peers: Vec<PeerSettings>) -> End {
        let addresses: Vec<IpNet> = vec![address.parse().unwrap()];
        let seed = [addresses[0].addr().to_string().into_bytes()[7]; 32];
        let settings = Settings { addresses, mtu: 1400, started: UnixTime(crate::unix_now().0), peers };
        let handle = driver.handle();
        let (sender, events) = channel();
        let endpoint = Endpoint::new(settings, clock(), seed);
        let run = move || driver.run(endpoint, &mut Record(sender));
        let end = End { handle, events, thread: thread::spawn(run) };
        end.wait_for(|event| matches!(event, Event::Up(_)));
        end
    }

    fn wait_for(&self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.events.recv_timeout(TIMEOUT).unwrap();
            if wanted(&event) {
                return event;
            }
        }
    }

    pub(super) fn look(&self) -> Look {
        let (tell, told) = channel();
        self.handle.inspect(Box::new(move |endpoint: &Endpoint, snapshot: &Snapshot, status: &IoStatus| {
            let peers = endpoint.peers().into_iter().map(|(_, info)| info).collect();
            let workers = status.workers.iter().map(|worker| worker.packets_received).collect();
            let _ = tell.send(Look { peers, snapshot: snapshot.clone(), workers });
        }));
        told.recv_timeout(TIMEOUT).unwrap()
    }

    /// Packets that came to each worker.
    pub(super) fn worker_packets(&self) -> Vec<u64> {
        self.look().workers
    }

    /// Waits until that peer has its first session.
    pub(super) fn wait_for_peer_up(&self, wanted: PeerId) {
        self.wait_for(|event| matches!(event, Event::PeerUp { peer, .. } if *peer == wanted));
    }

    /// Its only peer that is up.
    pub(super) fn peer(&self) -> PeerInfo<()> {
        let mut peers = self.look().peers;
        assert_eq!(peers.len(), 1);
        peers.remove(0)
    }

    pub(super) fn stop(self) {
        assert!(self.handle.command(Command::Shutdown));
        assert_eq!(self.thread.join().unwrap().unwrap(), Ended::Shutdown);
    }
}

/// The settings that both ends agree on: the inner address of the other end, and ports.
fn pair(local: &str, remote: &str, last_port: u16) -> PeerSettings {
    let any = Selector::between(local.parse().unwrap(), remote.parse().unwrap());
    let to_remote = Selector { protocol: Some(17), remote_ports: PORT..=last_port, ..any.clone() };
    let to_local = Selector { protocol: Some(17), local_ports: PORT..=PORT, ..any };
    PeerSettings {
        series: vec![Arc::from([to_remote, to_local])],
        rekey_after_datagrams: 150,
        // The 32 bits on the wire begin anew within a session.
        first_counter: u32::MAX - 50,
        ..PeerSettings::new(0x0102_0304, [7; 32], vec![remote.parse().unwrap()])
    }
}

/// Both ends at work, with their settings as `change` makes them.
pub(super) fn start_both(far: &Far, change: fn(&mut PeerSettings)) -> (End, End) {
    (start_responder(change), far.run(move || start_initiator(change)))
}

fn start_responder(change: fn(&mut PeerSettings)) -> End {
    let listen = |address: &str| Listen { transport: Transport::Udp, address: address.parse().unwrap() };
    let config = DriverConfig {
        listen: vec![listen(CONTROL), listen(DATA)],
        demultiplexers: control_socket(UdpSource::Listen(0)),
        workers: 2,
        dataplane: Config::new(DataSocket),
        ..config(Role::Server)
    };
    let unused = PeerSettings::new(9, [9; 32], Vec::new());
    let mut initiator = pair("10.9.0.1/32", "10.9.0.2/32", REFUSED_BY_RECEIVER);
    change(&mut initiator);
    End::start(config, "10.9.0.1/24", vec![unused, initiator])
}

fn start_initiator(change: fn(&mut PeerSettings)) -> End {
    let remote = |address: &str| client_config(Transport::Udp, address.parse().unwrap()).remotes.remove(0);
    let config = DriverConfig {
        remotes: vec![remote(CONTROL), remote(DATA)],
        demultiplexers: control_socket(UdpSource::Remote(0)),
        changes_routing: false,
        dataplane: Config::new(DataSocket),
        ..config(Role::Client)
    };
    let mut responder = pair("10.9.0.2/32", "10.9.0.1/32", PORT);
    responder.remotes = Some(Remotes { control: Some(0), data: 1 });
    change(&mut responder);
    End::start(config, "10.9.0.2/24", vec![responder])
}

pub(super) fn control_socket(source: UdpSource) -> BTreeMap<UdpSource, Arc<dyn Demultiplexer>> {
    BTreeMap::from([(source, Arc::new(ControlSocket) as Arc<dyn Demultiplexer>)])
}

/// An application of one end, in its namespace.
pub(super) fn application(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind((address, PORT)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// A thread in a network namespace of its own, which runs the closures that it is sent. Sockets from there work in any
/// thread.
pub(super) struct Far {
    work: Sender<Box<dyn FnOnce() + Send>>,
    thread: JoinHandle<()>,
}

impl Far {
    /// A veth pair connects it with the caller's namespace.
    pub(super) fn new() -> Far {
        let (work, orders) = channel::<Box<dyn FnOnce() + Send>>();
        let (give_tid, tid) = channel();
        let thread = thread::spawn(move || {
            adit_sys::enter_fresh_network_namespace().unwrap();
            give_tid.send(rustix::thread::gettid()).unwrap();
            orders.into_iter().for_each(|order| order());
        });
        let tid = tid.recv().unwrap().as_raw_nonzero();
        ip(&format!("link add v0 type veth peer name v1 netns {tid}"));
        ip("addr add 192.0.2.1/24 dev v0");
        ip("link set v0 up");
        let far = Far { work, thread };
        far.run(|| {
            ip("addr add 192.0.2.2/24 dev v1");
            ip("link set v1 up");
        });
        far
    }

    pub(super) fn run<T: Send + 'static>(&self, order: impl FnOnce() -> T + Send + 'static) -> T {
        let (give, result) = channel();
        self.work.send(Box::new(move || drop(give.send(order())))).unwrap();
        result.recv().unwrap()
    }

    pub(super) fn end(self) {
        drop(self.work);
        self.thread.join().unwrap();
    }
}

/// A packet from one application to the other, and back.
pub(super) fn echo(from: &UdpSocket, to: &UdpSocket, word: &[u8]) {
    from.send_to(word, to.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 100];
    let (length, sender) = to.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], sender), (word, from.local_addr().unwrap()));
    to.send_to(word, sender).unwrap();
    let length = from.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], word);
}

#[test]
fn a_protocol_that_the_driver_does_not_know() {
    in_fresh_network(|| {
        let far = Far::new();
        let (responder, initiator) = start_both(&far, |_| {});
        let near_app = application("10.9.0.1");
        let far_app = far.run(|| application("10.9.0.2"));

        // The first packet waits for the handshake that it causes. Until then no end knows where the other one's data goes.
        assert!(initiator.look().peers.is_empty() && responder.look().peers.is_empty());
        echo(&far_app, &near_app, b"the first");
        responder.wait_for(|event| matches!(event, Event::PeerUp { peer: INITIATOR, .. }));
        echo(&near_app, &far_app, b"the other way");

        ports(&responder, &initiator, &far);

        // Another address: the reply to the first packet from there goes there.
        assert_eq!(responder.peer().path.remote().ip(), IpAddr::from([192, 0, 2, 2]));
        far.run(|| {
            ip("addr del 192.0.2.2/24 dev v1");
            ip("addr add 192.0.2.3/24 dev v1");
        });
        echo(&far_app, &near_app, b"from elsewhere");
        assert_eq!(responder.peer().path.remote().ip(), IpAddr::from([192, 0, 2, 3]));

        // New sessions by order and by number, and counters beyond 32 bits: no packet is lost.
        for number in 0..400_u32 {
            if number == 50 {
                assert!(initiator.handle.command(Command::Rekey { peer: PeerId(0) }));
            }
            echo(&far_app, &near_app, &number.to_be_bytes());
        }
        assert!((3..10).contains(&initiator.peer().rekeys), "{:?}", initiator.peer());
        let Look { snapshot, workers, .. } = responder.look();
        for reason in [DropReason::BadTag, DropReason::Replay, DropReason::NoSession] {
            assert_eq!(snapshot.ingress.dropped(reason), 0, "{reason:?}");
        }
        assert!(workers[0] == 0 && workers[1] > 400, "the second worker serves it: {workers:?}");

        initiator.stop();
        responder.wait_for(|event| matches!(event, Event::PeerDown { reason, .. } if reason == "it ended"));
        responder.stop();
        far.run(assert_no_device);
        assert_no_device();
        far.end();
    });
}

/// A packet that is not selected is dropped and counted: at the end that sends it, or at the one that receives it. The
/// selectors of one end are wider than those of the other.
fn ports(responder: &End, initiator: &End, far: &Far) {
    let near_other = UdpSocket::bind("10.9.0.1:8000").unwrap();
    let far_other = far.run(|| UdpSocket::bind("10.9.0.2:8000").unwrap());
    far_other.send_to(b"no", ("10.9.0.1", REFUSED_BY_SENDER)).unwrap();
    near_other.send_to(b"no", ("10.9.0.2", REFUSED_BY_SENDER)).unwrap();
    near_other.send_to(b"no", ("10.9.0.2", REFUSED_BY_RECEIVER)).unwrap();
    let dropped = |end: &End| {
        let snapshot = end.look().snapshot;
        [snapshot.egress, snapshot.ingress].map(|half| half.dropped(DropReason::NotSelected))
    };
    let counted = (0..2000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        (dropped(responder), dropped(initiator)) == ([1, 0], [1, 1])
    });
    assert!(counted, "{:?} {:?}", dropped(responder), dropped(initiator));
}

#[test]
fn a_session_that_expires_is_followed_by_one_that_a_packet_asks_for() {
    in_fresh_network(|| {
        let far = Far::new();
        let (responder, initiator) = start_both(&far, |peer| peer.expires_after = Duration::from_secs(4));
        let near_app = application("10.9.0.1");
        let far_app = far.run(|| application("10.9.0.2"));
        echo(&far_app, &near_app, b"before");
        for end in [&responder, &initiator] {
            end.wait_for(
                |event| matches!(event, Event::PeerDown { reason, .. } if reason.contains("expired")),
            );
        }
        // The data threads follow it a moment after the log.
        thread::sleep(Duration::from_millis(500));
        echo(&far_app, &near_app, b"after");
        initiator.stop();
        responder.stop();
        far.end();
    });
}
