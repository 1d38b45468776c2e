//! An appliance as a router: machines behind it reach what is behind its tunnel.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use adit_testbed::{Capture, Namespace, PacketHeader, Ping, connect, wait_until_reachable};

use super::bed::{Bed, LIMIT};

/// Machines behind the appliance, on one link with its second device.
struct Lan {
    switch: Namespace,
    machines: Vec<Namespace>,
}

impl Lan {
    /// Three machines, with the appliance as their router.
    fn build() -> Self {
        let switch = Namespace::create("switch").unwrap();
        switch.ip(&["link", "add", "bridge", "type", "bridge"]).unwrap();
        switch.ip(&["link", "set", "bridge", "up"]).unwrap();
        let machine = |number: u8| {
            let machine = Namespace::create(&format!("behind{number}")).unwrap();
            let device = format!("port{number}");
            let addresses = [format!("10.1.0.1{number}/24"), format!("fd00:1::1{number}/64")];
            connect(&switch, &[], &machine, &[&addresses[0], &addresses[1]], &device).unwrap();
            switch.ip(&["link", "set", &device, "master", "bridge"]).unwrap();
            machine.ip(&["route", "add", "default", "via", "10.1.0.1"]).unwrap();
            machine.ip(&["-6", "route", "add", "default", "via", "fd00:1::1"]).unwrap();
            machine
        };
        let machines = (1..=3).map(machine).collect();
        Lan { switch, machines }
    }

    /// Takes a device of another namespace into the link.
    fn plug(&self, from: &Namespace, device: &str) {
        from.ip(&["link", "set", device, "netns", self.switch.name()]).unwrap();
        self.switch.ip(&["link", "set", device, "master", "bridge", "up"]).unwrap();
    }
}

/// Packets that may leave by the outer device: those of the tunnel, and what a link needs.
fn is_expected(packet: &PacketHeader) -> bool {
    let is_tunnel = (packet.protocol, packet.port) == (17, 51820);
    let is_link = match packet.destination {
        IpAddr::V4(_) => false,
        IpAddr::V6(to) => to.is_multicast() || to.is_unicast_link_local(),
    };
    is_tunnel || is_link
}

/// Whether an address answers a machine behind the router.
fn answers(behind: &Namespace, address: &str) -> bool {
    let ping = Ping { timeout: Duration::from_secs(2), ..Ping::new(2, Duration::from_millis(100)) };
    ping.run(behind, address.parse().unwrap()).unwrap().lost() < 2
}

/// A full tunnel needs the firewall's rules, and an image has no program that sets them. The log goes to a server of syslog, which
/// is to be reached by the tunnel alone, as the kill switch is on.
#[test]
fn machines_behind_a_router_reach_the_tunnel_of_both_families_and_nothing_leaves_beside_it() {
    let name = "machines_behind_a_router_reach_the_tunnel_of_both_families_and_nothing_leaves_beside_it";
    let Some(bed) = Bed::for_test(name) else { return };
    let [server_file, client] = bed.write_full_tunnel();
    let device = client.file_stem().unwrap().to_str().unwrap();
    let settings = format!(
        "kill-switch = on\nsyslog = 10.77.0.1\n[eth0]\naddress = 10.9.0.2/24\ngateway = 10.9.0.1\n\
         [eth1]\naddress = 10.1.0.1/24, fd00:1::1/64\nforward = {device}\n"
    );
    let settings = bed.scratch.write("appliance.conf", &settings).unwrap();
    let image = bed.build(&[&client], &["--network", settings.to_str().unwrap()]);
    let machine = bed.boot_router(&image, &["10.9.0.1/24"]);
    let capture = Capture::start(&bed.namespace, &["tap0"], is_expected).unwrap();
    let lines = bed.namespace.enter(|| UdpSocket::bind("0.0.0.0:514")).unwrap().unwrap();
    let lan = Lan::build();
    lan.plug(&bed.namespace, "tap1");
    let mut server = bed.up(&server_file);
    let wait_for_all = || {
        for (behind, address) in
            lan.machines.iter().zip([["10.77.0.1", "fd00:77::1"]; 3]).flat_map(|(m, a)| a.map(|a| (m, a)))
        {
            let reached = wait_until_reachable(behind, address.parse().unwrap(), LIMIT);
            assert!(reached.is_ok(), "{address}: {reached:?}\n{}", machine.process.log());
        }
    };
    wait_for_all();
    lines.set_read_timeout(Some(LIMIT)).unwrap();
    let mut line = [0; 2048];
    let length = lines.recv(&mut line).unwrap();
    let line = String::from_utf8_lossy(&line[..length]);
    assert!(line.starts_with("<30>1 - ") && line.contains(" adit - - - "), "{line}");

    server.kill().unwrap();
    drop(server);
    for address in ["10.9.0.1", "203.0.113.7", "2001:db8::7"] {
        assert!(!answers(&lan.machines[0], address), "{address} is reached beside the tunnel");
    }
    let beside = capture.take();
    assert!(beside.is_empty(), "{beside:?}\n{}", machine.process.log());
    let _server = bed.up(&server_file);
    wait_for_all();
}
