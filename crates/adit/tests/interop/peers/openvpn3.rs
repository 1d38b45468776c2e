//! OpenVPN 3's client at an adit server.

use std::time::Duration;

use super::row::{Load, PINGS, Row, Starts};
use super::{AT_ONCE, TRANSPORTS, WRAPS, check, is_named};
use crate::options::{OPENVPN3, Program, Transport, Wrap};
use crate::relay::Impairment;

const WAIT: Duration = Duration::from_secs(20);
const STARTS: [Starts; 3] = [Starts::Server, Starts::Client, Starts::Both];

/// It keeps keys for at least a minute.
const BASE: Row = Row {
    server: Program::Adit,
    client: Program::OpenVpn3,
    starts: Starts::Server,
    every: 80,
    times: 2,
    switched: 65,
    transport: Transport::Udp4,
    wrap: Wrap::TlsCrypt,
    tls: "1.3",
    cipher: "AES-256-GCM",
    before_2_7: false,
    impairment: None,
    load: Load::None,
    pings: PINGS,
};

/// Each end that starts renegotiations, with each transport and wrapping; TLS, cipher and data format change from row
/// to row, so that each of their combinations meets each end that starts.
fn every_row() -> Vec<Row> {
    let mut rows = Vec::new();
    for (start, starts) in STARTS.into_iter().enumerate() {
        for (way, transport) in TRANSPORTS.into_iter().enumerate() {
            for (number, wrap) in WRAPS.into_iter().enumerate() {
                let mix = number * 2 + way + start * 3;
                rows.push(Row {
                    starts,
                    transport,
                    wrap,
                    tls: ["1.2", "1.3"][mix % 2],
                    cipher: ["AES-256-GCM", "CHACHA20-POLY1305"][mix / 2 % 2],
                    before_2_7: mix / 4 % 2 == 1,
                    ..BASE
                });
            }
        }
    }
    rows
}

#[test]
fn openvpn3_renegotiates() {
    check("openvpn3_renegotiates", OPENVPN3, &every_row(), AT_ONCE);
}

#[test]
fn openvpn3_renegotiates_seldom() {
    let rows: Vec<Row> = [(130, 2), (600, 1)]
        .into_iter()
        .flat_map(|(every, times)| STARTS.map(|starts| Row { every, times, starts, ..BASE }))
        .flat_map(|row| TRANSPORTS.map(|transport| Row { transport, ..row }))
        .collect();
    check("openvpn3_renegotiates_seldom", OPENVPN3, &rows, AT_ONCE);
}

#[test]
fn openvpn3_renegotiates_under_a_transfer() {
    let row = Row { load: Load::Transfer, ..BASE };
    let rows: Vec<Row> = STARTS
        .into_iter()
        .flat_map(|starts| TRANSPORTS.map(|transport| Row { starts, transport, ..row }))
        .collect();
    check("openvpn3_renegotiates_under_a_transfer", OPENVPN3, &rows, 6);
}

#[test]
fn openvpn3_renegotiates_over_a_lossy_link() {
    let impairment = Some(Impairment { delay: Duration::from_millis(50), loss: 10 });
    let rows: Vec<Row> = STARTS
        .into_iter()
        .flat_map(|starts| WRAPS.map(|wrap| Row { starts, wrap, impairment, ..BASE }))
        .collect();
    check("openvpn3_renegotiates_over_a_lossy_link", OPENVPN3, &rows, AT_ONCE);
}

/// Its exit notice comes on the first exchange, until the new keys are its primary ones, but wrapped like a later one.
#[test]
fn openvpn3_sends_the_exit_notice_after_a_renegotiation() {
    if !is_named("openvpn3_sends_the_exit_notice_after_a_renegotiation", OPENVPN3) {
        return;
    }
    std::thread::scope(|scope| {
        for wrap in WRAPS {
            scope.spawn(move || {
                let mut bed = Row { wrap, every: 10, ..BASE }.bed().unwrap();
                bed.server.start().unwrap();
                bed.clients[0].start().unwrap();
                let renegotiated = bed.server.process().wait_for_line(0, "renegotiated keys", WAIT);
                assert!(renegotiated.is_ok(), "{wrap:?}: {}", bed.logs());
                bed.clients[0].stop().unwrap();
                let heard = bed.server.process().wait_for_line(0, "left (exit notice)", WAIT);
                assert!(heard.is_ok(), "{wrap:?}: {}", bed.logs());
            });
        }
    });
}
