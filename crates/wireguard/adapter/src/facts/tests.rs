use crate::file::WireGuardConfiguration;
use adit_host::conflicts::check;

fn wireguard(name: &str, lines: &str) -> WireGuardConfiguration {
    let parsed = adit_wireguard_config::parse(format!("[Interface]\n{lines}").as_bytes(), name);
    WireGuardConfiguration::new(name.into(), parsed.expect("a good file"))
}

fn between(one: &str, other: &str) -> Vec<String> {
    let (one, other) = (wireguard("wg0.conf", one), wireguard("wg1.conf", other));
    let outcome = check(&[&one, &other]);
    outcome.err().map(|why| why.lines().map(str::to_owned).collect()).unwrap_or_default()
}

#[test]
fn wireguard_files_share_neither_port_nor_addresses_nor_default_route() {
    let peer =
        "[Peer]\nPublicKey=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\nAllowedIPs=10.9.0.0/16,0.0.0.0/0\n";
    assert_eq!(
        between("ListenPort=51820\n", "MTU=1400\nListenPort=51820\n"),
        ["wg1.conf:3: UDP port 51820 is that of wg0.conf:2 too: each tunnel needs its own"]
    );
    assert_eq!(
        between("Address=10.0.0.1/24\n", "Address=10.0.0.9/16\n"),
        ["wg1.conf:2: the address 10.0.0.9/16 contradicts 10.0.0.1/24 at wg0.conf:2"]
    );
    assert_eq!(between(peer, peer), ["wg1.conf:4: a default route for IPv4 contradicts that at wg0.conf:4"]);
    for (one, other) in [
        ("Address=10.0.0.1/24\n", "Address=10.0.0.9/32\n"),
        ("Address=10.0.0.1/32\n", "Address=10.0.0.9/32\n"),
        ("Address=10.0.0.1/24\n", "Address=10.0.1.1/24\n"),
        ("ListenPort=0\n", "ListenPort=0\n"),
    ] {
        assert_eq!(between(one, other), [""; 0], "{one} {other}");
    }
    assert_eq!(between(&format!("Table=off\n{peer}"), peer), [""; 0]);
    assert_eq!(between("Address=10.0.0.1/32\n", "Address=10.0.0.1/24\n").len(), 1);
}

#[test]
fn the_same_device_is_refused() {
    let (one, other) = (wireguard("a/wg0.conf", ""), wireguard("b/wg0.conf", ""));
    let why = check(&[&one, &other]);
    assert_eq!(
        why.unwrap_err(),
        "b/wg0.conf: the device wg0 is that of a/wg0.conf too: each tunnel needs its own"
    );
}
