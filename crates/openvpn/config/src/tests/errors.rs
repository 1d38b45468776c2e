//! Each error in a file has a message that says what would be right.

use std::path::Path;

use crate::*;

const MATERIAL: &str = "<ca>\n-----BEGIN CERTIFICATE-----\n</ca>\n<cert>\n-----BEGIN CERTIFICATE-----\n</cert>\n\
                        <key>\n-----BEGIN PRIVATE KEY-----\n</key>\n";

fn nothing(_: &Path) -> Result<Vec<u8>, String> {
    Err("no such file".into())
}

/// The one problem that `line` makes in a file that is right without it.
fn problem(start: &str, line: &str) -> String {
    let text = format!("{start}\n{MATERIAL}");
    parse("f", text.as_bytes(), &nothing).unwrap_or_else(|failure| panic!("{failure}"));
    let text = format!("{start}\n{line}\n{MATERIAL}");
    let failure = parse("f", text.as_bytes(), &nothing).expect_err(line);
    assert_eq!(failure.problems.len(), 1, "{line}: {failure}");
    failure.to_string()
}

fn check(start: &str, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        let message = problem(start, line);
        assert!(message.contains(expected), "`{line}` should give `{expected}`:\n{message}");
    }
}

const CLIENT: &str = "client\nremote a\nremote-cert-tls server";
const SERVER: &str = "server 10.8.0.0 255.255.255.0";

#[test]
fn values_of_both_sides() {
    check(
        CLIENT,
        &[
            ("port 0", "f:4: `port`: found `0`; write a whole number from 1 to 65535"),
            ("port http", "found `http`"),
            ("proto", "`proto` takes PROTOCOL; found none"),
            ("proto udp tcp", "`proto` takes PROTOCOL; found 2"),
            ("nobind x", "`nobind` takes no argument; found 1"),
            ("dev tap0", "write `dev tun`"),
            ("dev abc0", "write `dev-type tun` too"),
            ("dev tun/../x", "a device name"),
            ("dev-type tap", "write `dev-type tun`"),
            ("dev-type tunnel", "`dev-type`: found `tunnel`; write `tun`, or `null`"),
            ("tun-mtu 67", "from 68 to 65535"),
            ("mark -1", "`mark`: found `-1`; write a whole number from 0 to 4294967295"),
            (
                "bind-dev sixteen-letters-",
                "`bind-dev`: found `sixteen-letters-`; write the name of a network device",
            ),
            ("bind-dev", "`bind-dev` takes DEVICE"),
            ("route-table 0", "from 1 to 4294967295"),
            ("mtu-disc always", "`mtu-disc`: found `always`; write `no`, `maybe` or `yes`"),
            ("route-table main", "found `main`"),
            ("mssfix 100", "at least 576"),
            ("mssfix 1400 x", "`mtu` or `fixed`"),
            ("cipher FOO-1", "`AES-256-GCM`"),
            ("data-ciphers :", "`data-ciphers` takes LIST"),
            ("data-ciphers-fallback x", "found `x`"),
            ("auth MD5", "`SHA256`"),
            ("comp-lzo maybe", "write `no`"),
            ("compress zstd", "`stub-v2`"),
            ("allow-compression maybe", "write `no`"),
            ("keepalive 10 15", "`keepalive 10 60` is usual"),
            ("keepalive 0 60", "at least 1"),
            ("keepalive 10 60\nping 5", "`keepalive` sets `ping`"),
            ("reneg-sec -1", "found `-1`"),
            ("hand-window 0", "60 is usual"),
            ("tls-timeout 0", "2 is usual"),
            ("replay-window 70000", "from 0 to 65536"),
            ("tls-version-min 1.4", "`1.2` or `1.3`"),
            ("tls-version-min 1.3\ntls-version-max 1.2", "no version is left"),
            ("tls-version-max 1.1", "`1.2` or `1.3`"),
            ("tls-version-min 1.2 or-lowest", "takes VERSION [or-highest]"),
            ("remote-cert-tls client", "write `remote-cert-tls server`"),
            ("remote-cert-tls both", "`server` or `client`"),
            ("ns-cert-type server", "write `remote-cert-tls`"),
            ("verify-x509-name server1", "`verify-x509-name server1 name`"),
            ("verify-x509-name CN=a what", "`subject` or `name` or `name-prefix`"),
            ("verify-x509-name \"\"", "`verify-x509-name` takes NAME"),
            ("key-direction 2", "`0` or `1`"),
            ("tls-auth nofile 3", "`0` or `1`"),
            ("tls-auth nofile 1", "`nofile` cannot be read: no such file"),
            ("extra-certs nofile", "`nofile` cannot be read"),
            ("<verb>\n3\n</verb>", "`verb` is no block"),
            ("connection", "write `<connection>`"),
            ("</ca>", "`</ca>` ends a block that was not begun"),
            ("route 10.0.0.0 255.0.255.0", "a netmask such as 255.255.255.0"),
            ("route net_gateway", "the destination's address"),
            ("route 10.0.0.0 255.0.0.0 fd00::1", "an IPv4 address"),
            ("route 10.0.0.0 255.0.0.0 default x", "a whole number"),
            ("route-ipv6 2000::/129", "an IPv6 network"),
            ("route-ipv6 2000::/3 10.0.0.1", "an IPv6 address"),
            ("verb 16", "from 0 to 15"),
            ("status x y", "found `y`"),
            ("status-version 4", "from 1 to 3"),
            ("log \"\"", "`log` takes FILE"),
            ("verb \"3", "a quote \" is opened"),
            ("frobnicate", "there is no directive `frobnicate`"),
            ("genkey secret x", "it is a command"),
        ],
    );
}

