use std::collections::BTreeSet;

use super::*;

/// A block with something in the form of PEM.
fn block(directive: &str, kind: &str) -> String {
    format!(
        "<{directive}>\ndev tun\nserver 1 2\n-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n</{directive}>\n"
    )
}

/// The blocks that every server's configuration has.
fn blocks() -> String {
    block("ca", "CERTIFICATE") + &block("cert", "CERTIFICATE") + &block("key", "PRIVATE KEY")
}

/// Just enough of a server's configuration.
fn layout(lines: &str) -> Result<Layout, String> {
    let text = format!("dev adit0\ndev-type tun\ntopology subnet\ndh none\n{lines}{}", blocks());
    of(&parse(Path::new("server.conf"), &text)?, Some("WireGuard"))
}

fn ips(words: &[&str]) -> Vec<IpAddr> {
    words.iter().map(|word| word.parse().unwrap()).collect()
}

fn nets(words: &[&str]) -> Vec<IpNet> {
    words.iter().map(|word| word.parse().unwrap()).collect()
}

const SERVER: &str = "server 10.8.0.0 255.255.255.0 nopool\nifconfig-pool 10.8.0.2 10.8.0.127 255.255.255.0\nifconfig-ipv6 fd00::1/64 fd00::2\n\
     ifconfig-ipv6-pool fd00::1000/64\n";

#[test]
fn addresses_follow_the_pool() {
    let layout = layout(SERVER).unwrap();
    assert_eq!(layout.server, nets(&["10.8.0.1/24", "fd00::1/64"]));
    let mut taken = BTreeSet::new();
    for expected in [["10.8.0.128", "fd00::107e"], ["10.8.0.129", "fd00::107f"]] {
        let free = layout.free_addresses(&taken).unwrap();
        assert_eq!(free, ips(&expected));
        taken.extend(free);
    }
    // One address of a pair is enough to take both.
    taken.insert("fd00::1080".parse().unwrap());
    assert_eq!(layout.free_addresses(&taken), Some(ips(&["10.8.0.131", "fd00::1081"])));
    taken.extend((128..255).map(|number| IpAddr::from([10, 8, 0, number])));
    assert_eq!(layout.free_addresses(&taken), None);
}

#[test]
fn without_room_it_is_said_what_to_write() {
    for lines in [
        "server 10.8.0.0 255.255.255.0\n",
        "server 10.8.0.0 255.255.255.0 nopool\n",
        "server 10.8.0.0 255.255.255.0 nopool\nifconfig-pool 10.8.0.2 10.8.0.254\n",
        "server-ipv6 fd00::/64\n",
    ] {
        let said = layout(lines).unwrap_err();
        assert!(said.contains("nopool"), "{lines}: {said}");
    }
    let layout = layout("server 10.8.0.0 255.255.255.248 nopool\nifconfig-pool 10.8.0.2 10.8.0.5\n").unwrap();
    assert_eq!(layout.free_addresses(&BTreeSet::new()), Some(ips(&["10.8.0.6"])));
}

#[test]
fn what_is_pushed_to_openvpn_is_written_for_wireguard() {
    let layout = |lines: &str| layout(&format!("{SERVER}{lines}")).unwrap();
    let networks = nets(&["10.8.0.0/24", "fd00::/64"]);
    let plain = layout("");
    assert_eq!((plain.routes, plain.dns), (networks.clone(), Vec::new()));
    let split = layout(
        "push \"route 192.168.1.0 255.255.255.0\"\npush \"route 192.168.7.7\"\npush \"route-ipv6 fd01::/48\"\n\
         push \"route-ipv6 fd02::7\"\npush \"route 192.0.2.1 255.255.255.255 net_gateway\"\n\
         push \"dhcp-option DNS 10.8.0.1\"\n\
         push \"dhcp-option DOMAIN lan.example\"\n",
    );
    let mut expected = networks.clone();
    expected.extend(nets(&["192.168.1.0/24", "192.168.7.7/32", "fd01::/48", "fd02::/64"]));
    let sorted = |mut nets: Vec<IpNet>| {
        nets.sort();
        nets
    };
    assert_eq!(sorted(split.routes), sorted(expected));
    assert_eq!(split.dns, ["10.8.0.1", "lan.example"]);
    let full = layout("push \"redirect-gateway def1 ipv6\"\n");
    assert_eq!(full.routes, nets(&["0.0.0.0/0", "::/0"]));
    let ipv4 = layout("push \"redirect-gateway def1\"\n");
    assert_eq!(ipv4.routes, nets(&["0.0.0.0/0", "fd00::/64"]));
}

#[test]
fn room_is_made_in_what_init_wrote() {
    let text = "port 1194\ndev tun\ntopology subnet\nserver 10.8.0.0 255.255.255.0\nserver-ipv6 fd00::/64\n\
                # server x\ndh none\n"
        .to_owned();
    let text = text + &blocks();
    let path = Path::new("server.conf");
    let room = Room { device: "adit0", other: "WireGuard" };
    let changed = with_room(&text, &parse(path, &text).unwrap(), room);
    let named = text.replacen("dev tun\n", "dev adit0\ndev-type tun\n", 1).replacen(
        "server-ipv6 fd00::/64\n",
        "ifconfig-ipv6 fd00::1/64 fd00::2\nifconfig-ipv6-pool fd00::1000/64\npush \"tun-ipv6\"\n",
        1,
    );
    let expected = named.replacen(
        "server 10.8.0.0 255.255.255.0\n",
        "server 10.8.0.0 255.255.255.0 nopool\n# The addresses above these are for WireGuard.\n\
             ifconfig-pool 10.8.0.2 10.8.0.127 255.255.255.0\n",
        1,
    );
    assert_eq!(*changed, expected);
    // Once is enough, and a name that the owner chose stays.
    let other = Room { device: "other", ..room };
    assert_eq!(*with_room(&changed, &parse(path, &changed).unwrap(), other), *changed);
    let layout = of(&parse(path, &changed).unwrap(), Some("WireGuard")).unwrap();
    assert_eq!(layout.device.as_deref(), Some("adit0"));
    assert_eq!(layout.free_addresses(&BTreeSet::new()), Some(ips(&["10.8.0.128", "fd00::107e"])));
}

#[test]
fn a_device_gets_a_name_and_all_else_stays() {
    let text = "port 1194\ndev tun\ntopology subnet\nserver 10.8.0.0 255.255.255.0\ndh none\n".to_owned()
        + &blocks();
    let path = Path::new("server.conf");
    let changed = with_device(&text, &parse(path, &text).unwrap(), "adit0");
    assert_eq!(*changed, text.replacen("dev tun\n", "dev adit0\ndev-type tun\n", 1));
    let config = parse(path, &changed).unwrap();
    assert_eq!(*with_device(&changed, &config, "other"), *changed, "a name that the owner chose stays");
    let layout = of(&config, None).unwrap();
    assert_eq!(layout.pool, ("10.8.0.2".parse().unwrap(), "10.8.0.254".parse().unwrap()));
    assert!(of(&config, Some("WireGuard")).is_err());
}
