//! `updown`: the programs that run when a child comes up and when it goes down.

mod environment;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use adit_core::{PeerId, Severity, escaped};
use adit_guard::{ScriptLauncher, Scripts as Allowed};
use adit_host::log::Logger;
use adit_host::scripts::{Answer, Script, ScriptId, ScriptOutcome, ScriptPriority, Scripts};
use adit_ike::machine::ChildUp;

use self::environment::{CONNECTION, VERB};
use crate::devices::Devices;
use crate::translate::Planned;

/// The name of the programs that wait in `adit status`.
const WAITING: &str = "programs of updown that wait";
/// How long a program may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The beginning of the names of the programs' environment variables.
const PREFIX: &str = "PLUTO_";
/// The program that reads the text of `updown`, as with strongSwan.
const SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// The program and the arguments of a text of `updown`.
fn command(text: &str) -> Vec<String> {
    SHELL.into_iter().chain([text]).map(str::to_owned).collect()
}

/// The programs of connections, as the helper may run them. `None`: there are none.
pub(crate) fn allowed(planned: &[Planned]) -> Option<Allowed> {
    let mut commands: Vec<Vec<String>> = planned.iter().flat_map(Planned::programs).map(command).collect();
    commands.sort();
    commands.dedup();
    (!commands.is_empty()).then(|| Allowed {
        // The program that ran at a child's start runs at its end, also where a reload has taken the program out of the file.
        lasting: commands.clone(),
        commands,
        most_following: 0,
        prefixes: vec![PREFIX.to_owned()],
        directory: std::env::temp_dir(),
        ..Allowed::default()
    })
}

/// A child that is up, and whose program is to run when it goes down.
struct Up {
    source: IpAddr,
    program: Vec<String>,
    device: String,
    /// The environments of its runs without the verb: one for each pair of selectors.
    environments: Vec<environment::Run>,
}

/// The programs of a tunnel's children.
pub(crate) struct Updown {
    scripts: Scripts,
    devices: Devices,
    up: BTreeMap<(PeerId, String), Up>,
    /// The runs so far.
    runs: u32,
}

impl Updown {
    /// Programs that the helper behind `launcher` runs.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(crate) fn start(launcher: ScriptLauncher, devices: Devices, log: Logger) -> io::Result<Self> {
        let answer: Answer = Box::new(move |script, outcome| {
            if let Some(failure) = failure(script, &outcome) {
                log.clone().log(Severity::Error, failure);
            }
        });
        let scripts = Scripts::start(WAITING, answer, launcher, Vec::new())?;
        Ok(Updown { scripts, devices, up: BTreeMap::new(), runs: 0 })
    }

    /// A child has come up. `tunnels_device` is the device of children without one of their own.
    pub(crate) fn up(&mut self, child: &ChildUp, tunnels_device: &str) {
        let own = self.devices.get(child.device);
        let device = own.map_or(tunnels_device, |device| &device.name).to_owned();
        let facts = environment::Device { name: &device, number: own.and_then(|device| device.number) };
        let up = Up {
            source: child.path.remote().ip(),
            program: command(&child.program),
            environments: environment::runs(child, &facts),
            device,
        };
        self.run(child.peer, &up, "up");
        self.up.insert((child.peer, child.child.clone()), up);
    }

    /// A child has gone down.
    pub(crate) fn down(&mut self, peer: PeerId, child: String) {
        if let Some(up) = self.up.remove(&(peer, child)) {
            self.run(peer, &up, "down");
        }
    }

    fn run(&mut self, peer: PeerId, of: &Up, change: &str) {
        for run in &of.environments {
            self.runs = self.runs.wrapping_add(1);
            let script = Script {
                // The runs of a peer come one after the other.
                id: ScriptId { owner: peer.0.into(), number: self.runs },
                source: Some(of.source),
                priority: if change == "up" { ScriptPriority::Authenticated } else { ScriptPriority::End },
                argv: of.program.clone(),
                env: run.variables(change),
                secrets: Vec::new(),
                files: Vec::new(),
                defers: false,
                in_order: None,
                beside: None,
                timeout: TIMEOUT,
            };
            self.scripts.run(Box::new(script), &of.device);
        }
    }
}

/// The line about a program that has not done its work.
fn failure(script: &Script, outcome: &ScriptOutcome) -> Option<String> {
    let why = match &outcome.exit {
        Ok(0) => return None,
        Ok(code) => format!("it ended with exit code {code}"),
        Err(why) => why.clone(),
    };
    let variable = |name: &str| script.env.iter().find(|(own, _)| own == name).map_or("", |(_, value)| value);
    let program = script.argv.last().map_or("", String::as_str);
    Some(format!(
        "{}: the program of `updown` for {}: {}: {why}; the child SA stays as it is",
        escaped(variable(CONNECTION)),
        variable(VERB),
        escaped(program)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::planned;

    #[test]
    fn the_helper_runs_the_programs_of_the_file_and_no_others() {
        assert!(allowed(&planned("", "")).is_none());
        let allowed = allowed(&planned("", "updown = /usr/lib/ipsec/_updown iptables")).unwrap();
        assert_eq!(allowed.commands, [["/bin/sh", "-c", "/usr/lib/ipsec/_updown iptables"]]);
        assert_eq!((allowed.most_following, &allowed.prefixes[..]), (0, &["PLUTO_".to_owned()][..]));
    }
}
