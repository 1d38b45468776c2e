//! `/etc/resolv.conf`: replaced in one step, and put back in one step, even by the next run.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use adit_core::{Dns, Report, is_domain, is_unprintable};

use super::{shown, warning};

/// What the files that we write begin with; the process follows.
const MARK: &str = "# Written by adit, process ";
/// How many servers and domains the C library heeds (resolv.h `MAXNS`, `MAXDNSRCH`).
const MAX_SERVERS: usize = 3;
const MAX_DOMAINS: usize = 6;
/// Larger files are nothing that we know.
const MAX_FILE: u64 = 1 << 20;

/// The file, and the copy of what it was.
#[derive(Debug)]
pub(super) struct ResolvConf {
    path: PathBuf,
    backup: PathBuf,
}

impl ResolvConf {
    pub(super) fn new(path: PathBuf) -> Self {
        let mut backup = path.clone().into_os_string();
        backup.push(".before-adit");
        ResolvConf { path, backup: backup.into() }
    }

    /// Whether systemd-resolved writes the file.
    pub(super) fn is_of_resolved(&self) -> bool {
        fs::canonicalize(&self.path).is_ok_and(|path| path.starts_with("/run/systemd/resolve"))
    }

    /// The servers that it names; ours are not told.
    pub(super) fn servers(&self) -> Vec<IpAddr> {
        let text = self.read(&self.path);
        let text = if owner(&text).is_some() { self.read(&self.backup) } else { text };
        name_servers(&text)
    }

    /// Puts back what was there before an adit that does not run any more.
    pub(super) fn recover(&self) -> Result<(), Report> {
        match owner(&self.read(&self.path)) {
            Some(process) if !is_adit(process) => {
                self.put_back().map_err(|error| self.failure("put back", &error))
            }
            // Another program wrote the file since: its content is newer than the copy.
            None if self.backup.symlink_metadata().is_ok() => {
                let _ = fs::remove_file(&self.backup);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Makes the file name these servers. It asks them for all names: there is no way to tell it of a few.
    pub(super) fn write(&self, dns: &Dns) -> Result<(), Report> {
        let present = self.read(&self.path);
        match owner(&present) {
            Some(process) if process == std::process::id() => {}
            Some(process) if is_adit(process) => {
                let path = shown(&self.path);
                let text = format!(
                    "name servers are not set: {path} is in use by another adit (process {process}); end that one, or \
                     remove its DNS settings"
                );
                return Err(warning(text));
            }
            _ => self.set_aside().map_err(|error| self.failure("copy", &error))?,
        }
        let old = self.read(&self.backup);
        self.replace(&content(dns, &old)).map_err(|error| self.failure("write", &error))?;
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

    /// Restores the previous content, unless another program wrote the file since.
    pub(super) fn restore(&self) {
        if owner(&self.read(&self.path)) == Some(std::process::id()) {
            // The next run tries again.
            let _ = self.put_back();
        } else {
            let _ = fs::remove_file(&self.backup);
        }
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
    process == std::process::id() || fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(runs)
}

/// The file for these servers. Of the old file its options stay.
pub(crate) fn content(dns: &Dns, old: &str) -> String {
    let mut lines =
        vec![format!("{MARK}{}. The file that was here comes back when it ends.", std::process::id())];
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
mod tests {
    use super::*;

    /// A directory of this test alone, gone afterwards.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("adit-dns-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Directory(path)
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> = fs::read_dir(&self.0)
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const OLD: &str = "nameserver 192.0.2.53\nsearch old.example\noptions edns0\n";

    fn dns() -> Dns {
        let search = ["corp.example", "evil\nnameserver 6.6.6.6"].map(str::to_owned).to_vec();
        Dns {
            servers: vec!["10.8.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            search,
            ..Dns::default()
        }
    }

    #[test]
    fn the_file_is_replaced_and_comes_back() {
        let directory = Directory::new("file");
        let path = directory.0.join("resolv.conf");
        fs::write(&path, OLD).unwrap();
        let file = ResolvConf::new(path.clone());
        file.write(&dns()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let rest: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            rest,
            ["nameserver 10.8.0.1", "nameserver fd00::1", "search corp.example", "options edns0"]
        );
        assert_eq!(file.servers(), ["192.0.2.53".parse::<IpAddr>().unwrap()], "those of the system");
        // Other servers, later: the copy stays the first file.
        file.write(&Dns { servers: vec!["9.9.9.9".parse().unwrap()], ..Dns::default() }).unwrap();
        file.restore();
        assert_eq!(fs::read_to_string(&path).unwrap(), OLD);
        assert_eq!(directory.names(), ["resolv.conf"]);
    }

    #[test]
    fn a_link_comes_back_as_a_link() {
        let directory = Directory::new("link");
        let (path, target) = (directory.0.join("resolv.conf"), directory.0.join("stub.conf"));
        fs::write(&target, OLD).unwrap();
        symlink("stub.conf", &path).unwrap();
        let file = ResolvConf::new(path.clone());
        file.write(&dns()).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), OLD, "what it leads to is not touched");
        file.restore();
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("stub.conf"));
        assert_eq!(directory.names(), ["resolv.conf", "stub.conf"]);
    }

    #[test]
    fn what_a_killed_run_left_is_put_back_by_the_next() {
        let directory = Directory::new("crash");
        let path = directory.0.join("resolv.conf");
        // No process has this number: it is above the kernel's limit (PID_MAX_LIMIT, 2^22).
        fs::write(&path, format!("{MARK}999999999. x\nnameserver 10.8.0.1\n")).unwrap();
        let file = ResolvConf::new(path.clone());
        fs::write(&file.backup, OLD).unwrap();
        file.recover().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), OLD);
        assert_eq!(directory.names(), ["resolv.conf"]);
        file.recover().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), OLD);
    }

    #[test]
    fn a_file_that_another_program_wrote_meanwhile_stays() {
        let directory = Directory::new("other");
        let path = directory.0.join("resolv.conf");
        let file = ResolvConf::new(path.clone());
        file.write(&dns()).unwrap();
        fs::write(&path, "nameserver 198.51.100.1\n").unwrap();
        file.restore();
        assert_eq!(fs::read_to_string(&path).unwrap(), "nameserver 198.51.100.1\n");
        // And where there was none, none is left.
        fs::remove_file(&path).unwrap();
        file.write(&dns()).unwrap();
        file.restore();
        assert_eq!(directory.names(), [""; 0]);
    }
}
