//! The decisions of a seed before the run: the ends, the addresses that they have of each other, and the
//! network.

use std::time::Duration;

use adit_wireguard::PostQuantum;

use crate::network::{Delay, Faults};
use crate::rng::Rng;

/// How long each part of a run lasts, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    /// Clean from the start.
    pub(crate) start: Duration,
    /// The part with faults.
    pub(crate) faults: Duration,
    /// Clean, with packets; nothing may be lost.
    pub(crate) calm: Duration,
    /// The part without packets, until keys are forgotten.
    pub(crate) silence: Duration,
    /// The part with packets again.
    pub(crate) again: Duration,
}

/// All ends reach each other by then, on a clean net: 15.3 s of silence until an end notices that its session is of no
/// use to its peer; a handshake that was lost or crossed another a few times, 5.3 s each; a second until the protocol
/// gets the totals of packets.
pub(crate) const RECOVERY: Duration = Duration::from_secs(45);
/// How long a packet may wait for a session on a clean net: both ends may begin at once, a few times.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(25);

/// One end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndSettings {
    /// The end is behind address translation, and its address changes.
    pub(crate) mobile: bool,
    /// Its interval of persistent keepalives in seconds; 0: none.
    pub(crate) keepalive: u16,
    /// The MTU of its device.
    pub(crate) mtu: u16,
}

/// Two ends that are each other's peers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) ends: [usize; 2],
    /// Which of them has the address of the other end.
    pub(crate) knows: [bool; 2],
    pub(crate) preshared: bool,
    /// The setting of each for post-quantum keys. Neither requires them where the other has them off.
    pub(crate) post_quantum: [PostQuantum; 2],
}

/// The times that messages between the parts of an end take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    /// The time from the data plane to the protocol.
    pub(crate) notices: Duration,
    /// The time from the protocol to the data plane. Shorter than a datagram is in transit.
    pub(crate) orders: Duration,
}

/// The mean times between events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intervals {
    /// The interval of an attacker's datagrams, if there is an attacker.
    pub(crate) attack: Option<Duration>,
    pub(crate) fault: Duration,
    /// Handshakes that are ordered.
    pub(crate) rekey: Duration,
    /// Packets of one end.
    pub(crate) packet: Duration,
}

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) ends: Vec<EndSettings>,
    pub(crate) pairs: Vec<Pair>,
    /// Outer addresses are IPv6.
    pub(crate) ipv6: bool,
    pub(crate) workers: u32,
    pub(crate) delay: Delay,
    pub(crate) faults: Faults,
    pub(crate) latency: Latency,
    pub(crate) phases: Phases,
    pub(crate) intervals: Intervals,
}

impl Scenario {
    /// The scenario of a seed.
    pub(crate) fn from_seed(seed: u64) -> Self {
        let rng = &mut Rng::new(seed, 0);
        let count = rng.pick(&[2, 2, 2, 3, 4, 6]);
        let ends: Vec<EndSettings> = (0..count).map(|end| end_settings(rng, end)).collect();
        let pairs = pairs(rng, &ends, seed);
        let mut some = |most: u64| if rng.chance(600) { rng.below(most + 1) } else { 0 };
        let (loss, duplication, corruption, reordering) = (some(400), some(200), some(100), some(300));
        let faults = Faults { loss, duplication, corruption, reordering, hold: rng.millis(10, 7000) };
        let jitter = rng.pick(&[0, 20, 100].map(Duration::from_millis));
        // Long enough for a machine to sleep ten minutes, and for sessions to end.
        let long = rng.chance(200);
        let faulty = if long { rng.secs(700, 1000) } else { rng.secs(60, 300) };
        let silence = if rng.chance(300) { rng.secs(200, 700) } else { Duration::ZERO };
        let millis = if long { [2000, 5000, 20_000] } else { [200, 500, 3000] };
        Scenario {
            ends,
            pairs,
            ipv6: rng.chance(300),
            workers: rng.pick(&[1, 1, 3]),
            delay: Delay { least: rng.millis(2, 150), jitter },
            faults,
            latency: Latency {
                notices: rng.pick(&[0, 0, 5, 100].map(Duration::from_millis)),
                orders: rng.pick(&[0, 0, 1].map(Duration::from_millis)),
            },
            phases: Phases {
                start: rng.secs(0, 40),
                faults: faulty,
                calm: if long { rng.secs(200, 400) } else { rng.secs(60, 200) },
                silence,
                again: if silence.is_zero() { Duration::ZERO } else { Duration::from_secs(30) },
            },
            intervals: Intervals {
                attack: rng.pick(&[None, None, Some(2000), Some(100)]).map(Duration::from_millis),
                fault: rng.pick(&[5, 15, 30, 100_000].map(Duration::from_secs)),
                rekey: rng.pick(&[8, 30, 100_000].map(Duration::from_secs)),
                packet: Duration::from_millis(rng.pick(&millis)),
            },
        }
    }
}

fn end_settings(rng: &mut Rng, end: usize) -> EndSettings {
    EndSettings {
        mobile: end > 0 && rng.chance(500),
        keepalive: rng.pick(&[0, 0, 1, 25]),
        mtu: rng.pick(&[1420, 1420, 1280, 1337]),
    }
}

/// In two of five seeds: everywhere, or by pair. In the others nowhere: they are as they were before.
fn post_quantum(rng: &mut Rng, seed: u64) -> [PostQuantum; 2] {
    use PostQuantum::{Off, On, Required};
    match seed % 5 {
        1 => [On; 2],
        3 => {
            rng.pick(&[[On, Off], [Off, On], [On, On], [On, Required], [Required, On], [Required, Required]])
        }
        _ => [Off; 2],
    }
}

/// Two ends that both move could lose each other for good: they are no peers.
fn pairs(rng: &mut Rng, ends: &[EndSettings], seed: u64) -> Vec<Pair> {
    let mut modes = Rng::new(seed, 4);
    let mut pairs = Vec::new();
    for (other, second) in ends.iter().enumerate() {
        for (one, first) in ends.iter().enumerate().take(other) {
            // The end that moves has the address of the one that does not.
            let knows = match (first.mobile, second.mobile) {
                (true, true) => continue,
                (true, false) => [true, false],
                (false, true) => [false, true],
                (false, false) => rng.pick(&[[true, true], [true, false], [false, true]]),
            };
            let post_quantum = post_quantum(&mut modes, seed);
            pairs.push(Pair { ends: [one, other], knows, preshared: rng.chance(300), post_quantum });
        }
    }
    pairs
}
