//! Every transport, wrapping, cipher and kind of certificate, with adit at either end and at both.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use adit_testbed::{
    KeyKind, MAX_WAIT, Ping, PingReport, can_run, transfer, wait_until, wait_until_reachable,
};

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

/// The rows' requirements hold for OpenVPN at both ends: the test bed itself is sound.
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

/// Seconds from one renegotiation to the next at most. The end that begins them seals with the new keys after half of that; a
/// server begins up to a tenth early. On a slow machine one takes seconds: until then no end may seal with new keys.
pub(super) const RENEGOTIATE: u64 = 10;
/// Seconds that a renegotiation may take (`hand-window`), after which the end that does not begin them seals with the new
/// keys. It must do so before the next one, with which the old keys go.
pub(super) const SWITCH: u64 = 8;
/// How many there are at least in a run.
const RENEGOTIATIONS: u64 = 2;
/// Between two pings: with many tunnels at once a slow machine bears no more.
const PING_EVERY: Duration = Duration::from_millis(20);
/// The size of the file that goes each way.
const FILE: usize = 10_000_000;
/// In so many tests at once files are under way: with more, a slow machine does not come to renegotiate in time.
static SENDING: [Mutex<()>; 3] = [const { Mutex::new(()) }; 3];

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
    reach(bed, server)?;
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
    reach(bed, server).map_err(|e| format!("after the client was killed and started: {e}"))?;

    bed.server.stop()?;
    bed.server.start().map_err(text)?;
    reach(bed, server).map_err(|e| format!("after the server was restarted: {e}"))?;
    pings(bed, 20, &server, &[])?;

    bed.clients[0].stop()?;
    bed.server.stop()
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}

/// Waits until the client reaches the server in both families.
fn reach(bed: &Bed, server: [IpAddr; 2]) -> Result<(), String> {
    for address in server {
        wait_until_reachable(&bed.clients[0].namespace, address, MAX_WAIT).map_err(text)?;
    }
    Ok(())
}

/// Pings the server's addresses from the client and the client's from the server, all at once, 50 a second.
/// Not one may be lost or come twice.
fn pings(bed: &Bed, count: u16, to_server: &[IpAddr], to_client: &[IpAddr]) -> Result<(), String> {
    let ping = Ping::new(count, PING_EVERY);
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
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let turn = NEXT.fetch_add(1, Ordering::Relaxed) % SENDING.len();
    let _turn = SENDING[turn].lock().unwrap_or_else(PoisonError::into_inner);
    let (client, server_side) = (&bed.clients[0].namespace, &bed.server.namespace);
    let up = transfer(client, server_side, server[0], FILE).map_err(text)?;
    let down = transfer(server_side, client, client6, FILE).map_err(text)?;
    if !(up.intact && down.intact) {
        return Err(format!("a file was changed on its way: {up:?}, {down:?}"));
    }
    Ok(())
}

/// 50 pings a second in each direction, from before the first renegotiation until both ends have changed keys, and the one
/// that renegotiates has for the last time. Where the files took longer, across one renegotiation at least.
fn pings_across_renegotiations(
    bed: &Bed,
    connected: Instant,
    server4: IpAddr,
    client6: IpAddr,
) -> Result<(), String> {
    let left = time_left(connected);
    let count = u16::try_from(left.as_millis() / PING_EVERY.as_millis()).unwrap();
    pings(bed, count, &[server4], &[client6]).map_err(|e| format!("across renegotiations: {e}"))?;
    renegotiated(bed)
}

/// How long packets shall pass a tunnel that is up since `connected`.
pub(super) fn time_left(connected: Instant) -> Duration {
    let all = connected + Duration::from_secs(RENEGOTIATE * RENEGOTIATIONS + RENEGOTIATE / 2 + 1);
    let one = Duration::from_secs(RENEGOTIATE + SWITCH + 1);
    let left = all.saturating_duration_since(Instant::now());
    if left < Duration::from_secs(RENEGOTIATE) { one } else { left }
}

/// Waits until there were as many renegotiations as there should be: on a slow machine the last one takes its time.
pub(super) fn renegotiated(bed: &Bed) -> Result<(), String> {
    // adit counts all of them, OpenVPN those that it started.
    let seen = || bed.server.renegotiations().max(bed.clients[0].renegotiations()) as u64;
    wait_until("renegotiations", MAX_WAIT, || seen() >= RENEGOTIATIONS)
        .map_err(|error| format!("{error}: {} took place, of {RENEGOTIATIONS}", seen()))
}
