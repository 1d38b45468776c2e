//! Name servers of the tunnel, set in the system and taken back.

mod file;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    pub(crate) use super::file::{content, name_servers, owner};
}
mod queue;
mod resolved;

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use adit_core::{Dns, Report, Severity};

use self::file::ResolvConf;
use self::resolved::Resolved;

/// Where the C library looks for name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Where systemd-resolved answers itself (systemd-resolved.service(8)).
const RESOLVED_STUBS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 54))];
/// Where systemd-resolved lists the name servers that it asks.
const RESOLVED_UPLINKS: &str = "/run/systemd/resolve/resolv.conf";

/// The system's name servers, as far as this tunnel changed them. The changes are undone when this value is
/// dropped.
#[derive(Debug)]
pub struct NameServers {
    device: u32,
    method: Method,
    applied: Dns,
}

/// The way in which the system learns its name servers.
#[derive(Debug)]
enum Method {
    /// systemd-resolved keeps name servers by link. Its file is for when it does not answer.
    Resolved(Resolved, Option<ResolvConf>),
    File(ResolvConf),
    /// The file is not this network's.
    NotOurs,
}

impl NameServers {
    /// The name servers of the device of that index. `file` is used in place of `/etc/resolv.conf` and of
    /// systemd-resolved.
    pub fn new(device: u32, file: Option<PathBuf>) -> Self {
        let method = match file {
            Some(path) => Method::File(ResolvConf::new(path)),
            None if !file_is_of_this_network() => Method::NotOurs,
            None => {
                let file = ResolvConf::new(PathBuf::from(RESOLV_CONF));
                match Resolved::find() {
                    Some(resolved) if file.is_of_resolved() => Method::Resolved(resolved, None),
                    Some(resolved) => Method::Resolved(resolved, Some(file)),
                    None => Method::File(file),
                }
            }
        };
        NameServers { device, method, applied: Dns::default() }
    }

    /// Restores the settings that an adit that was killed left behind.
    pub fn recover(&self) -> Vec<Report> {
        match &self.method {
            Method::File(file) | Method::Resolved(_, Some(file)) => {
                file.recover().err().into_iter().collect()
            }
            Method::Resolved(_, None) | Method::NotOurs => Vec::new(),
        }
    }

    /// The name servers that the system has without the tunnel, by its file; those that systemd-resolved asks, where
    /// the file names itself.
    pub fn of_the_system(&self) -> Vec<IpAddr> {
        let servers = match &self.method {
            Method::File(file) | Method::Resolved(_, Some(file)) => file.servers(),
            Method::Resolved(_, None) => ResolvConf::new(PathBuf::from(RESOLV_CONF)).servers(),
            Method::NotOurs => return Vec::new(),
        };
        if !servers.iter().all(|server| RESOLVED_STUBS.contains(server)) {
            return servers;
        }
        // It lists those of all links, the tunnel's as well.
        let uplinks = ResolvConf::new(PathBuf::from(RESOLVED_UPLINKS)).servers();
        uplinks.into_iter().filter(|server| !self.applied.servers.contains(server)).collect()
    }

    /// Makes the system ask these servers, instead of those applied before. Without servers, the system's own
    /// stay.
    pub fn apply(&mut self, dns: &Dns) -> Vec<Report> {
        if self.applied == *dns {
            return Vec::new();
        }
        if dns.servers.is_empty() {
            self.undo();
            self.applied = dns.clone();
            return Vec::new();
        }
        self.applied = dns.clone();
        let result = match &mut self.method {
            Method::NotOurs => Err(warning(
                "name servers are not set: /etc/resolv.conf is not of this network namespace; name the file with \
                 --resolv-conf"
                    .to_owned(),
            )),
            Method::File(file) => file.write(dns),
            Method::Resolved(resolved, file) => match (resolved.set(self.device, dns), file) {
                (Ok(()), _) => Ok(()),
                (Err(_), Some(file)) => file.write(dns),
                (Err(why), None) => {
                    Err(warning(format!("name servers are not set: systemd-resolved says: {why}")))
                }
            },
        };
        result.err().into_iter().collect()
    }

    /// Gives the system its own name servers back.
    pub fn undo(&mut self) {
        if self.applied.servers.is_empty() {
            return;
        }
        self.applied = Dns::default();
        match &mut self.method {
            Method::File(file) => file.restore(),
            Method::Resolved(resolved, file) => {
                // With the device go its name servers, if this fails.
                let _ = resolved.revert(self.device);
                if let Some(file) = file {
                    file.restore();
                }
            }
            Method::NotOurs => {}
        }
    }
}

impl Drop for NameServers {
    fn drop(&mut self) {
        self.undo();
    }
}

/// In a network namespace that shares its files with the rest of the machine, `/etc/resolv.conf` belongs to the
/// machine.
fn file_is_of_this_network() -> bool {
    let same = |kind: &str| {
        let number =
            |process: &str| fs::metadata(format!("/proc/{process}/ns/{kind}")).map(|file| file.ino());
        match (number("self"), number("1")) {
            (Ok(own), Ok(first)) => Some(own == first),
            // Without the right to read it, the file cannot be changed either.
            _ => None,
        }
    };
    same("net") != Some(false) || same("mnt") == Some(false)
}

fn warning(text: String) -> Report {
    Report { severity: Severity::Warning, path: None, text }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
