//! A covering set of tunnels: any two values of any two options meet in at least one of them, with adit as the
//! server, as the client, and as both.
//!
//! OpenVPN 2.6 always takes data keys from TLS where its peer can. Its behaviour with a peer before 2.6 is forced by
//! adit's own `compat-mode 2.5.0`, which offers nothing newer; TLS 1.2 by `tls-version-max`; the ciphers of 2.3 by
//! `data-ciphers`. The epoch data format of 2.7 is between two ends of ours, and between us and Debian unstable's
//! OpenVPN, which takes the place of 2.6 in rows of its own.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use adit_testbed::{KeyKind, MAX_WAIT, Ping, Root, can_run, transfer, wait_until_reachable};

use super::rows::{RENEGOTIATE, SWITCH, renegotiated, time_left};
use crate::bed::{Bed, Host, PROGRAMS};
use crate::options::{NEWER, Options, Part, Program, SERVER_INNER, Transport, Wrap};

/// How many tunnels of one kind are up at once, and of those with a newer OpenVPN.
const AT_ONCE: usize = 4;
const NEWER_AT_ONCE: usize = 6;
/// The set is filled up to this many.
const LEAST: usize = 33;

const ENDS: [[Program; 2]; 3] =
    [[Program::Adit, Program::OpenVpn], [Program::OpenVpn, Program::Adit], [Program::Adit, Program::Adit]];
const WRAPS: [Wrap; 4] = [Wrap::Plain, Wrap::TlsAuth("SHA256"), Wrap::TlsCrypt, Wrap::TlsCryptV2];
const CIPHERS: [&str; 6] =
    ["AES-128-GCM", "AES-192-GCM", "AES-256-GCM", "CHACHA20-POLY1305", "AES-256-CBC", "AES-128-CBC"];
const TLS: [&str; 2] = ["1.2", "1.3"];
const KEYS: [KeyKind; 3] = [KeyKind::Rsa, KeyKind::Ecdsa, KeyKind::Ed25519];

/// How many values each option has: ends, TCP, wrapping, cipher, TLS, kind of key, IPv6 outside, data keys by
/// OpenVPN's own derivation.
const VALUES: [usize; 8] = [ENDS.len(), 2, WRAPS.len(), CIPHERS.len(), TLS.len(), KEYS.len(), 2, 2];

/// One tunnel: the number of each option's value.
type Row = [usize; VALUES.len()];

/// Two options with their values.
type Meeting = [(usize, usize); 2];

fn every_row() -> Vec<Row> {
    let all: usize = VALUES.iter().product();
    (0..all)
        .map(|mut number| {
            VALUES.map(|values| {
                let value = number % values;
                number /= values;
                value
            })
        })
        .collect()
}

/// Which two values meet in a row.
fn meetings(row: &Row) -> impl Iterator<Item = Meeting> {
    let row = *row;
    let later = move |first: usize| (first + 1..row.len()).map(move |second| (first, second));
    (0..row.len()).flat_map(later).map(move |(first, second)| [(first, row[first]), (second, row[second])])
}

/// Rows in which every two values meet. Always the row that adds most; once nothing is missing, those whose
/// meetings were rarest.
fn covering_set() -> Vec<Row> {
    let candidates = every_row();
    let mut seen: std::collections::BTreeMap<Meeting, usize> = std::collections::BTreeMap::new();
    let total = candidates.iter().flat_map(meetings).collect::<BTreeSet<_>>().len();
    let mut rows: Vec<Row> = Vec::new();
    while seen.len() < total || rows.len() < LEAST {
        // New meetings count most, then those that happened once.
        let worth = |row: &Row| -> usize {
            meetings(row)
                .map(|it| [10_000, 100, 1].get(seen.get(&it).copied().unwrap_or(0)).unwrap_or(&0))
                .sum()
        };
        // Of equal ones the first.
        let Some(best) = candidates.iter().rev().max_by_key(|row| worth(row)).copied() else { break };
        meetings(&best).for_each(|it| *seen.entry(it).or_default() += 1);
        rows.push(best);
    }
    rows
}

#[test]
fn every_two_values_meet() {
    let rows = covering_set();
    let met: BTreeSet<Meeting> = rows.iter().flat_map(meetings).collect();
    for (first, values) in VALUES.iter().enumerate() {
        for (second, others) in VALUES.iter().enumerate().skip(first + 1) {
            for (value, other) in (0..*values).flat_map(|value| (0..*others).map(move |other| (value, other)))
            {
                assert!(
                    met.contains(&[(first, value), (second, other)]),
                    "{first}={value}, {second}={other}"
                );
            }
        }
    }
    assert!((30..=40).contains(&rows.len()), "{} rows", rows.len());
    assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), rows.len(), "no row comes twice");
}

