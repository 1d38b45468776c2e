//! Workloads: the load that a plan lets run through a tunnel, and the values that are looked at meanwhile.

use serde::{Deserialize, Serialize};

/// UDP payloads above this do not fit an Ethernet frame.
const LARGEST: u16 = 1472;

/// A load and the values that are looked at meanwhile. (The braces of those without settings make an unknown key an
/// error.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// One TCP flow each way, the processor time and the memory it takes.
    Tcp {
        /// Bytes that the sender writes at once; 128 KiB if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        write: Option<u32>,
        #[serde(default, skip_serializing_if = "Payload::is_random")]
        payload: Payload,
    },
    /// A file each way over TCP, as `ttcp` sends one: for links that are too slow for a flow of some seconds.
    Transfer {
        /// Its length in KiB.
        kib: u32,
        #[serde(default, skip_serializing_if = "Payload::is_random")]
        payload: Payload,
    },
    /// UDP packets of one size, at the load that saturates and at twice that.
    Udp { size: Size },
    /// UDP packets of one size, at loads from a low one to beyond saturation: which is the highest that arrives
    /// without loss (RFC 2544 §26.1), and which with no more than a hundredth lost.
    Sweep {
        size: Size,
        /// Packets a second, the lowest load.
        #[serde(default = "first_rate")]
        from: u32,
        /// Packets a second, the highest load.
        #[serde(default = "last_rate")]
        to: u32,
    },
    /// A thousand echoes a second, idle and while a TCP flow saturates the tunnel.
    Latency {
        /// How many; as many as the plan's seconds hold if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        count: Option<u32>,
        /// Whether to look under load, too.
        #[serde(default = "yes")]
        loaded: bool,
    },
    /// From the start of the client's process, and from its first datagram, to the first reply.
    Start {
        /// How often, in each round.
        #[serde(default = "one")]
        times: u32,
    },
    /// A thousand echoes a second, and in their midst the client's outer address changes.
    Move {},
    /// Many clients of one server that start at once, and then all send.
    Clients { count: u32 },
    /// The program's own benchmark of sealing and opening in memory, where it has one.
    InMemory {},
}

/// The content of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Payload {
    /// Nothing compresses them.
    #[default]
    Random,
    /// Ten characters again and again.
    Compressible,
}

/// Bytes of payload in a UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Size {
    Bytes(u16),
    Named(NamedSize),
}

/// Sizes that depend on the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum NamedSize {
    /// The largest size that the tunnel's MTU holds.
    Max,
}

impl Payload {
    fn is_random(&self) -> bool {
        *self == Payload::Random
    }

    fn suffix(self) -> &'static str {
        match self {
            Payload::Random => "",
            Payload::Compressible => "-compressible",
        }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Size::Bytes(size) => size.fmt(f),
            Size::Named(NamedSize::Max) => f.write_str("max"),
        }
    }
}

impl Workload {
    /// A name that tells it from the others of its plan.
    pub(crate) fn name(&self) -> String {
        match self {
            Workload::Tcp { write: None, payload } => format!("tcp{}", payload.suffix()),
            Workload::Tcp { write: Some(size), payload } => format!("tcp-{size}{}", payload.suffix()),
            Workload::Transfer { kib, payload } => format!("transfer-{kib}{}", payload.suffix()),
            Workload::Udp { size } => format!("udp-{size}"),
            Workload::Sweep { size, .. } => format!("sweep-{size}"),
            Workload::Latency { loaded: false, .. } => "latency-idle".to_owned(),
            Workload::Latency { .. } => "latency".to_owned(),
            Workload::Start { .. } => "start".to_owned(),
            Workload::Move {} => "move".to_owned(),
            Workload::Clients { count } => format!("clients-{count}"),
            Workload::InMemory {} => "in-memory".to_owned(),
        }
    }

