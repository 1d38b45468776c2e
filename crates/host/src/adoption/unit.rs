//! The steps from another program to adit in a unit, and back.
//!
//! While adit is on trial, its drop-in is in `/run`: after the machine's next start the unit runs the other program. When its peers
//! are connected, the drop-in is written to `/etc`, and then removed from `/run`. So the unit runs either the other program or adit,
//! whenever this process is killed or the power fails; and the files show a repeated command how far the one before came.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::drop_in::{self, Contents, Lacks};
use super::files::{is_ours, remove, write};
use super::process;
use super::program::{Adoption, Prepared, Start};
use super::systemd::{Command, Systemd};

/// The time between two checks whether peers are connected.
const TICK: Duration = Duration::from_millis(250);

/// The name of the lock file, in the directory of runtime drop-ins. systemd ignores it there, as it has no suffix of a unit.
const LOCK: &str = ".adit-adopt.lock";

/// A unit whose tunnels another program runs, or adit in its place.
pub(super) struct Unit<'a> {
    systemd: &'a Systemd,
    name: String,
    /// The programs in whose place adit can run. The last is taken for one that is not known.
    programs: &'a [&'a dyn Adoption],
}

/// The state in which a unit was found.
pub(super) struct Found<'a> {
    /// The program that ran it, or runs it.
    pub(super) other: &'a dyn Adoption,
    /// The lasting drop-in is there.
    pub(super) is_kept: bool,
    /// The drop-in of a trial is there: the trial has not ended yet.
    pub(super) is_tried: bool,
    /// The command that it starts.
    command: Command,
    /// Its main process, if it runs.
    pub(super) main: Option<Main>,
    /// The main process has ended, and systemd starts it again after a time.
    restarts: bool,
}

/// The main process of a unit.
#[derive(Clone, Copy)]
pub(super) struct Main {
    pid: u32,
    is_adit: bool,
}

/// How long a command waits for peers, and how it sees them.
pub(super) struct PeerWait<'a> {
    /// How long the peers may take; with none, no peer is waited for.
    pub(super) within: Duration,
    /// The number of peers that must be connected, at least 1.
    pub(super) needed: usize,
    /// The command was interrupted (Ctrl-C).
    pub(super) interrupted: &'a AtomicBool,
    /// Gives the names of the peers that are connected to tunnels of that process.
    pub(super) peers_of: &'a dyn Fn(u32) -> Vec<String>,
}

/// The lock that one `adit adopt` holds at a time.
pub(super) struct Lock(File);

impl Drop for Lock {
    /// To close the file is not enough: a program that another thread starts has a copy of its descriptor between `fork` and
    /// `exec`.
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.main {
            Some(Main { pid, is_adit: true }) => write!(f, "run by adit on trial as process {pid}"),
            Some(Main { pid, is_adit: false }) => {
                write!(f, "run by {} as process {pid}", self.other.title())
            }
            None if self.restarts => write!(f, "which has ended, and which systemd starts again"),
            None => write!(f, "which does not run"),
        }
    }
}

impl Found<'_> {
    /// Whether it runs, or is started again without an order.
    pub(super) fn is_active(&self) -> bool {
        self.main.is_some() || self.restarts
    }

    /// The process of the other program, if that runs.
    pub(super) fn other_process(&self) -> Option<u32> {
        self.main.filter(|main| !main.is_adit).map(|main| main.pid)
    }

    /// Whether its command is the other program's, or names this copy of adit.
    fn has_known_program(&self) -> bool {
        let program = &self.command.program;
        self.other.is_called(program) || process::is_adit(program)
    }

    /// The other program's arguments, as the unit has them.
    fn words(&self) -> &[String] {
        let words = &self.command.words;
        let of_adit = || self.other.arguments(words).filter(|_| process::is_adit(&self.command.program));
        of_adit().unwrap_or(words)
    }
}

