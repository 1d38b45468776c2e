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

/// The children that are up, and the runs of their programs so far.
#[derive(Default)]
struct Children {
    up: BTreeMap<(PeerId, String), Up>,
    runs: u32,
}

impl Children {
    /// A child has come up: the runs of its program.
    fn up(&mut self, child: &ChildUp, device: &environment::Device<'_>) -> Vec<Script> {
        let up = Up {
            source: child.path.remote().ip(),
            program: command(&child.program),
            environments: environment::runs(child, device),
            device: device.name.to_owned(),
        };
        let scripts = self.scripts(child.peer, &up, "up");
        self.up.insert((child.peer, child.child.clone()), up);
        scripts
    }

    /// A child has gone down: its device, and the runs of its program. `None`: it was not up.
    fn down(&mut self, peer: PeerId, child: String) -> Option<(String, Vec<Script>)> {
        let up = self.up.remove(&(peer, child))?;
        let scripts = self.scripts(peer, &up, "down");
        Some((up.device, scripts))
    }

    fn scripts(&mut self, peer: PeerId, of: &Up, change: &str) -> Vec<Script> {
        let priority = if change == "up" { ScriptPriority::Authenticated } else { ScriptPriority::End };
        let script = |run: &environment::Run| {
            self.runs = self.runs.wrapping_add(1);
            Script {
                // The runs of a peer come one after the other.
                id: ScriptId { owner: peer.0.into(), number: self.runs },
                source: Some(of.source),
                priority,
                argv: of.program.clone(),
                env: run.variables(change),
                secrets: Vec::new(),
                files: Vec::new(),
                defers: false,
                in_order: None,
                beside: None,
                timeout: TIMEOUT,
            }
        };
        of.environments.iter().map(script).collect()
    }
}

/// The programs of a tunnel's children.
pub(crate) struct Updown {
    scripts: Scripts,
    devices: Devices,
    children: Children,
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
        Ok(Updown { scripts, devices, children: Children::default() })
    }

    /// A child has come up. `tunnels_device` is the device of children without one of their own.
    pub(crate) fn up(&mut self, child: &ChildUp, tunnels_device: &str) {
        let own = self.devices.get(child.device);
        let name = own.map_or(tunnels_device, |device| &device.name);
        let device = environment::Device { name, number: own.and_then(|device| device.number) };
        let scripts = self.children.up(child, &device);
        scripts.into_iter().for_each(|script| self.scripts.run(Box::new(script), name));
    }

    /// A child has gone down.
    pub(crate) fn down(&mut self, peer: PeerId, child: String) {
        if let Some((device, scripts)) = self.children.down(peer, child) {
            scripts.into_iter().for_each(|script| self.scripts.run(Box::new(script), &device));
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

    #[test]
    fn a_program_that_several_children_have_is_one_that_the_helper_runs_also_after_a_reload() {
        let both = "updown = /bin/true\n }\n other {\n remote_ts = 10.3.0.0/16\n updown = /bin/true";
        let allowed = allowed(&planned("", both)).unwrap();
        assert_eq!((allowed.commands.len(), &allowed.lasting), (1, &allowed.commands));
    }

    #[test]
    fn a_child_that_goes_down_has_the_program_and_the_device_of_its_start_once() {
        let (mut children, child) = (Children::default(), environment::tests::child());
        assert!(children.down(child.peer, child.child.clone()).is_none(), "it was not up");
        let up = children.up(&child, &environment::Device { name: "ipsec7", number: Some(7) });
        let (device, down) = children.down(child.peer, child.child.clone()).unwrap();
        assert_eq!((device.as_str(), up.len(), down.len()), ("ipsec7", 2, 2));
        let verbs = |scripts: &[Script]| scripts.iter().map(|it| it.env[0].1.clone()).collect::<Vec<_>>();
        assert_eq!(
            (verbs(&up), verbs(&down)),
            (
                vec!["up-client".to_owned(), "up-client-v6".to_owned()],
                vec!["down-client".to_owned(), "down-client-v6".to_owned()]
            )
        );
        assert!(up.iter().chain(&down).all(|script| script.argv == ["/bin/sh", "-c", "/bin/true"]));
        let is_end = |script: &Script| script.priority == ScriptPriority::End;
        assert!(down.iter().all(is_end) && !up.iter().any(is_end), "the end of a program is not left out");
        assert!(children.down(child.peer, child.child).is_none(), "once");
    }

    #[test]
    fn a_program_that_fails_is_a_line_with_its_child_and_one_that_ends_well_is_none() {
        let mut children = Children::default();
        let device = environment::Device { name: "ipsec0", number: None };
        let script = children.up(&environment::tests::child(), &device).remove(0);
        let line = |exit| failure(&script, &ScriptOutcome { exit, files: Vec::new() });
        assert_eq!(line(Ok(0)), None);
        let expected = "net: the program of `updown` for up-client: /bin/true: it ended with exit code 3; the child SA stays as it is";
        assert_eq!(line(Ok(3)).as_deref(), Some(expected));
        assert!(line(Err("it was killed".to_owned())).is_some_and(|line| line.contains(": it was killed;")));
    }
}
