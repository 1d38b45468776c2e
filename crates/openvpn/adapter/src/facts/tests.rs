use std::path::Path;

use crate::file::OpenVpnConfiguration;
use adit_host::adapter::Configuration;
use adit_host::conflicts::check;
use adit_host::endpoints::{Named, are_one_tunnel, share};

const CA: &str = "<ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n";

fn parse(name: &str, lines: &str) -> Box<dyn Configuration> {
    let none = |_: &Path| Err("no such file".to_owned());
    let parsed = adit_openvpn_config::parse(name, format!("{lines}{CA}").as_bytes(), &none);
    Box::new(OpenVpnConfiguration::new(name.into(), parsed.expect("a good file")))
}

/// The contradictions between a client with these lines and another client.
fn between(one: &str, other: &str) -> Vec<String> {
    let client = |lines: &str| format!("client\nremote vpn.example\nauth-user-pass\n{lines}");
    let [one, other] = [parse("a.conf", &client(one)), parse("b.conf", &client(other))];
    let outcome = check(&[&*one, &*other]);
    outcome.err().map(|why| why.lines().map(str::to_owned).collect()).unwrap_or_default()
}

#[test]
fn what_one_tunnel_alone_can_have_is_named_with_both_lines() {
    assert_eq!(
        between("verb 3\ndev tun7\n", "dev tun7\n"),
        ["b.conf:4: the device tun7 is that of a.conf:5 too: each tunnel needs its own"]
    );
    for lines in [
        "lport 4000\n",
        "management 127.0.0.1 7505\n",
        "management /run/m.sock unix\n",
        "status /run/s\n",
        "writepid /run/p\n",
    ] {
        let found = between(lines, lines);
        assert!(
            found.len() == 1 && found[0].starts_with("b.conf:4: ") && found[0].contains("a.conf:4"),
            "{found:?}"
        );
    }
    assert_eq!(between("status /run/x\n", "writepid /run/x\n").len(), 1, "whatever it is for");
    assert_eq!(between("dev tun\nlport 0\nstatus a\n", "dev tun\nlport 0\nstatus b\n"), [""; 0]);
}

#[test]
fn a_port_at_all_addresses_is_one_at_each() {
    assert!(between("lport 4000\n", "local 192.0.2.1\nlport 4000\n").len() == 1);
    assert!(between("local 192.0.2.2\nlport 4000\n", "local 192.0.2.1\nlport 4000\n").is_empty());
}

#[test]
fn settings_of_the_process_must_not_contradict() {
    assert_eq!(
        between("user alice\nnice 5\n", "nice 6\nuser bob\n"),
        [
            "b.conf:5: `user bob` contradicts `user alice` at a.conf:4: the tunnels are one process",
            "b.conf:4: `nice 6` contradicts `nice 5` at a.conf:5: the tunnels are one process",
        ]
    );
    for lines in ["group a\n", "syslog a\n", "daemon a\n"] {
        assert_eq!(between(lines, &lines.replace(" a", " b")).len(), 1, "{lines}");
        assert!(between(lines, lines).is_empty() && between(lines, "").is_empty(), "{lines}");
    }
}

#[test]
fn endpoints_of_one_tunnel_share_its_device_and_what_is_remembered() {
    let server = |name: &str, lines: &str| {
        let key = "dh none\n<cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
                   <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n";
        let text = format!("dev tun0\nifconfig-pool-persist /var/pool\n{lines}{key}");
        parse(name, &text)
    };
    let udp = server("udp.conf", "server 10.8.0.0 255.255.255.0\nproto udp\n");
    let beside = |lines: &str| {
        let other = server("other.conf", lines);
        check(&[&*udp, &*other])
    };
    assert_eq!(beside("server 10.8.0.0 255.255.255.0\nproto tcp\n"), Ok(()));
    let why = beside("server 10.8.0.0 255.255.255.0\nproto udp\n").expect_err("one port");
    assert!(why.starts_with("other.conf:4: UDP port 1194 is that of udp.conf:4 too"), "{why}");
    let why = beside("server 10.9.0.0 255.255.255.0\nproto tcp\n").expect_err("another network");
    assert!(why.contains("endpoints of one tunnel"), "{why}");
    let why = beside("server 10.8.0.0 255.255.255.0\nproto tcp\nstatus /var/pool\n").expect_err("one file");
    assert!(why.contains("the file /var/pool is that of udp.conf:2 too"), "{why}");
}