impl<'a> Unit<'a> {
    /// The unit of that name, whose tunnels one of the programs runs.
    pub(super) fn new(systemd: &'a Systemd, name: String, programs: &'a [&'a dyn Adoption]) -> Self {
        Unit { systemd, name, programs }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The drop-in that stays for good.
    pub(super) fn kept(&self) -> PathBuf {
        self.in_directory(&self.systemd.lasting)
    }

    /// The drop-in of a trial.
    fn tried(&self) -> PathBuf {
        self.in_directory(&self.systemd.runtime)
    }

    fn in_directory(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.d", self.name)).join(drop_in::NAME)
    }

    /// Takes the lock, which other `adit adopt` cannot take until it is dropped.
    ///
    /// Its file is root's alone (0600): a file or directory that other users can open they can lock, too.
    ///
    /// # Errors
    /// When another `adit adopt` has it, or the file cannot be made.
    pub(super) fn lock(&self) -> Result<Lock, String> {
        let path = self.systemd.runtime.join(LOCK);
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| "another `adit adopt` is at work".to_owned())?;
        Ok(Lock(file))
    }

    /// Its state, after systemd has read its files again: an earlier command may have been interrupted before that.
    ///
    /// # Errors
    /// When there is no such unit, or it runs none of the programs, or another copy of adit has adopted it.
    pub(super) fn look(&self) -> Result<Found<'a>, String> {
        let found = self.inspect()?;
        if (found.is_kept || found.is_tried) && !found.has_known_program() {
            return Err(format!(
                "{0} has a drop-in of `adit adopt` and runs {1}, which is not this adit: `adit adopt --back {0}` first",
                self.name,
                found.command.program.display()
            ));
        }
        Ok(found)
    }

