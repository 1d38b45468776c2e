//! An OpenVPN server and a WireGuard file as endpoints of one tunnel.

use std::path::Path;

use super::ALL;
use adit_host::adapter::Configuration;
use adit_host::conflicts::check;
use adit_host::endpoints::are_one_tunnel;

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
