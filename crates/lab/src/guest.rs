//! A run in a virtual machine, with a kernel of Debian's that has what this machine's kernel lacks.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{Guest, Kernel, Scratch};

use crate::environment::{self, Environment};
use crate::error::LabError;
use crate::plan::Plan;
use crate::results::ENVIRONMENT;
use crate::subjects::{self, Availability, Subject, Tools, installing};
use crate::{report, say, setup};

/// The roots of `scripts/debian-systems` that have the peers. Debian cannot have libreswan and strongSwan installed at once: `ipsec` is
/// libreswan's.
const ROOTS: [&str; 2] = ["libreswan", "lab"];
/// MiB of memory, which holds the roots, too.
const MEMORY: u32 = 3072;
/// Longer than any plan takes in an emulator.
const LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Where the plan is in the guest, and where its results come to be.
const PLAN: &str = "/guest/plan.toml";
const OUT: &str = "/guest/out";
/// How programs begin that are to be stripped.
const ELF: &[u8; 4] = b"\x7fELF";

/// The kernel of that suite of Debian.
pub(crate) fn kernel(suite: &str) -> Result<Kernel, String> {
    let known = || Kernel::ALL.map(Kernel::suite).join(", ");
    let found = Kernel::ALL.into_iter().find(|kernel| kernel.suite() == suite);
    found.ok_or_else(|| format!("no kernel of {suite}; there are those of {}", known()))
}

/// Runs a plan in a guest, and puts its folder to `out`, which may not be there before. False if a subject failed.
pub(crate) fn run(
    plan: &Plan,
    kernel: Kernel,
    out: &Path,
    subjects: &BTreeMap<String, Box<dyn Subject>>,
    tools: &Tools,
) -> Result<bool, LabError> {
    if out.exists() {
        let why =
            format!("{} is there, and a run in a guest begins anew; choose another --out", out.display());
        return Err(LabError::Usage(why));
    }
    build(plan, subjects, tools);
    let scratch = Scratch::create("lab-guest")?;
    let text = toml::to_string(plan)
        .map_err(|error| LabError::Usage(format!("the plan cannot be written: {error}")))?;
    let file = scratch.write("plan.toml", &text)?;
    let guest = Guest::new(kernel)
        .with_kernel_for_all_machines()
        .with_root(ROOTS[0], MEMORY)
        .with_further_root(ROOTS[1])
        .with_file(&file, Path::new(PLAN))
        .with_returned_folder(Path::new(OUT), out);
    let guest = programs(tools).iter().fold(guest, |guest, path| guest.with_program(path));
    let report = guest.run_and_show(&command(tools), LIMIT, |line| {
        let _ = writeln!(std::io::stderr(), "{line}");
    })?;
    if !out.join(ENVIRONMENT).exists() {
        return Err(LabError::Usage(format!("the run in the guest did not begin: {}", report.output.trim())));
    }
    let environment = environment::read(&out.join(ENVIRONMENT))?;
    let command = environment::command(std::env::args().skip(1));
    crate::run::write(&Environment { command, ..environment }, out)?;
    report::write(out)?;
    say(out.join(report::HTML).display());
    Ok(report.status == 0)
}

/// Builds those peers of the plan that no package of the guest has.
fn build(plan: &Plan, all: &BTreeMap<String, Box<dyn Subject>>, tools: &Tools) {
    for subject in plan.subjects.iter().filter_map(|name| subjects::find(all, name)) {
        if let Availability::Installable(how) = subject.availability(tools)
            && !how.starts_with(setup::APT)
        {
            installing::run(&how, tools);
        }
    }
}

/// The lab, the measured adit, and the peers that were built.
fn programs(tools: &Tools) -> Vec<PathBuf> {
    let mut all = vec![tools.lab.clone(), tools.adit.clone()];
    all.extend([tools.load_ike(), tools.load_openvpn(), tools.load_wireguard()]);
    for folder in [tools.directory.clone(), tools.directory.join("bin")] {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        all.extend(files.map(|file| file.path()));
    }
    let is_program = |path: &PathBuf| std::fs::read(path).is_ok_and(|content| content.starts_with(ELF));
    all.iter().filter_map(|path| path.canonicalize().ok()).filter(is_program).collect()
}

/// The lab's command in the guest, with the paths that programs have here.
fn command(tools: &Tools) -> Command {
    let path = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut command = Command::new(path(&tools.lab));
    command.args(["run", PLAN, "--out", OUT]);
    for (option, value) in [("--tools", &tools.directory), ("--adit", &tools.adit), ("--load", &tools.load)] {
        command.arg(option).arg(path(value));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_named_by_its_suite() {
        assert_eq!(kernel("sid"), Ok(Kernel::Unstable));
        assert_eq!(
            kernel("woody").unwrap_err(),
            "no kernel of woody; there are those of bookworm, trixie, sid"
        );
    }
}
