//! From when on a change of each directive of a server's file holds: the table of docs/use/RELOAD.md, and what becomes of a
//! change of each. No directive may be neither applied nor named in the log.

use std::collections::BTreeMap;
use std::path::Path;

use adit_openvpn_config::{Parsed, Side, directives};

use super::{Changes, Since, compare};

/// The rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    /// For all clients.
    AtOnce,
    /// For connected clients at their next renegotiation.
    NextHandshake,
    /// For clients that connect from now on.
    NextConnection,
    /// With the next start of adit.
    NextStart,
    /// Never: the directive has no effect in a server's file.
    Never,
}
use Holds::{AtOnce, Never, NextConnection, NextHandshake, NextStart};

/// A directive, lines that a file has before and after, and from when on the change holds. Lines of the same directives in
/// the rest of the file give way.
type Sample = (&'static str, &'static str, &'static str, Holds);

const SCRIPT: &str = "script-security 2\nclient-connect /bin/true\n";
const PASSWORDS: &str = "script-security 2\nauth-user-pass-verify /bin/true via-file\n";

#[rustfmt::skip]
const SAMPLES: &[Sample] = &[
    ("mode", "", "mode server", Never),
    ("tls-server", "", "tls-server", Never),
    ("dev", "dev tun0", "dev tun1", NextStart),
    ("dev-type", "", "dev-type tun", Never),
    ("topology", "", "topology subnet", Never),
    ("proto", "", "proto tcp", NextStart),
    ("port", "", "port 1195", NextStart),
    ("lport", "", "lport 1195", NextStart),
    ("local", "", "local 192.0.2.1", NextStart),
    ("bind", "", "bind", Never),
    ("explicit-exit-notify", "", "explicit-exit-notify", AtOnce),
    ("float", "", "float", Never),
    ("multihome", "", "multihome", NextStart),
    ("mark", "", "mark 7", NextStart),
    ("bind-dev", "", "bind-dev eth0", NextStart),
    ("passtos", "", "passtos", NextStart),
    ("mtu-disc", "", "mtu-disc no", NextStart),
    ("tcp-nodelay", "", "tcp-nodelay", Never),
    ("socket-flags", "", "socket-flags TCP_NODELAY", Never),
    ("sndbuf", "", "sndbuf 100000", NextStart),
    ("rcvbuf", "", "rcvbuf 100000", NextStart),
    ("tun-mtu", "", "tun-mtu 1400", NextStart),
    ("txqueuelen", "", "txqueuelen 500", NextStart),
    ("ifconfig", "mode server\ntls-server\nifconfig 10.8.0.1 255.255.255.0\ntopology subnet",
        "mode server\ntls-server\nifconfig 10.9.0.1 255.255.255.0\ntopology subnet", NextStart),
    ("ifconfig-ipv6", "ifconfig-ipv6 fd00:8::1/64 fd00:8::2", "ifconfig-ipv6 fd00:9::1/64 fd00:9::2", NextStart),
    ("ifconfig-nowarn", "", "ifconfig-nowarn", Never),
    ("route", "", "route 10.5.0.0 255.255.0.0", NextStart),
    ("route-ipv6", "", "route-ipv6 fd00:5::/48", NextStart),
    ("route-gateway", "", "route-gateway 10.8.0.9", NextStart),
    ("route-metric", "route 10.5.0.0 255.255.0.0", "route 10.5.0.0 255.255.0.0\nroute-metric 5", NextStart),
    ("route-table", "route 10.5.0.0 255.255.0.0", "route 10.5.0.0 255.255.0.0\nroute-table 7", NextStart),
    ("server", "server 10.8.0.0 255.255.255.0", "server 10.9.0.0 255.255.255.0", NextStart),
    ("server-ipv6", "", "server-ipv6 fd00:8::/64", NextStart),
    ("ifconfig-pool", "server 10.8.0.0 255.255.255.0 nopool\nifconfig-pool 10.8.0.10 10.8.0.20",
        "server 10.8.0.0 255.255.255.0 nopool\nifconfig-pool 10.8.0.10 10.8.0.30", NextConnection),
    ("ifconfig-ipv6-pool", "ifconfig-ipv6 fd00:8::1/64 fd00:8::2\nifconfig-ipv6-pool fd00:8::4000/64",
        "ifconfig-ipv6 fd00:8::1/64 fd00:8::2\nifconfig-ipv6-pool fd00:8::5000/64", NextConnection),
    ("push", "", "push \"route 10.1.0.0 255.255.0.0\"", NextConnection),
    ("push-reset", "push \"route 10.1.0.0 255.255.0.0\"", "push \"route 10.1.0.0 255.255.0.0\"\npush-reset", NextConnection),
    ("push-remove", "push \"route 10.1.0.0 255.255.0.0\"", "push \"route 10.1.0.0 255.255.0.0\"\npush-remove route", NextConnection),
    ("client-to-client", "", "client-to-client", NextStart),
    ("port-share", "proto tcp", "proto tcp\nport-share 127.0.0.1 443", NextStart),
    ("duplicate-cn", "", "duplicate-cn", AtOnce),
    ("max-clients", "", "max-clients 7", AtOnce),
    ("client-config-dir", "", "client-config-dir /tmp", NextConnection),
    ("ccd-exclusive", "client-config-dir /tmp", "client-config-dir /tmp\nccd-exclusive", NextConnection),
    ("ifconfig-pool-persist", "", "ifconfig-pool-persist /tmp/pool", NextStart),
    ("connect-freq", "", "connect-freq 3 10", AtOnce),
    ("connect-freq-initial", "", "connect-freq-initial 3 10", AtOnce),
    ("verify-client-cert", PASSWORDS, "script-security 2\nauth-user-pass-verify /bin/true via-file\nverify-client-cert none", NextHandshake),
    ("auth-user-pass-verify", SCRIPT, "script-security 2\nclient-connect /bin/true\nauth-user-pass-verify /bin/true via-file", AtOnce),
    ("plugin", "", "plugin openvpn-plugin-auth-pam.so openvpn", NextStart),
    ("auth-user-pass-optional", PASSWORDS, "script-security 2\nauth-user-pass-verify /bin/true via-file\nauth-user-pass-optional", AtOnce),
    ("username-as-common-name", PASSWORDS, "script-security 2\nauth-user-pass-verify /bin/true via-file\nusername-as-common-name", NextConnection),
    ("auth-gen-token", PASSWORDS, "script-security 2\nauth-user-pass-verify /bin/true via-file\nauth-gen-token 60", AtOnce),
    ("auth-gen-token-secret", "script-security 2\nauth-user-pass-verify /bin/true via-file\nauth-gen-token 60",
        "script-security 2\nauth-user-pass-verify /bin/true via-file\nauth-gen-token 60\nauth-gen-token-secret token.key", AtOnce),
    ("tls-verify", SCRIPT, "script-security 2\nclient-connect /bin/true\ntls-verify /bin/true", AtOnce),
    ("client-crresponse", PASSWORDS,
        "script-security 2\nauth-user-pass-verify /bin/true via-file\nclient-crresponse /bin/true", AtOnce),
    ("client-connect", SCRIPT, "script-security 2\nclient-connect /bin/false", AtOnce),
    ("client-disconnect", SCRIPT, "script-security 2\nclient-connect /bin/true\nclient-disconnect /bin/true", AtOnce),
    ("learn-address", SCRIPT, "script-security 2\nclient-connect /bin/true\nlearn-address /bin/true", AtOnce),
    ("ca", "ca ca.crt", "ca other.crt", NextHandshake),
    ("capath", "capath one.dir", "capath other.dir", NextHandshake),
    ("cert", "cert a.crt", "cert other.crt", NextHandshake),
    ("extra-certs", "", "extra-certs other.crt", NextHandshake),
    ("key", "key a.key", "key other.key", NextHandshake),
    ("pkcs12", "pkcs12 a.p12\nno-cert", "pkcs12 other.p12\nno-cert", NextHandshake),
    ("askpass", "", "askpass /tmp/password", NextHandshake),
    ("tls-auth", "", "tls-auth a.static 0", NextConnection),
    ("tls-crypt", "", "tls-crypt a.static", NextConnection),
    ("tls-crypt-v2", "", "tls-crypt-v2 a.v2", NextConnection),
    ("tls-crypt-v2-max-age", "tls-crypt-v2 a.v2", "tls-crypt-v2 a.v2\ntls-crypt-v2-max-age 5", NextConnection),
    ("tls-crypt-v2-verify", "tls-crypt-v2 a.v2\nscript-security 2\nclient-connect /bin/true",
        "tls-crypt-v2 a.v2\nscript-security 2\nclient-connect /bin/true\ntls-crypt-v2-verify /bin/true", NextConnection),
    ("key-direction", "tls-auth a.static", "tls-auth a.static\nkey-direction 0", NextConnection),
    ("tls-version-min", "", "tls-version-min 1.3", NextHandshake),
    ("tls-version-max", "", "tls-version-max 1.2", NextHandshake),
    ("tls-cipher", "", "tls-cipher TLS-ECDHE-RSA-WITH-AES-128-GCM-SHA256", NextHandshake),
    ("tls-ciphersuites", "", "tls-ciphersuites TLS_AES_128_GCM_SHA256", NextHandshake),
    ("tls-groups", "", "tls-groups X25519", NextHandshake),
    ("ecdh-curve", "", "ecdh-curve secp384r1", NextHandshake),
    ("remote-cert-tls", "", "remote-cert-tls client", NextHandshake),
    ("remote-cert-eku", "", "remote-cert-eku 1.3.6.1.5.5.7.3.2", NextHandshake),
    ("remote-cert-ku", "", "remote-cert-ku 80", NextHandshake),
    ("peer-fingerprint", "", "peer-fingerprint AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA", NextHandshake),
    ("verify-hash", "", "verify-hash AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA:AA", NextHandshake),
    ("verify-x509-name", "", "verify-x509-name alice name", NextHandshake),
    ("x509-username-field", "", "x509-username-field emailAddress", NextHandshake),
    ("crl-verify", "", "crl-verify /tmp/crl.pem", AtOnce),
    ("tls-cert-profile", "", "tls-cert-profile suiteb", NextHandshake),
    ("tls-export-cert", SCRIPT, "script-security 2\nclient-connect /bin/true\ntls-export-cert /tmp", AtOnce),
    ("auth-nocache", "", "auth-nocache", Never),
    ("push-peer-info", "", "push-peer-info", Never),
    ("cipher", "", "cipher AES-128-CBC", NextConnection),
    ("data-ciphers", "", "data-ciphers AES-128-GCM", NextConnection),
    ("ncp-ciphers", "", "ncp-ciphers AES-128-GCM", NextConnection),
    ("data-ciphers-fallback", "", "data-ciphers-fallback AES-128-CBC", NextConnection),
    ("auth", "", "auth SHA512", NextConnection),
    ("compat-mode", "", "compat-mode 2.4.0", NextConnection),
    ("comp-lzo", "", "comp-lzo no", NextConnection),
    ("compress", "", "compress stub-v2", NextConnection),
    ("replay-window", "", "replay-window 128", NextConnection),
    ("allow-compression", "", "allow-compression no", NextConnection),
    ("mssfix", "", "mssfix 1300", NextConnection),
    ("fragment", "", "fragment 1200", NextConnection),
    ("keepalive", "", "keepalive 5 20", NextConnection),
    ("ping", "", "ping 5", NextConnection),
    ("ping-restart", "", "ping-restart 20", NextConnection),
    ("ping-exit", "", "ping-exit 20", NextConnection),
    ("inactive", "", "inactive 100", NextConnection),
    ("session-timeout", "", "session-timeout 100", NextConnection),
    ("reneg-sec", "", "reneg-sec 100", NextHandshake),
    ("tran-window", "", "tran-window 100", NextHandshake),
    ("hand-window", "", "hand-window 100", NextHandshake),
    ("tls-timeout", "", "tls-timeout 3", NextHandshake),
    ("reneg-bytes", "", "reneg-bytes 1000000", AtOnce),
    ("reneg-pkts", "", "reneg-pkts 1000000", AtOnce),
    ("user", "", "user nobody", NextStart),
    ("group", "", "group nogroup", NextStart),
    ("verb", "", "verb 5", AtOnce),
    ("mute", "", "mute 5", AtOnce),
    ("log", "", "log /tmp/log", NextStart),
    ("log-append", "", "log-append /tmp/log", NextStart),
    ("syslog", "", "syslog name", NextStart),
    ("daemon", "", "daemon name", NextStart),
    ("suppress-timestamps", "", "suppress-timestamps", AtOnce),
    ("status", "", "status /tmp/status", NextStart),
    ("status-version", "status /tmp/status", "status /tmp/status\nstatus-version 3", NextStart),
    ("writepid", "", "writepid /tmp/pid", NextStart),
    ("nice", "", "nice 5", NextStart),
    ("mlock", "", "mlock", NextStart),
    ("cd", "", "cd /tmp", Never),
    ("setenv", SCRIPT, "script-security 2\nclient-connect /bin/true\nsetenv NAME value", AtOnce),
    ("setenv-safe", SCRIPT, "script-security 2\nclient-connect /bin/true\nsetenv-safe NAME value", AtOnce),
    ("script-security", SCRIPT, "script-security 3\nclient-connect /bin/true", Never),
    ("up", "", "script-security 2\nup /bin/true", NextStart),
    ("down", "", "script-security 2\ndown /bin/true", NextStart),
    ("route-up", "", "script-security 2\nroute-up /bin/true", NextStart),
    ("route-pre-down", "", "script-security 2\nroute-pre-down /bin/true", NextStart),
    ("ipchange", "", "script-security 2\nipchange /bin/true", NextStart),
    ("dns-updown", "", "dns-updown disable", NextStart),
    ("up-restart", "", "up-restart", NextStart),
    ("down-pre", "", "down-pre", NextStart),
    ("persist-tun", "", "persist-tun", NextStart),
    ("ifconfig-noexec", "", "ifconfig-noexec", NextStart),
    ("route-noexec", "", "route-noexec", NextStart),
    ("route-delay", "", "route-delay 3", NextStart),
    ("ignore-unknown-option", "", "ignore-unknown-option name", Never),
    ("config", "", "config more.conf", Never),
    ("tmp-dir", "", "tmp-dir /tmp", NextStart),
    ("management", "", "management /tmp/m.sock unix", NextStart),
    ("management-client-user", "management /tmp/m.sock unix", "management /tmp/m.sock unix\nmanagement-client-user root", NextStart),
    ("management-client-group", "management /tmp/m.sock unix", "management /tmp/m.sock unix\nmanagement-client-group root", NextStart),
    ("management-log-cache", "management /tmp/m.sock unix", "management /tmp/m.sock unix\nmanagement-log-cache 9", NextStart),
    ("management-hold", "management /tmp/m.sock unix", "management /tmp/m.sock unix\nmanagement-hold", NextStart),
    ("management-query-passwords", "management /tmp/m.sock unix", "management /tmp/m.sock unix\nmanagement-query-passwords", NextStart),
    ("management-signal", "management /tmp/m.sock unix", "management /tmp/m.sock unix\nmanagement-signal", NextStart),
    ("management-up-down", "management /tmp/m.sock unix", "management /tmp/m.sock unix\nmanagement-up-down", NextStart),
    ("management-forget-disconnect", "management /tmp/m.sock unix", "management /tmp/m.sock unix\nmanagement-forget-disconnect", NextStart),
    ("management-client", "management /tmp/m.sock unix", "management /tmp/m.sock unix\nmanagement-client", NextStart),
    ("echo", "", "echo text", NextStart),
    ("parameter", "", "parameter text", NextStart),
    ("management-client-auth", "management /tmp/m.sock unix", "management /tmp/m.sock unix\nmanagement-client-auth", AtOnce),
    ("remap-usr1", "", "remap-usr1 SIGHUP", Never),
    ("max-packet-size", "", "max-packet-size 1300", NextConnection),
    ("tun-mtu-max", "", "tun-mtu-max 1500", Never),
];

/// Directives that no server's file may have, though they are not of one side alone.
const NOT_OF_SERVERS: &[&str] = &[
    "tls-client",
    "rport",
    "nobind",
    "secret",
    "allow-deprecated-insecure-static-crypto",
    "single-session",
    "tls-exit",
];

/// The content of files that the samples name.
fn load(path: &Path) -> Result<Vec<u8>, String> {
    let name = path.to_string_lossy();
    let (stem, ending) = name.rsplit_once('.').unwrap_or((&name, ""));
    let block = |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
    let text = match ending {
        "crt" => block("CERTIFICATE", stem),
        "key" if stem == "token" => block("OpenVPN auth-token server key", &format!("{}=", "A".repeat(171))),
        "key" => block("PRIVATE KEY", stem),
        "static" => block("OpenVPN Static key V1", &"5a".repeat(256)),
        "v2" => block("OpenVPN tls-crypt-v2 server key", &format!("{}=", "A".repeat(171))),
        "dir/*" => block("CERTIFICATE", stem),
        "p12" => stem.to_owned(),
        "conf" => String::new(),
        _ => return Err("no such file".to_owned()),
    };
    Ok(text.into_bytes())
}

const BASE: &str = "dev tun0\nserver 10.8.0.0 255.255.255.0\ndh none\nca ca.crt\ncert a.crt\nkey a.key\n";

/// A server's file with these lines.
fn server(lines: &str) -> Result<Parsed, String> {
    let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let own: Vec<String> = lines.lines().map(first).collect();
    let gives_way = |line: &str| {
        let name = first(line);
        own.contains(&name)
            || (own.iter().any(|own| own == "pkcs12") && matches!(name.as_str(), "cert" | "key"))
            || (own.iter().any(|own| own == "ifconfig") && name == "server")
    };
    let mut text: String =
        BASE.lines().filter(|line| !gives_way(line)).map(|line| format!("{line}\n")).collect();
    text.extend(lines.lines().filter(|line| *line != "no-cert").map(|line| format!("{line}\n")));
    adit_openvpn_config::parse("s.conf", text.as_bytes(), &load)
        .map_err(|failure| format!("{failure}\n{text}"))
}

fn changes(before: &str, after: &str) -> Result<Changes, String> {
    compare(&server(after)?, &server(before)?.config).map_err(str::to_owned)
}

#[test]
fn every_directive_of_a_server_is_in_the_table() {
    let mut missing = Vec::new();
    for directive in directives() {
        let name = directive.name;
        let is_of_servers = matches!(directive.side, Side::Any | Side::Server)
            && directive.kind() != adit_core::configuration::Kind::Refused
            && !NOT_OF_SERVERS.contains(&name);
        let rows = SAMPLES.iter().filter(|(row, ..)| *row == name).count();
        // A directive that is ignored without being read cannot change anything.
        let is_read = directive.kind() == adit_core::configuration::Kind::Used || rows > 0;
        if rows != usize::from(is_of_servers && is_read) {
            missing.push(name);
        }
    }
    assert!(missing.is_empty(), "not once in the table, or no server's: {missing:?}");
    for name in NOT_OF_SERVERS {
        assert!(directives().iter().any(|directive| directive.name == *name), "{name}");
    }
}

#[test]
fn a_change_of_each_directive_is_applied_or_named() {
    let mut wrong = Vec::new();
    for (name, before, after, holds) in SAMPLES {
        let found = match changes(before, after) {
            Ok(found) => found,
            Err(why) => {
                wrong.push(format!("{name}: {why}"));
                continue;
            }
        };
        let named = found.later.iter().any(|(directives, since)| {
            matches!(since, Since::Start(_)) && (directives.contains(name) || *name == "route-metric")
        });
        let good = match holds {
            AtOnce | NextHandshake | NextConnection => found.at_once && found.later.is_empty(),
            NextStart => named,
            Never => found.later.is_empty(),
        };
        if !good {
            wrong.push(format!("{name}: {holds:?}, but at once {}, later {:?}", found.at_once, found.later));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_has_the_same_table() {
    let page = include_str!("../../../../../docs/use/RELOAD.md");
    let mut on_page = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [names, when] = cells[..] else { panic!("{line}") };
        let holds = match when {
            "at once" => AtOnce,
            "next handshake" => NextHandshake,
            "next connection" => NextConnection,
            "next start of adit" => NextStart,
            "no effect" => Never,
            _ => panic!("{when}"),
        };
        for name in names.split(", ") {
            let twice = on_page.insert(name.trim_matches('`').to_owned(), holds);
            assert_eq!(twice, None, "{name} is there twice");
        }
    }
    let here: BTreeMap<String, Holds> =
        SAMPLES.iter().map(|(name, _, _, holds)| ((*name).to_owned(), *holds)).collect();
    if on_page != here {
        // The rows that the page should have.
        let mut rows = String::new();
        for (kind, text) in [
            (AtOnce, "at once"),
            (NextHandshake, "next handshake"),
            (NextConnection, "next connection"),
            (NextStart, "next start of adit"),
            (Never, "no effect"),
        ] {
            let names = here.iter().filter(|(_, holds)| **holds == kind).map(|(name, _)| format!("`{name}`"));
            rows.push_str(&format!("| {} | {text} |\n", names.collect::<Vec<_>>().join(", ")));
        }
        panic!("docs/use/RELOAD.md should have this table:\n{rows}");
    }
}
