//! Every transport, wrapping, cipher and kind of certificate, with adit at either end and at both.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use adit_testbed::{KeyKind, Ping, PingReport, can_run, transfer, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Part, Program, SERVER_INNER, Transport, Wrap};

/// Each row is tried with adit at either end, and at both.
macro_rules! rows {
    ($($name:ident: $options:expr;)*) => {
        $(mod $name {
            use super::*;

            #[test]
            fn adit_server_openvpn_client() {
                check(stringify!($name), &$options, Program::Adit, Program::OpenVpn);
            }

            #[test]
            fn openvpn_server_adit_client() {
                check(stringify!($name), &$options, Program::OpenVpn, Program::Adit);
            }

            #[test]
            fn adit_server_adit_client() {
                check(stringify!($name), &$options, Program::Adit, Program::Adit);
            }
        })*
    };
}

/// What is asked of adit, asked of OpenVPN: that the test bed itself is sound.
#[test]
fn openvpn_at_both_ends() {
    check("openvpn_at_both_ends", &Options::BASE, Program::OpenVpn, Program::OpenVpn);
}

rows! {
    udp4_plain_aes256_rsa: Options { keys: KeyKind::Rsa, ..Options::BASE };
    udp4_tls_auth_chacha_ecdsa: Options {
        wrap: Wrap::TlsAuth("SHA256"),
        cipher: "CHACHA20-POLY1305",
        renegotiates: Part::Client,
        ..Options::BASE
    };
    udp4_tls_crypt_aes128_ed25519: Options {
        wrap: Wrap::TlsCrypt,
        cipher: "AES-128-GCM",
        keys: KeyKind::Ed25519,
        ..Options::BASE
    };
    udp4_tls_crypt_v2_aes256_ecdsa: Options { wrap: Wrap::TlsCryptV2, ..Options::BASE };
    tcp6_tls_crypt_v2_chacha_ecdsa_tls12: Options {
        transport: Transport::Tcp6,
        wrap: Wrap::TlsCryptV2,
        cipher: "CHACHA20-POLY1305",
        tls_version_max: "1.2",
        renegotiates: Part::Client,
        ..Options::BASE
    };
    udp6_plain_chacha_ed25519: Options {
        transport: Transport::Udp6,
        cipher: "CHACHA20-POLY1305",
        keys: KeyKind::Ed25519,
        renegotiates: Part::Client,
        ..Options::BASE
    };
    udp6_tls_auth_aes128_rsa_tls12: Options {
        transport: Transport::Udp6,
        wrap: Wrap::TlsAuth("SHA1"),
        cipher: "AES-128-GCM",
        keys: KeyKind::Rsa,
        tls_version_max: "1.2",
        ..Options::BASE
    };
    udp6_tls_crypt_aes256_ecdsa: Options {
        transport: Transport::Udp6,
        wrap: Wrap::TlsCrypt,
        renegotiates: Part::Client,
        ..Options::BASE
    };
    tcp4_plain_aes128_ecdsa_tls12: Options {
        transport: Transport::Tcp4,
        cipher: "AES-128-GCM",
        tls_version_max: "1.2",
        renegotiates: Part::Client,
        ..Options::BASE
    };
    tcp4_tls_crypt_chacha_rsa: Options {
        transport: Transport::Tcp4,
        wrap: Wrap::TlsCrypt,
        cipher: "CHACHA20-POLY1305",
        keys: KeyKind::Rsa,
        ..Options::BASE
    };
    udp4_tls_auth_aes256cbc_ecdsa: Options {
        wrap: Wrap::TlsAuth("SHA256"),
        cipher: "AES-256-CBC",
        ..Options::BASE
    };
    tcp6_tls_auth_aes256_ed25519: Options {
        transport: Transport::Tcp6,
        wrap: Wrap::TlsAuth("SHA512"),
        keys: KeyKind::Ed25519,
        renegotiates: Part::Client,
        ..Options::BASE
    };
}

/// Seconds from one renegotiation to the next, and until both ends seal with the new keys.
const RENEGOTIATE: u64 = 5;
const SWITCH: u64 = 3;
/// How many there are at least in a run.
const RENEGOTIATIONS: u64 = 4;
/// How long the first connection may take, and one after a restart.
const FIRST: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(30);
/// The size of the file that goes each way.
const FILE: usize = 20_000_000;

