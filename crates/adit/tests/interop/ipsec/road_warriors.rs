//! Peers that get their inner addresses of a gateway.

use std::net::IpAddr;

use adit_testbed::{wait_until, wait_until_reachable};

use super::bed::{End, Program, ROLES, WAIT, is_ready, linked, row_of};
use super::nat::{KEEPS_PORTS, router};

/// The networks of the inner addresses.
const POOLS: &str = "pools {\n v4 {\n addrs = 10.99.0.0/24\n subnet = 10.77.1.0/24\n }\n v6 {\n addrs = fd00:99::/112\n }\n}\n";
const SECRETS: &str = "secrets {\n ike-1 {\n secret = one key\n }\n}\n";
const BEHIND: &str = "10.77.1.0/24, fd00:77:1::/64, 10.99.0.0/24, fd00:99::/112";

fn section(remote: &str, lines: &str, ids: [&str; 2], child: &str) -> String {
    format!(
        "connections {{\n rw {{\n version = 2\n {remote}\n proposals = aes256gcm16-prfsha384-x25519\n unique = replace\n {lines}\n \
         local {{\n auth = psk\n {}\n }}\n remote {{\n auth = psk\n {}\n }}\n children {{\n c {{\n esp_proposals = aes256gcm16\n {child}\n }}\n }}\n }}\n}}\n{SECRETS}",
        ids[0], ids[1]
    )
}

fn gateway() -> String {
    let child = format!("local_ts = {BEHIND}\n remote_ts = dynamic");
    section("", "pools = v4, v6", ["id = gateway.example", "id = %any"], &child) + POOLS
}

fn client(gateway: &str, name: &str, remote_ts: &str) -> String {
    let child = format!(
        "remote_ts = {remote_ts}\n start_action = start\n close_action = start\n dpd_action = restart"
    );
    let own = format!("id = {name}");
    section(
        &format!("remote_addrs = {gateway}"),
        "vips = 0.0.0.0, ::",
        [&own, "id = gateway.example"],
        &child,
    )
}

/// strongSwan gives its device the addresses that it gets.
const INSTALLS: &str = "install_virtual_ip = yes";

/// The address of that number in the pools answers.
fn reaches(from: &End, address: &str, others: &[&End]) {
    let address: IpAddr = address.parse().unwrap();
    if let Err(error) = wait_until_reachable(&from.namespace, address, WAIT) {
        let logs: Vec<String> = others.iter().map(|end| end.log()).collect();
        panic!("{address}: {error}\n{}\n====\n{}", from.log(), logs.join("\n====\n"));
    }
}

#[test]
fn a_client_gets_addresses_of_both_families_of_a_gateway() {
    if !is_ready("ipsec road warrior") {
        return;
    }
    for programs in ROLES {
        row_of("road warrior", programs, |_| {
            let mut ends = linked(programs);
            // strongSwan has no address in the networks of its pools, and cannot route from them.
            let behind = "10.77.1.0/24, fd00:77:1::/64";
            ends[0].write_text(&gateway().replace(BEHIND, behind), "", "");
            ends[1].write_text(&client("10.9.0.1", "alice.example", behind), INSTALLS, "");
            ends.iter_mut().for_each(End::start);
            let [gateway, client] = &ends;
            client.reaches(gateway);
            for address in ["10.99.0.1", "fd00:99::1"] {
                reaches(gateway, address, &[client]);
            }
        });
    }
}

/// The inner addresses of a client of adit.
fn inner(client: &End) -> String {
    client.namespace.ip(&["-o", "-4", "address", "show", "dev", "ipsec0"]).unwrap_or_default()
}

#[test]
fn two_clients_behind_one_nat_reach_each_other_and_have_their_addresses_again_after_a_sleep_and_after_a_restart()
 {
    if !is_ready("ipsec road warriors") {
        return;
    }
    let programs = [Program::Adit, Program::StrongSwan];
    row_of("road warriors behind one NAT", programs, |_| {
        let mut ends = [
            End::create(1, Program::Adit),
            End::create(2, Program::StrongSwan),
            End::create(3, Program::Adit),
        ];
        let _router = router(&ends, KEEPS_PORTS);
        ends[0].write_text(&gateway(), "", "");
        ends[1].write_text(&client("10.0.0.100", "alice.example", BEHIND), INSTALLS, "");
        ends[2].write_text(&client("10.0.0.100", "bob.example", BEHIND), "", "");
        ends[0].forwards();
        for end in &mut ends {
            end.start();
            if end.program == Program::StrongSwan {
                wait_until("the child SA", WAIT, || !end.child_sas("c").is_empty()).unwrap();
            }
        }
        let [first, second, third] = &ends;
        third.reaches(first);
        reaches(second, "10.99.0.2", &[third, first]);
        reaches(third, "10.99.0.1", &[second, first]);
        // The client is gone without a word, and comes back.
        ends[2].process().kill().unwrap();
        ends[2].start();
        ends[2].reaches(&ends[0]);
        assert!(inner(&ends[2]).contains("10.99.0.2/32"), "{}", inner(&ends[2]));
        let before = ends[1].child_sas("c");
        ends[0].process().terminate(WAIT).unwrap();
        ends[0].start();
        ends[2].reaches(&ends[0]);
        wait_until("another child SA", WAIT, || {
            let now = ends[1].child_sas("c");
            !now.is_empty() && now.iter().all(|spi| !before.contains(spi))
        })
        .unwrap();
        ends[1].reaches(&ends[0]);
    });
}

#[test]
fn all_packets_of_a_client_go_into_a_full_tunnel_and_names_are_resolved_there() {
    if !is_ready("ipsec full tunnel of a road warrior") {
        return;
    }
    let programs = [Program::StrongSwan, Program::Adit];
    row_of("full tunnel of a road warrior", programs, |_| {
        let mut ends = linked(programs);
        let all = "0.0.0.0/0, ::/0";
        let with_dns = gateway().replace(BEHIND, all).replace("subnet =", "dns = 10.77.1.1\n subnet =");
        ends[0].write_text(&with_dns, "", "");
        ends[1].write_text(&client("10.9.0.1", "alice.example", all), "", "");
        ends[0].start();
        let resolv_conf = ends[1].path("resolv.conf");
        std::fs::write(&resolv_conf, "nameserver 192.0.2.53\n").unwrap();
        ends[1].start_adit(&["--resolv-conf", resolv_conf.to_str().unwrap()]);
        let [gateway, client] = &ends;
        client.reaches(gateway);
        // The second address has no route of its own.
        reaches(client, "10.78.1.1", &[gateway]);
        let servers = || std::fs::read_to_string(&resolv_conf).unwrap_or_default();
        wait_until("the name server", WAIT, || servers().contains("nameserver 10.77.1.1")).unwrap();
        ends[1].process().terminate(WAIT).unwrap();
        assert_eq!(servers(), "nameserver 192.0.2.53\n", "it is taken back");
    });
}
