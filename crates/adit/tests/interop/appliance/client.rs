//! An appliance as a client.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use adit_testbed::{Machine, RunningMachine, SharedFolder, wait_until};

use super::advertisement::advertise;
use super::bed::{Bed, LIMIT, WITHOUT_SELF_TESTS, machine};
use super::dhcp::DhcpServer;
use super::dhcp6::answer_once;
use super::sntp;

/// The stub of EFI programs (Debian: `systemd-boot-efi`).
const STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
/// The inner address of the appliance with WireGuard.
const INNER: &str = "10.77.0.2";
/// Seconds after which a watchdog bites that is not fed.
const MARGIN: u64 = 15;

#[test]
fn an_appliance_is_a_client_of_wireguard_and_ipsec_with_a_static_address_and_its_power_button_ends_it() {
    let name =
        "an_appliance_is_a_client_of_wireguard_and_ipsec_with_a_static_address_and_its_power_button_ends_it";
    let Some(bed) = Bed::for_test(name) else { return };
    let [server, client] = bed.write_wireguard();
    let [responder, initiator] = bed.write_ipsec(["10.79.1.0/24", "10.79.2.1/32"], ["10.9.0.1", "10.9.0.2"]);
    let settings = "[eth0]\naddress = 10.9.0.2/24, 10.79.2.1/32\n";
    let settings = bed.scratch.write("appliance.conf", settings).unwrap();
    let image = bed.build(&[&client, &initiator], &["--network", settings.to_str().unwrap()]);
    let mut machine = bed.boot(&image, &["10.9.0.1/24", "10.79.1.1/24"]);
    let _servers = [bed.up(&server), bed.up(&responder)];
    bed.wait_for_answer(&machine, INNER);
    bed.wait_for_answer(&machine, "10.79.2.1");
    machine.press_power_button().unwrap();
    machine.wait_for("the power button: the tunnels end", LIMIT).unwrap();
    let status = machine.process.wait(LIMIT).unwrap();
    assert!(status.success(), "{}", machine.process.log());
}

/// Its file is in a shared folder, so that virtio-fs is tested, too; its clock is set, its status written, and its watchdog bites when
/// its first process stops.
#[test]
fn an_openvpn_client_goes_on_after_a_new_lease_a_loss_of_the_link_and_a_killed_server() {
    let name = "an_openvpn_client_goes_on_after_a_new_lease_a_loss_of_the_link_and_a_killed_server";
    let Some(bed) = Bed::for_test(name) else { return };
    let [server_file, client] = bed.write_openvpn("10.9.0.1");
    let mut machine = boot_with_shared_folder(&bed, name, &client);
    let time = sntp::answer_once(&bed.namespace, Duration::from_secs(3600), LIMIT);
    let dhcp = DhcpServer::start(&bed.namespace, Ipv4Addr::new(10, 9, 0, 20));
    let mut server = bed.up(&server_file);
    machine.wait_for("eth0: 10.9.0.20/24 by DHCP", LIMIT).unwrap();
    let inner = "10.78.0.2";
    bed.wait_for_answer(&machine, inner);
    machine.wait_for("the clock was off by 3", LIMIT).unwrap();
    time.join().unwrap();
    wait_for_name_servers(&bed, &mut machine);

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
    watchdog_bites_when_the_first_process_stops(machine);
}

/// Boots an image whose client's file is in a folder that it mounts by virtio-fs, or in the image where that cannot be had.
fn boot_with_shared_folder(bed: &Bed, test: &str, client: &Path) -> RunningMachine {
    let parameters = format!("softdog.soft_margin={MARGIN} ADIT_TEST_STALL=1 {WITHOUT_SELF_TESTS}");
    let is_shared = Machine::can_share(test);
    let in_image = [client];
    let image = bed.build(if is_shared { &[] } else { &in_image }, &[]);
    let folder = || SharedFolder { folder: bed.folder("shared", &[client]), tag: "adit-config".to_owned() };
    let machine = Machine { shared: is_shared.then(folder), parameters, ..machine(&image) };
    bed.start(&machine, &["10.9.0.1/24"])
}

/// The machine takes the name servers of an advertisement and of DHCPv6.
fn wait_for_name_servers(bed: &Bed, machine: &mut RunningMachine) {
    let answered = answer_once(&bed.namespace, "2001:db8::54".parse().unwrap(), LIMIT);
    let advertised = wait_until("name servers of an advertisement", LIMIT, || {
        // The device needs an address of the link, which it has after a second.
        let _ = advertise(&bed.namespace, "2001:db8::53".parse().unwrap());
        machine.process.log().contains("name servers by a router advertisement: 2001:db8::53")
    });
    advertised.unwrap();
    machine.wait_for("eth0: name servers by DHCPv6: 2001:db8::54", LIMIT).unwrap();
    answered.join().unwrap();
}

/// The machine has run for longer than its watchdog waits, and is started anew when its first process feeds the watchdog no more,
/// which in this emulator is the machine's end. Debian's kernel for virtual machines has the watchdog `softdog`, and drivers of none
/// that QEMU has.
fn watchdog_bites_when_the_first_process_stops(mut machine: RunningMachine) {
    let status = machine.wait_for(" MiB of memory free; eth0 10.9.0.2", LIMIT).unwrap();
    assert!(status.contains("; tun0 10.78.0.2 received "), "{status}");
    let (_, up) = status.split_once("up ").unwrap();
    let up: u64 = up.split(' ').next().unwrap().parse().unwrap();
    assert!(up > 2 * MARGIN, "{status}");
    assert!(machine.process.is_running(), "{}", machine.process.log());
    machine.press_power_button().unwrap();
    machine.wait_for("softdog: Initiating system reboot", LIMIT).unwrap();
    machine.process.wait(LIMIT).unwrap();
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
