//! The process that runs the tunnels: started, followed, started again.

use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::events::spawn;
use super::log::Log;
use super::paths;
use crate::settings::KillSwitch;

/// How long to wait before the first start after an end, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A process that ran for so long has done well: the next pause is short again.
const GOOD: Duration = Duration::from_secs(120);

/// The process that runs the tunnels.
#[derive(Debug)]
pub(super) struct Tunnels {
    files: Vec<PathBuf>,
    kill_switch: Option<KillSwitch>,
    running: Option<(Pid, Instant)>,
    start_at: Option<Instant>,
    pause: Duration,
    log: Log,
}

impl Tunnels {
    /// Tunnels of these files, which do not run yet.
    pub(super) fn new(files: Vec<PathBuf>, kill_switch: Option<KillSwitch>, log: Log) -> Self {
        Tunnels { files, kill_switch, running: None, start_at: None, pause: FIRST_PAUSE, log }
    }

    /// When [`Tunnels::start_if_due`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.start_at
    }

    /// Has the process started now, if none ever was.
    pub(super) fn begin(&mut self) {
        if self.running.is_none() && self.start_at.is_none() && !self.files.is_empty() {
            self.start_at = Some(Instant::now());
        }
    }

    /// Starts the process if its time has come.
    pub(super) fn start_if_due(&mut self) {
        if self.start_at.is_none_or(|time| time > Instant::now()) {
            return;
        }
        self.start_at = None;
        match self.spawn() {
            Ok(pid) => self.running = Some((pid, Instant::now())),
            Err(error) => self.again(&format!("the tunnels cannot be started: {error}")),
        }
    }

    fn spawn(&self) -> io::Result<Pid> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(paths::PROGRAM);
        command.arg0("adit").arg("up").args(["--resolv-conf", paths::RESOLV_CONF, "--exit-with-first"]);
        command.args(self.kill_switch.map(|scope| match scope {
            KillSwitch::On => "--kill-switch",
            KillSwitch::Lan => "--kill-switch=lan",
        }));
        command.args(&self.files).current_dir(paths::CONFIGURATIONS);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        let log = self.log.clone();
        spawn("output", move || {
            for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
                log.line(&String::from_utf8_lossy(&line));
            }
        })?;
        Pid::from_raw(child.id().cast_signed()).ok_or_else(|| io::Error::other("it has no number"))
    }

    /// Notes that a process has ended. If it was the one of the tunnels, it is started again after a pause.
    pub(super) fn ended(&mut self, pid: Pid, how: &str) {
        let Some((_, since)) = self.running.take_if(|(running, _)| *running == pid) else { return };
        if since.elapsed() >= GOOD {
            self.pause = FIRST_PAUSE;
        }
        self.again(&format!("the tunnels have ended ({how})"));
    }

    fn again(&mut self, why: &str) {
        self.log.say(format_args!("{why}; they are started again in {} s", self.pause.as_secs()));
        self.start_at = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Asks the process to end. False if none runs.
    pub(super) fn stop(&self) -> bool {
        self.running.is_some_and(|(pid, _)| kill_process(pid, Signal::TERM).is_ok())
    }

    /// Whether that is the process of the tunnels.
    pub(super) fn is(&self, pid: Pid) -> bool {
        self.running.is_some_and(|(running, _)| running == pid)
    }
}
