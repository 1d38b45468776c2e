//! OpenVPN with the kernel's data channel (`ovpn`, since Linux 6.16) at either end of adit.

use std::time::Duration;

use super::row::{Load, Pings, Row, Starts};
use crate::admission::five_clients::share_a_server;
use crate::connections::roaming::follows;
use crate::options::{Program, Transport, Wrap};
use crate::relay::Impairment;

const BASE: Row = Row {
    server: Program::Adit,
    client: Program::OpenVpnDco,
    starts: Starts::Server,
    every: 10,
    times: 2,
    switched: 8,
    transport: Transport::Udp4,
    wrap: Wrap::TlsCrypt,
    tls: "1.3",
    cipher: "AES-256-GCM",
    before_2_7: false,
    impairment: None,
    load: Load::None,
    pings: TEN,
};

/// The reverse of [`BASE`].
const SERVER: Row = Row { server: Program::OpenVpnDco, client: Program::Adit, ..BASE };
/// A link that loses one datagram of a hundred.
const LOSSY: Option<Impairment> = Some(Impairment { delay: Duration::from_millis(5), loss: 10 });
/// Ten pings a second each way.
const TEN: Pings = Pings { every: Duration::from_millis(100), both_ways: true };
/// A hundred a second, from the client.
const HUNDRED: Pings = Pings { every: Duration::from_millis(10), both_ways: false };

const CLIENT_CHACHA: Row =
    Row { cipher: "CHACHA20-POLY1305", starts: Starts::Client, wrap: Wrap::TlsCryptV2, ..BASE };
const CLIENT_TCP: Row = Row { transport: Transport::Tcp4, cipher: "AES-128-GCM", wrap: Wrap::Plain, ..BASE };
const SERVER_CHACHA: Row = Row { cipher: "CHACHA20-POLY1305", wrap: Wrap::TlsAuth("SHA256"), ..SERVER };
const SERVER_TCP: Row = Row { transport: Transport::Tcp4, cipher: "CHACHA20-POLY1305", ..SERVER };

/// A test of each row: of so many pings across two renegotiations none is lost that the link does not lose.
macro_rules! rows {
    ($pings:expr; $($name:ident: $row:expr;)*) => {
        $(#[test]
        #[ignore = "runs in a guest, by kernel_peers.rs"]
        fn $name() {
            check(&Row { pings: $pings, ..$row });
        })*
    };
}

rows! {
    HUNDRED;
    client_udp_aes256_the_server_renegotiates: BASE;
    server_udp_aes256_the_client_renegotiates: Row { starts: Starts::Client, ..SERVER };
}

rows! {
    TEN;
    client_udp_chacha_the_client_renegotiates: CLIENT_CHACHA;
    client_tcp_aes128: CLIENT_TCP;
    server_udp_chacha_the_server_renegotiates: SERVER_CHACHA;
    server_tcp_chacha: SERVER_TCP;
}

/// The rows with a hundred pings a second that `make test` has not.
mod hundred {
    use super::{BASE, CLIENT_CHACHA, CLIENT_TCP, HUNDRED, LOSSY, Row, SERVER, SERVER_CHACHA, SERVER_TCP};
    use super::{Transport, Wrap, check};

    rows! {
        HUNDRED;
        client_udp_chacha_the_client_renegotiates: CLIENT_CHACHA;
        client_tcp_aes128: CLIENT_TCP;
        client_udp6_chacha_tls_1_2:
            Row { transport: Transport::Udp6, cipher: "CHACHA20-POLY1305", tls: "1.2", ..BASE };
        client_udp_aes256_over_a_lossy_link: Row { impairment: LOSSY, ..BASE };
        server_udp_chacha_the_server_renegotiates: SERVER_CHACHA;
        server_tcp_chacha: SERVER_TCP;
        server_udp6_aes128_tls_1_2:
            Row { transport: Transport::Udp6, cipher: "AES-128-GCM", tls: "1.2", wrap: Wrap::TlsCryptV2, ..SERVER };
        server_udp_chacha_over_a_lossy_link: Row { cipher: "CHACHA20-POLY1305", impairment: LOSSY, ..SERVER };
    }
}

fn check(row: &Row) {
    if let Err(failure) = row.live() {
        panic!("{row:?}: {}\n{}", failure.summary, failure.logs);
    }
}

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn adit_follows_a_client_that_moves() {
    follows(Program::Adit, Program::OpenVpnDco);
}

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn the_kernel_follows_adit_that_moves() {
    follows(Program::OpenVpnDco, Program::Adit);
}

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn adit_serves_many_clients_that_reach_each_other() {
    share_a_server(Program::Adit, Program::OpenVpnDco, true);
}

#[test]
#[ignore = "runs in a guest, by kernel_peers.rs"]
fn the_kernel_serves_many_clients() {
    share_a_server(Program::OpenVpnDco, Program::OpenVpnDco, false);
}
