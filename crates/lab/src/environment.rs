//! The machine and the programs of a run.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::link::LinkInfo;
use crate::plan::Plan;
use crate::subjects::{self, Subject, Tools};

/// The version of the format that this program writes and reads.
const FORMAT: u32 = 1;

/// The tools of the lab, and the argument by which each prints its version.
const TOOLS: [(&str, &str); 2] = [("iperf3", "--version"), ("ip", "-V")];

/// How QEMU calls the processors that it emulates (its `target/i386/cpu.c`).
const EMULATOR: &str = "QEMU TCG";

fn first_format() -> u32 {
    1
}

/// The machine and the programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// The version of the format of the folder's files; grows when something in them changes its meaning.
    #[serde(default = "first_format")]
    pub(crate) format: u32,
    /// The command that started the run, without the names of files.
    #[serde(default)]
    pub(crate) command: String,
    /// The version of this program.
    pub(crate) lab: String,
    /// UTC, when the run began.
    pub(crate) date: String,
    pub(crate) kernel: String,
    pub(crate) processor: String,
    pub(crate) processors: usize,
    /// The machine's memory in all, in KiB.
    pub(crate) memory_kib: u64,
    /// Whether the processor is an emulator's: what is measured then says nothing of a machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) emulated: bool,
    /// Before the run, over a minute. Anything but a low figure spoils what is measured.
    pub(crate) load_average: f64,
    /// The governor of the processors' clock, where the kernel says so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) governor: String,
    /// The version of each program that the lab itself measures with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tools: BTreeMap<String, String>,
    /// The device at the client's end of each link.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) links: BTreeMap<String, LinkInfo>,
    /// Each subject's version, or why it is not measured.
    pub(crate) subjects: BTreeMap<String, String>,
    /// A description of each subject, with its cipher.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) about: BTreeMap<String, String>,
    /// Subjects that stand in for something that cannot run here, and for what.
    #[serde(default)]
    pub(crate) stand_ins: BTreeMap<String, String>,
    /// The cost of the lab's own wire, if the plan has a link that takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wire: Option<WireCost>,
}

/// Either wire without a tunnel, a limit or a delay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WireCost {
    /// The kernel's.
    pub(crate) kernel: Bare,
    /// The lab's.
    pub(crate) own: Bare,
}

/// A wire and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bare {
    /// One TCP flow's goodput.
    pub(crate) mbit: f64,
    /// The processor seconds for it, of all processors.
    pub(crate) cpu_s_per_gb: f64,
    /// Half of a thousand echoes a second took no longer.
    pub(crate) round_trip_us: f64,
}

impl Environment {
    /// Looks at the machine.
    pub(crate) fn of(
        plan: &Plan,
        subjects: &BTreeMap<String, Box<dyn Subject>>,
        tools: &Tools,
        wire: Option<WireCost>,
        links: BTreeMap<String, LinkInfo>,
    ) -> Environment {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let processor = value(&processors, "model name").unwrap_or_default();
        let memory = value(&read("/proc/meminfo"), "MemTotal");
        let memory = memory.and_then(|text| text.split(' ').next().and_then(|word| word.parse().ok()));
        let date = std::process::Command::new("date").args(["-u", "+%Y-%m-%d %H:%M"]).output();
        let stand_ins = plan
            .subjects
            .iter()
            .filter_map(|name| Some((name.clone(), subjects::find(subjects, name)?.stand_in()?)));
        let about = plan
            .subjects
            .iter()
            .filter_map(|name| Some((name.clone(), subjects::find(subjects, name)?.about())));
        Environment {
            format: FORMAT,
            command: command(std::env::args().skip(1)),
            lab: env!("CARGO_PKG_VERSION").to_owned(),
            date: date
                .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
                .unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            emulated: processor.starts_with(EMULATOR),
            processor,
            processors: processors.lines().filter(|line| line.starts_with("processor")).count(),
            memory_kib: memory.unwrap_or_default(),
            load_average: read("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or_default(),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").trim().to_owned(),
            tools: TOOLS
                .into_iter()
                .filter_map(|(name, word)| Some((name.to_owned(), subjects::version(name, &[word])?)))
                .collect(),
            links,
            subjects: describe(plan, subjects, tools),
            about: about.collect(),
            stand_ins: stand_ins.collect(),
            wire,
        }
    }
}

/// Each subject's version now, or why it is not measured.
pub(crate) fn describe(
    plan: &Plan,
    subjects: &BTreeMap<String, Box<dyn Subject>>,
    tools: &Tools,
) -> BTreeMap<String, String> {
    let described = plan.subjects.iter().filter_map(|name| {
        Some((name.clone(), subjects::find(subjects, name)?.availability(tools).to_string()))
    });
    described.collect()
}

/// A command line without the options that name files.
pub(crate) fn command(mut arguments: impl Iterator<Item = String>) -> String {
    let mut text = "adit-lab".to_owned();
    while let Some(argument) = arguments.next() {
        let names_file = ["--out", "--tools", "--adit", "--load", "--own", "--before", "--after", "--json"]
            .iter()
            .find(|option| argument.starts_with(**option));
        match names_file {
            Some(option) if argument == **option => drop(arguments.next()),
            Some(_) => {}
            None => {
                text.push(' ');
                text += argument.rsplit('/').next().unwrap_or_default();
            }
        }
    }
    text
}

/// Reads the file. An error names the program and format of one that a later program wrote.
pub(crate) fn read(path: &Path) -> Result<Environment, LabError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| LabError::File { path: path.to_owned(), source })?;
    let wrong = |error| LabError::Usage(format!("{}: {error}", path.display()));
    let value: serde_json::Value = serde_json::from_str(&text).map_err(wrong)?;
    let format = value["format"].as_u64().unwrap_or(1);
    if format != u64::from(FORMAT) {
        let (path, lab) = (path.display(), value["lab"].as_str().unwrap_or("?"));
        return Err(LabError::Usage(format!(
            "{path}: written by adit-lab {lab} in format {format}, and this is {} with format {FORMAT}; use that \
             one, or measure again into another folder",
            env!("CARGO_PKG_VERSION")
        )));
    }
    serde_json::from_value(value).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_kept_without_files() {
        let of = |line: &str| command(line.split(' ').map(str::to_owned));
        assert_eq!(of("run smoke --out /x/y --rounds 3"), "adit-lab run smoke --rounds 3");
        assert_eq!(of("--tools=/x run /home/me/mine.toml"), "adit-lab run mine.toml");
        assert_eq!(of("run all.toml --own /home/me"), "adit-lab run all.toml");
        assert_eq!(
            of("compare-builds --before /x --after=/y --rounds 5"),
            "adit-lab compare-builds --rounds 5"
        );
    }
}
