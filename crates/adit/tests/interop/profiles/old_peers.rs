//! Peers that compress, and peers that cut packets into parts (`fragment`).

use std::net::IpAddr;
use std::time::Duration;

use adit_testbed::{
    Content, MAX_WAIT, Ping, TestbedError, can_run, transfer_with_timeout, wait_until_reachable,
};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER, Transport};
use crate::profiles::variants::BOTH_WAYS;

const TIMEOUT: Duration = MAX_WAIT;
const ADIT_CONNECTS: [Program; 2] = [Program::OpenVpn, Program::Adit];

/// Each: options, and lines for both files. OpenVPN compresses by `allow-compression yes`, and adit never does.
macro_rules! rows {
    ($($name:ident: $options:expr, $lines:expr;)*) => {
        $(#[test]
        fn $name() {
            for pair in BOTH_WAYS {
                check(stringify!($name), &$options, pair, [$lines, $lines], carries_all);
            }
        })*
    };
}

rows! {
    lzo: Options::BASE, "comp-lzo yes\nallow-compression yes\n";
    lz4: Options::BASE, "compress lz4\nallow-compression yes\n";
    lz4_v2_over_tcp: TCP, "compress lz4-v2\nallow-compression yes\n";
    parts: Options::BASE, "fragment 1200\n";
    parts_of_lzo_with_outer_headers: OLD, "comp-lzo\nallow-compression yes\nfragment 600 mtu\n";
}

const TCP: Options = Options { transport: Transport::Tcp4, ..Options::BASE };
const OLD: Options = Options { transport: Transport::Udp6, cipher: "AES-256-CBC", ..Options::BASE };

/// A client's file need name no algorithm, where it lets the server do so.
#[test]
fn a_pushed_algorithm() {
    let server = "compress lz4-v2\npush \"compress lz4-v2\"\nallow-compression yes\n";
    check("a_pushed_algorithm", &Options::BASE, ADIT_CONNECTS, [server, "compress\n"], carries_all);
}

/// Compressed packets are dropped if no file asks for compression: echo replies that OpenVPN compressed. It leaves
/// packets below 100 bytes as they are.
#[test]
fn compression_that_was_not_asked_for() {
    let lines = ["comp-lzo yes\nallow-compression yes\n", "comp-lzo no\n"];
    check("compression_that_was_not_asked_for", &Options::BASE, ADIT_CONNECTS, lines, |bed| {
        let few = Ping { timeout: Duration::from_millis(300), ..Ping::new(3, Duration::from_millis(5)) };
        let target = SERVER_INNER[0].parse().unwrap();
        let received = |ping: Ping| {
            let report = ping.run(&bed.clients[0].namespace, target)?;
            Ok::<_, TestbedError>(report.received)
        };
        let small = Ping { timeout: TIMEOUT, ..few };
        assert_eq!([received(small)?, received(Ping { size: 1000, ..few })?], [3, 0]);
        Ok(())
    });
}

/// Brings the tunnel up with these lines in the files, and plays that in it.
fn check(
    name: &str,
    options: &Options,
    [server, client]: [Program; 2],
    lines: [&str; 2],
    play: impl Fn(&Bed) -> Result<(), TestbedError>,
) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build_with(options, server, &[client], |_, texts| {
        texts.iter_mut().zip(lines).for_each(|(text, lines)| text.push_str(lines));
    })
    .unwrap();
    let context = format!("{name}, {server:?} to {client:?}");
    let outcome = start(&mut bed).and_then(|()| play(&bed));
    assert!(outcome.is_ok(), "{context}: {}\n{}", outcome.unwrap_err(), bed.logs());
    let stopped = bed.clients[0].stop().and_then(|()| bed.server.stop());
    assert!(stopped.is_ok(), "{context}: {}\n{}", stopped.unwrap_err(), bed.logs());
}

fn start(bed: &mut Bed) -> Result<(), TestbedError> {
    bed.server.start()?;
    bed.clients[0].start()?;
    wait_until_reachable(&bed.clients[0].namespace, SERVER_INNER[0].parse().unwrap(), TIMEOUT).map(drop)
}

/// Packets of all sizes that compress well go both ways, and a file that does, and one that does not.
fn carries_all(bed: &Bed) -> Result<(), TestbedError> {
    let (inside, outside) = (&bed.clients[0].namespace, &bed.server.namespace);
    for (target, size) in [(0, 8), (0, 1000), (0, 1472), (1, 1452)] {
        let target: IpAddr = SERVER_INNER[target].parse().unwrap();
        let report = Ping { size, ..Ping::new(10, Duration::from_millis(5)) }.run(inside, target)?;
        assert!(report.is_clean(), "pings of {size} bytes to {target}: {report:?}\n{}", bed.logs());
    }
    let back = *bed.clients[0].inner_addresses()?.first().expect("an address");
    let there: IpAddr = SERVER_INNER[0].parse().unwrap();
    for content in [Content::Digits, Content::Random] {
        for (from, to, target) in [(inside, outside, there), (outside, inside, back)] {
            let moved = transfer_with_timeout(from, to, target, 200_000, content, TIMEOUT)?;
            assert!(moved.intact, "{content:?} to {target}: {moved:?}");
        }
    }
    Ok(())
}
