//! Configurations of providers, appliances and guides: each connects to a server that OpenVPN runs to match it, or is
//! refused with the line and the reason.
//!
//! The files in `tests/wild` are our own. They mirror the files that providers, appliances, routers and guides hand
//! out, with their oddities. The test fills in the text between `@`, and any host that stands after `remote`;
//! `auth-user-pass` alone gets the file that a person would be asked for.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Authority, KeyKind, MAX_WAIT, Namespace, Process, Purpose, Scratch, Validity, can_run, connect,
    openvpn_command, static_key, wait_until_reachable,
};

use crate::authentication::passwords::script;
use crate::bed::PROGRAMS;

const WAIT: Duration = MAX_WAIT;
/// Hosts of this network stay as they are: no host answers there.
const NOBODY: &str = "192.0.2.";

/// A file that connects.
struct Good {
    /// Its name in `tests/wild`.
    file: &'static str,
    keys: KeyKind,
    /// The common name of the server's certificate.
    server: &'static str,
    /// Where servers wait: protocol and port.
    at: &'static [&'static str],
    /// The further lines of their configurations.
    lines: &'static str,
    /// The texts that the log of the client must have.
    says: &'static [&'static str],
}

const GOOD: Good =
    Good { file: "", keys: KeyKind::Ecdsa, server: "server", at: &["udp 1194"], lines: "", says: &[] };

/// The server's part of a file without a certificate.
const BY_PASSWORD: &str = "@PASSWORDS@\nverify-client-cert none\nusername-as-common-name\n";

/// The values for a file's placeholders.
struct Filling {
    scratch: Scratch,
    authority: Authority,
    static_key: String,
    client: adit_testbed::Identity,
}

impl Filling {
    fn create(keys: KeyKind) -> Self {
        let authority = Authority::create(keys).unwrap();
        let client = authority.issue("client", Purpose::Client, Validity::Now).unwrap();
        let scratch = Scratch::create("wild").unwrap();
        let static_key = static_key().unwrap();
        for name in ["userpass.txt", "user pass.txt", "secret"] {
            scratch.write(name, "ann\ns3 cret\n").unwrap();
        }
        scratch.write("ca.crt", &authority.certificate).unwrap();
        scratch.write("client.crt", &client.certificate).unwrap();
        scratch.write("client.key", &client.key).unwrap();
        scratch.write("ta.key", &static_key).unwrap();
        Self { scratch, authority, static_key, client }
    }

