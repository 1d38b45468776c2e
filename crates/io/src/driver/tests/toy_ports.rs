//! The small protocol at two ports, which are bound while the driver runs: each has a demultiplexer of its own and learns which of
//! this machine's addresses datagrams came to.

use adit_toy::{Endpoint, LocalAddresses, PeerSettings, Port, PortSockets, Remotes};
use adit_toy_codec::{DataSocket, session};

use super::toy::{End, Far, INITIATOR, application, control_socket, echo};
use super::*;
use crate::config::UdpSource;

/// The responder's address to which the initiator sends, which is not the first of its device.
const HERE: &str = "192.0.2.7";
/// The first address of that device, from which the system sends.
const FIRST: &str = "192.0.2.1";

/// The number of a port of the responder.
fn number(port: Port) -> usize {
    match port {
        Port::Control => 0,
        Port::Data => 1,
    }
}

fn settings(route: &str) -> PeerSettings {
    PeerSettings::new(7, [7; 32], vec![route.parse().unwrap()])
}

fn start_responder() -> End {
    let config = DriverConfig {
        demultiplexers: control_socket(UdpSource::Bound(number(Port::Control))),
        workers: 2,
        dataplane: Config::new(DataSocket),
        ..config(Role::Server)
    };
    let mut driver = Driver::new(config, session).unwrap();
    driver.learn_local_addresses();
    for (port, bound) in [(Port::Control, 500), (Port::Data, 4500)] {
        let binding = UdpBinding { number: number(port), port: Some(bound), mark: None };
        assert_eq!(driver.bind_udp(binding).unwrap().port, bound);
    }
    // The second worker serves the initiator.
    let unused = PeerSettings::new(9, [9; 32], Vec::new());
    End::run(driver, "10.9.0.1/24", vec![unused, settings("10.9.0.2/32")])
}

fn start_initiator() -> End {
    let remote = |port| {
        let responder = SocketAddr::new(HERE.parse().unwrap(), port);
        client_config(Transport::Udp, responder).remotes.remove(0)
    };
    let config = DriverConfig {
        remotes: vec![remote(500), remote(4500)],
        demultiplexers: control_socket(UdpSource::Remote(0)),
        changes_routing: false,
        dataplane: Config::new(DataSocket),
        ..config(Role::Client)
    };
    let remotes = Some(Remotes { control: Some(0), data: 1 });
    let responder = PeerSettings { remotes, ..settings("10.9.0.1/32") };
    End::run(Driver::new(config, session).unwrap(), "10.9.0.2/24", vec![responder])
}

/// Binds a port anew, and has the protocol's peers move there.
fn rebind(end: &End, port: Port, bound: u16) {
    let (tell, told) = channel();
    let answer = move |endpoint: &mut Endpoint, now: Instant, outcome: io::Result<UdpSockets>| {
        let UdpSockets { ipv4, ipv6, .. } = outcome.unwrap();
        endpoint.rebound(now, port, PortSockets { ipv4, ipv6 });
        tell.send(()).unwrap();
    };
    let binding = UdpBinding { number: number(port), port: Some(bound), mark: None };
    assert!(end.handle.bind_udp(binding, Box::new(answer)));
    told.recv_timeout(TIMEOUT).unwrap();
}

/// Waits until the initiator sends to those addresses of the responder.
fn wait_for_local(responder: &End, control: &str, data: &str) {
    let [control, data] = [control, data].map(|address| Some(address.parse().unwrap()));
    let expected = LocalAddresses { control, data };
    let look = || {
        let (tell, told) = channel();
        let look = move |endpoint: &Endpoint, _: &adit_dataplane::Snapshot, _: &IoStatus| {
            let _ = tell.send(endpoint.local_addresses(INITIATOR));
        };
        assert!(responder.handle.inspect(Box::new(look)));
        told.recv_timeout(TIMEOUT).unwrap()
    };
    let reached = (0..3000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        look() == expected
    });
    assert!(reached, "{:?}, not {expected:?}", look());
}

#[test]
fn two_ports_learn_local_addresses_and_are_bound_anew() {
    in_fresh_network(|| {
        let far = Far::new();
        ip(&format!("addr add {HERE}/24 dev v0"));
        let (responder, initiator) = (start_responder(), far.run(start_initiator));
        let near_app = application("10.9.0.1");
        let far_app = far.run(|| application("10.9.0.2"));
        echo(&far_app, &near_app, b"to an address that was learnt");
        wait_for_local(&responder, &format!("{HERE}:500"), &format!("{HERE}:4500"));
        // The answers left from there, or the initiator would have gone after them.
        assert_eq!(initiator.peer().path.remote(), format!("{HERE}:4500").parse().unwrap());

        // Data leaves by the new sockets at once, from an address that the system chooses until the peer has written there.
        rebind(&responder, Port::Data, 4501);
        drop(bind_free("0.0.0.0:4500"));
        echo(&near_app, &far_app, b"from the new port");
        wait_for_local(&responder, &format!("{HERE}:500"), &format!("{FIRST}:4501"));
        assert_eq!(initiator.peer().path.remote(), format!("{FIRST}:4501").parse().unwrap());

        // So do control messages; the other port stays as it is.
        rebind(&responder, Port::Control, 501);
        drop(bind_free("0.0.0.0:500"));
        let rekeyed = |end: &End, least: u64| {
            (0..3000).any(|_| {
                thread::sleep(Duration::from_millis(10));
                end.peer().rekeys >= least
            })
        };
        assert!(responder.handle.command(Command::Rekey { peer: INITIATOR }));
        assert!(rekeyed(&initiator, 1));
        assert!(initiator.handle.command(Command::Rekey { peer: PeerId(0) }));
        assert!(rekeyed(&responder, 2));
        wait_for_local(&responder, &format!("{FIRST}:501"), &format!("{FIRST}:4501"));
        echo(&far_app, &near_app, b"still there");
        initiator.stop();
        responder.stop();
        far.end();
    });
}
