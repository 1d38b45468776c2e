//! Options that files of older programs and providers carry: the tunnel must come up and carry packets of all sizes.

use std::net::IpAddr;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Ping, can_run, transfer, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER, Transport, Wrap};

const TIMEOUT: Duration = MAX_WAIT;
/// adit at either end.
pub(crate) const BOTH_WAYS: [[Program; 2]; 2] =
    [[Program::Adit, Program::OpenVpn], [Program::OpenVpn, Program::Adit]];

/// Each variant: lines that are added to the server's file, and lines that are added to the client's.
macro_rules! variants {
    ($($name:ident: $server:expr, $client:expr;)*) => {
        $(#[test]
        fn $name() {
            for pair in BOTH_WAYS {
                check(stringify!($name), &Options::BASE, pair, |_| {}, [$server, $client]);
            }
        })*
    };
}

variants! {
    comp_lzo_no: "comp-lzo no\n", "comp-lzo no\n";
    compress_stub: "compress stub\n", "compress stub\n";
    compress_stub_v2: "compress stub-v2\n", "compress stub-v2\n";
    compress_stub_v2_pushed: "compress stub-v2\npush \"compress stub-v2\"\n", "";
    compress_as_a_framing: "compress\n", "compress\n";
    migrated_from_comp_lzo_no: "compress migrate\n", "comp-lzo no\n";
    migrated_from_comp_lzo: "compress migrate\n", "comp-lzo\nallow-compression asym\n";
    migrated_from_compress: "compress migrate\n", "compress lz4\nallow-compression asym\n";
    nothing_to_migrate: "compress migrate\n", "";
    a_small_tunnel: "tun-mtu 1400\n", "tun-mtu 1400\n";
    a_large_tunnel: "tun-mtu 9000\nmssfix 0\n", "tun-mtu 9000\nmssfix 0\n";
    a_small_mssfix: "mssfix 1200\n", "mssfix 1200\n";
    no_mssfix: "mssfix 0\n", "mssfix 0\n";
    a_verified_name: "verify-x509-name client name-prefix\n", "verify-x509-name server name\n";
    persistence: "persist-key\npersist-tun\n", "persist-key\npersist-tun\nauth-nocache\n";
    a_list_of_ciphers:
        "data-ciphers CHACHA20-POLY1305:AES-128-GCM\n",
        "data-ciphers AES-256-GCM:AES-128-GCM:CHACHA20-POLY1305\ncipher AES-256-CBC\n";
    a_dead_remote_first: "", "remote 10.9.1.77 1194\nremote 10.9.1.1 1194\nserver-poll-timeout 2\n";
    a_name_in_hosts: "", "remote localhost 9\nremote 10.9.1.1 1194\nserver-poll-timeout 2\n";
    a_replay_window: "replay-window 128 30\n", "replay-window 128 30\n";
    tls_1_3_only: "tls-version-min 1.3\n", "tls-version-min 1.3\n";
    tls_groups: "tls-groups secp256r1\n", "tls-groups secp256r1:x25519\n";
}

/// The topology of OpenVPN 2.6 by default: a /30 for each client. adit's servers make a subnet of it, with a
/// warning.
#[test]
fn net30() {
    let change =
        |texts: &mut [String; 2]| texts[0] = texts[0].replace("topology subnet\n", "topology net30\n");
    for pair in BOTH_WAYS {
        check("net30", &Options::BASE, pair, change, ["", ""]);
    }
}

#[test]
fn no_topology() {
    let change = |texts: &mut [String; 2]| texts[0] = texts[0].replace("topology subnet\n", "");
    for pair in BOTH_WAYS {
        check("no_topology", &Options::BASE, pair, change, ["", ""]);
    }
}

#[test]
fn tls_auth_without_a_direction() {
    let change = |texts: &mut [String; 2]| {
        for (text, line) in texts.iter_mut().zip(["key-direction 0\n", "key-direction 1\n"]) {
            *text = text.replace(line, "");
        }
    };
    let options = Options { wrap: Wrap::TlsAuth("SHA256"), ..Options::BASE };
    for pair in BOTH_WAYS {
        check("tls_auth_without_a_direction", &options, pair, change, ["", ""]);
    }
}

/// Brings the tunnel up with the lines added, then pings with small and large packets and moves a file each way.
pub(crate) fn check(
    name: &str,
    options: &Options,
    [server, client]: [Program; 2],
    change: impl Fn(&mut [String; 2]),
    lines: [&str; 2],
) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build_with(options, server, &[client], |_, texts| {
        change(texts);
        for (text, lines) in texts.iter_mut().zip(lines) {
            // Of a directive given twice the last counts, but the first remote is tried first.
            let place = if lines.starts_with("remote ") { 0 } else { text.len() };
            text.insert_str(place, lines);
        }
    })
    .unwrap();
    let outcome = play(&mut bed);
    let context = format!("{name}, {server:?} to {client:?}");
    assert!(outcome.is_ok(), "{context}: {}\n{}", outcome.unwrap_err(), bed.logs());
}