    /// Writes the file with all filled in, and returns its path and its text.
    fn fill(&self, file: &str, address: &str) -> (PathBuf, String) {
        let path = format!("{}/tests/wild/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let filled: Vec<String> = text.lines().map(|line| self.line(line, address)).collect();
        let mut filled = filled.join("\n");
        filled.push('\n');
        let filled = filled.replace('\n', end);
        (self.scratch.write(file, &filled).unwrap(), filled)
    }

    fn line(&self, line: &str, address: &str) -> String {
        let block = match line {
            "@CA@" => &self.authority.certificate,
            "@CA2@" => &Authority::create(KeyKind::Ecdsa).unwrap().certificate,
            "@CERT@" => &self.client.certificate,
            "@KEY@" => &self.client.key,
            "@STATIC@" => &self.static_key,
            "auth-user-pass" => return "auth-user-pass userpass.txt".to_owned(),
            _ => return with_host(line, address),
        };
        block.trim_end().to_owned()
    }

    /// The configuration of the server number `number` for a file.
    fn server(&self, good: &Good, number: usize) -> PathBuf {
        let identity = self.authority.issue(good.server, Purpose::Server, Validity::Now).unwrap();
        let (protocol, port) = good.at[number].split_once(' ').unwrap();
        let protocol = if protocol == "tcp" { "tcp-server" } else { protocol };
        let verifier = script(
            &self.scratch,
            "verify",
            "[ \"$(sed -n 1p \"$1\")\" = ann ] && [ \"$(sed -n 2p \"$1\")\" = 's3 cret' ]\n",
        );
        let passwords = format!("script-security 2\nauth-user-pass-verify {} via-file", verifier.display());
        let text = format!(
            "dev tun{number}\nproto {protocol}\nport {port}\nserver 10.{}.0.0 255.255.255.0\ntopology subnet\n\
             dh none\nverb 3\nkeepalive 1 10\n{}\n<ca>\n{}</ca>\n<cert>\n{}</cert>\n<key>\n{}</key>\n",
            80 + number,
            good.lines.replace("@PASSWORDS@", &passwords),
            self.authority.certificate,
            identity.certificate,
            identity.key,
        );
        let text = text
            .replace("@TA@", &format!("key-direction 0\n<tls-auth>\n{}</tls-auth>", self.static_key))
            .replace("@TC@", &format!("<tls-crypt>\n{}</tls-crypt>", self.static_key));
        self.scratch.write(&format!("server{number}.conf"), &text).unwrap()
    }
}

/// The line with another host, if it names one.
fn with_host(line: &str, address: &str) -> String {
    match line.split(' ').collect::<Vec<_>>().as_slice() {
        ["remote", host, rest @ ..] if !host.starts_with(NOBODY) => {
            let quote = if host.starts_with('"') { "\"" } else { "" };
            format!("remote {quote}{address}{quote} {}", rest.join(" "))
        }
        _ => line.to_owned(),
    }
}

fn adit(arguments: &[&str], file: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.args(arguments).arg(file);
    command
}

/// Runs the file against its servers and pings through the tunnel.
fn connects(good: &Good) {
    if !can_run(good.file, &PROGRAMS) {
        return;
    }
    let filling = Filling::create(good.keys);
    let (file, _) = filling.fill(good.file, "10.9.1.1");
    let (left, right) = (Namespace::create("server").unwrap(), Namespace::create("client").unwrap());
    connect(&left, &["10.9.1.1/24"], &right, &["10.9.1.2/24"], "wire1").unwrap();
    right.ip(&["route", "add", "default", "via", "10.9.1.1"]).unwrap();
    let mut servers: Vec<Process> = Vec::new();
    for number in 0..good.at.len() {
        let command = openvpn_command(&filling.server(good, number)).unwrap();
        servers.push(left.spawn("server", command).unwrap());
    }
    for server in &mut servers {
        server.wait_for_line(0, "Initialization Sequence Completed", WAIT).unwrap();
    }
    let mut client = right.spawn("client", adit(&["up"], &file)).unwrap();
    let logs = |client: &Process, servers: &[Process]| {
        let servers: Vec<String> = servers.iter().map(Process::log_tail).collect();
        format!("{}: \n{}\n==== {}", good.file, client.log(), servers.join("\n===="))
    };
    let came_up = client.wait_for_line(0, "tunnel up: ", WAIT).is_ok();
    assert!(came_up, "{}", logs(&client, &servers));
    let address = right.ip(&["-oneline", "-4", "address", "show", "type", "tun"]).unwrap();
    let inner = address.split_whitespace().nth(3).and_then(|net| net.split('/').next()).unwrap();
    let (network, _) = inner.rsplit_once('.').unwrap();
    let answered = wait_until_reachable(&right, format!("{network}.1").parse().unwrap(), WAIT);
    assert!(answered.is_ok(), "{}", logs(&client, &servers));
    for said in good.says {
        assert!(client.log().contains(said), "'{said}' is not said:\n{}", logs(&client, &servers));
    }
    let ended = client.terminate(WAIT).unwrap();
    assert!(ended.success(), "{ended}\n{}", logs(&client, &servers));
}

/// The file is refused, for each of these lines, with its number and this reason, and for nothing else.
fn refused(name: &str, wanted: &[(&str, &str)]) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    let filling = Filling::create(KeyKind::Ecdsa);
    let (file, text) = filling.fill(name, "10.9.1.1");
    for command in ["check", "up"] {
        let output = adit(&[command], &file).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{command} {name}: {output:?}");
        let reported = String::from_utf8(output.stderr).unwrap();
        let problems: Vec<&str> =
            reported.lines().filter(|line| line.contains(&format!("{name}:"))).collect();
        let problems: Vec<String> = problems
            .iter()
            .filter_map(|line| Some(line.rsplit_once(&format!("{name}:"))?.1.to_owned()))
            .filter(|problem| problem.starts_with(|c: char| c.is_ascii_digit()))
            .collect();
        let expected: Vec<String> = wanted
            .iter()
            .map(|(line, reason)| {
                let place = text.lines().position(|found| found == *line).unwrap();
                format!("{}: {reason}", place + 1)
            })
            .collect();
        assert_eq!(problems, expected, "{reported}");
    }
}

