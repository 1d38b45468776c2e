//! `/etc/resolv.conf`: replaced in one step, and put back in one step, even by the next run. One process has it at a time;
//! others wait for it in the [`Queue`], and have it in turn before the file that was there at first comes back.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process;

use adit_core::{Dns, Report, is_domain, is_unprintable};

use super::queue::{Lock, Queue, with_ending};
use super::{shown, warning};

/// The first words of the files that we write; the process's number follows.
const MARK: &str = "# Written by adit, process ";
/// How many servers and domains the C library heeds (resolv.h `MAXNS`, `MAXDNSRCH`).
const MAX_SERVERS: usize = 3;
const MAX_DOMAINS: usize = 6;
/// Larger files are nothing that we know.
const MAX_FILE: u64 = 1 << 20;

/// The file, and the copy of its first content.
#[derive(Debug)]
pub(super) struct ResolvConf {
    path: PathBuf,
    backup: PathBuf,
    /// Our process.
    process: u32,
    /// Whether a process runs, and is an adit.
    runs: fn(u32) -> bool,
}

impl ResolvConf {
    pub(super) fn new(path: PathBuf) -> Self {
        ResolvConf { backup: with_ending(&path, ".before-adit"), path, process: process::id(), runs: is_adit }
    }

    /// Whether systemd-resolved writes the file.
    pub(super) fn is_of_resolved(&self) -> bool {
        fs::canonicalize(&self.path).is_ok_and(|path| path.starts_with("/run/systemd/resolve"))
    }

    /// The servers that it names; ours are left out.
    pub(super) fn servers(&self) -> Vec<IpAddr> {
        let text = self.read(&self.path);
        let text = if owner(&text).is_some() { self.read(&self.backup) } else { text };
        name_servers(&text)
    }

