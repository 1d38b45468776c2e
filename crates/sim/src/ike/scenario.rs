//! The decisions of a seed before the run: the connection of both ends, the times, and the network.

use std::time::Duration;

use crate::network::{Delay, Faults};
use crate::rng::Rng;

/// End A, which initiates.
pub(crate) const A: usize = 0;
/// End B, which knows end A's address in some scenarios alone.
pub(crate) const B: usize = 1;

/// The retransmissions of a request, the first after [`RETRANSMISSION`], each further interval 1.8 times as long.
pub(crate) const RETRANSMISSIONS: u32 = 4;
pub(crate) const RETRANSMISSION: Duration = Duration::from_secs(1);
/// The time from a request to the end of an IKE SA whose peer does not answer: 1 + 1.8 + 3.24 + 5.83 + 10.5 s.
pub(crate) const GIVE_UP: Duration = Duration::from_millis(22_400);
/// The time after which a failed initiation or a refused rekey is tried again.
pub(crate) const RETRY: Duration = Duration::from_secs(3);
/// The interval between a run's packets of one child in one direction.
pub(crate) const PACKETS: Duration = Duration::from_millis(250);
/// The time that a replaced SA waits for the peer's DELETE (`REPLACED_FOR` of the machine).
pub(crate) const REPLACED: Duration = Duration::from_secs(180);

/// The parts of a run, one after the other, each with its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    /// With faults of the network and of the ends.
    pub(crate) faults: Duration,
    /// On a clean net, with rekeys that collide: no packet may be lost.
    pub(crate) calm: Duration,
    /// With rekeys that collide, of whose messages one each is lost.
    pub(crate) lossy: Duration,
}

/// The SAs that are made anew by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Child,
    Ike,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Child, Kind::Ike];
}

/// The times of both ends' connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) ike: Option<Duration>,
    pub(crate) child: Option<Duration>,
    pub(crate) reauthentication: Option<Duration>,
    pub(crate) dead_peer_detection: Duration,
}

/// A scenario.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The keywords of the proposals for IKE SAs and for child SAs.
    pub(crate) ike: &'static str,
    pub(crate) esp: &'static str,
    /// The number of children.
    pub(crate) children: usize,
    /// Whether end B initiates, too.
    pub(crate) both_initiate: bool,
    /// Whether end A is behind a NAT, whose ports change.
    pub(crate) has_nat: bool,
    /// Whether end A gets other addresses.
    pub(crate) is_mobile: bool,
    /// Whether there are sockets for ESP as IP protocol 50.
    pub(crate) has_raw_esp: bool,
    /// Whether child SAs are asked for after `IKE_AUTH`.
    pub(crate) is_childless: bool,
    pub(crate) has_ppk: bool,
    pub(crate) longest_datagram: Option<usize>,
    pub(crate) lifetimes: Lifetimes,
    /// The intervals between faults, between moves of end A, and between attacks.
    pub(crate) fault_interval: Duration,
    pub(crate) attack_interval: Option<Duration>,
    /// The time from the data plane to the protocol.
    pub(crate) notice_latency: Duration,
    pub(crate) delay: Duration,
    /// The part of a datagram's time on its way that differs, while the net is faulty.
    pub(crate) jitter: Duration,
    pub(crate) faults: Faults,
    pub(crate) phases: Phases,
}

impl Scenario {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 0);
        let has_nat = rng.chance(350);
        let is_mobile = rng.chance(300);
        let seconds = |rng: &mut Rng, low, high| Some(rng.secs(low, high)).filter(|_| rng.chance(750));
        let lifetimes = Lifetimes {
            ike: seconds(&mut rng, 15, 120),
            child: seconds(&mut rng, 8, 60),
            reauthentication: Some(rng.secs(30, 150)).filter(|_| rng.chance(200)),
            dead_peer_detection: rng.secs(5, 20),
        };
        let mut scenario = Scenario {
            ike: rng.pick(&IKE),
            esp: rng.pick(&ESP),
            children: rng.between(1, 3) as usize,
            both_initiate: !has_nat && !is_mobile && rng.chance(400),
            has_nat,
            is_mobile,
            has_raw_esp: rng.chance(500),
            is_childless: rng.chance(150),
            has_ppk: rng.chance(200),
            longest_datagram: rng.pick(&[None, Some(576), Some(1280)]),
            lifetimes,
            fault_interval: rng.secs(5, 40),
            attack_interval: Some(rng.millis(100, 2000)).filter(|_| rng.chance(500)),
            notice_latency: rng.millis(0, 30),
            delay: rng.millis(1, 150),
            jitter: rng.millis(0, 200),
            faults: faults(&mut rng),
            phases: Phases { faults: rng.secs(40, 200), calm: rng.secs(60, 150), lossy: rng.secs(60, 150) },
        };
        if rng.chance(80) {
            scenario.esp = "aes256gcm16-x25519-ke1_mlkem768";
        }
        scenario
    }

    /// Whether the ends make IKE SAs while they have one.
    pub(crate) const fn has_further_ike_sas(&self) -> bool {
        self.lifetimes.reauthentication.is_some() || self.both_initiate
    }

    /// The connection of both ends is up by then on a clean net: each end notices that its SAs are of no use, gives up a request
    /// that came too early, and initiates a few times.
    pub(crate) fn recovery(&self) -> Duration {
        self.lifetimes.dead_peer_detection + GIVE_UP * 3 + RETRY * 3
    }

    /// How long both ends may seal with different child SAs of a child, if one message is lost.
    pub(crate) fn disagreement(&self) -> Duration {
        RETRANSMISSION + self.delay * 6 + (self.notice_latency + PACKETS) * 2
    }

    /// The delay of datagrams.
    pub(crate) fn delays(&self, is_faulty: bool) -> Delay {
        Delay { least: self.delay, jitter: if is_faulty { self.jitter } else { Duration::ZERO } }
    }
}

/// Proposals of both ends. The arithmetic of the first ones is the cheapest.
const IKE: [&str; 5] = [
    "aes256gcm16-prfsha256-x25519",
    "aes128-sha256-x25519",
    "chacha20poly1305-prfsha384-x25519",
    "aes256gcm16-prfsha384-ecp256",
    "aes256gcm16-prfsha384-x25519-ke1_mlkem768",
];
const ESP: [&str; 5] = [
    "aes256gcm16",
    "aes256gcm16-x25519",
    "chacha20poly1305-esn",
    "aes128-sha256-x25519",
    "aes128gcm16-esn-ecp256",
];

fn faults(rng: &mut Rng) -> Faults {
    Faults {
        loss: rng.pick(&[0, 20, 100, 250]),
        duplication: rng.pick(&[0, 20, 100]),
        corruption: rng.pick(&[0, 0, 20, 50]),
        reordering: rng.pick(&[0, 20, 200]),
        hold: rng.millis(50, 4000),
    }
}
