//! The wire between the two ends, as a plan describes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The wire between the two ends. An impairment that a plan leaves out is not done to the frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Link {
    pub(crate) name: String,
    /// Bits a second, each direction, as Ethernet counts them: with preamble, checksum and gap of each frame.
    /// No limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<u64>,
    /// Milliseconds that each direction takes.
    #[serde(default)]
    pub(crate) delay_ms: f64,
    /// Up to so many more, for each frame another number. Frames stay in their order.
    #[serde(default)]
    pub(crate) jitter_ms: f64,
    /// Share of the frames that are lost, 0 to 1.
    #[serde(default)]
    pub(crate) loss: f64,
    /// Share of the frames that arrive behind their successors, 0 to 1.
    #[serde(default)]
    pub(crate) reorder: f64,
    /// Share of the frames that arrive twice, 0 to 1.
    #[serde(default)]
    pub(crate) duplicate: f64,
    /// The names of the workloads that are run on it; all if it names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) only: Vec<String>,
    /// Packets that the tunnel's own device may hold at either end; the tunnel's choice if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<u32>,
    /// Whether the wire carries large sends whole, as a virtual one can and a real one cannot.
    #[serde(default = "yes")]
    pub(crate) segmentation: bool,
    /// Lays the lab's own wire even where the kernel's would do, to see its cost.
    #[serde(default)]
    pub(crate) user_space: bool,
}

fn yes() -> bool {
    true
}

impl Link {
    /// One that does nothing to the frames.
    pub(crate) fn plain(name: &str) -> Link {
        Link {
            name: name.to_owned(),
            rate: None,
            delay_ms: 0.0,
            jitter_ms: 0.0,
            loss: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            only: Vec::new(),
            queue: None,
            segmentation: true,
            user_space: false,
        }
    }

    /// Whether a workload of this name is run on it.
    pub(crate) fn carries(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == workload)
    }

    /// Whether it takes the lab's own wire, which it does for effects that the kernel's wire has not.
    pub(crate) fn is_in_user_space(&self) -> bool {
        let asked = [self.delay_ms, self.jitter_ms, self.loss, self.reorder, self.duplicate];
        self.user_space || asked.iter().any(|value| *value > 0.0)
    }

    /// Its fault, and what would be right.
    pub(crate) fn fault(&self) -> Option<String> {
        let name = &self.name;
        let shares = [("loss", self.loss), ("reorder", self.reorder), ("duplicate", self.duplicate)];
        let times = [("delay-ms", self.delay_ms), ("jitter-ms", self.jitter_ms)];
        let share = shares.into_iter().find(|(_, value)| !(0.0..1.0).contains(value));
        let time = times.into_iter().find(|(_, value)| !(0.0..=10_000.0).contains(value));
        share
            .map(|(key, value)| {
                format!("[[link]] {name:?}: {key} must be 0 or more and less than 1, not {value}")
            })
            .or_else(|| {
                time.map(|(key, value)| format!("[[link]] {name:?}: {key} must be 0 to 10000, not {value}"))
            })
            .or_else(|| {
                let rate = self.rate.filter(|rate| *rate < 1000)?;
                Some(format!("[[link]] {name:?}: rate is in bits a second, 1000 or more, not {rate}"))
            })
    }
}

/// The device at the client's end of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkInfo {
    /// Bytes of the largest packet.
    pub(crate) mtu: u64,
    /// The work that the device takes off the kernel's hands, by ethtool's names, and whether it does.
    pub(crate) offloads: BTreeMap<String, bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernel_cannot_do_takes_our_own_wire() {
        let link = |change: fn(&mut Link)| {
            let mut link = Link::plain("x");
            change(&mut link);
            link.is_in_user_space()
        };
        assert!(!link(|_| ()));
        assert!(!link(|link| link.rate = Some(1_000_000)));
        assert!(!link(|link| link.queue = Some(100)));
        assert!(link(|link| link.delay_ms = 1.0));
        assert!(link(|link| link.jitter_ms = 1.0));
        assert!(link(|link| link.loss = 0.01));
        assert!(link(|link| link.reorder = 0.01));
        assert!(link(|link| link.duplicate = 0.01));
        assert!(link(|link| link.user_space = true));
    }

    #[test]
    fn a_link_that_names_workloads_carries_only_these() {
        assert!(Link::plain("x").carries("tcp"));
        let link = Link { only: vec!["tcp".to_owned()], ..Link::plain("x") };
        assert!(link.carries("tcp") && !link.carries("tcp-64"));
    }

    #[test]
    fn faults_name_the_link_and_the_key() {
        let fault = |change: fn(&mut Link)| {
            let mut link = Link::plain("mine");
            change(&mut link);
            link.fault().unwrap_or_default()
        };
        assert_eq!(fault(|_| ()), "");
        assert!(fault(|link| link.duplicate = 1.0).starts_with("[[link]] \"mine\": duplicate must be"));
        assert!(fault(|link| link.loss = f64::NAN).contains("loss must be"));
        assert!(fault(|link| link.jitter_ms = -1.0).contains("jitter-ms must be"));
        assert!(fault(|link| link.rate = Some(10)).contains("bits a second"));
    }
}