#[test]
fn adit_is_the_server() {
    check("adit_is_the_server", 0, Program::OpenVpn);
}

#[test]
fn adit_is_the_client() {
    check("adit_is_the_client", 1, Program::OpenVpn);
}

#[test]
fn adit_is_both() {
    check("adit_is_both", 2, Program::OpenVpn);
}

#[test]
fn adit_is_the_server_of_a_newer_openvpn() {
    let name = "adit_is_the_server_of_a_newer_openvpn";
    if Root::for_test(name, NEWER).is_some() {
        check(name, 0, Program::NewerOpenVpn);
    }
}

#[test]
fn adit_is_the_client_of_a_newer_openvpn() {
    let name = "adit_is_the_client_of_a_newer_openvpn";
    if Root::for_test(name, NEWER).is_some() {
        check(name, 1, Program::NewerOpenVpn);
    }
}

/// Plays the rows with those ends, some at once; tells of all that failed. `other` is OpenVPN of either version.
fn check(name: &str, ends: usize, other: Program) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    let rows: Vec<Row> = covering_set().into_iter().filter(|row| row[0] == ends).collect();
    let at_once = if other == Program::NewerOpenVpn { NEWER_AT_ONCE } else { AT_ONCE };
    let (left, failures) = (Mutex::new(rows.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some(row) = left.lock().unwrap().next() else { return };
                    if let Err(why) = (Tunnel { row, other }).live() {
                        failures.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} tunnels:\n{}", failures.len(), rows.len(), failures.join("\n\n"));
}

struct Tunnel<'a> {
    row: &'a Row,
    /// The program at the end that is not adit's.
    other: Program,
}

