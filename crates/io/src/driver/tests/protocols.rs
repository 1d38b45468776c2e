//! Endpoints of one device whose protocols are not the same: the tests' own, and that of `adit-toy`.

use std::net::UdpSocket;

use adit_toy::{Endpoint as ToyEndpoint, PeerSettings, Remotes};
use adit_toy_codec::{DataSocket, session};

use super::binding::port;
use super::endpoints::{Client, Endpoint, through_the_device, two_on};
use super::toy::{End, Far};
use super::workers::look;
use super::*;

/// Where the clients of the tests' own protocol find it.
const OWN: &str = "192.0.2.1:1194";
/// Where the initiator of the other finds its responder.
const OTHER: &str = "192.0.2.1:4500";
/// The initiator's inner address.
const INITIATOR: [u8; 4] = [10, 9, 0, 2];
/// An address in the device's network that no peer has.
const NOBODY: &str = "10.9.0.99:9";

/// A driver for the other protocol, which has packets that cannot be carried answered.
fn join_other(listen: Option<&str>, device: &SharedDevice) -> Driver<ToyEndpoint> {
    let at = |address: &str| Listen { transport: Transport::Udp, address: address.parse().unwrap() };
    let mut config = DriverConfig {
        listen: listen.map(at).into_iter().collect(),
        workers: 2,
        dataplane: Config::new(DataSocket),
        ..config(Role::Server)
    };
    config.dataplane.client_to_client = true;
    let mut driver = Driver::join(config, session, device).unwrap();
    driver.answer_unreachable();
    driver
}

/// The first peer does not exist, so that the second worker serves the initiator.
fn run_responder(driver: Driver<ToyEndpoint>) -> End {
    let unused = PeerSettings::new(9, [9; 32], Vec::new());
    let initiator = PeerSettings::new(7, [7; 32], vec![IpNet::from(IpAddr::from(INITIATOR))]);
    End::run(driver, "10.9.0.1/24", vec![unused, initiator])
}

fn start_initiator(far: &Far, responder: &'static str) -> End {
    far.run(move || {
        let config = DriverConfig {
            changes_routing: false,
            dataplane: Config::new(DataSocket),
            ..client_config(Transport::Udp, responder.parse().unwrap())
        };
        let remotes = Some(Remotes { control: None, data: 0 });
        let all = PeerSettings::new(7, [7; 32], vec!["10.9.0.0/24".parse().unwrap()]);
        let driver = Driver::new(config, session).unwrap();
        End::run(driver, "10.9.0.2/24", vec![PeerSettings { remotes, ..all }])
    })
}

/// The initiator's application asks those of the clients, and has their answers.
fn reach_each_other(application: &UdpSocket, clients: &mut [Client], rounds: u8) {
    let mut buffer = [0; 100];
    for round in 0..rounds {
        for client in &mut *clients {
            application.send_to(&[round], (IpAddr::from(client.inner), 7)).unwrap();
            assert_eq!(client.receive(), [round]);
            client.send(INITIATOR, &[round, b'!']);
            let (length, from) = application.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..length], from.ip()), (&[round, b'!'][..], IpAddr::from(client.inner)));
        }
    }
}

/// The port that the clients of the tests send to.
fn application(far: &Far) -> UdpSocket {
    let socket = far.run(|| UdpSocket::bind("10.9.0.2:5000").unwrap());
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Whether the sender of a packet that no peer takes gets an error within a moment.
fn is_told() -> bool {
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    socket.connect(NOBODY).unwrap();
    let descriptor = std::os::fd::AsFd::as_fd(&socket);
    adit_sys::set_option(descriptor, libc::SOL_IP, libc::IP_RECVERR, 1).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket.send(b"anybody?").unwrap();
    let error = socket.recv(&mut [0; 10]).unwrap_err();
    error.raw_os_error() == Some(libc::EHOSTUNREACH)
}

/// The first that runs has the ids that need no change, and the first that joined has made the data plane.
#[test]
fn either_protocol_may_make_the_device_and_either_may_run_first() {
    in_fresh_network(|| {
        let far = Far::new();
        for [makes, runs_first] in [[true, true], [true, false], [false, true], [false, false]] {
            let device = SharedDevice::default();
            let own = || Endpoint::join(Transport::Udp, OWN, &device);
            let other = || join_other(Some(OTHER), &device);
            let (own, other) = if makes {
                let own = own();
                (own, other())
            } else {
                let other = other();
                (own(), other)
            };
            let (own, responder) = if runs_first {
                let own = Endpoint::run(own, 0);
                (own, run_responder(other))
            } else {
                let responder = run_responder(other);
                (Endpoint::run(own, 0), responder)
            };
            let initiator = start_initiator(&far, OTHER);
            let mut clients = two_on(&own, Transport::Udp, 0);
            through_the_device(&mut clients, 3);
            reach_each_other(&application(&far), &mut clients, 3);
            // One endpoint wants it for as long as it is there.
            assert!(is_told());
            initiator.stop();
            responder.stop();
            through_the_device(&mut clients, 3);
            assert!(!is_told());
            own.stop();
            far.run(assert_no_device);
            assert_no_device();
        }
        far.end();
    });
}

/// The two protocols on one port, whichever of them runs first.
fn on_one_port(device: &SharedDevice, owner_first: bool) -> (Endpoint, End) {
    let own = Endpoint::join(Transport::Udp, OWN, device);
    let mut other = join_other(None, device);
    let marked = UdpBinding { mark: Some(5), ..port(1194) };
    let error = other.bind_udp(marked).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "the other endpoint has no mark");
    let sockets = other.bind_udp(port(1194)).unwrap();
    assert_eq!((sockets.port, sockets.ipv4.is_some(), sockets.ipv6), (1194, true, None));
    assert_eq!(other.local_addresses(), own.local_addresses());
    if owner_first {
        let own = Endpoint::run(own, 0);
        (own, run_responder(other))
    } else {
        let responder = run_responder(other);
        (Endpoint::run(own, 0), responder)
    }
}

