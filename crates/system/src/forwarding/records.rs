//! The records of the changes that are to be undone, as comments in our table of nftables. The table stays when the process is
//! killed, and goes with the network namespace in which the changes were made.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::filters::PROGRAMS;
use super::sysctls::Sysctl;

/// A change that is to be undone, or the process or the tunnel that made the changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The process that undoes it.
    Owner(Owner),
    /// The tunnel's device.
    Device(String),
    /// A kernel parameter, and its value before.
    Sysctl(Sysctl),
    /// A device that forwarded nothing to others of its kind before.
    Separate(Family, String),
    /// Rules in the chain FORWARD of this program (`iptables`, `ip6tables-legacy`).
    Rules(&'static str),
    /// The device is in firewalld's zone `trusted`.
    Firewalld,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// A process, by values that no later process has together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    /// When it started, in ticks since the system did.
    started: u64,
    /// The inode of its PID namespace.
    namespace: u64,
}

impl Owner {
    /// This process.
    pub(super) fn this() -> Self {
        let pid = std::process::id();
        Owner { pid, started: started(pid).unwrap_or_default(), namespace: pid_namespace() }
    }

    /// A process with that number that is gone.
    #[cfg(test)]
    pub(super) fn another(self) -> Self {
        Owner { started: self.started + 1, ..self }
    }

    /// Whether it runs; `None`: this process does not see it, as it is of another PID namespace or hidden (proc(5) `hidepid`).
    pub(super) fn is_alive(&self) -> Option<bool> {
        if self.namespace != pid_namespace() {
            return None;
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw)?;
        match test_kill_process(pid) {
            Err(Errno::SRCH) => Some(false),
            _ => started(self.pid).map(|started| started == self.started),
        }
    }
}

fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino())
}

/// The field `starttime` of proc_pid_stat(5), the 22nd; the second, in parentheses, may hold spaces. It is 0 for a process that has
/// ended and for which its parent has not waited yet.
fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    match fields.first()? {
        &"Z" | &"X" => Some(0),
        _ => fields.get(19)?.parse().ok(),
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Record::Owner(Owner { pid, started, namespace }) => {
                write!(f, "owner {pid} {started} {namespace}")
            }
            Record::Device(device) => write!(f, "device {device}"),
            Record::Sysctl(Sysctl { path, value }) => write!(f, "sysctl {path} {value}"),
            Record::Separate(Family::V4, device) => write!(f, "separate 4 {device}"),
            Record::Separate(Family::V6, device) => write!(f, "separate 6 {device}"),
            Record::Rules(program) => write!(f, "rules {program}"),
            Record::Firewalld => f.write_str("firewalld"),
        }
    }
}

impl Record {
    /// The record that a comment holds.
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        Some(match *words.as_slice() {
            ["owner", pid, started, namespace] => Record::Owner(Owner {
                pid: pid.parse().ok()?,
                started: started.parse().ok()?,
                namespace: namespace.parse().ok()?,
            }),
            ["device", device] => Record::Device(device.to_owned()),
            ["sysctl", path, value] => {
                Record::Sysctl(Sysctl { path: path.to_owned(), value: value.to_owned() })
            }
            ["separate", "4", device] => Record::Separate(Family::V4, device.to_owned()),
            ["separate", "6", device] => Record::Separate(Family::V6, device.to_owned()),
            ["rules", program] => Record::Rules(PROGRAMS.into_iter().find(|known| *known == program)?),
            ["firewalld"] => Record::Firewalld,
            _ => return None,
        })
    }

    /// Whether all tunnels that forward need the change, so that the last of them undoes it.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Record::Sysctl(_) | Record::Separate(..))
    }
}

/// The records in the output of `nft list chain`.
pub(super) fn parse(listing: &str) -> Vec<Record> {
    let comment = |line: &str| {
        let (_, rest) = line.split_once("return comment \"")?;
        Record::parse(rest.split('"').next()?)
    };
    listing.lines().filter_map(comment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back() {
        let owner = Owner::this();
        assert_eq!(owner.is_alive(), Some(true));
        assert_eq!(Owner { started: owner.started + 1, ..owner.clone() }.is_alive(), Some(false));
        assert_eq!(Owner { namespace: 1, ..owner.clone() }.is_alive(), None);
        let all = [
            Record::Owner(owner),
            Record::Device("tun0".into()),
            Record::Sysctl(Sysctl { path: "ipv6/conf/eth0.5/accept_ra".into(), value: "1".into() }),
            Record::Separate(Family::V4, "eth0".into()),
            Record::Separate(Family::V6, "eth0.5".into()),
            Record::Rules("ip6tables-legacy"),
            Record::Firewalld,
        ];
        let listing: String = all.iter().map(|record| format!("\t\treturn comment \"{record}\"\n")).collect();
        assert_eq!(parse(&format!("table inet x {{\n\tchain records {{\n{listing}\t}}\n}}\n")), all);
        assert_eq!(parse("\t\treturn comment \"another\"\n"), []);
    }
}