fn check(name: &str, options: &Options, server: Program, client: Program) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build_with(options, server, &[client], |_, texts| {
        for text in texts {
            *text = text
                .replace("reneg-sec 10\n", &format!("reneg-sec {RENEGOTIATE}\n"))
                .replace("hand-window 5\n", &format!("hand-window {SWITCH}\n"));
        }
    })
    .unwrap();
    let outcome = play(&mut bed);
    assert!(outcome.is_ok(), "{name}: {}\n{}", outcome.unwrap_err(), bed.logs());
}

/// The whole life of a tunnel.
fn play(bed: &mut Bed) -> Result<(), String> {
    let server: [IpAddr; 2] = SERVER_INNER.map(|address| address.parse().unwrap());
    bed.server.start().map_err(text)?;
    bed.clients[0].start().map_err(text)?;
    reach(bed, server, FIRST)?;
    let connected = Instant::now();
    let inner = bed.clients[0].inner_addresses().map_err(text)?;
    let [client4, client6] = inner[..] else {
        return Err(format!("the client has not one IPv4 and one IPv6 address, but {inner:?}"));
    };

    pings(bed, 20, &[server[0], server[1]], &[client4, client6])?;
    files(bed, server, client6)?;
    pings_across_renegotiations(bed, connected, server[0], client6)?;

    bed.clients[0].process().kill().map_err(text)?;
    bed.clients[0].no_device_left()?;
    bed.clients[0].start().map_err(text)?;
    reach(bed, server, AGAIN).map_err(|e| format!("after the client was killed and started: {e}"))?;

    bed.server.stop()?;
    bed.server.start().map_err(text)?;
    reach(bed, server, AGAIN).map_err(|e| format!("after the server was restarted: {e}"))?;
    pings(bed, 20, &server, &[])?;

    bed.clients[0].stop()?;
    bed.server.stop()
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

/// Waits until the client reaches the server in both families.
fn reach(bed: &Bed, server: [IpAddr; 2], timeout: Duration) -> Result<(), String> {
    for address in server {
        wait_until_reachable(&bed.clients[0].namespace, address, timeout).map_err(text)?;
    }
    Ok(())
}

/// Pings the server's addresses from the client and the client's from the server, all at once, 100 a second.
/// Not one may be lost or come twice.
fn pings(bed: &Bed, count: u16, to_server: &[IpAddr], to_client: &[IpAddr]) -> Result<(), String> {
    let ping = Ping::new(count, Duration::from_millis(10));
    let client = &bed.clients[0].namespace;
    let from_client = to_server.iter().map(|target| (client, *target));
    let from_server = to_client.iter().map(|target| (&bed.server.namespace, *target));
    let reports: Vec<(IpAddr, PingReport)> = std::thread::scope(|scope| {
        let running: Vec<_> = from_client
            .chain(from_server)
            .map(|(from, target)| (target, scope.spawn(move || ping.run(from, target))))
            .collect();
        let joined = running.into_iter().map(|(target, thread)| (target, thread.join().unwrap()));
        joined.map(|(target, report)| report.map(|report| (target, report))).collect::<Result<_, _>>()
    })
    .map_err(text)?;
    for (target, report) in reports {
        if !report.is_clean() {
            return Err(format!("pings to {target}: {report:?}"));
        }
    }
    Ok(())
}

/// A file from the client over IPv4, and one to it over IPv6.
fn files(bed: &Bed, server: [IpAddr; 2], client6: IpAddr) -> Result<(), String> {
    let (client, server_side) = (&bed.clients[0].namespace, &bed.server.namespace);
    let up = transfer(client, server_side, server[0], FILE).map_err(text)?;
    let down = transfer(server_side, client, client6, FILE).map_err(text)?;
    if !(up.intact && down.intact) {
        return Err(format!("a file was changed on its way: {up:?}, {down:?}"));
    }
    Ok(())
}

/// 100 pings a second in each direction, from before the first renegotiation until both ends have changed keys for
/// the last time.
fn pings_across_renegotiations(
    bed: &Bed,
    connected: Instant,
    server4: IpAddr,
    client6: IpAddr,
) -> Result<(), String> {
    let end = connected + Duration::from_secs(RENEGOTIATE * RENEGOTIATIONS + SWITCH + 3);
    let left = end.saturating_duration_since(Instant::now());
    let count = u16::try_from(left.as_millis() / 10).unwrap();
    pings(bed, count, &[server4], &[client6]).map_err(|e| format!("across renegotiations: {e}"))?;
    // adit counts all of them, OpenVPN those that it started.
    let seen = bed.server.renegotiations().max(bed.clients[0].renegotiations()) as u64;
    if seen < RENEGOTIATIONS {
        return Err(format!("{seen} renegotiations took place, of {RENEGOTIATIONS}"));
    }
    Ok(())
}
