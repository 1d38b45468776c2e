//! The commands of PreUp, PostUp, PreDown and PostDown.
//!
//! Commands that run when the process has given up its rights are started before as a shell that waits for a line on
//! its standard input: it has the rights that adit was started with, and does nothing but the command of the file.
//! Where the line never comes, as the process was killed, it ends.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use adit_core::{Severity, escaped};
use adit_wireguard_config::Parsed;

use adit_host::failure::Failure;
use adit_host::log::Logger;

/// wg-quick's shell.
const SHELL: &str = "bash";
/// The shell of systems without it.
const PLAIN_SHELL: &str = "sh";
/// Waits for a line; signals to a whole group or service do not end the wait.
const WAIT: &str =
    "trap '' TERM INT HUP; IFS= read -r _ || exit 0; trap - TERM INT HUP; exec </dev/null; eval \"$1\"";

/// When commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the device is made.
    PreUp,
    /// When routes are set and the interface answers.
    PostUp,
    /// When the tunnel was ordered to end.
    PreDown,
    /// When its device is gone.
    PostDown,
}

impl Moment {
    fn key(self) -> &'static str {
        match self {
            Moment::PreUp => "PreUp",
            Moment::PostUp => "PostUp",
            Moment::PreDown => "PreDown",
            Moment::PostDown => "PostDown",
        }
    }
}

/// A command with its place.
#[derive(Clone, Debug)]
struct Hook {
    /// Key, file and line.
    place: String,
    command: String,
}

/// The commands of a file.
pub(super) struct Hooks {
    all: Vec<(Moment, Hook)>,
}

impl Hooks {
    /// The hooks of that file, for the interface with this name.
    pub(super) fn new(file: &Path, interface: &str, parsed: &Parsed) -> Self {
        let config = &parsed.config.interface;
        let moments = [
            (Moment::PreUp, &config.pre_up),
            (Moment::PostUp, &config.post_up),
            (Moment::PreDown, &config.pre_down),
            (Moment::PostDown, &config.post_down),
        ];
        let mut all = Vec::new();
        for (moment, commands) in moments {
            let entries = parsed.report.iter().filter(|it| it.directive.eq_ignore_ascii_case(moment.key()));
            for (command, entry) in commands.iter().zip(entries) {
                let place = format!("{}:{}: {}", file.display(), entry.line, moment.key());
                all.push((moment, Hook { place, command: command.replace("%i", interface) }));
            }
        }
        Hooks { all }
    }

    fn of(&self, moment: Moment) -> impl Iterator<Item = &Hook> {
        self.all.iter().filter(move |(when, _)| *when == moment).map(|(_, hook)| hook)
    }

    /// Runs those of this moment now, one after the other.
    ///
    /// # Errors
    /// The first that failed.
    pub(super) fn run(&self, moment: Moment, log: &mut Logger) -> Result<(), Failure> {
        for hook in self.of(moment) {
            hook.tell(log);
            let status = hook.spawn("eval \"$1\"", Stdio::null()).and_then(|mut child| child.wait());
            hook.judge(status).map_err(Failure::World)?;
        }
        Ok(())
    }

    /// Starts the shells of the later moments.
    ///
    /// # Errors
    /// When the system refuses one.
    pub(super) fn prepare(&self) -> Result<Waiting, Failure> {
        let prepare = |moment| {
            let start = |hook: &Hook| {
                let child = hook.spawn(WAIT, Stdio::piped()).map_err(|error| {
                    Failure::World(format!("{}: the shell cannot be started: {error}", hook.place))
                })?;
                Ok(WaitingHook { hook: hook.clone(), child })
            };
            self.of(moment).map(start).collect::<Result<Vec<_>, Failure>>()
        };
        Ok(Waiting {
            post_up: prepare(Moment::PostUp)?,
            pre_down: prepare(Moment::PreDown)?,
            post_down: prepare(Moment::PostDown)?,
        })
    }
}

impl Hook {
    fn tell(&self, log: &mut Logger) {
        log.log(Severity::Info, format_args!("{}: {}", self.place, escaped(&self.command)));
    }

    fn spawn(&self, script: &str, stdin: Stdio) -> std::io::Result<Child> {
        let mut command = match std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(SHELL).exists()))
        {
            true => Command::new(SHELL),
            false => Command::new(PLAIN_SHELL),
        };
        // A terminal's signals, which it sends to the whole process group, are for the tunnel alone.
        command.args(["-c", script, "adit", &self.command]).stdin(stdin).process_group(0).spawn()
    }

    fn judge(&self, status: std::io::Result<ExitStatus>) -> Result<(), String> {
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                Err(format!("{}: the command failed ({status}): {}", self.place, escaped(&self.command)))
            }
            Err(error) => Err(format!("{}: the command cannot be run: {error}", self.place)),
        }
    }
}

/// Commands that wait for their moment.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) post_up: Vec<WaitingHook>,
    pub(super) pre_down: Vec<WaitingHook>,
    pub(super) post_down: Vec<WaitingHook>,
}

/// A shell that waits. It ends when this is dropped.
pub(super) struct WaitingHook {
    hook: Hook,
    child: Child,
}

impl WaitingHook {
    /// Runs the command.
    ///
    /// # Errors
    /// It failed, or could not be run.
    pub(super) fn run(mut self, log: &mut Logger) -> Result<(), String> {
        self.hook.tell(log);
        let told = self.child.stdin.take().map_or(Ok(()), |mut stdin: ChildStdin| stdin.write_all(b"\n"));
        let status = told.and_then(|()| self.child.wait());
        self.hook.judge(status)
    }
}

impl Drop for WaitingHook {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
