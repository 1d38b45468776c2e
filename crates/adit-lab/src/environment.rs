//! What was measured on, and with which programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::subjects::{self, Subject, Tools};
use crate::wire::WireCost;

/// The machine and the programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// Of this program.
    pub(crate) lab: String,
    /// UTC, when the run began.
    pub(crate) date: String,
    pub(crate) kernel: String,
    pub(crate) processor: String,
    pub(crate) processors: usize,
    /// Of memory in all, in KiB.
    pub(crate) memory_kib: u64,
    /// Before the run, over a minute. Anything but a low figure spoils what is measured.
    pub(crate) load_average: f64,
    /// Each subject's version, or why it is not measured.
    pub(crate) subjects: BTreeMap<String, String>,
    /// Subjects that stand in for something that cannot run here, and for what.
    #[serde(default)]
    pub(crate) stand_ins: BTreeMap<String, String>,
    /// What the lab's own wire costs, if the plan has a link that takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wire: Option<WireCost>,
}

impl Environment {
    /// Looks at the machine.
    pub(crate) fn of(
        plan: &Plan,
        subjects: &BTreeMap<String, Box<dyn Subject>>,
        tools: &Tools,
        wire: Option<WireCost>,
    ) -> Environment {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let memory = memory.and_then(|text| text.split(' ').next().and_then(|word| word.parse().ok()));
        let date = std::process::Command::new("date").args(["-u", "+%Y-%m-%d %H:%M"]).output();
        let described = plan.subjects.iter().filter_map(|name| {
            Some((name.clone(), subjects::find(subjects, name)?.availability(tools).to_string()))
        });
        let stand_ins = plan
            .subjects
            .iter()
            .filter_map(|name| Some((name.clone(), subjects::find(subjects, name)?.stand_in()?)));
        Environment {
            lab: env!("CARGO_PKG_VERSION").to_owned(),
            date: date
                .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
                .unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: value(&processors, "model name").unwrap_or_default(),
            processors: processors.lines().filter(|line| line.starts_with("processor")).count(),
            memory_kib: memory.unwrap_or_default(),
            load_average: read("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or_default(),
            subjects: described.collect(),
            stand_ins: stand_ins.collect(),
            wire,
        }
    }
}