#[test]
fn values_of_a_client() {
    check(
        CLIENT,
        &[
            ("remote -x/y", "a host name or an IP address"),
            ("remote a 99999", "from 1 to 65535"),
            ("remote a 1194 sctp", "`udp` or `tcp`"),
            ("local vpn.example", "an IP address"),
            ("resolv-retry soon", "found `soon`"),
            ("redirect-gateway def2", "`def1`"),
            ("dhcp-option DNS nine", "an IP address"),
            ("dhcp-option DOMAIN a..b", "a domain name"),
            ("peer-fingerprint ab:cd", "32 pairs of hexadecimal digits"),
            ("<peer-fingerprint>\n# none\n</peer-fingerprint>", "the block is empty"),
            ("verify-hash 00 MD5", "`SHA256` or `SHA1`"),
            ("x509-username-field hat", "`emailAddress`"),
            ("remote-cert-ku a0 0", "bits in hexadecimal"),
            ("remote-cert-eku \"Web Thing\"", "an OID such as"),
            ("remote-cert-eku clientAuth", "write `remote-cert-tls server`"),
            ("tls-cipher TLS-DHE-RSA-WITH-AES-256-CBC-SHA", "TLS-ECDHE-RSA-WITH-AES-256-GCM-SHA384"),
            ("tls-ciphersuites TLS_AES_128_CCM_SHA256", "TLS_AES_256_GCM_SHA384"),
            ("tls-groups secp521r1", "X25519, secp256r1, secp384r1"),
            ("tls-version-max 1.1", "`1.2` or `1.3`"),
            ("tls-cert-profile best", "`suiteb`"),
            ("compat-mode 2", "2.4.0"),
            ("dhcp-option FOO x", "`DNS ADDRESS`"),
            ("pull-filter deny x", "`accept` or `ignore` or `reject`"),
            ("topology star", "`subnet` or `net30` or `p2p`"),
            ("topology subnet\nifconfig 10.8.0.2 10.8.0.1", "no netmask"),
            ("max-clients 5", "belongs into a server's file"),
            ("server-ipv6 fd00::/64", "one file is one side"),
            ("tls-server", "`tls-server` stands in a client's file"),
            ("<connection>\n</connection>", "has no `remote HOST`"),
            ("<connection>\nremote a\nremote b\n</connection>", "holds one"),
            ("<connection>\nremote a\ndev tun\n</connection>", "cannot stand in a `<connection>` block"),
            ("verify-client-cert none", "belongs into a server's file"),
            ("plugin openvpn-plugin-auth-pam.so openvpn", "belongs into a server's file"),
            ("plugin openvpn-plugin-down-root.so /bin/x", "write `down COMMAND`"),
        ],
    );
}

