//! The steps from OpenVPN to adit in a unit, and back.
//!
//! While adit is on trial, its drop-in is in `/run`: after the machine's next start the unit runs OpenVPN. When a client is
//! connected, the drop-in is written to `/etc`, and then removed from `/run`. So the unit runs either OpenVPN or adit, whenever
//! this process is killed or the power fails; and the files show a repeated command how far the one before came.

#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::drop_in::{self, Lacks};
use super::process;
use super::systemd::{Command, Systemd};
use crate::command as openvpn;

/// The time between two checks whether a client is connected.
const TICK: Duration = Duration::from_millis(250);

/// The name of the lock file, in the directory of runtime drop-ins. systemd ignores it there, as it has no suffix of a unit.
const LOCK: &str = ".adit-adopt.lock";

/// A unit whose tunnel OpenVPN runs, or adit in its place.
pub(super) struct Unit<'a> {
    systemd: &'a Systemd,
    name: String,
}

/// The state in which a unit was found.
pub(super) struct Found {
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

/// How long a command waits for a peer, and how it sees one.
pub(super) struct PeerWait<'a> {
    /// How long a peer may take; with none, no peer is waited for.
    pub(super) within: Duration,
    /// The command was interrupted (Ctrl-C).
    pub(super) interrupted: &'a AtomicBool,
    /// Gives the name of a peer that is connected to a tunnel of that process.
    pub(super) peer_of: &'a dyn Fn(u32) -> Option<String>,
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

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.main {
            Some(Main { pid, is_adit: true }) => write!(f, "run by adit on trial as process {pid}"),
            Some(Main { pid, is_adit: false }) => write!(f, "run by OpenVPN as process {pid}"),
            None if self.restarts => write!(f, "which has ended, and which systemd starts again"),
            None => write!(f, "which does not run"),
        }
    }
}

impl Found {
    /// Whether it runs, or is started again without an order.
    pub(super) fn is_active(&self) -> bool {
        self.main.is_some() || self.restarts
    }

    /// Whether its command is OpenVPN's, or names this copy of adit.
    fn has_known_program(&self) -> bool {
        let program = &self.command.program;
        openvpn::is_called(program.as_os_str()) || process::is_adit(program)
    }

    /// OpenVPN's arguments, as the unit has them.
    fn words(&self) -> &[String] {
        match &self.command.words[..] {
            [first, rest @ ..] if first == openvpn::NAME && process::is_adit(&self.command.program) => rest,
            all => all,
        }
    }
}