/// Brings the tunnel up, moves packets of all sizes and ends both programs.
pub(crate) fn play(bed: &mut Bed) -> Result<(), String> {
    let text = |error: adit_testbed::TestbedError| error.to_string();
    bed.server.start().map_err(text)?;
    bed.clients[0].start().map_err(text)?;
    let server: [IpAddr; 2] = SERVER_INNER.map(|address| address.parse().unwrap());
    let (inside, outside) = (&bed.clients[0].namespace, &bed.server.namespace);
    for target in server {
        wait_until_reachable(inside, target, TIMEOUT).map_err(text)?;
        for size in [8, 1000, 1452] {
            let ping = Ping { size, ..Ping::new(10, Duration::from_millis(5)) };
            let report = ping.run(inside, target).map_err(text)?;
            if !report.is_clean() {
                return Err(format!("pings of {size} bytes to {target}: {report:?}"));
            }
        }
    }
    let addresses = bed.clients[0].inner_addresses().map_err(text)?;
    for (from, to, targets) in [(inside, outside, &server[..]), (outside, inside, &addresses[..])] {
        for target in targets {
            let moved = transfer(from, to, *target, 2_000_000).map_err(text)?;
            if !moved.intact {
                return Err(format!("the file to {target} was changed: {moved:?}"));
            }
        }
    }
    bed.clients[0].stop()?;
    bed.server.stop()
}

/// The options string of each end is the one that OpenVPN expects. Its server has `opt-verify` besides, and so admits
/// no client in whose string differs by a letter.
#[test]
fn options_strings_are_what_openvpn_expects() {
    let tls_auth = Wrap::TlsAuth("SHA256");
    let cbc = "data-ciphers AES-256-CBC\ndata-ciphers-fallback AES-256-CBC\n";
    for (options, lines) in [
        (Options::BASE, "comp-lzo no\nfragment 1200\n"),
        (Options { wrap: tls_auth, transport: Transport::Tcp4, ..Options::BASE }, cbc),
        (Options { wrap: tls_auth, transport: Transport::Udp6, ..Options::BASE }, "tun-mtu 1400 1380\n"),
    ] {
        for pair in BOTH_WAYS {
            options_strings_agree(&options, pair, |texts| {
                texts.iter_mut().for_each(|text| *text += lines);
                if pair[0] == Program::OpenVpn {
                    // OpenVPN has dropped it since 2.7.
                    texts[0] += "ignore-unknown-option opt-verify\nopt-verify\n";
                }
            });
        }
    }
}

/// A server that moves clients off compression tells one that announces it the options that this one expects.
#[test]
fn options_strings_agree_under_compress_migrate() {
    options_strings_agree(&Options::BASE, [Program::Adit, Program::OpenVpn], |texts| {
        texts[0] += "compress migrate\n";
        texts[1] += "comp-lzo no\n";
    });
}

/// The tunnel comes up, and OpenVPN says of no option that the ends differ in it, which it says at `verb 7` alone.
pub(crate) fn options_strings_agree(
    options: &Options,
    [server, client]: [Program; 2],
    change: impl Fn(&mut [String; 2]),
) {
    if !can_run("options strings", &PROGRAMS) {
        return;
    }
    let theirs = usize::from(client == Program::OpenVpn);
    let mut bed = Bed::build_with(options, server, &[client], |_, texts| {
        change(texts);
        texts[theirs] = texts[theirs].replace("verb 3\n", "verb 7\n");
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let target = SERVER_INNER[0].parse().unwrap();
    let there = wait_until_reachable(&bed.clients[0].namespace, target, TIMEOUT);
    assert!(there.is_ok(), "{options:?}\n{}", bed.logs());
    let log = [&mut bed.server, &mut bed.clients[0]][theirs].process().log();
    assert!(log.contains("Expected Remote Options String"), "it compares nothing:\n{log}");
    let differs = ["' is used inconsistently, ", " config but missing in "];
    let line = log.lines().find(|line| differs.iter().any(|words| line.contains(words)));
    assert_eq!(line, None, "{options:?}, {server:?} to {client:?}");
}

/// Both ends name each other, and so the connecting end keeps its port.
pub(crate) fn name_each_other(texts: &mut [String; 2]) {
    texts[0].push_str("remote 10.9.1.2 1194\n");
    texts[1] = texts[1].replace("nobind\n", "");
}

/// Either end is killed and started again; each time the tunnel comes back.
pub(crate) fn comes_back(
    name: &str,
    options: &Options,
    [server, client]: [Program; 2],
    change: impl Fn(&mut [String; 2]),
) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build_with(options, server, &[client], |_, texts| change(texts)).unwrap();
    let outcome = kill_in_turns(&mut bed);
    let context = format!("{name}, {server:?} to {client:?}");
    assert!(outcome.is_ok(), "{context}: {}\n{}", outcome.unwrap_err(), bed.logs());
}

fn kill_in_turns(bed: &mut Bed) -> Result<(), String> {
    let text = |error: adit_testbed::TestbedError| error.to_string();
    let reach = |bed: &Bed| {
        let (inside, target) = (&bed.clients[0].namespace, SERVER_INNER[0].parse().unwrap());
        wait_until_reachable(inside, target, TIMEOUT).map_err(text)
    };
    bed.server.start().map_err(text)?;
    bed.clients[0].start().map_err(text)?;
    reach(bed)?;
    bed.clients[0].process().kill().map_err(text)?;
    bed.clients[0].no_device_left()?;
    bed.clients[0].start().map_err(text)?;
    reach(bed).map_err(|error| format!("after the one that connects was killed: {error}"))?;
    bed.server.process().kill().map_err(text)?;
    bed.server.no_device_left()?;
    bed.server.start().map_err(text)?;
    reach(bed).map_err(|error| format!("after the one that waits was killed: {error}"))?;
    bed.clients[0].stop()?;
    bed.server.stop()
}