#[test]
fn values_of_a_server() {
    check(
        SERVER,
        &[
            ("dev null", "a server of many clients needs a device"),
            ("port-share 127.0.0.1 443", "`port-share` shares a TCP port, and this server listens on none"),
            ("port-share a 0", "from 1 to 65535"),
            ("local 10.0.0.1 1194 udp6", "not of the family"),
            ("lport 0", "from 1 to 65535"),
            ("nobind", "a server listens"),
            ("remote a", "belongs into a client's file"),
            ("redirect-gateway def1", "belongs into a client's file"),
            ("dhcp-option DNS 9.9.9.9", "belongs into a client's file"),
            ("server-ipv6 fd00::1/64", "without host bits"),
            ("server-ipv6 fd00::/48", "from /64 to /124"),
            ("ifconfig-pool 10.8.0.9 10.8.0.5", "the lower address first"),
            ("ifconfig-pool 10.8.0.5 10.8.0.9", "`server … nopool`"),
            ("ifconfig-ipv6-pool fd00::5/64", "needs our own address"),
            ("push", "`push` takes OPTION; found none"),
            ("push \"a,b\"", "without commas"),
            ("max-clients 0", "from 1 to"),
            ("remote-cert-tls server", "write `remote-cert-tls client`"),
            ("tls-auth a\ntls-crypt b", "cannot both be used"),
            ("iroute 10.0.0.0", "belongs into a client's own file"),
            ("verify-client-cert none", "must show a password"),
            ("plugin", "`plugin` takes MODULE [ARGUMENT] ...; found none"),
            ("plugin /x", "without a judge the second factor is lost"),
            ("plugin radiusplugin.so /x.cnf", "`plugin` cannot be used: adit loads no plugins"),
            ("plugin openvpn-plugin-down-root.so /bin/x", "write `down COMMAND` in place of this one"),
            (
                "plugin /usr/lib/openvpn/openvpn-plugin-auth-pam.so",
                "`plugin`: the arguments are missing; write the PAM service",
            ),
            (
                "plugin openvpn-plugin-auth-pam.so ../x",
                "found `../x`; write the name of a file in /etc/pam.d",
            ),
            ("plugin openvpn-plugin-auth-pam.so \"openvpn login\"", "`login` has no answer after it"),
            ("plugin openvpn-plugin-auth-pam.so openvpn \"\" x", "a question that begins with nothing"),
            ("plugin openvpn-auth-ldap.so", "`plugin`: the file is missing"),
            ("verify-client-cert never", "`require` or `optional` or `none`"),
            ("auth-user-pass-verify /check via-file", "`script-security 2`"),
            ("script-security 2\nauth-user-pass-verify /check via-env", "`script-security 3`"),
            ("script-security 2\nauth-user-pass-verify check via-file", "the whole path"),
            ("auth-user-pass-verify /check via-mail", "`via-file` or `via-env`"),
            ("client-connect /connect", "`script-security 2`"),
            ("script-security 4", "from 0 to 3"),
            ("auth-gen-token 1 2 3", "takes [LIFETIME]"),
            ("auth-gen-token soon", "found `soon`"),
            ("setenv A=B x", "without `=`"),
            ("crl-verify crl.pem directory", "`dir` or nothing"),
        ],
    );
    check(
        "server-ipv6 fd00::/64",
        &[
            ("server 10.8.0.1 255.255.255.0", "10.8.0.0"),
            ("server 10.8.0.0 255.0.0.0", "255.255.0.0 to"),
            ("server 10.8.0.0 255.255.255.0 pool", "`nopool` or nothing"),
            ("ifconfig-pool 10.8.0.5 10.8.0.9", "needs our own address"),
            ("ifconfig 10.8.0.1 10.8.0.2", "a netmask such as"),
            (
                "ifconfig 10.8.0.1 255.255.255.0\nifconfig-pool 10.8.0.0 10.8.0.9",
                "clients can have 10.8.0.1 to",
            ),
            ("ifconfig 10.8.0.1 255.255.255.0\nifconfig-pool 10.8.0.1 10.8.0.9", "without our own 10.8.0.1"),
        ],
    );
}