impl<'a> Unit<'a> {
    /// The unit of that name.
    pub(super) fn new(systemd: &'a Systemd, name: String) -> Self {
        Unit { systemd, name }
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
    /// When there is no such unit, or it does not run OpenVPN, or another copy of adit has adopted it.
    pub(super) fn look(&self) -> Result<Found, String> {
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
    fn inspect(&self) -> Result<Found, String> {
        self.systemd.reload()?;
        let state = self.systemd.property(&self.name, "LoadState")?;
        if state != "loaded" {
            return Err(format!("{}: there is no such unit ({state})", self.name));
        }
        let command = self.systemd.command(&self.name)?;
        let main = self.systemd.main_process(&self.name)?;
        let found = Found {
            restarts: main.is_none() && self.systemd.restarts(&self.name)?,
            is_kept: is_ours(&self.kept())?,
            is_tried: is_ours(&self.tried())?,
            command,
            main: main.map(|pid| Main { pid, is_adit: process::runs_adit(pid) }),
        };
        if !found.is_kept && !found.is_tried && !found.has_known_program() {
            let program = found.command.program.display();
            return Err(format!("{} does not run OpenVPN but {program}", self.name));
        }
        Ok(found)
    }

    /// The message where adit runs it already, for good. `None`: it has to be adopted.
    ///
    /// # Errors
    /// When the drop-in that an interrupted command left cannot be removed.
    pub(super) fn settle(&self, found: &Found, dry_run: bool) -> Result<Option<String>, String> {
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

    /// OpenVPN's arguments and working directory, with the values of variables.
    ///
    /// # Errors
    /// When these values are not known, or the process cannot be seen.
    pub(super) fn command_line(&self, found: &Found) -> Result<(Vec<String>, PathBuf), String> {
        let words = match found.main {
            Some(main) => process::arguments(main.pid)?,
            None if !found.command.is_literal() && found.words().iter().any(|word| word.contains('$')) => {
                let name = &self.name;
                return Err(format!(
                    "{name} has variables in its command: start it, so that their values can be read"
                ));
            }
            None => found.words().to_vec(),
        };
        let directory = self.systemd.property(&self.name, "WorkingDirectory")?;
        // `!` says that it may be missing.
        let directory = directory.trim_start_matches('!');
        Ok((words, PathBuf::from(if directory.is_empty() { "/" } else { directory })))
    }

    /// The text of its drop-in: the text of an earlier command's drop-in, if there is one.
    ///
    /// # Errors
    /// When none can be made.
    pub(super) fn drop_in(&self, found: &Found) -> Result<String, String> {
        for (is_there, path) in [(found.is_tried, self.tried()), (found.is_kept, self.kept())] {
            if is_there {
                return fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()));
            }
        }
        let own = std::env::current_exe().map_err(|error| format!("where adit is: {error}"))?;
        let command = (found.command.prefixes.as_str(), found.words());
        drop_in::text(&own, command, &Lacks::of(self.systemd, &self.name)?)
    }

    /// Checks that the command can see when a peer is connected: the socket for that is in a directory that only root can
    /// write to.
    ///
    /// # Errors
    /// When the unit runs as another user.
    pub(super) fn check_visible(&self, found: &Found) -> Result<(), String> {
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

    /// Has adit run it, and keeps adit if a peer is connected in time. A unit that does not run is not started.
    ///
    /// # Errors
    /// Why OpenVPN runs it as before.
    pub(super) fn adopt(
        &self,
        found: &Found,
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
        match started.and_then(|()| self.wait_for_peer(peer_wait)) {
            Ok(said) => {
                self.keep(drop_in).map_err(|error| {
                    format!("adit runs {name}, but OpenVPN will after the machine's next start: {error}")
                })?;
                Ok(format!("adit runs {name}: {said}. To go back: adit adopt --back {name}"))
            }
            Err(why) => Err(self.go_back(&why)),
        }
    }

    /// Has OpenVPN run it again.
    ///
    /// # Errors
    /// When OpenVPN does not run again.
    pub(super) fn give_back(&self) -> Result<String, String> {
        let found = self.inspect()?;
        let name = &self.name;
        let is_adit = found.main.is_some_and(|main| main.is_adit);
        // Without a drop-in, adit runs because an interrupted command has not restarted the unit yet, or because the unit's own
        // command names adit.
        let is_left = is_adit && !process::is_adit(&found.command.program);
        if !found.is_kept && !found.is_tried && !is_left {
            return Ok(format!("{name} is not adopted"));
        }
        self.remove_drop_ins()?;
        if !found.is_active() {
            return Ok(format!("OpenVPN runs {name} from its next start on: systemctl start {name}"));
        }
        self.restart_openvpn()?;
        Ok(format!("OpenVPN runs {name}"))
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

    fn wait_for_peer(&self, peer_wait: &PeerWait<'_>) -> Result<String, String> {
        let PeerWait { within, interrupted, peer_of } = *peer_wait;
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
            if let Some(peer) = peer_of(main) {
                let peer = adit_core::printable(&peer);
                return Ok(format!("{peer} is connected after {:.1} s", elapsed.as_secs_f32()));
            }
            if elapsed >= within {
                return Err(format!(
                    "no peer is connected within {} s (if there was none before, give `--within 0`)",
                    within.as_secs()
                ));
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

    /// Has OpenVPN run it as before. Gives the error message.
    fn go_back(&self, why: &str) -> String {
        let log = match self.systemd.last_lines(&self.name) {
            lines if lines.is_empty() => format!("the log of {} says more", self.name),
            lines => format!("the last lines of its log:\n{lines}"),
        };
        match self.remove_drop_ins().and_then(|()| self.restart_openvpn()) {
            Ok(()) => format!("OpenVPN runs {} again, because {why}; {log}", self.name),
            Err(error) => format!("{why}; and OpenVPN does not run {} again: {error}; {log}", self.name),
        }
    }

    fn remove_drop_ins(&self) -> Result<(), String> {
        remove(&self.tried())?;
        remove(&self.kept())?;
        self.systemd.reload()
    }

    fn restart_openvpn(&self) -> Result<(), String> {
        self.systemd.forget_failures(&self.name);
        self.systemd.restart(&self.name)
    }
}

fn from_next_start(name: &str) -> String {
    format!("adit runs {name} from its next start on: systemctl start {name}")
}

/// Whether there is a drop-in, and this command made it.
///
/// # Errors
/// When there is a file that `adit adopt` did not make.
fn is_ours(path: &Path) -> Result<bool, String> {
    match fs::read(path) {
        Ok(text) if text.starts_with(drop_in::MARK.as_bytes()) => Ok(true),
        Ok(_) => Err(format!("{}: `adit adopt` did not make this file", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Writes a drop-in, which all users may read, as they may the unit: `systemctl cat` shows both.
fn write(path: &Path, text: &str) -> Result<(), String> {
    adit_guard::replace_file(path, text.as_bytes())
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o644)))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes a drop-in, if it is there, and its directory, if that is empty then. The removal is on the disk when this returns.
fn remove(path: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        outcome => outcome.map_err(failed)?,
    }
    let Some(directory) = path.parent() else { return Ok(()) };
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)?;
    // An administrator's drop-ins may be there.
    let _ = fs::remove_dir(directory);
    Ok(())
}
