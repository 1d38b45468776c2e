//! A peer of the small protocol with a device of its own.

use adit_toy::PeerSettings;
use adit_toy_codec::{DataSocket, session};

use super::toy::{End, Far, INITIATOR, application, echo};
use super::toy_ip::streams;
use super::*;

/// Bytes of packets that went through a device, both ways.
fn bytes(device: &str) -> [u64; 2] {
    let link = Netlink::open().unwrap().link(device).unwrap();
    [link.tx_bytes, link.rx_bytes]
}

fn settings(identity: u32) -> PeerSettings {
    PeerSettings::new(identity, [identity as u8; 32], vec!["10.9.0.2/32".parse().unwrap()])
}

fn start_initiator(responder: &'static str) -> End {
    let config = DriverConfig {
        changes_routing: false,
        dataplane: Config::new(DataSocket),
        ..client_config(Transport::Udp, responder.parse().unwrap())
    };
    let remotes = Some(adit_toy::Remotes { control: None, data: 0 });
    let responder = PeerSettings { remotes, routes: vec!["10.9.0.1/32".parse().unwrap()], ..settings(7) };
    End::run(Driver::new(config, session).unwrap(), "10.9.0.2/24", vec![responder])
}

#[test]
fn a_peer_has_a_device_of_its_own() {
    in_fresh_network(|| {
        let far = Far::new();
        let listen = Listen { transport: Transport::Udp, address: "192.0.2.1:4500".parse().unwrap() };
        let config = DriverConfig {
            listen: vec![listen],
            workers: 2,
            dataplane: Config::new(DataSocket),
            ..config(Role::Server)
        };
        let mut driver = Driver::new(config, session).unwrap();
        let own = TunConfig { name: Some("own0".to_owned()), mtu: Some(1400), ..TunConfig::default() };
        let device = driver.add_device(&own, &["10.9.8.1/32".parse().unwrap()]).unwrap();
        // A peer of the main device has the same route. The second worker serves the initiator, the first reads the device.
        let peers = vec![settings(9), PeerSettings { device, ..settings(7) }];
        let responder = End::run(driver, "10.9.0.1/24", peers);
        ip("route add 10.9.0.2/32 dev own0");
        let initiator = far.run(|| start_initiator("192.0.2.1:4500"));
        let near_app = application("10.9.0.1");
        let far_app = far.run(|| application("10.9.0.2"));
        echo(&far_app, &near_app, b"the first");
        responder.wait_for_peer_up(INITIATOR);
        streams(&far);
        // The kernel speaks into each device (IPv6 router solicitations), but not that much.
        let [through_own, through_main] = ["own0", "tun0"].map(bytes);
        assert!(through_own.iter().all(|bytes| *bytes > 1 << 20), "{through_own:?}");
        assert!(through_main[0] < 10_000 && through_main[1] == 0, "{through_main:?}");

        // A device that another program deleted carries nothing, and the tunnel goes on.
        ip("link del own0");
        assert_eq!(responder.worker_packets().len(), 2);
        initiator.stop();
        responder.stop();
        assert_no_device();
        far.end();
    });
}