    /// Its state, also where another copy of adit has adopted it.
    fn inspect(&self) -> Result<Found<'a>, String> {
        self.systemd.reload()?;
        let state = self.systemd.property(&self.name, "LoadState")?;
        if state != "loaded" {
            return Err(format!("{}: there is no such unit ({state})", self.name));
        }
        let command = self.systemd.command(&self.name)?;
        let main = self.systemd.main_process(&self.name)?;
        let (is_kept, is_tried) = (is_ours(&self.kept())?, is_ours(&self.tried())?);
        let is_adit = is_kept || is_tried || process::is_adit(&command.program);
        let other = self.program_of(&command, is_adit).ok_or_else(|| self.not_known(&command.program))?;
        Ok(Found {
            other,
            restarts: main.is_none() && self.systemd.restarts(&self.name)?,
            is_kept,
            is_tried,
            command,
            main: main.map(|pid| Main { pid, is_adit: process::runs_adit(pid) }),
        })
    }

    /// The program whose command that is, or in whose place adit runs by it, if that `is_adit`.
    fn program_of(&self, command: &Command, is_adit: bool) -> Option<&'a dyn Adoption> {
        let find =
            |is_it: &dyn Fn(&dyn Adoption) -> bool| self.programs.iter().copied().find(|it| is_it(*it));
        let own = find(&|other| other.is_called(&command.program));
        let in_its_place = || find(&|other| other.arguments(&command.words).is_some());
        own.or_else(|| is_adit.then(|| in_its_place().or(self.programs.last().copied())).flatten())
    }

    /// Why a unit with that program cannot be adopted.
    fn not_known(&self, program: &Path) -> String {
        let titles: Vec<&str> = self.programs.iter().map(|other| other.title()).collect();
        let way_out = self.programs.iter().find_map(|other| other.way_out(program)).unwrap_or_default();
        format!("{} does not run {} but {}{way_out}", self.name, titles.join(" or "), program.display())
    }

    /// The message where adit runs it already, for good. `None`: it has to be adopted.
    ///
    /// # Errors
    /// When the drop-in that an interrupted command left cannot be removed.
    pub(super) fn settle(&self, found: &Found<'_>, dry_run: bool) -> Result<Option<String>, String> {
        let name = &self.name;
        if found.is_kept && found.main.is_none_or(|main| main.is_adit) {
            if !dry_run {
                remove(&self.tried())?;
            }
            return Ok(Some(match found.main {
                None if !found.restarts => from_next_start(name),
                _ => format!("adit runs {name} already"),
            }));
        }
        let program = &found.command.program;
        let is_other_way = !found.is_kept && !found.is_tried && process::is_adit(program);
        Ok(is_other_way.then(|| format!("adit runs {name} already: {} is adit", program.display())))
    }

    /// The facts by which the other program's configuration is read.
    ///
    /// # Errors
    /// When systemd does not say.
    pub(super) fn start<'f>(&'f self, found: &'f Found<'_>) -> Result<Start<'f>, String> {
        let directory = self.systemd.property(&self.name, "WorkingDirectory")?;
        // `!` says that it may be missing.
        let directory = directory.trim_start_matches('!');
        Ok(Start {
            unit: &self.name,
            words: found.words(),
            is_literal: found.command.is_literal(),
            main: found.main.map(|main| main.pid),
            directory: PathBuf::from(if directory.is_empty() { "/" } else { directory }),
        })
    }

    /// The text of its drop-in: the text of an earlier command's drop-in, if there is one.
    ///
    /// # Errors
    /// When none can be made.
    pub(super) fn drop_in(&self, found: &Found<'_>, prepared: &Prepared) -> Result<String, String> {
        for (is_there, path) in [(found.is_tried, self.tried()), (found.is_kept, self.kept())] {
            if is_there {
                return fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
            }
        }
        let own = std::env::current_exe().map_err(|error| format!("where adit is: {error}"))?;
        drop_in::text(&Contents {
            title: found.other.title(),
            program: &own,
            prefixes: &found.command.prefixes,
            command: prepared.command,
            arguments: &prepared.arguments,
            lacks: &Lacks::of(self.systemd, &self.name)?,
        })
    }

    /// Checks that the command can see when a peer is connected: the socket for that is in a directory that only root can
    /// write to.
    ///
    /// # Errors
    /// When the unit runs as another user.
    pub(super) fn check_visible(&self, found: &Found<'_>) -> Result<(), String> {
        if found.command.is_privileged() {
            return Ok(());
        }
        match self.systemd.user(&self.name)? {
            None => Ok(()),
            Some(user) => Err(format!(
                "{} runs as the user {user}, which cannot make the socket below /run/adit that shows whether a peer \
                 is connected; with `--within 0` none is waited for",
                self.name
            )),
        }
    }

    /// Has adit run it, and keeps adit if the peers are connected in time. A unit that does not run is not started.
    ///
    /// # Errors
    /// Why the other program runs it as before.
    pub(super) fn adopt(
        &self,
        found: &Found<'_>,
        drop_in: &str,
        peer_wait: &PeerWait<'_>,
    ) -> Result<String, String> {
        let name = &self.name;
        if !found.is_active() && !found.is_tried {
            self.install(&self.kept(), drop_in)?;
            return Ok(from_next_start(name));
        }
        let is_on_trial = found.is_tried && found.main.is_some_and(|main| main.is_adit);
        let started = if is_on_trial {
            Ok(())
        } else {
            self.install(&self.tried(), drop_in)?;
            self.systemd.restart(name)
        };
        match started.and_then(|()| self.wait_for_peers(peer_wait)) {
            Ok(said) => {
                self.keep(drop_in).map_err(|error| {
                    let title = found.other.title();
                    format!("adit runs {name}, but {title} will after the machine's next start: {error}")
                })?;
                Ok(format!("adit runs {name}: {said}. To go back: adit adopt --back {name}"))
            }
            Err(why) => Err(self.go_back(found, &why)),
        }
    }

    /// Has the other program run it again.
    ///
    /// # Errors
    /// When the other program does not run again.
    pub(super) fn give_back(&self) -> Result<String, String> {
        let found = self.inspect()?;
        let (name, title) = (&self.name, found.other.title());
        let is_adit = found.main.is_some_and(|main| main.is_adit);
        // Without a drop-in, adit runs because an interrupted command has not restarted the unit yet, or because the unit's own
        // command names adit.
        let is_left = is_adit && !process::is_adit(&found.command.program);
        if !found.is_kept && !found.is_tried && !is_left {
            return Ok(format!("{name} is not adopted"));
        }
        self.remove_drop_ins()?;
        if !found.is_active() {
            return Ok(format!("{title} runs {name} from its next start on: systemctl start {name}"));
        }
        self.restart_other()?;
        Ok(format!("{title} runs {name}"))
    }

    /// Writes the drop-in. If systemd does not read it, or another one after it sets the command, it is removed.
    fn install(&self, path: &Path, text: &str) -> Result<(), String> {
        write(path, text)?;
        let outcome = self.systemd.reload().and_then(|()| self.systemd.command(&self.name));
        let outcome = outcome.and_then(|command| match process::is_adit(&command.program) {
            true => Ok(()),
            false => Err(format!(
                "another drop-in of {0} has an ExecStart that comes after {1}: see `systemctl cat {0}`",
                self.name,
                path.display()
            )),
        });
        if outcome.is_err() {
            self.remove_drop_ins()?;
        }
        outcome
    }

    fn wait_for_peers(&self, peer_wait: &PeerWait<'_>) -> Result<String, String> {
        let PeerWait { within, needed, interrupted, peers_of } = *peer_wait;
        let start = Instant::now();
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Err("the command was interrupted".to_owned());
            }
            let main = self.systemd.main_process(&self.name)?.ok_or("adit ended")?;
            if within.is_zero() {
                return Ok("no peer was waited for".to_owned());
            }
            let elapsed = start.elapsed();
            let peers = peers_of(main);
            if peers.len() >= needed {
                return Ok(connected(&peers, elapsed));
            }
            if elapsed >= within {
                return Err(missed(peers.len(), needed, within));
            }
            std::thread::sleep(TICK.min(within - elapsed));
        }
    }

    /// Moves the drop-in to the lasting directory. It is in both directories for a moment, never in none.
    fn keep(&self, text: &str) -> Result<(), String> {
        write(&self.kept(), text)?;
        remove(&self.tried())?;
        self.systemd.reload()
    }

    /// Has the other program run it as before. Gives the error message.
    fn go_back(&self, found: &Found<'_>, why: &str) -> String {
        let title = found.other.title();
        let log = match self.systemd.last_lines(&self.name) {
            lines if lines.is_empty() => format!("the log of {} says more", self.name),
            lines => format!("the last lines of its log:\n{lines}"),
        };
        match self.remove_drop_ins().and_then(|()| self.restart_other()) {
            Ok(()) => format!("{title} runs {} again, because {why}; {log}", self.name),
            Err(error) => format!("{why}; and {title} does not run {} again: {error}; {log}", self.name),
        }
    }

    fn remove_drop_ins(&self) -> Result<(), String> {
        remove(&self.tried())?;
        remove(&self.kept())?;
        self.systemd.reload()
    }

    fn restart_other(&self) -> Result<(), String> {
        self.systemd.forget_failures(&self.name);
        self.systemd.restart(&self.name)
    }
}

fn from_next_start(name: &str) -> String {
    format!("adit runs {name} from its next start on: systemctl start {name}")
}

/// The peers that are connected after that time.
fn connected(peers: &[String], elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f32();
    match peers {
        [peer] => format!("{} is connected after {seconds:.1} s", adit_core::printable(peer)),
        _ => format!("{} peers are connected after {seconds:.1} s", peers.len()),
    }
}

/// Why fewer peers than needed are too few.
fn missed(found: usize, needed: usize, within: Duration) -> String {
    let seconds = within.as_secs();
    match (found, needed) {
        (0, 1) => {
            format!("no peer is connected within {seconds} s (if there was none before, give `--within 0`)")
        }
        (0, _) => format!("none of the {needed} peers is connected within {seconds} s"),
        _ => format!(
            "{found} of the {needed} peers are connected within {seconds} s (if others may stay away, give `--within 0`)"
        ),
    }
}