const KEYS: &str = "dh none\n<ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
                    <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
                    <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n";

fn server(name: &str, lines: &str) -> OpenVpnConfiguration {
    let none = |_: &Path| Err("no such file".to_owned());
    let parsed = adit_openvpn_config::parse(name, format!("{lines}{KEYS}").as_bytes(), &none);
    OpenVpnConfiguration::new(name.into(), parsed.expect("a good file"))
}

fn of(lines: &str, others: &str) -> Vec<String> {
    let [one, other] = [server("udp.conf", lines), server("tcp.conf", others)];
    assert!(are_one_tunnel(&one.facts(), &other.facts()));
    let outcome = check(&[&one, &other]);
    let problems = outcome.err().map(|why| why.lines().map(str::to_owned).collect()).unwrap_or_default();
    let is_of_ports = |problem: &String| problem.contains("UDP port");
    Vec::into_iter(problems).filter(|problem| !is_of_ports(problem)).collect()
}

#[test]
fn endpoints_agree_on_what_the_device_and_the_pool_have_once() {
    let lines = "dev tun0\nserver 10.8.0.0 255.255.255.0\n";
    assert_eq!(of(lines, &format!("proto tcp\n{lines}max-clients 5\nverb 4\n")), [""; 0]);
    assert_eq!(of(lines, &format!("{lines}txqueuelen 1000\n")), [""; 0], "the default");
    for (more, expected) in [
        ("client-to-client\n", "tcp.conf:3: `client-to-client`, but no `client-to-client` at udp.conf:1: "),
        ("duplicate-cn\n", "tcp.conf:3: `duplicate-cn`, but no `duplicate-cn` at udp.conf:1: "),
        ("tun-mtu 1400\n", "tcp.conf:3: the MTU 1400, but the MTU 1500 at udp.conf:1: "),
        ("txqueuelen 50\n", "tcp.conf:3: `txqueuelen 50`, but `txqueuelen 1000` at udp.conf:1: "),
        ("server-ipv6 fd00::/64\n", "tcp.conf:3: the server's address fd00::1/64, but no IPv6 network at "),
    ] {
        let found = of(lines, &format!("{lines}{more}"));
        assert!(found.first().is_some_and(|line| line.starts_with(expected)), "{found:?}");
        assert!(found.iter().all(|line| line.ends_with("a device of its own in place of tun0")), "{found:?}");
    }
    let found = of(lines, "dev tun0\nserver 10.9.0.0 255.255.255.0\n");
    let start =
        "tcp.conf:2: the server's address 10.9.0.1/24, but the server's address 10.8.0.1/24 at udp.conf:2: ";
    assert!(found.len() == 2 && found[0].starts_with(start), "{found:?}");
}

#[test]
fn servers_with_one_named_device_share_a_tunnel() {
    let [udp, tcp] = ["udp", "tcp"]
        .map(|proto| server("x.conf", &format!("dev tun0\nproto {proto}\nserver 10.8.0.0 255.255.255.0\n")));
    let other = server("other.conf", "dev tun1\nserver 10.9.0.0 255.255.255.0\n");
    let [any, more] = [10, 11].map(|number| {
        server("any.conf", &format!("dev tun\nport {number}\nserver 10.{number}.0.0 255.255.255.0\n"))
    });
    let all = [("udp", udp), ("other", other), ("any", any), ("more", more), ("tcp", tcp)]
        .map(|(name, configuration)| (name, configuration.facts()));
    let all = all.each_ref().map(|(name, facts)| Named { name, facts });
    let names: Vec<Vec<String>> =
        share(&all).into_iter().map(|shared| shared.map(|it| it.names).unwrap_or_default()).collect();
    assert_eq!(names[0], ["udp", "tcp"]);
    assert_eq!(names[4], names[0]);
    assert!(names[1..4].iter().all(Vec::is_empty), "{names:?}");
}
