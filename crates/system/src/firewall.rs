//! The system's firewall: the kernel's nftables, or `iptables-restore` and its kin where these are installed and `nft` is not.
//!
//! A program takes a whole ruleset on its standard input and makes one transaction of it (iptables: one of each table).

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use thiserror::Error;

use crate::netlink::IpFamily;

/// Directories of system programs, which the PATH of ordinary users lacks on some systems.
const SBIN: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Why a ruleset is not in force.
#[derive(Debug, Error)]
pub(crate) enum FirewallError {
    /// A program is not installed.
    #[error("there is no program `{program}`: install the package {package}")]
    NoProgram {
        /// The program.
        program: &'static str,
        /// Names of packages that have it.
        package: &'static str,
    },
    /// The kernel refused a change of its nftables.
    #[error("the kernel's nftables refuse: {0}")]
    Nftables(io::Error),
    /// A program could not be run.
    #[error("{0} cannot be run: {1}")]
    Run(&'static str, io::Error),
    /// A program refused its input or its arguments.
    #[error("{0} refuses: {1}")]
    Refused(&'static str, String),
}

/// The firewall that a tunnel's rules are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Firewall {
    /// The kernel's nftables, by netlink.
    Nftables,
    /// `iptables-restore`, `ip6tables-restore`, `iptables-save`, `ip6tables-save`.
    Iptables,
}

impl Firewall {
    /// The firewall that the machine's owner uses, by the programs that are installed: nftables where there is `nft`, or
    /// neither.
    pub(crate) fn find() -> Self {
        Firewall::find_in(&directories())
    }

    fn find_in(directories: &[PathBuf]) -> Self {
        match find("nft", directories).is_none() && find("iptables-restore", directories).is_some() {
            true => Firewall::Iptables,
            false => Firewall::Nftables,
        }
    }
}

/// Runs `nft` with that standard input. Returns its standard output.
///
/// # Errors
/// When there is no nft, or it refuses.
pub(crate) fn nft(arguments: &[&str], input: &str) -> Result<String, FirewallError> {
    run("nft", "nftables", arguments, input)
}

/// Adds the rules of `ruleset` (the format of iptables-save(8)) to the rules that are there.
///
/// # Errors
/// When there is no iptables, or it refuses.
pub(crate) fn iptables_restore(family: IpFamily, ruleset: &str) -> Result<(), FirewallError> {
    let program = match family {
        IpFamily::V4 => "iptables-restore",
        IpFamily::V6 => "ip6tables-restore",
    };
    run(program, "iptables", &["--wait", "--noflush"], ruleset).map(drop)
}

/// All rules of iptables of a family, as iptables-save(8) prints them.
///
/// # Errors
/// When there is no iptables, or it refuses.
pub(crate) fn iptables_save(family: IpFamily) -> Result<String, FirewallError> {
    let program = match family {
        IpFamily::V4 => "iptables-save",
        IpFamily::V6 => "ip6tables-save",
    };
    run(program, "iptables", &[], "")
}

/// Removes the rules of iptables whose comment is one that `is_ours` takes, by [`iptables_restore`]. Where there are none,
/// nothing is changed.
///
/// # Errors
/// When there is no iptables, or it refuses.
pub(crate) fn iptables_remove(family: IpFamily, is_ours: impl Fn(&str) -> bool) -> Result<(), FirewallError> {
    match deletions(&iptables_save(family)?, is_ours) {
        Some(ruleset) => iptables_restore(family, &ruleset),
        None => Ok(()),
    }
}

/// The input of `iptables-restore --noflush` that deletes the rules with such a comment; `None` if there are none.
fn deletions(saved: &str, is_ours: impl Fn(&str) -> bool) -> Option<String> {
    let mut ruleset = String::new();
    let mut found = false;
    for line in saved.lines() {
        if line.starts_with('*') || line == "COMMIT" {
            ruleset.push_str(line);
            ruleset.push('\n');
        } else if let Some(rule) = line.strip_prefix("-A ")
            && comment(rule).is_some_and(&is_ours)
        {
            found = true;
            ruleset.push_str("-D ");
            ruleset.push_str(rule);
            ruleset.push('\n');
        }
    }
    found.then_some(ruleset)
}

/// The comment of a rule as iptables-save prints it, if it is one word. The program quotes some and some not.
pub(crate) fn comment(rule: &str) -> Option<&str> {
    let mut words = rule.split_whitespace();
    words.find(|word| *word == "--comment")?;
    Some(words.next()?.trim_matches('"'))
}

/// Where programs are: PATH, and behind it [`SBIN`], as in an administrator's shell.
fn directories() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(SBIN.map(PathBuf::from)).collect()
}

