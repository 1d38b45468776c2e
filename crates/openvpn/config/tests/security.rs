//! Faults that OpenVPN had in reading its files, each with a test that fails if adit had it too.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

use adit_openvpn_config::parse;

const SERVER: &str = "dev tun\nserver 10.8.0.0 255.255.255.0\nserver-ipv6 fd00:8::/64\n\
    <ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
    <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
    <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n";

/// Why that file is refused, if it is.
fn refusal(line: &str) -> Option<String> {
    let none = |_: &Path| Err("no such file".to_owned());
    parse("server.conf", format!("{SERVER}{line}\n").as_bytes(), &none)
        .err()
        .map(|failure| failure.to_string())
}

#[test]
fn cve_2025_12106_addresses_are_read_whole_or_refused() {
    for good in [
        "route-ipv6 2001:db8::/32",
        "route-ipv6 ::/0",
        "route-ipv6 2001:db8:1:2:3:4:5:6/128",
        "route 10.1.0.0 255.255.0.0",
        "route 10.1.0.1",
    ] {
        assert_eq!(refusal(good), None, "{good}");
    }
    let line = format!("server.conf:{}", SERVER.lines().count() + 1);
    for wrong in [
        "route-ipv6 2001:db8:::/32",
        "route-ipv6 2001:db8:/32",
        "route-ipv6 2001::db8::/32",
        "route-ipv6 2001:db8:1:2:3:4:5:6:7/128",
        "route-ipv6 2001:db8::1%eth0/64",
        "route-ipv6 2001:db8::/129",
        "route-ipv6 2001:db8::/-1",
        "route-ipv6 2001:db8::/",
        "route-ipv6 /64",
        "route-ipv6 :",
        "route-ipv6 ::ffff:10.0.0.256/128",
        "route-ipv6 2001:db8::10000/64",
        "route 10.1.0.0 255.0.255.0",
        "route 10.1.0.256",
        "route 10.1.0.0.0",
        "route 010.1.0.0 255.255.0.0",
        "route 0x0a.1.0.0 255.255.0.0",
    ] {
        let said = refusal(wrong).unwrap_or_else(|| panic!("`{wrong}` is taken"));
        assert!(said.contains(&line), "{wrong}: {said}");
    }
}
