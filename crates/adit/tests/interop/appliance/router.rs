//! An appliance as a router: machines behind it reach what is behind its tunnel.

use std::time::Duration;

use adit_testbed::{Namespace, Ping, connect, wait_until_reachable};

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

#[test]
fn machines_behind_a_router_reach_the_tunnel_of_both_families_and_nothing_beside_it() {
    let name = "machines_behind_a_router_reach_the_tunnel_of_both_families_and_nothing_beside_it";
    let Some(bed) = Bed::for_test(name) else { return };
    let [server, client] = bed.write_wireguard();
    let device = client.file_stem().unwrap().to_str().unwrap();
    let settings = format!(
        "[eth0]\naddress = 10.9.0.2/24\n[eth1]\naddress = 10.1.0.1/24, fd00:1::1/64\nforward = {device}\n"
    );
    let settings = bed.scratch.write("appliance.conf", &settings).unwrap();
    let image = bed.build(&[&client], &["--network", settings.to_str().unwrap()]);
    let machine = bed.boot_router(&image, &["10.9.0.1/24"]);
    let lan = Lan::build();
    lan.plug(&bed.namespace, "tap1");
    let _server = bed.up(&server);
    for behind in &lan.machines {
        for address in ["10.77.0.1", "fd00:77::1"] {
            let reached = wait_until_reachable(behind, address.parse().unwrap(), LIMIT);
            assert!(reached.is_ok(), "{address}: {reached:?}\n{}", machine.process.log());
        }
        let ping = Ping { timeout: Duration::from_secs(2), ..Ping::new(2, Duration::from_millis(100)) };
        let beside = ping.run(behind, "10.9.0.1".parse().unwrap()).unwrap();
        assert_eq!(beside.lost(), 2, "packets leave beside the tunnel: {beside:?}");
    }
}
