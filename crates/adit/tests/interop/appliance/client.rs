//! An appliance as a client.

use std::net::Ipv4Addr;

use super::bed::{Bed, LIMIT};
use super::dhcp::DhcpServer;

/// The inner address of the appliance with WireGuard.
const INNER: &str = "10.77.0.2";

#[test]
fn an_appliance_is_a_wireguard_client_with_a_static_address_and_its_power_button_ends_it() {
    let name = "an_appliance_is_a_wireguard_client_with_a_static_address_and_its_power_button_ends_it";
    let Some(bed) = Bed::for_test(name) else { return };
    let [server, client] = bed.write_wireguard();
    let settings = bed.scratch.write("appliance.conf", "[eth0]\naddress = 10.9.0.2/24\n").unwrap();
    let image = bed.build(&[&client], &["--network", settings.to_str().unwrap()]);
    let mut machine = bed.boot(&image, &["10.9.0.1/24"]);
    let _server = bed.up(&server);
    bed.wait_for_answer(&machine, INNER);
    machine.press_power_button().unwrap();
    machine.wait_for("the power button: the tunnels end", LIMIT).unwrap();
    let status = machine.process.wait(LIMIT).unwrap();
    assert!(status.success(), "{}", machine.process.log());
}

#[test]
fn an_openvpn_client_goes_on_after_a_new_lease_a_loss_of_the_link_and_a_killed_server() {
    let name = "an_openvpn_client_goes_on_after_a_new_lease_a_loss_of_the_link_and_a_killed_server";
    let Some(bed) = Bed::for_test(name) else { return };
    let [server_file, client] = bed.write_openvpn("10.9.0.1");
    let image = bed.build(&[&client], &[]);
    let mut machine = bed.boot(&image, &["10.9.0.1/24"]);
    let dhcp = DhcpServer::start(&bed.namespace, Ipv4Addr::new(10, 9, 0, 20));
    let mut server = bed.up(&server_file);
    machine.wait_for("eth0: 10.9.0.20/24 by DHCP", LIMIT).unwrap();
    let inner = "10.78.0.2";
    bed.wait_for_answer(&machine, inner);

    // A renewal is refused, and there is another address.
    dhcp.lease(Ipv4Addr::new(10, 9, 0, 21));
    machine.wait_for("eth0: the lease of 10.9.0.20 is over", LIMIT).unwrap();
    machine.wait_for("eth0: 10.9.0.21/24 by DHCP", LIMIT).unwrap();
    bed.wait_for_answer(&machine, inner);

    machine.set_link(0, false).unwrap();
    machine.wait_for("eth0: the link is lost", LIMIT).unwrap();
    machine.set_link(0, true).unwrap();
    bed.wait_for_answer(&machine, inner);

    server.kill().unwrap();
    drop(server);
    let _server = bed.up(&server_file);
    bed.wait_for_answer(&machine, inner);
}

#[test]
fn an_appliance_whose_state_disk_is_full_connects_and_says_so() {
    let name = "an_appliance_whose_state_disk_is_full_connects_and_says_so";
    let Some(bed) = Bed::for_test_with(name, &["mkfs.ext4"]) else { return };
    let [server, client] = bed.write_wireguard();
    let settings = bed.scratch.write("appliance.conf", "[eth0]\naddress = 10.9.0.2/24\n").unwrap();
    let image = bed.build(&[&client], &["--network", settings.to_str().unwrap()]);
    let disk = bed.full_disk("adit-state");
    let mut machine = bed.boot_with(&image, &["10.9.0.1/24"], disk);
    let _server = bed.up(&server);
    machine.wait_for("the state is kept on /dev/vda", LIMIT).unwrap();
    bed.wait_for_answer(&machine, INNER);
    machine.wait_for("No space left on device", LIMIT).unwrap();
}