    /// The fault of the workload's values.
    pub(crate) fn fault(&self) -> Option<String> {
        let what = match self {
            Workload::Tcp { write: Some(0), .. } => "write must be 1 or more",
            Workload::Transfer { kib: 0, .. } => "kib must be 1 or more",
            Workload::Transfer { kib: 1_048_577.., .. } => {
                "kib must be 1048576 (1 GiB) or less: it is held in memory"
            }
            Workload::Udp { size: Size::Bytes(0) } | Workload::Sweep { size: Size::Bytes(0), .. } => {
                "size must be 1 or more, or \"max\""
            }
            Workload::Udp { size: Size::Bytes(size) } | Workload::Sweep { size: Size::Bytes(size), .. }
                if *size > LARGEST =>
            {
                "size must be 1472 or less: more does not fit the wire"
            }
            Workload::Sweep { from, to, .. } if *from == 0 || from >= to => {
                "from must be 1 or more, and less than to"
            }
            Workload::Start { times: 0 } => "times must be 1 or more",
            Workload::Latency { count: Some(0), .. } => "count must be 1 or more",
            Workload::Clients { count } if !(1..=5000).contains(count) => "count must be 1 to 5000",
            _ => return None,
        };
        Some(format!("[[workload]] {}: {what}", self.name()))
    }

    /// The workload with a share of its starts and echoes, but not so few that they say nothing.
    pub(crate) fn scaled(&self, share: f64) -> Workload {
        let part = |count: u32, least: u32| ((f64::from(count) * share).round() as u32).max(least.min(count));
        match self.clone() {
            Workload::Start { times } => Workload::Start { times: part(times, 1) },
            Workload::Latency { count: Some(count), loaded } => {
                Workload::Latency { count: Some(part(count, 1000)), loaded }
            }
            other => other,
        }
    }

    /// Whether it needs no tunnel between the ends.
    pub(crate) fn is_standalone(&self) -> bool {
        matches!(self, Workload::InMemory {} | Workload::Clients { .. })
    }
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn first_rate() -> u32 {
    5000
}

fn last_rate() -> u32 {
    2_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn workloads() -> impl Strategy<Value = Workload> {
        let payload = prop_oneof![Just(Payload::Random), Just(Payload::Compressible)];
        let size = prop_oneof![(1..=LARGEST).prop_map(Size::Bytes), Just(Size::Named(NamedSize::Max))];
        prop_oneof![
            (prop::option::of(1..u32::MAX), payload.clone())
                .prop_map(|(write, payload)| Workload::Tcp { write, payload }),
            (1..1_000_000_u32, payload).prop_map(|(kib, payload)| Workload::Transfer { kib, payload }),
            size.clone().prop_map(|size| Workload::Udp { size }),
            (size, 1..1000_u32, 1000..u32::MAX).prop_map(|(size, from, to)| Workload::Sweep {
                size,
                from,
                to
            }),
            (prop::option::of(1..u32::MAX), any::<bool>())
                .prop_map(|(count, loaded)| Workload::Latency { count, loaded }),
            (1..u32::MAX).prop_map(|times| Workload::Start { times }),
            (1..5000_u32).prop_map(|count| Workload::Clients { count }),
            Just(Workload::InMemory {}),
            Just(Workload::Move {}),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(load in workloads()) {
            let text = toml::to_string(&load).unwrap();
            prop_assert_eq!(toml::from_str::<Workload>(&text).unwrap(), load.clone());
            prop_assert_eq!(load.fault(), None);
        }
    }

    #[test]
    fn a_share_has_fewer_starts_and_echoes() {
        assert_eq!(Workload::Start { times: 200 }.scaled(0.1), Workload::Start { times: 20 });
        assert_eq!(Workload::Start { times: 2 }.scaled(0.1), Workload::Start { times: 1 });
        let echoes = |count| Workload::Latency { count: Some(count), loaded: false };
        assert_eq!(echoes(200_000).scaled(0.1), echoes(20_000));
        assert_eq!(echoes(5000).scaled(0.01), echoes(1000));
        assert_eq!(echoes(500).scaled(0.01), echoes(500));
    }

    #[test]
    fn names_tell_them_apart() {
        for (text, name) in [
            ("kind = 'tcp'", "tcp"),
            ("kind = 'tcp'\nwrite = 64", "tcp-64"),
            ("kind = 'tcp'\npayload = 'compressible'", "tcp-compressible"),
            ("kind = 'transfer'\nkib = 32", "transfer-32"),
            ("kind = 'udp'\nsize = 'max'", "udp-max"),
            ("kind = 'sweep'\nsize = 64", "sweep-64"),
            ("kind = 'latency'\ncount = 1000000", "latency"),
            ("kind = 'start'\ntimes = 200", "start"),
            ("kind = 'clients'\ncount = 10", "clients-10"),
            ("kind = 'in-memory'", "in-memory"),
        ] {
            assert_eq!(toml::from_str::<Workload>(text).unwrap().name(), name);
        }
    }
}
