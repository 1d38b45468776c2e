//! The subjects of measurements: one file for each kind.
//!
//! Those of [`external`] are files of the reader's own. A subject says whether it can run here, and brings a tunnel
//! up between the two ends of a [`Testbed`]. To add one: write a file with a type that is a [`Subject`], and name it in
//! [`all`].

pub(crate) mod adit;
mod external;
mod fastd;
pub(crate) mod installing;
mod ipsec;
mod kernel;
mod kernel_wireguard;
mod l2tp;
mod libreswan;
pub(crate) mod miragevpn;
mod null;
mod openvpn;
mod ppp;
mod pptp;
pub(crate) mod strongswan;
mod tinc;
mod veth;
mod vtun;
pub(crate) mod wireguard;

pub(crate) use kernel::NO_MODULE;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::program;

use crate::error::LabError;
use crate::testbed::{Started, Testbed};

/// Whether a subject can run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It is there; this is its version.
    Installed(String),
    /// `adit-lab setup` gets it; this is how.
    Installable(String),
    /// Not on this machine; this is why.
    Impossible(String),
    /// It is ours to build; this is how.
    Unbuilt(String),
}

impl Availability {
    /// Whether its failure counts as a failure of the run. That of a subject that this machine cannot run
    /// does not.
    pub(crate) fn is_due(&self) -> bool {
        !matches!(self, Availability::Impossible(_))
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Availability::Installed(version) => write!(f, "installed: {version}"),
            Availability::Installable(how) => write!(f, "not installed; `adit-lab setup` runs: {how}"),
            Availability::Unbuilt(how) => write!(f, "not built: {how}"),
            Availability::Impossible(why) => write!(f, "not possible here: {why}"),
        }
    }
}

/// A tunnel that carries packets.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    /// Whether there is one at all; the bare wire is none.
    pub(crate) inner: bool,
    /// How it came up, and how others before it did.
    pub(crate) starts: Vec<Started>,
}

impl Tunnel {
    /// One that came up.
    fn up(started: Started) -> Tunnel {
        Tunnel { inner: true, starts: vec![started] }
    }
}

/// Where programs are that no package manager puts into PATH.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    /// Where `adit-lab setup` builds peers from source.
    pub(crate) directory: PathBuf,
    /// The measured adit.
    pub(crate) adit: PathBuf,
    /// The folder of the load generators.
    pub(crate) load: PathBuf,
    /// The lab itself, which is the null tunnel, too.
    pub(crate) lab: PathBuf,
    /// Where the reader's own subjects are.
    pub(crate) external: PathBuf,
    /// The directory of MirageVPN's programs, if [`miragevpn::VARIABLE`] names one.
    pub(crate) miragevpn: Option<PathBuf>,
}

impl Tools {
    /// The program that generates OpenVPN's load.
    pub(crate) fn load_openvpn(&self) -> PathBuf {
        self.load.join("adit-load-openvpn")
    }

    /// The program that generates IKEv2's load.
    pub(crate) fn load_ike(&self) -> PathBuf {
        self.load.join("adit-load-ike")
    }

    /// The program that generates WireGuard's load.
    pub(crate) fn load_wireguard(&self) -> PathBuf {
        self.load.join("adit-load-wireguard")
    }
}

/// Something that is measured.
pub(crate) trait Subject: fmt::Debug + Send + Sync {
    /// Its name in plans.
    fn name(&self) -> String;
    /// A description of it, in a line.
    fn about(&self) -> String;
    /// The subject for which it stands in, if that cannot run here: it is then labelled so.
    fn stand_in(&self) -> Option<String> {
        None
    }
    /// Whether it can run here.
    fn availability(&self, tools: &Tools) -> Availability;
    /// Starts a server for so many clients, and gives what starts each of them.
    fn clients(&self, _ground: &mut Testbed, _tools: &Tools, _count: u32) -> Result<Vec<Command>, LabError> {
        Err(LabError::Usage("the lab drives many clients of adit and of OpenVPN only".to_owned()))
    }
    /// Figures of the program's own benchmark in memory, by name; nothing if it has none.
    fn in_memory(&self, _tools: &Tools) -> Result<Vec<(String, f64)>, LabError> {
        Ok(Vec::new())
    }
    /// Brings the tunnel up.
    fn start(&self, testbed: &mut Testbed, tools: &Tools) -> Result<Tunnel, LabError>;
}

/// All that the lab knows, by name.
pub(crate) fn all() -> BTreeMap<String, Box<dyn Subject>> {
    let mut all: Vec<Box<dyn Subject>> =
        vec![Box::new(veth::Veth), Box::new(null::Null), Box::new(tinc::Tinc), Box::new(fastd::Fastd)];
    all.push(Box::new(kernel_wireguard::KernelWireGuard));
    all.push(Box::new(libreswan::Libreswan));
    all.push(Box::new(pptp::Pptp));
    all.extend(openvpn::all());
    all.extend(adit::all());
    all.extend(miragevpn::all());
    all.extend(wireguard::all());
    all.extend(ipsec::all());
    all.extend(l2tp::all());
    all.extend(vtun::all());
    all.into_iter().map(|subject| (subject.name(), subject)).collect()
}

/// The subject that a plan means: `NAME`, or `NAME@WORD` for the same under another name.
pub(crate) fn find<'a>(all: &'a BTreeMap<String, Box<dyn Subject>>, name: &str) -> Option<&'a dyn Subject> {
    let plain = name.split_once('@').map_or(name, |(plain, _)| plain);
    all.get(plain).map(|subject| &**subject)
}

/// All subjects and the reader's own, which may not take the name of one of these.
pub(crate) fn with_external(tools: &Tools) -> Result<BTreeMap<String, Box<dyn Subject>>, LabError> {
    let mut subjects = all();
    for subject in external::all(&tools.external) {
        let name = subject.name();
        if subjects.insert(name.clone(), subject).is_some() {
            let directory = tools.external.display();
            return Err(LabError::Usage(format!(
                "{directory}: {name} is the name of another subject; give the file another name"
            )));
        }
    }
    Ok(subjects)
}

/// The first line that a program writes about its version; nothing if it is not installed.
pub(crate) fn version(name: &str, arguments: &[&str]) -> Option<String> {
    let mut command = program(name).ok()?;
    first_line(command.args(arguments))
}

/// The version of a program whose place is known.
fn version_at(path: &Path, arguments: &[&str]) -> Option<String> {
    path.is_file().then(|| first_line(Command::new(path).args(arguments)))?
}

fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned).filter(|line| !line.is_empty())
}

/// Why nothing that needs the kernel's own tunnel can run, or nothing if it can.
fn lacks_tun() -> Option<Availability> {
    let there = Path::new("/dev/net/tun").exists();
    (!there).then(|| Availability::Impossible("there is no /dev/net/tun".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_can_be_typed() {
        let names: Vec<String> = all().into_keys().collect();
        assert!(names.len() >= 8, "{names:?}");
        for name in names {
            let plain =
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
            assert!(plain, "{name}");
        }
    }
}