    /// Restores the content before an adit that does not run any more, or the content that the next that runs waits
    /// for.
    pub(super) fn recover(&self) -> Result<(), Report> {
        // A machine without the file, or one on which it cannot be written, is as it was.
        if owner(&self.read(&self.path)).is_none() && self.backup.symlink_metadata().is_err() {
            return Ok(());
        }
        let _lock = self.lock()?;
        match owner(&self.read(&self.path)) {
            Some(process) if !(self.runs)(process) => {
                self.hand_over().map_err(|error| self.failure("put back", &error))
            }
            // Another program wrote the file since: its content is newer than the copy.
            None => {
                let _ = fs::remove_file(&self.backup);
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    /// Makes the file name these servers, or has it do so when the processes before us have left it. It asks them for
    /// all names: there is no way to tell it of a few.
    pub(super) fn write(&self, dns: &Dns) -> Result<(), Report> {
        let _lock = self.lock()?;
        let queue = self.queue();
        match owner(&self.read(&self.path)) {
            Some(process) if process == self.process => {}
            Some(process) if (self.runs)(process) => return self.wait(dns, process),
            // One that was killed left its file, and the copy of the first.
            Some(_) if queue.has_other(self.process) => {
                self.hand_over().map_err(|error| self.failure("write", &error))?;
                return match owner(&self.read(&self.path)) {
                    Some(process) if process != self.process => self.wait(dns, process),
                    _ => self.replace_by(dns),
                };
            }
            Some(_) => {}
            None => self.set_aside().map_err(|error| self.failure("copy", &error))?,
        }
        queue.leave(self.process);
        self.replace_by(dns)
    }

    fn replace_by(&self, dns: &Dns) -> Result<(), Report> {
        self.replace(&self.content(dns)).map_err(|error| self.failure("write", &error))?;
        if dns.only_for.is_empty() {
            return Ok(());
        }
        let only = dns.only_for.join(", ");
        Err(warning(format!(
            "the tunnel's name servers are asked for all names, not for {only} alone: {} has no words for that; run \
             systemd-resolved to part them",
            shown(&self.path)
        )))
    }

    fn wait(&self, dns: &Dns, before: u32) -> Result<(), Report> {
        let text = self.content(dns);
        self.queue().wait(self.process, &text).map_err(|error| self.failure("wait for", &error))?;
        let path = shown(&self.path);
        Err(warning(format!(
            "name servers are not set yet: {path} is in use by another tunnel of adit (process {before}), and gets them \
             when that one ends; run systemd-resolved to have those of several tunnels at once"
        )))
    }

    /// Gives the file to the next process that waits for it, or restores the first content. Content that another
    /// program wrote since stays.
    pub(super) fn restore(&self) {
        // Without the lock the next run tries again.
        let Ok(_lock) = self.lock() else { return };
        self.queue().leave(self.process);
        match owner(&self.read(&self.path)) {
            Some(process) if process == self.process || !(self.runs)(process) => {
                let _ = self.hand_over();
            }
            Some(_) => {}
            None => {
                let _ = fs::remove_file(&self.backup);
            }
        }
    }

    /// Removes the content that an adit wrote: the next one's content comes in its place, or that from before all of
    /// them.
    fn hand_over(&self) -> io::Result<()> {
        match self.queue().next() {
            Some(text) => self.replace(&text),
            None => self.put_back(),
        }
    }

    fn queue(&self) -> Queue<'_> {
        Queue::new(&self.path, self.runs)
    }

    fn lock(&self) -> Result<Lock, Report> {
        Lock::take(&self.path).map_err(|error| self.failure("lock", &error))
    }

    fn content(&self, dns: &Dns) -> String {
        let present = self.read(&self.path);
        let before = if owner(&present).is_some() { self.read(&self.backup) } else { present };
        content(self.process, dns, &before)
    }

    /// Copies the file, or the link that it is.
    fn set_aside(&self) -> io::Result<()> {
        match fs::remove_file(&self.backup) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match self.path.symlink_metadata() {
            Ok(kind) if kind.is_symlink() => symlink(fs::read_link(&self.path)?, &self.backup),
            Ok(_) => fs::copy(&self.path, &self.backup).map(drop),
            // No file was there: none will be afterwards.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn put_back(&self) -> io::Result<()> {
        match fs::rename(&self.backup, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::remove_file(&self.path),
            // A file that is mounted into its place can only be written (containers).
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                fs::copy(&self.backup, &self.path).and_then(|_| fs::remove_file(&self.backup))
            }
            result => result,
        }
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let mut fresh = self.path.clone().into_os_string();
        fresh.push(".adit-new");
        let fresh = PathBuf::from(fresh);
        // Never through a symbolic link that another user may have made.
        let _ = fs::remove_file(&fresh);
        let mut options = fs::OpenOptions::new();
        let result = options.write(true).create_new(true).mode(0o644).open(&fresh).and_then(|mut file| {
            io::Write::write_all(&mut file, text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)
        });
        match result {
            Ok(()) => Ok(()),
            Err(error) => {
                let _ = fs::remove_file(&fresh);
                if error.kind() == io::ErrorKind::ResourceBusy {
                    fs::write(&self.path, text)
                } else {
                    Err(error)
                }
            }
        }
    }

    fn read(&self, path: &Path) -> String {
        let small = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_FILE);
        if small { fs::read_to_string(path).unwrap_or_default() } else { String::new() }
    }

    fn failure(&self, what: &str, error: &io::Error) -> Report {
        warning(format!("name servers are not set: cannot {what} {}: {error}", shown(&self.path)))
    }
}

/// The name servers in a file (resolv.conf(5)).
pub(crate) fn name_servers(text: &str) -> Vec<IpAddr> {
    let address = |line: &str| line.trim().strip_prefix("nameserver")?.trim().parse().ok();
    text.lines().filter_map(address).collect()
}

/// The process that wrote the file, if an adit did.
pub(crate) fn owner(text: &str) -> Option<u32> {
    text.strip_prefix(MARK)?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn is_adit(process: u32) -> bool {
    // In the form `NUMBER (NAME) STATE ...` (proc(5)). One that is dead may wait long for its parent to notice (Z).
    let runs =
        |stat: String| stat.split_once(" (adit) ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']));
    process == process::id() || fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(runs)
}

/// The file for these servers. Of the old file its options stay.
pub(crate) fn content(process: u32, dns: &Dns, old: &str) -> String {
    let mut lines = vec![format!("{MARK}{process}. The file that was here comes back when it ends.")];
    lines.extend(dns.servers.iter().take(MAX_SERVERS).map(|server| format!("nameserver {server}")));
    let domains = dns.search.iter().filter(|domain| is_domain(domain)).take(MAX_DOMAINS);
    let domains: Vec<&str> = domains.map(String::as_str).collect();
    if !domains.is_empty() {
        lines.push(format!("search {}", domains.join(" ")));
    }
    // One with control characters is no valid setting, and other readers could see its end elsewhere.
    let is_wild = |c: char| c != '\t' && is_unprintable(c);
    let options = old.lines().filter(|line| line.starts_with("options ") && !line.contains(is_wild));
    lines.extend(options.map(str::to_owned));
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests;
