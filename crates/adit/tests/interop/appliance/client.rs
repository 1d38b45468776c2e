//! An appliance as a client.

use std::net::Ipv4Addr;

use adit_testbed::{Machine, wait_until};

use super::advertisement::advertise;
use super::bed::{Bed, LIMIT};
use super::dhcp::DhcpServer;
use super::dhcp6::answer_once;

/// The stub of EFI programs (Debian: `systemd-boot-efi`).
const STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
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
    let answered = answer_once(&bed.namespace, "2001:db8::54".parse().unwrap(), LIMIT);
    let advertised = wait_until("name servers of an advertisement", LIMIT, || {
        // The device needs an address of the link, which it has after a second.
        let _ = advertise(&bed.namespace, "2001:db8::53".parse().unwrap());
        machine.process.log().contains("name servers by a router advertisement: 2001:db8::53")
    });
    advertised.unwrap();
    machine.wait_for("eth0: name servers by DHCPv6: 2001:db8::54", LIMIT).unwrap();
    answered.join().unwrap();

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
fn an_efi_program_with_its_configuration_on_a_disk_connects_though_the_disk_of_its_state_is_full() {
    let name =
        "an_efi_program_with_its_configuration_on_a_disk_connects_though_the_disk_of_its_state_is_full";
    if !Machine::can_boot_efi(name) {
        return;
    }
    let Some(bed) = Bed::for_test_with(name, &["mkfs.ext4", STUB]) else { return };
    let [server, client] = bed.write_wireguard();
    let settings = bed.scratch.write("appliance.conf", "[eth0]\naddress = 10.9.0.2/24\n").unwrap();
    let arguments =
        ["--network", settings.to_str().unwrap(), "--stub", STUB, "--command-line", Machine::PARAMETERS];
    let image = bed.build(&[], &arguments);
    let disks = vec![bed.full_disk("adit-state"), bed.disk("adit-config", &[&client])];
    let mut machine = bed.boot_efi(&image, &["10.9.0.1/24"], disks);
    let _server = bed.up(&server);
    machine.wait_for("the state is kept on /dev/vdb", LIMIT).unwrap();
    bed.wait_for_answer(&machine, INNER);
    machine.wait_for("No space left on device", LIMIT).unwrap();
}
