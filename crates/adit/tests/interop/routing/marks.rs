//! A mark, a device and a routing table of a tunnel's own.

use std::time::Duration;

use adit_testbed::{MAX_WAIT, can_run, program, wait_until, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, Transport};

const WAIT: Duration = MAX_WAIT;
/// The server's address, which the client has a route to for marked datagrams alone.
const SERVER: &str = "10.77.0.1";

/// All traffic goes into the tunnel, and the server is reached by the mark of the file; pushed routes are in the table that
/// the file names, where only the test's own rule would lead.
#[test]
fn a_mark_a_device_and_a_table_of_the_file() {
    if !can_run("marks", &[&PROGRAMS[..], &["ss"]].concat()) {
        return;
    }
    for (transport, sockets) in [(Transport::Udp4, "-uan"), (Transport::Tcp4, "-tan")] {
        let options = Options { transport, ..Options::BASE };
        let mut bed = Bed::build_with(&options, Program::Adit, &[Program::Adit], |_, [server, client]| {
            server.push_str("multihome\nbind-dev wire1\nmark 5\npush \"route 10.50.0.0 255.255.0.0\"\n");
            *client = client.replace("remote 10.9.1.1 ", &format!("remote {SERVER} "));
            client.push_str("mark 77\nbind-dev wire1\nroute-table 99\nredirect-gateway def1\n");
        })
        .unwrap();
        for address in [SERVER, "10.50.0.1"] {
            let network = &bed.server.namespace;
            network.ip(&["address", "add", &format!("{address}/32"), "dev", "lo"]).unwrap();
        }
        let client = &bed.clients[0].namespace;
        client.ip(&["rule", "add", "fwmark", "77", "lookup", "55", "priority", "100"]).unwrap();
        client.ip(&["route", "add", SERVER, "via", "10.9.1.1", "table", "55"]).unwrap();
        // The server answers marked datagrams alone.
        let server = &bed.server.namespace;
        server.ip(&["route", "del", "10.9.1.0/24"]).unwrap();
        server.ip(&["rule", "add", "fwmark", "5", "lookup", "55", "priority", "100"]).unwrap();
        server.ip(&["route", "add", "10.9.1.0/24", "dev", "wire1", "table", "55"]).unwrap();

        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        bed.clients[0]
            .process()
            .wait_for_line(0, Program::Adit.up_line(), WAIT)
            .unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
        let client = &bed.clients[0].namespace;
        wait_until_reachable(client, "10.8.0.1".parse().unwrap(), WAIT).unwrap();
        let rules = client.ip(&["rule", "show"]).unwrap();
        assert!(rules.contains("not from all fwmark 0x4d ") && !rules.contains("0x61646974"), "{rules}");
        let table = client.ip(&["route", "show", "table", "99"]).unwrap();
        assert!(table.contains("10.50.0.0/16 dev tun0"), "{table}");
        for host in [&bed.server, &bed.clients[0]] {
            let mut list = program("ss").unwrap();
            list.arg(sockets);
            let listing = host.namespace.run(list).unwrap();
            assert!(listing.contains("%wire1:"), "{listing}");
        }
        bed.clients[0].stop().unwrap();
        let client = &bed.clients[0].namespace;
        let gone = || client.ip(&["route", "show", "table", "99"]).is_ok_and(|table| table.is_empty());
        wait_until("the table to be empty", WAIT, gone).unwrap();
        let rules = || client.ip(&["rule", "show"]).unwrap();
        wait_until("its rules to be gone", WAIT, || !rules().contains("not from all fwmark"))
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", rules(), bed.logs()));
    }
}