macro_rules! connects {
    ($($name:ident: $good:expr;)*) => {
        $(#[test]
        fn $name() {
            connects(&$good);
        })*
    };
}

connects! {
    mullvad: Good {
        file: "mullvad.conf",
        keys: KeyKind::Rsa,
        at: &["udp 1197", "udp 1302"],
        lines: BY_PASSWORD,
        ..GOOD
    };
    proton: Good {
        file: "proton.ovpn",
        at: &["udp 5060", "udp 4569"],
        lines: "@PASSWORDS@\nverify-client-cert none\nusername-as-common-name\n@TC@\npush \"block-ipv6\"\n",
        ..GOOD
    };
    nord: Good {
        file: "nord.crlf.ovpn",
        keys: KeyKind::Rsa,
        server: "us1.example.com",
        lines: "@PASSWORDS@\nverify-client-cert none\nusername-as-common-name\n@TA@\nauth SHA512\ncomp-lzo no\n\
                push \"sndbuf 524288\"\npush \"comp-lzo no\"\n",
        ..GOOD
    };
    private_internet: Good {
        file: "pia.ovpn",
        at: &["udp 1198"],
        lines: "@PASSWORDS@\nverify-client-cert none\nusername-as-common-name\ncompress\ndata-ciphers AES-128-GCM\n",
        ..GOOD
    };
    edu: Good {
        file: "edu.ovpn",
        keys: KeyKind::Ed25519,
        at: &["udp 1194"],
        lines: "@TC@\ntls-version-min 1.3\ndata-ciphers CHACHA20-POLY1305\nremote-cert-tls client\n\
                push \"route 192.0.2.7 255.255.255.255 net_gateway\"\npush \"block-outside-dns\"\n",
        ..GOOD
    };
    pfsense: Good {
        file: "pfsense.ovpn",
        server: "vpn.example.com",
        lines: "@PASSWORDS@\nverify-client-cert none\nusername-as-common-name\n@TA@\nauth SHA256\n\
                data-ciphers AES-256-CBC\n",
        ..GOOD
    };
    opnsense: Good {
        file: "opnsense.ovpn",
        server: "opnsense.example.org",
        lines: "@PASSWORDS@\n@TC@\nauth SHA512\nremote-cert-tls client\n",
        ..GOOD
    };
    sample_client: Good { file: "sample-client.conf", lines: "@TA@\n", ..GOOD };
    install_script: Good {
        file: "install-script.ovpn",
        server: "server_Ab3dEfGh1jK",
        lines: "@TC@\nauth SHA256\ndata-ciphers AES-128-GCM\n",
        ..GOOD
    };
    road_warrior: Good {
        file: "road-warrior.ovpn",
        keys: KeyKind::Rsa,
        lines: "@TC@\nauth SHA512\npush \"redirect-gateway def1 bypass-dhcp\"\n",
        ..GOOD
    };
    access_server: Good {
        file: "access-server.ovpn",
        lines: "@PASSWORDS@\n@TA@\ncomp-lzo no\npush \"comp-lzo no\"\npush \"dhcp-pre-release\"\n\
                push \"dhcp-renew\"\n",
        ..GOOD
    };
    openwrt: Good { file: "openwrt.conf", lines: "@TC@\npush \"dhcp-option DNS 10.80.0.1\"\n", ..GOOD };
    mikrotik: Good {
        file: "mikrotik.ovpn",
        keys: KeyKind::Rsa,
        at: &["tcp 1194"],
        lines: "@PASSWORDS@\nauth SHA1\ndata-ciphers AES-256-CBC\n",
        ..GOOD
    };
    synology: Good {
        file: "synology.ovpn",
        lines: "@PASSWORDS@\nverify-client-cert none\nusername-as-common-name\n@TA@\nauth SHA512\ncomp-lzo no\n\
                data-ciphers AES-256-CBC\n",
        ..GOOD
    };
    asus: Good { file: "asus.ovpn", lines: "@PASSWORDS@\nauth SHA256\ncomp-lzo no\n", ..GOOD };
    connections: Good {
        file: "connections.ovpn",
        at: &["tcp 443"],
        says: &["no answer within 1 s (server-poll-timeout)"],
        ..GOOD
    };
    qnap: Good {
        file: "qnap.ovpn",
        lines: "@PASSWORDS@\nverify-client-cert none\nusername-as-common-name\ncomp-lzo no\n",
        ..GOOD
    };
    windows: Good { file: "windows.bom.crlf.ovpn", lines: "@PASSWORDS@\n", ..GOOD };
    sophos: Good {
        file: "sophos.ovpn",
        keys: KeyKind::Rsa,
        server: "utm.example.com",
        at: &["tcp 8443"],
        lines: "@PASSWORDS@\nauth SHA256\ncomp-lzo no\npush \"route-gateway 10.80.0.1\"\n",
        ..GOOD
    };
    watchguard: Good {
        file: "watchguard.ovpn",
        keys: KeyKind::Rsa,
        at: &["tcp 443"],
        lines: "@PASSWORDS@\nauth SHA256\n",
        ..GOOD
    };
    air: Good {
        file: "air.ovpn",
        at: &["udp 443"],
        lines: "@TC@\nauth SHA512\ncomp-lzo no\ndata-ciphers AES-192-GCM\n",
        ..GOOD
    };
    softether: Good { file: "softether.crlf.ovpn", at: &["tcp 443"], lines: "auth SHA1\n", ..GOOD };
    viscosity: Good {
        file: "viscosity.conf",
        lines: "@TC@\ncompress stub-v2\n",
        ..GOOD
    };
}