/// OpenVPN refuses these files, too (options.c: "must be used with --management-client-auth, ..."). The directive of
/// the judges may follow later in the file.
#[test]
fn what_rests_on_usernames_needs_a_judge_of_them() {
    for name in ["username-as-common-name", "auth-user-pass-optional"] {
        let message = problem(SERVER, name);
        assert!(message.contains("f:2: nothing judges usernames"), "{message}");
        assert!(
            message.contains("`auth-user-pass-verify COMMAND via-file` too, or `management-client-auth`"),
            "{message}"
        );
        for judge in [
            "script-security 2\nauth-user-pass-verify /check via-file",
            "plugin openvpn-plugin-auth-pam.so openvpn",
            "management /run/vpn.sock unix\nmanagement-client-auth",
        ] {
            let text = format!("{SERVER}\n{name}\n{judge}\n{MATERIAL}");
            parse("f", text.as_bytes(), &nothing).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

#[test]
fn a_wrong_push_is_only_doubted() {
    let text = format!("{SERVER}\npush \"rout 10.1.0.0 255.255.0.0\"\n{MATERIAL}");
    let parsed = parse("f", text.as_bytes(), &nothing).unwrap();
    assert_eq!(parsed.warnings.len(), 1);
    assert!(
        parsed.warnings[0].to_string().contains("f:2: `push`: clients take no `rout`"),
        "{:?}",
        parsed.warnings
    );
}

/// As an editor of Windows saves it, with and without a mark of byte order.
#[test]
fn a_file_in_utf_16_is_named() {
    let utf_16 = |mark: &str| -> Vec<u8> {
        format!("{mark}client\ndev tun\n").encode_utf16().flat_map(u16::to_le_bytes).collect()
    };
    for mark in ["", "\u{feff}"] {
        let failure = parse("f", &utf_16(mark), &nothing).unwrap_err();
        assert_eq!(failure.to_string(), "f: this file is in UTF-16; save it as UTF-8");
    }
}

#[test]
fn text_that_is_none() {
    let lines: [&[u8]; 3] = [
        b"client\n\xff\n",
        b"client\nremote b\xfccher.example\n",
        b"<auth-user-pass>\nb\xfcch\n</auth-user-pass>\n",
    ];
    for bad in lines {
        let failure = parse("f", bad, &nothing).unwrap_err();
        assert!(failure.to_string().contains("f:2: this is not UTF-8"), "{failure}");
    }
    // Around what counts there may be anything.
    let latin1 = format!(
        "{CLIENT}\n# f?r das B?ro\nverb 3 # gr??er\n{}",
        MATERIAL.replace("<ca>\n", "<ca>\nO=Universit?t\n")
    );
    let latin1: Vec<u8> = latin1.bytes().map(|byte| if byte == b'?' { 0xfc } else { byte }).collect();
    assert!(std::str::from_utf8(&latin1).is_err());
    parse("f", &latin1, &nothing).unwrap();
    let failure = parse("f", b"client\nkey \x01\n", &nothing).unwrap_err();
    assert!(failure.to_string().contains("f:2: the line holds the control character U+0001"), "{failure}");
}