/// The initiator's application asks one behind the device, and has its answer.
fn through_the_device_from(application: &UdpSocket) {
    let near = bind_free("10.9.0.1:5000");
    near.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut buffer = [0; 10];
    for round in 0..3 {
        application.send_to(&[round], "10.9.0.1:5000").unwrap();
        let (length, from) = near.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from.ip()), (&[round][..], IpAddr::from(INITIATOR)));
        near.send_to(&[round, b'!'], from).unwrap();
        let length = application.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], [round, b'!']);
    }
}

fn handed_over(own: &Endpoint) -> u64 {
    look(&own.handle).1.workers.iter().map(|worker| worker.handed_over).sum()
}

#[test]
fn two_protocols_on_one_port_reach_each_other_and_either_outlives_the_other() {
    in_fresh_network(|| {
        let far = Far::new();
        for [owner_first, owner_stays] in [[true, true], [true, false], [false, true], [false, false]] {
            let device = SharedDevice::default();
            let (own, responder) = on_one_port(&device, owner_first);
            let initiator = start_initiator(&far, OWN);
            let application = application(&far);
            through_the_device_from(&application);
            let mut clients = two_on(&own, Transport::Udp, 0);
            through_the_device(&mut clients, 3);
            reach_each_other(&application, &mut clients, 3);
            assert_eq!(look(&own.handle).1.losses, Losses::default());

            // Datagrams of both come to the workers that serve their senders.
            let before = handed_over(&own);
            let near = bind_free("10.9.0.1:5001");
            near.set_read_timeout(Some(TIMEOUT)).unwrap();
            for _ in 0..20 {
                application.send_to(b"one way", "10.9.0.1:5001").unwrap();
                near.recv(&mut [0; 10]).unwrap();
            }
            assert_eq!(handed_over(&own), before);

            let goes = UdpSocket::bind("127.0.0.1:0").unwrap();
            goes.connect(OWN).unwrap();
            if owner_stays {
                initiator.stop();
                responder.stop();
                through_the_device(&mut clients, 3);
                own.stop();
            } else {
                own.stop();
                // Datagrams for the endpoint that ended reach no endpoint.
                goes.send(&[CONTROL, 5, 0]).unwrap();
                goes.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                assert!(goes.recv(&mut [0; 10]).is_err());
                through_the_device_from(&application);
                initiator.stop();
                responder.stop();
            }
            far.run(assert_no_device);
            assert_no_device();
            assert_closed(OWN);
        }
        far.end();
    });
}

#[test]
fn a_secondary_endpoint_leaves_a_port_and_comes_back() {
    in_fresh_network(|| {
        let far = Far::new();
        let device = SharedDevice::default();
        let (own, responder) = on_one_port(&device, true);
        let bind = |binding| {
            let (tell, told) = channel();
            let answer = move |_: &mut ToyEndpoint, _: Instant, outcome| tell.send(outcome).unwrap();
            assert!(responder.handle.bind_udp(binding, Box::new(answer)));
            told.recv_timeout(TIMEOUT).unwrap()
        };
        let of_its_own = bind(port(0)).unwrap();
        assert!(of_its_own.port != 1194 && of_its_own.ipv6.is_some());
        let mut clients = two_on(&own, Transport::Udp, 0);
        through_the_device(&mut clients, 3);
        let again: UdpSockets = bind(port(1194)).unwrap();
        assert!(again.port == 1194 && again.ipv6.is_none());
        assert_eq!(
            bind(UdpBinding { number: 0, port: None, mark: Some(5) }).unwrap_err().raw_os_error(),
            Some(libc::EOPNOTSUPP)
        );
        let initiator = start_initiator(&far, OWN);
        reach_each_other(&application(&far), &mut clients, 3);
        initiator.stop();
        responder.stop();
        own.stop();
        assert_no_device();
        far.end();
    });
}

/// Its datagrams may look like those of any other protocol.
#[test]
fn a_protocol_that_is_not_known_by_its_first_bytes_shares_no_port() {
    in_fresh_network(|| {
        let device = SharedDevice::default();
        let first = Endpoint::join(Transport::Udp, "127.0.0.1:0", &device);
        let taken = first.local_addresses()[0].port();
        let mut second = Endpoint::join(Transport::Tcp, "127.0.0.1:0", &device);
        let error = second.bind_udp(port(taken)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
    });
}
