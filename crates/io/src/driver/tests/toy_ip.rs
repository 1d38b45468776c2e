//! The small protocol over an IP protocol of its own, without UDP: its data alone, or its control messages too.

use adit_toy::{PeerSettings, Remotes};
use adit_toy_codec::{DataSocket, session};

use super::toy::{End, Far, INITIATOR, application, control_socket, echo};
use super::*;
use crate::config::UdpSource;

/// For experiments (RFC 3692).
const PROTOCOL: u8 = 253;
/// Bytes that a stream carries each way: more than any queue on the way holds.
const STREAM: usize = 4 << 20;

/// The addresses of both ends outside the tunnel.
#[derive(Clone, Copy)]
struct Outer {
    responder: &'static str,
    initiator: &'static str,
}

const FAMILIES: [Outer; 2] = [
    Outer { responder: "192.0.2.1", initiator: "192.0.2.2" },
    Outer { responder: "2001:db8::1", initiator: "2001:db8::2" },
];

fn settings(route: &str) -> PeerSettings {
    PeerSettings::new(7, [7; 32], vec![route.parse().unwrap()])
}

/// Where the responder takes datagrams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ways {
    /// Control messages over UDP.
    Both,
    /// All by the IP protocol.
    IpAlone,
}

fn start_responder(outer: Outer, ways: Ways) -> End {
    let ip: IpAddr = outer.responder.parse().unwrap();
    let mut listen = vec![Listen { transport: Transport::Ip(PROTOCOL), address: (ip, 0).into() }];
    if ways == Ways::Both {
        listen.insert(0, Listen { transport: Transport::Udp, address: (ip, 500).into() });
    }
    let mut config =
        DriverConfig { listen, workers: 2, dataplane: Config::new(DataSocket), ..config(Role::Server) };
    if ways == Ways::Both {
        config.demultiplexers = control_socket(UdpSource::Listen(0));
    }
    // The second worker serves the initiator.
    let unused = PeerSettings::new(9, [9; 32], Vec::new());
    let driver = Driver::new(config, session).unwrap();
    End::run(driver, "10.9.0.1/24", vec![unused, settings("10.9.0.2/32")])
}

fn start_initiator(outer: Outer, ways: Ways) -> End {
    let ip: IpAddr = outer.responder.parse().unwrap();
    let remote = |transport, port| client_config(transport, SocketAddr::new(ip, port)).remotes.remove(0);
    let by_ip = remote(Transport::Ip(PROTOCOL), 0);
    let base =
        DriverConfig { changes_routing: false, dataplane: Config::new(DataSocket), ..config(Role::Client) };
    let (config, remotes) = match ways {
        Ways::Both => {
            let remotes = vec![remote(Transport::Udp, 500), by_ip];
            let demultiplexers = control_socket(UdpSource::Remote(0));
            let config = DriverConfig { remotes, demultiplexers, ..base };
            (config, Remotes { control: Some(0), data: 1 })
        }
        Ways::IpAlone => (DriverConfig { remotes: vec![by_ip], ..base }, Remotes { control: None, data: 0 }),
    };
    let responder = PeerSettings { remotes: Some(remotes), ..settings("10.9.0.1/32") };
    End::run(Driver::new(config, session).unwrap(), "10.9.0.2/24", vec![responder])
}

fn add_ipv6(far: &Far) {
    ip("addr add 2001:db8::1/64 dev v0 nodad");
    far.run(|| ip("addr add 2001:db8::2/64 dev v1 nodad"));
}

/// A stream each way at once, so that super-packets are cut and datagrams are merged.
pub(super) fn streams(far: &Far) {
    let listener = TcpListener::bind("10.9.0.1:7000").unwrap();
    let far_end = far.run(|| TcpStream::connect("10.9.0.1:7000").unwrap());
    let (near_end, _) = listener.accept().unwrap();
    let carry = |from: &TcpStream, to: &TcpStream| {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let sent: Vec<u8> = (0..STREAM).map(|index| (index / 9).to_le_bytes()[0]).collect();
        let expected = sent.clone();
        let sender = thread::spawn(move || from.write_all(&sent).unwrap());
        thread::spawn(move || {
            let mut arrived = vec![0; STREAM];
            to.set_read_timeout(Some(TIMEOUT)).unwrap();
            to.read_exact(&mut arrived).unwrap();
            sender.join().unwrap();
            assert!(arrived == expected, "the stream is damaged");
        })
    };
    let both = [carry(&far_end, &near_end), carry(&near_end, &far_end)];
    both.into_iter().for_each(|way| way.join().unwrap());
}