fn find(program: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        let metadata = std::fs::metadata(path);
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    let absolute = directories.iter().filter(|directory| directory.is_absolute());
    absolute.map(|directory| directory.join(program)).find(is_program)
}

/// Runs a program of that package with that standard input. Returns its standard output.
///
/// # Errors
/// When it is not installed, or refuses.
pub(crate) fn run(
    program: &'static str,
    package: &'static str,
    arguments: &[&str],
    input: &str,
) -> Result<String, FirewallError> {
    let directories = directories();
    let path = find(program, &directories).ok_or(FirewallError::NoProgram { program, package })?;
    // A wrapper, such as one of Debian's alternatives, finds its programs there too.
    let search = std::env::join_paths(&directories).unwrap_or_default();
    let output =
        output_of(&path, &search, arguments, input).map_err(|error| FirewallError::Run(program, error))?;
    let Output { status, stdout, stderr } = output;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&stderr);
    let first = complaint.lines().next().unwrap_or("it does not say why");
    Err(FirewallError::Refused(program, first.to_owned()))
}

fn output_of(program: &Path, search: &OsStr, arguments: &[&str], input: &str) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.env("PATH", search).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    child.wait_with_output()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn iptables_is_used_where_it_is_installed_alone() {
        let scratch = Scratch::new("firewall");
        let directories = [scratch.path().to_owned()];
        let program = |name: &str, mode| {
            let path = scratch.path().join(name);
            fs::OpenOptions::new().create(true).write(true).truncate(true).mode(mode).open(path).unwrap();
        };
        assert_eq!(Firewall::find_in(&directories), Firewall::Nftables);
        program("iptables-restore", 0o644);
        assert_eq!(Firewall::find_in(&directories), Firewall::Nftables, "it cannot be run");
        fs::remove_file(scratch.path().join("iptables-restore")).unwrap();
        program("iptables-restore", 0o755);
        assert_eq!(Firewall::find_in(&directories), Firewall::Iptables);
        program("nft", 0o755);
        assert_eq!(Firewall::find_in(&directories), Firewall::Nftables);
        let relative = [PathBuf::from("."), PathBuf::new()];
        assert_eq!(find("nft", &relative), None, "nothing is run from the working directory");
    }

    #[test]
    fn rules_of_iptables_are_deleted_by_their_comment() {
        let saved = "# Generated\n*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p udp -m comment --comment ours_7 -j \
                     CONNMARK --restore-mark\nCOMMIT\n*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -s 10.0.0.0/8 -j \
                     DROP\n-A PREROUTING -m comment --comment \"ours_7\" -j DROP\n-A PREROUTING -m comment --comment ours_71 -j \
                     DROP\nCOMMIT\n";
        let wanted = "*mangle\n-D PREROUTING -p udp -m comment --comment ours_7 -j CONNMARK --restore-mark\nCOMMIT\n*raw\n-D \
                      PREROUTING -m comment --comment \"ours_7\" -j DROP\nCOMMIT\n";
        assert_eq!(deletions(saved, |comment| comment == "ours_7").as_deref(), Some(wanted));
        assert_eq!(deletions(saved, |comment| comment == "ours_8"), None);
    }
}
