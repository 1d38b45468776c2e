//! An appliance as a server of both protocols.

use adit_testbed::{Process, wait_until_reachable};

use super::bed::{Bed, LIMIT};

/// Waits until the namespace reaches an address through the tunnel of one of its clients.
fn wait_for_server(bed: &Bed, address: &str, client: &Process, console: &str) {
    let reached = wait_until_reachable(&bed.namespace, address.parse().unwrap(), LIMIT);
    assert!(reached.is_ok(), "{reached:?}\n{}\n{console}", client.log());
}

#[test]
fn an_appliance_serves_clients_of_both_protocols_and_listens_to_nothing_else() {
    let name = "an_appliance_serves_clients_of_both_protocols_and_listens_to_nothing_else";
    let Some(bed) = Bed::for_test(name) else { return };
    // The files of the server are those that the tests of clients run in the namespace, and the other way round.
    let [wireguard, wireguard_client] = bed.write_wireguard_to("10.9.0.2");
    let [openvpn, openvpn_client] = bed.write_openvpn("10.9.0.2");
    let settings = bed.scratch.write("appliance.conf", "[eth0]\naddress = 10.9.0.2/24\n").unwrap();
    let image = bed.build(&[&wireguard, &openvpn], &["--network", settings.to_str().unwrap()]);
    let machine = bed.boot(&image, &["10.9.0.1/24"]);
    let clients = [bed.up(&wireguard_client), bed.up(&openvpn_client)];
    for (address, client) in ["10.77.0.1", "10.78.0.1"].into_iter().zip(&clients) {
        wait_for_server(&bed, address, client, &machine.process.log());
    }
    for port in [22, 23, 53, 67, 68, 80, 111, 443, 1194, 5353, 51820] {
        let refused = bed.is_tcp_refused("10.9.0.2", port);
        assert!(refused, "something listens on TCP port {port}");
    }
}
