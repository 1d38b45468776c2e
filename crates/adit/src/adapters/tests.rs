//! An OpenVPN server, a WireGuard file and a file of swanctl as endpoints of one tunnel.

use std::path::Path;

use super::ALL;
use adit_host::adapter::Configuration;
use adit_host::conflicts::check;
use adit_host::endpoints::{Named, are_one_tunnel, share};

const KEYS: &str = "dh none\n<ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
                    <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
                    <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n";

fn read(file: &str, text: &str) -> Box<dyn Configuration> {
    let adapter = ALL.iter().find(|adapter| adapter.recognizes(text.as_bytes())).expect("an adapter");
    adapter.read(Path::new(file), text.as_bytes()).expect("a good file")
}

fn server() -> Box<dyn Configuration> {
    read("udp.conf", &format!("dev tun0\nserver 10.8.0.0 255.255.255.0\n{KEYS}"))
}

fn interface(file: &str, lines: &str) -> Box<dyn Configuration> {
    read(file, &format!("[Interface]\n{lines}"))
}

fn problems(lines: &str) -> Vec<String> {
    let (server, interface) = (server(), interface("tun0.conf", lines));
    let [first, last] =
        [check(&[&*server, &*interface]), check(&[&*interface, &*server])].map(|outcome| outcome.err());
    assert_eq!(first, last, "the order of the files does not matter");
    first.map(|why| why.lines().map(str::to_owned).collect()).unwrap_or_default()
}

#[test]
fn an_interface_beside_a_server_is_known_by_its_name_and_agrees_with_it() {
    let is_beside = |file: &str| are_one_tunnel(&interface(file, "").facts(), &server().facts());
    assert!(is_beside("/etc/wireguard/tun0.conf"));
    assert!(!is_beside("tun1.conf"));
    assert_eq!(problems("Address=10.8.0.1/24\nMTU=1500\nListenPort=1194\n"), [""; 0]);
    assert_eq!(problems("Address=10.8.0.1/24\nFwMark=7\nListenPort=51820\n"), [""; 0]);
    for (lines, start) in [
        (
            "ListenPort=1194\n",
            "tun0.conf: no `Address`, but the server's address is 10.8.0.1/24 at udp.conf:2: ",
        ),
        ("Address=10.8.0.9/24\n", "tun0.conf:2: `Address = 10.8.0.9/24`, but "),
        ("Address=10.8.0.1/24\nMTU=1420\n", "tun0.conf:3: `MTU = 1420`, but the MTU is 1500 at udp.conf:1: "),
        (
            "Address=10.8.0.1/24\nFwMark=7\nListenPort=1194\n",
            "tun0.conf:3: a firewall mark, but the server has that port and no mark at ",
        ),
    ] {
        let found = problems(lines);
        assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
    }
}

fn ipsec(lines: &str) -> Box<dyn Configuration> {
    read(
        "swanctl.conf",
        &format!(
            "{lines}\nconnections {{\n a {{\n remote_addrs = 192.0.2.1\n local {{\n auth = psk\n id = a.example\n }}\n \
             remote {{\n auth = psk\n id = b.example\n }}\n children {{\n n {{\n local_ts = 10.8.0.0/24\n \
             remote_ts = 10.8.0.7/32\n }}\n }}\n }}\n}}\nsecrets {{\n ike-1 {{\n secret = a secret\n }}\n}}\n"
        ),
    )
}

#[test]
fn a_file_of_swanctl_beside_a_server_is_known_by_its_device() {
    let beside = ipsec("#adit: device = tun0");
    assert!(are_one_tunnel(&beside.facts(), &server().facts()));
    assert!(!are_one_tunnel(&ipsec("#adit: device = tun1").facts(), &server().facts()));
    assert!(!are_one_tunnel(&ipsec("").facts(), &server().facts()));
    let [server, interface] = [server(), interface("tun0.conf", "Address=10.8.0.1/24\nListenPort=51820\n")];
    assert_eq!(check(&[&*beside, &*interface, &*server]), Ok(()));
}

/// Whatever file is named first: files that join share the tunnel with each other, too.
#[test]
fn three_protocols_share_one_tunnel_in_each_order_of_the_files() {
    let all = [ipsec("#adit: device = tun0"), interface("tun0.conf", "Address=10.8.0.1/24\n"), server()];
    let facts: Vec<_> = all.iter().map(|configuration| configuration.facts()).collect();
    for order in [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0]] {
        let names = ["swanctl", "tun0", "udp"];
        let named: Vec<_> =
            order.iter().map(|file| Named { name: names[*file], facts: &facts[*file] }).collect();
        let shared = share(&named);
        let of = |file: usize| shared[file].as_ref().expect("it shares").names.clone();
        assert_eq!(of(0).len(), 3, "{:?}", of(0));
        assert!((0..3).all(|file| of(file) == of(0)), "one tunnel");
    }
    let alone = [Named { name: "swanctl", facts: &facts[0] }, Named { name: "tun0", facts: &facts[1] }];
    assert!(share(&alone).iter().all(Option::is_none), "no file leads");
}
