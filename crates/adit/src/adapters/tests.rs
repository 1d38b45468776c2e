//! An OpenVPN server and a WireGuard file as endpoints of one tunnel.

use std::path::Path;

use crate::openvpn::adapter::file::OpenVpnConfiguration;
use crate::wireguard::adapter::file::WireGuardConfiguration;
use adit_host::adapter::Configuration as _;
use adit_host::conflicts::check;
use adit_host::endpoints::are_one_tunnel;

const KEYS: &str = "dh none\n<ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
                    <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
                    <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n";

fn server() -> OpenVpnConfiguration {
    let none = |_: &Path| Err("no such file".to_owned());
    let text = format!("dev tun0\nserver 10.8.0.0 255.255.255.0\n{KEYS}");
    let parsed = adit_openvpn_config::parse("udp.conf", text.as_bytes(), &none).expect("a good file");
    OpenVpnConfiguration::new("udp.conf".into(), parsed)
}

fn interface(file: &str, lines: &str) -> WireGuardConfiguration {
    let text = format!("[Interface]\n{lines}");
    let parsed = adit_wireguard_config::parse(text.as_bytes(), file).expect("a good file");
    WireGuardConfiguration::new(file.into(), parsed)
}

fn problems(lines: &str) -> Vec<String> {
    let (server, interface) = (server(), interface("tun0.conf", lines));
    let [first, last] =
        [check(&[&server, &interface]), check(&[&interface, &server])].map(|outcome| outcome.err());
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