#[test]
fn express_is_refused() {
    refused(
        "express.crlf.ovpn",
        &[(
            "ns-cert-type server",
            "`ns-cert-type` cannot be used: it rests on a dead certificate extension; write `remote-cert-tls`",
        )],
    );
}

/// Its scripts are where the router's firmware has them.
#[test]
fn ddwrt_needs_its_scripts() {
    if !can_run("ddwrt.conf", &PROGRAMS) {
        return;
    }
    let filling = Filling::create(KeyKind::Ecdsa);
    let (file, text) = filling.fill("ddwrt.conf", "10.9.1.1");
    let line = text.lines().position(|line| line.starts_with("route-up")).unwrap() + 1;
    let output = adit(&["up"], &file).output().unwrap();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{reported}");
    let place = format!("ddwrt.conf:{line}: /tmp/openvpncl/route-up.sh: No such file");
    assert!(reported.contains(&place), "{reported}");
}

#[test]
fn a_bridge_is_refused() {
    refused(
        "bridge.ovpn",
        &[("dev tap", "`dev`: adit carries IP packets (tun) only, no Ethernet (tap); write `dev tun`")],
    );
}

#[test]
fn a_smart_card_is_refused() {
    refused(
        "smartcard.bom.crlf.ovpn",
        &[(
            "cryptoapicert \"THUMB:f6 49 24 41 01 b4 fb 44 0c ce f4 36 ae d0 c4 c9 df 7a b6 28\"",
            "`cryptoapicert` cannot be used: it concerns Windows only; a key on a smart card is reached by `pkcs11-id`",
        )],
    );
}

/// Its proxy is nowhere here; `connections/proxies.rs` connects by some.
#[test]
fn a_proxy_is_good() {
    if !can_run("a proxy", &PROGRAMS) {
        return;
    }
    let filling = Filling::create(KeyKind::Ecdsa);
    let (file, _) = filling.fill("proxy.ovpn", "10.9.1.1");
    let output = adit(&["check"], &file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn ipfire_is_refused() {
    let reason = "only a server pushes it; remove it from the file";
    refused(
        "ipfire.ovpn",
        &[
            ("auth-token-user USER", &format!("`auth-token-user` cannot be used: {reason}")),
            ("auth-token TOTP", &format!("`auth-token` cannot be used: {reason}")),
        ],
    );
}