#[test]
fn data_goes_by_an_ip_protocol_of_both_families_and_control_messages_over_udp() {
    in_fresh_network(|| {
        let far = Far::new();
        add_ipv6(&far);
        for outer in FAMILIES {
            let responder = start_responder(outer, Ways::Both);
            let initiator = far.run(move || start_initiator(outer, Ways::Both));
            let near_app = application("10.9.0.1");
            let far_app = far.run(|| application("10.9.0.2"));
            echo(&far_app, &near_app, b"the first");
            for (end, remote) in [(&responder, outer.initiator), (&initiator, outer.responder)] {
                let expected: SocketAddr = (remote.parse::<IpAddr>().unwrap(), 0).into();
                let path = end.peer().path;
                let is_expected =
                    matches!(path, Path::Ip { protocol: PROTOCOL, remote, .. } if remote == expected);
                assert!(is_expected, "{path} {path:?}");
            }
            streams(&far);
            let workers = responder.worker_packets();
            assert!(workers[0] == 0 && workers[1] > 1000, "the second worker serves it: {workers:?}");
            initiator.stop();
            responder.stop();
        }
        far.end();
    });
}

#[test]
fn control_messages_go_by_an_ip_protocol_too_and_the_peer_is_followed() {
    in_fresh_network(|| {
        let far = Far::new();
        let outer = FAMILIES[0];
        let responder = start_responder(outer, Ways::IpAlone);
        let initiator = far.run(move || start_initiator(outer, Ways::IpAlone));
        let near_app = application("10.9.0.1");
        let far_app = far.run(|| application("10.9.0.2"));
        echo(&far_app, &near_app, b"the first");
        responder.wait_for_peer_up(INITIATOR);
        // Another address: the reply to the first packet from there goes there.
        far.run(|| {
            ip("addr del 192.0.2.2/24 dev v1");
            ip("addr add 192.0.2.3/24 dev v1");
        });
        echo(&far_app, &near_app, b"from elsewhere");
        let moved = (0..3000).any(|_| {
            thread::sleep(Duration::from_millis(10));
            responder.peer().path.remote() == "192.0.2.3:0".parse().unwrap()
        });
        assert!(moved, "{}", responder.peer().path);
        initiator.stop();
        responder.stop();
        far.end();
    });
}

/// The sockets are bound to all addresses, and each datagram is answered from the address that it came to.
#[test]
fn sockets_for_an_ip_protocol_learn_their_local_addresses() {
    in_fresh_network(|| {
        let far = Far::new();
        ip("addr add 192.0.2.7/24 dev v0");
        let config = DriverConfig { workers: 2, dataplane: Config::new(DataSocket), ..config(Role::Server) };
        let mut driver = Driver::new(config, session).unwrap();
        driver.learn_local_addresses();
        let sockets = driver.bind_ip(IpBinding { protocol: PROTOCOL, mark: 0 }).unwrap();
        assert!(sockets.port == 0 && sockets.ipv4.is_some());
        let unused = PeerSettings::new(9, [9; 32], Vec::new());
        let responder = End::run(driver, "10.9.0.1/24", vec![unused, settings("10.9.0.2/32")]);
        let outer = Outer { responder: "192.0.2.7", initiator: "192.0.2.2" };
        let initiator = far.run(move || start_initiator(outer, Ways::IpAlone));
        let near_app = application("10.9.0.1");
        let far_app = far.run(|| application("10.9.0.2"));
        echo(&far_app, &near_app, b"to the second address");
        echo(&near_app, &far_app, b"and back");
        // Were the answers from another address, the initiator would have gone after them.
        assert_eq!(initiator.peer().path.remote(), "192.0.2.7:0".parse().unwrap());
        initiator.stop();
        responder.stop();
        far.end();
    });
}
