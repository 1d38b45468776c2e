//! Rekeys of both kinds while packets flow, with adit at both ends.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use adit_testbed::{Ends, Flood, Namespace, Ping};
use socket2::{Domain, Protocol, Socket, Type};

use super::bed::{Program, Settings, is_ready, pair};

/// The interval of the pings: 100 a second.
const INTERVAL: Duration = Duration::from_millis(10);
/// Packets a second beside the pings, far fewer than the tunnel carries.
const RATE: u32 = 2_000;

/// The time from one rekey to the next, in seconds, and how long packets flow.
struct Times {
    ike: u32,
    child: u32,
    all: Duration,
}

/// The SPIs that crossed the link, in either direction.
#[derive(Default)]
struct Spis {
    /// Of IKE SAs: those of their initiators.
    ike: BTreeSet<Vec<u8>>,
    /// Of child SAs: one of each direction.
    esp: BTreeSet<Vec<u8>>,
}

impl Spis {
    /// Looks at the packets of a namespace until `stop`.
    fn watch(namespace: &Namespace, stop: &AtomicBool) -> Spis {
        // The number of all protocols, in the network's byte order (packet(7)).
        let all = Protocol::from(i32::from(3_u16.to_be()));
        let socket =
            namespace.enter(|| Socket::new(Domain::PACKET, Type::DGRAM, Some(all))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (mut spis, mut buffer) = (Spis::default(), vec![0; 1 << 16]);
        while !stop.load(Ordering::Relaxed) {
            if let Ok(length) = (&socket).read(&mut buffer) {
                spis.add(&buffer[..length]);
            }
        }
        spis
    }

    /// Adds the SPI of a packet of IPv4 without options: of UDP port 4500, behind 28 bytes of headers (RFC 3948).
    fn add(&mut self, packet: &[u8]) {
        let is_ours =
            packet.len() >= 44 && packet[0] == 0x45 && packet[9] == 17 && packet[22..24] == [0x11, 0x94];
        match packet.get(28..40).filter(|_| is_ours) {
            Some([0, 0, 0, 0, spi @ ..]) => self.ike.insert(spi.to_vec()),
            Some(start) => self.esp.insert(start[..4].to_vec()),
            None => false,
        };
    }
}

/// Lets packets flow, and counts the losses and the SAs.
fn nothing_is_lost(times: &Times) {
    let settings = Settings {
        // Each rekey of the child SA has a key exchange of its own.
        esp: ["aes256gcm16-x25519"; 2],
        connection: [String::new(), format!("encap = yes\n rekey_time = {}s", times.ike)],
        child: [String::new(), format!("rekey_time = {}s", times.child)],
        ..Settings::default()
    };
    let [first, second] = pair([Program::Adit; 2], &settings);
    second.reaches(&first);
    let count = u16::try_from(times.all.as_millis() / INTERVAL.as_millis()).unwrap();
    let ends = Ends { server: &first.namespace, client: &second.namespace, target: first.inner() };
    let flood = Flood { size: 1_000, rate: RATE, time: times.all, segmented: false };
    let stop = AtomicBool::new(false);
    let (flow, pings, spis) = thread::scope(|scope| {
        let spis = scope.spawn(|| Spis::watch(&first.namespace, &stop));
        let pings = scope.spawn(|| Ping::new(count, INTERVAL).run(&second.namespace, first.inner()).unwrap());
        let flow = flood.run(&ends).unwrap();
        let pings = pings.join().unwrap();
        stop.store(true, Ordering::Relaxed);
        (flow, pings, spis.join().unwrap())
    });
    assert!(pings.is_clean(), "{pings:?}\n{}\n====\n{}", first.log(), second.log());
    assert!(flow.packets_sent > 0 && flow.packets_received == flow.packets_sent, "{flow:?}");
    // A rekey comes up to a tenth early.
    // A machine that runs other tests may be a second late.
    let rekeys = |every: u32| ((times.all.as_secs() - 1) / u64::from(every)) as usize;
    let Spis { ike, esp } = spis;
    assert!(ike.len() > rekeys(times.ike), "{} IKE SAs", ike.len());
    assert!(esp.len() >= 2 * (1 + rekeys(times.child)), "{} SPIs of child SAs", esp.len());
}

#[test]
fn nothing_is_lost_while_both_kinds_of_sas_are_rekeyed_under_load() {
    if is_ready("ipsec rekeys under load") {
        nothing_is_lost(&Times { ike: 3, child: 2, all: Duration::from_secs(8) });
    }
}

/// The times of the project's own demand.
mod long {
    use super::{Duration, Times, is_ready, nothing_is_lost};

    #[test]
    #[ignore = "a minute"]
    fn nothing_is_lost_with_rekeys_every_8_and_6_seconds() {
        if is_ready("ipsec rekeys under load, a minute") {
            nothing_is_lost(&Times { ike: 8, child: 6, all: Duration::from_secs(60) });
        }
    }
}