impl Tunnel<'_> {
    fn ends(&self) -> [Program; 2] {
        ENDS[self.row[0]].map(|program| if program == Program::OpenVpn { self.other } else { program })
    }

    fn before_2_6(&self) -> bool {
        self.row[7] == 1
    }

    fn options(&self) -> Options {
        let [_, tcp, wrap, cipher, tls, keys, v6, _] = *self.row;
        Options {
            transport: match (tcp, v6) {
                (0, 0) => Transport::Udp4,
                (0, _) => Transport::Udp6,
                (_, 0) => Transport::Tcp4,
                _ => Transport::Tcp6,
            },
            wrap: WRAPS[wrap],
            cipher: CIPHERS[cipher],
            tls_version_max: TLS[tls],
            keys: KEYS[keys],
            renegotiates: if (keys + cipher).is_multiple_of(2) { Part::Server } else { Part::Client },
            ..Options::BASE
        }
    }

    /// The name for people, as in "Adit to OpenVpn, Udp4, TlsCrypt, AES-256-GCM, TLS 1.3, Ecdsa, keys as
    /// before 2.6".
    fn name(&self) -> String {
        let options = self.options();
        let [server, client] = self.ends();
        let keys = if self.before_2_6() { "keys as before 2.6 (compat-mode)" } else { "keys from TLS" };
        format!(
            "{server:?} server, {client:?} client, {:?}, {:?}, {}, TLS {}, {:?}, {keys}",
            options.transport, options.wrap, options.cipher, options.tls_version_max, options.keys
        )
    }

    fn live(&self) -> Result<(), String> {
        let options = self.options();
        let [server, client] = self.ends();
        let mut bed = Bed::build_with(&options, server, &[client], |_, texts| {
            for (text, program) in texts.iter_mut().zip([server, client]) {
                *text = text
                    .replace("reneg-sec 10\n", &format!("reneg-sec {RENEGOTIATE}\n"))
                    .replace("hand-window 5\n", &format!("hand-window {SWITCH}\n"));
                if self.before_2_6() && program == Program::Adit {
                    text.push_str("compat-mode 2.5.0\n");
                }
            }
        })
        .map_err(|error| format!("{}: {error}", self.name()))?;
        self.play(&mut bed).map_err(|why| format!("{}: {why}\n{}", self.name(), bed.logs()))
    }

    fn play(&self, bed: &mut Bed) -> Result<(), String> {
        bed.server.start().map_err(text)?;
        bed.clients[0].start().map_err(text)?;
        let server: [IpAddr; 2] = SERVER_INNER.map(|address| address.parse().unwrap());
        for target in server {
            wait_until_reachable(&bed.clients[0].namespace, target, MAX_WAIT).map_err(text)?;
        }
        let connected = Instant::now();
        let clients = bed.clients[0].inner_addresses().map_err(text)?;
        let (inside, outside) = (&bed.clients[0].namespace, &bed.server.namespace);
        for (from, targets) in [(inside, &server[..]), (outside, &clients[..])] {
            for target in targets {
                // Small, full, and in fragments.
                for size in [8, 1452, 3000] {
                    let ping = Ping { size, ..Ping::new(5, Duration::from_millis(5)) };
                    let report = ping.run(from, *target).map_err(text)?;
                    if !report.is_clean() {
                        return Err(format!("pings of {size} bytes to {target}: {report:?}"));
                    }
                }
            }
        }
        for (from, to, target) in [(inside, outside, server[0]), (outside, inside, clients[1])] {
            let moved = transfer(from, to, target, 1_000_000).map_err(text)?;
            if !moved.intact {
                return Err(format!("the file to {target} was changed: {moved:?}"));
            }
        }
        echo(&bed.clients[0], &bed.server, server[1], clients[1])?;
        let count = u16::try_from(time_left(connected).as_millis() / 20).unwrap();
        let report = Ping::new(count, Duration::from_millis(20)).run(inside, server[0]).map_err(text)?;
        if !report.is_clean() {
            return Err(format!("across renegotiations: {report:?}"));
        }
        renegotiated(bed)?;
        let logs = [bed.server.process().log(), bed.clients[0].process().log()];
        self.read(&logs)?;
        bed.clients[0].stop()?;
        bed.server.stop()
    }

    /// The epoch data format is where both ends know it (OpenVPN since 2.7, adit by default) and the
    /// cipher is an AEAD.
    fn has_epochs(&self, logs: &[String; 2]) -> bool {
        let older = logs.iter().any(|log| log.contains("OpenVPN 2.6."));
        !older && !self.before_2_6() && !self.options().cipher.ends_with("CBC")
    }

    /// Checks that both ends agreed on the values of the row.
    fn read(&self, logs: &[String; 2]) -> Result<(), String> {
        let options = self.options();
        for (log, program) in logs.iter().zip(self.ends()) {
            let tls = format!("TLSv{}", options.tls_version_max);
            for wanted in [options.cipher, &tls] {
                if !log.contains(wanted) {
                    return Err(format!("{program:?} does not tell of {wanted}"));
                }
            }
            let epochs = match program {
                Program::Adit => format!("; {}, epochs; ", options.cipher),
                // The program prints the options that are pushed, sent or received.
                _ => "aead-epoch".to_owned(),
            };
            if log.contains(&epochs) != self.has_epochs(logs) {
                return Err(format!(
                    "{program:?} has the epoch data format where it should not be, or the reverse"
                ));
            }
            if program.is_openvpn() && log.contains("tls-ekm") == self.before_2_6() {
                return Err("data keys were not derived as they should".to_owned());
            }
            if program == Program::NewerOpenVpn && log.contains("dyn-tls-crypt") == self.before_2_6() {
                return Err("dynamic tls-crypt is where it should not be, or the reverse".to_owned());
            }
        }
        Ok(())
    }
}

/// Datagrams to the server's end and back.
fn echo(client: &Host, server: &Host, target: IpAddr, from: IpAddr) -> Result<(), String> {
    let bind = |host: &Host, address: IpAddr| -> Result<UdpSocket, String> {
        let socket = host.namespace.enter(move || UdpSocket::bind(SocketAddr::new(address, 0)));
        let socket = socket.map_err(text)?.map_err(text)?;
        socket.set_read_timeout(Some(MAX_WAIT)).map_err(text)?;
        Ok(socket)
    };
    let (near, far) = (bind(client, from)?, bind(server, target)?);
    let destination = far.local_addr().map_err(text)?;
    let mut buffer = [0; 2048];
    for number in 0..20u8 {
        let sent = [number; 1200];
        near.send_to(&sent, destination).map_err(text)?;
        let (length, back) = far.recv_from(&mut buffer).map_err(|error| format!("UDP up: {error}"))?;
        far.send_to(&buffer[..length], back).map_err(text)?;
        let (length, _) = near.recv_from(&mut buffer).map_err(|error| format!("UDP down: {error}"))?;
        if buffer[..length] != sent {
            return Err("a UDP datagram was changed on its way".to_owned());
        }
    }
    Ok(())
}

fn text(error: impl std::error::Error) -> String {
    error.to_string()
}
