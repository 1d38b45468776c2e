//! MirageVPN's client at an adit server, and its server with an adit client; each row beside OpenVPN's in adit's place.
//!
//! These it cannot do with OpenVPN either: its server speaks TCP alone, needs tls-auth, tls-crypt or tls-crypt-v2,
//! starts renegotiations with tls-auth only, and has no device, but answers echo requests to its own address. Its
//! client over UDP never ends a renegotiation during which its clock ticks, once a second: it then repeats the packets
//! of the channel that is in use and forgets those of the new one.

use std::time::Duration;

use adit_testbed::Scratch;

use super::row::{Load, PINGS, Row, Starts};
use super::{TRANSPORTS, WRAPS, check, is_named};
use crate::authentication::passwords::script;
use crate::bed::Bed;
use crate::options::{MIRAGEVPN, Options, Part, Program, Transport, Wrap};

/// Tunnels that are up at once: few, so that a renegotiation is over before the client's next tick.
const AT_ONCE: usize = 8;

const WAIT: Duration = Duration::from_secs(20);

const BASE: Row = Row {
    server: Program::Adit,
    client: Program::MirageVpn,
    starts: Starts::Server,
    every: 10,
    times: 4,
    switched: 12,
    transport: Transport::Udp4,
    wrap: Wrap::TlsCrypt,
    tls: "1.3",
    cipher: "AES-256-GCM",
    before_2_7: false,
    impairment: None,
    load: Load::None,
    pings: PINGS,
};

/// Lines that it does not know, or that mean something else to it.
const UNKNOWN: [&str; 7] = [
    "data-ciphers ",
    "dh ",
    "server-ipv6 ",
    "explicit-exit-notify ",
    "remote-cert-tls client",
    "verb ",
    "nobind",
];

/// Its configuration, made from that of OpenVPN.
pub(super) fn configuration(text: &str, part: Part, cipher: &str) -> String {
    let known = |line: &&str| !UNKNOWN.iter().any(|unknown| line.starts_with(unknown));
    let lines: Vec<&str> = text.lines().filter(known).collect();
    let role = if part == Part::Server { "tls-server\n" } else { "" };
    format!("cipher {cipher}\n{role}{}\n", lines.join("\n"))
}

/// Each row, and the same with OpenVPN in adit's place.
fn beside_openvpn(rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
    let instead = |program| if program == Program::Adit { Program::OpenVpn } else { program };
    rows.into_iter()
        .flat_map(|row| [row, Row { server: instead(row.server), client: instead(row.client), ..row }])
        .collect()
}

/// Its client, with each transport, wrapping and starter.
fn client_rows(base: Row) -> Vec<Row> {
    let mut rows = Vec::new();
    for starts in [Starts::Server, Starts::Client] {
        for transport in TRANSPORTS {
            rows.extend(WRAPS.map(|wrap| Row { starts, transport, wrap, ..base }));
        }
    }
    rows
}

/// The rows of MirageVPN's server, with its abilities.
fn server_rows(base: Row) -> Vec<Row> {
    let base = Row { server: Program::MirageVpn, client: Program::Adit, transport: Transport::Tcp4, ..base };
    let starts = [
        (Starts::Server, Wrap::TlsAuth("SHA256")),
        (Starts::Client, Wrap::TlsAuth("SHA256")),
        (Starts::Client, Wrap::TlsCrypt),
        (Starts::Client, Wrap::TlsCryptV2),
    ];
    starts.map(|(starts, wrap)| Row { starts, wrap, ..base }).to_vec()
}

#[test]
fn miragevpn_client_renegotiates() {
    check("miragevpn_client_renegotiates", MIRAGEVPN, &beside_openvpn(client_rows(BASE)), AT_ONCE);
}

#[test]
fn miragevpn_client_renegotiates_each_minute() {
    let rows = client_rows(Row { every: 60, times: 2, ..BASE });
    check("miragevpn_client_renegotiates_each_minute", MIRAGEVPN, &beside_openvpn(rows), AT_ONCE);
}

#[test]
fn miragevpn_server_renegotiates() {
    check("miragevpn_server_renegotiates", MIRAGEVPN, &beside_openvpn(server_rows(BASE)), AT_ONCE);
}

#[test]
fn miragevpn_server_renegotiates_each_minute() {
    let rows = server_rows(Row { every: 60, times: 2, ..BASE });
    check("miragevpn_server_renegotiates_each_minute", MIRAGEVPN, &beside_openvpn(rows), AT_ONCE);
}

/// It leaves the NUL of a string unwritten where the length with it, modulo 8, is 5.
const USER: &str = "anna";
const PASSWORD: &str = "twelve chars";

#[test]
fn miragevpn_client_sends_strings_without_a_written_nul() {
    let test = "miragevpn_client_sends_strings_without_a_written_nul";
    if !is_named(test, MIRAGEVPN) {
        return;
    }
    let scratch = Scratch::create("verify").unwrap();
    let verifier = script(
        &scratch,
        "verify",
        &format!("[ \"$(sed -n 1p \"$1\")\" = {USER} ] && [ \"$(sed -n 2p \"$1\")\" = '{PASSWORD}' ]\n"),
    );
    for number in 1..=10 {
        let mut bed =
            Bed::build_with(&Options::BASE, Program::Adit, &[Program::MirageVpn], |_, [server, client]| {
                *server +=
                    &format!("script-security 2\nauth-user-pass-verify {} via-file\n", verifier.display());
                *client = configuration(client, Part::Client, Options::BASE.cipher);
                *client += &format!("<auth-user-pass>\n{USER}\n{PASSWORD}\n</auth-user-pass>\n");
            })
            .unwrap();
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        let up = bed.clients[0].process().wait_for_line(0, Program::MirageVpn.up_line(), WAIT);
        assert!(up.is_ok(), "connection {number}: {}", bed.logs());
    }
    eprintln!("{test}: 10 of 10 connections");
}
