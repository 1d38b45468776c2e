//! The unit of a process of OpenVPN, found by a configuration that its command line names.

use std::fs;
use std::path::{Path, PathBuf};

use adit_openvpn_config::split_command_line;

use super::process;

/// The unit whose process has that configuration. Processes of users do not count, whatever their command line says: those that have
/// no right of root's, unless they are the main process of their unit, which `main_process` gives.
///
/// # Errors
/// When there is none, or there are several: they are listed.
pub(super) fn unit(file: &Path, main_process: &dyn Fn(&str) -> Option<u32>) -> Result<String, String> {
    let shown = file.display();
    let processes = fs::read_dir("/proc").map_err(|error| format!("/proc: {error}"))?;
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found: Vec<(u32, Option<String>)> = pids
        .filter(|pid| has(*pid, file))
        .map(|pid| (pid, unit_of(pid)))
        .filter(|(pid, unit)| {
            is_of_root(*pid) || unit.as_deref().and_then(main_process).is_some_and(|main| main == *pid)
        })
        .collect();
    one_of(&found).map_err(|why| format!("{shown}: {why}"))
}

/// The one unit of these processes.
fn one_of(processes: &[(u32, Option<String>)]) -> Result<String, String> {
    // Several processes of one unit may have this command line.
    let mut units: Vec<&str> = processes.iter().filter_map(|(_, unit)| unit.as_deref()).collect();
    units.sort_unstable();
    units.dedup();
    let others: Vec<u32> = processes.iter().filter(|(_, unit)| unit.is_none()).map(|(pid, _)| *pid).collect();
    match (&units[..], &others[..]) {
        ([], []) => {
            Err("no OpenVPN runs with this file, and it is in no directory of OpenVPN's units".to_owned())
        }
        ([unit], []) => Ok((*unit).to_owned()),
        ([], [pid]) => Err(format!(
            "no unit of systemd runs process {pid}: put `adit openvpn` in the place of `openvpn` where it is called"
        )),
        _ => {
            let units = units.iter().map(|unit| (*unit).to_owned());
            let all: Vec<String> = units.chain(others.iter().map(|pid| format!("process {pid}"))).collect();
            Err(format!("several run with this file: {}: name the unit", all.join(", ")))
        }
    }
}

/// Whether the command line of a process names the file.
fn has(pid: u32, file: &Path) -> bool {
    let Ok(words) = process::arguments(pid) else { return false };
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|directory| names(&words, &directory, file))
}

/// Whether a process has root's number among its users'. OpenVPN with `user` has not any more.
fn is_of_root(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| has_root(&status))
}

/// Reads the line `Uid:` of proc_pid_status(5): the real, effective, saved and file system user.
fn has_root(status: &str) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| users.split_whitespace().any(|user| user == "0"))
}

/// Whether options name the file. A path is relative to the directory that `--cd` names, into which OpenVPN changes.
fn names(words: &[String], directory: &Path, file: &Path) -> bool {
    let mut below = PathBuf::new();
    split_command_line(words).unwrap_or_default().iter().any(|option| {
        match (option.name.as_str(), option.arguments.first()) {
            ("cd", Some(path)) => {
                below.push(path);
                false
            }
            ("config", Some(path)) => {
                let paths = [directory.join(path), directory.join(&below).join(path)];
                paths.iter().any(|path| is_same(path, file))
            }
            _ => false,
        }
    })
}

fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The service of the system in whose control group a process is.
fn unit_of(pid: u32) -> Option<String> {
    unit_in(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

/// Reads a file of cgroups(7), "/proc/pid/cgroup". A service of a user's own systemd, which is below `user.slice`, does not count.
fn unit_in(groups: &str) -> Option<String> {
    let last =
        |line: &str| line.rsplit('/').next().filter(|name| name.ends_with(".service")).map(str::to_owned);
    groups.lines().filter(|line| !line.contains("/user.slice/")).find_map(last)
}

#[cfg(test)]
mod tests {
    use adit_testbed::Scratch;

    use super::*;

    #[test]
    fn a_command_line_names_its_file_from_its_directory() {
        let scratch = Scratch::create("adopt-running").expect("a directory");
        let file = scratch.write("office.conf", "").expect("a file");
        let parent = scratch.path().parent().expect("it has one");
        let below = scratch.path().file_name().and_then(|name| name.to_str()).expect("a name");
        let is_named = |words: &[&str], directory: &Path| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            names(&words, directory, &file)
        };
        assert!(is_named(&["office.conf"], scratch.path()));
        assert!(is_named(&["--config", file.to_str().expect("text")], Path::new("/")));
        // The process is where it started, or where it went.
        let words = ["--verb", "1", "--cd", below, "--config", "office.conf"];
        assert!(is_named(&words, parent) && is_named(&words, scratch.path()));
        assert!(!is_named(&["--config", "office.conf"], parent));
        assert!(!is_named(&["--status", "office.conf"], scratch.path()));
        assert!(unit(&file, &|_| None).is_err_and(|why| why.contains("no OpenVPN runs with this file")));
    }

    #[test]
    fn a_process_of_a_user_does_not_count() {
        assert!(has_root("Name:\topenvpn\nUid:\t0\t0\t0\t0\nGid:\t7\t7\t7\t7\n"));
        assert!(has_root("Uid:\t1000\t0\t1000\t0\n"));
        for other in ["", "Uid:\n", "Uid:\t1000\t1000\t1000\t1000\nGid:\t0\t0\t0\t0\n"] {
            assert!(!has_root(other), "{other:?}");
        }
    }

    #[test]
    fn a_control_group_names_its_unit() {
        let of = |text: &str| unit_in(text);
        let service = Some("openvpn-server@office.service".to_owned());
        assert_eq!(
            of("0::/system.slice/system-openvpn\\x2dserver.slice/openvpn-server@office.service\n"),
            service
        );
        let older = "2:cpu:/\n1:name=systemd:/system.slice/openvpn-server@office.service\n";
        assert_eq!(of(older), service);
        for other in [
            "",
            "0::/\n",
            "0::/user.slice/user-0.slice/session-1.scope\n",
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/openvpn-server@office.service\n",
        ] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }

    #[test]
    fn several_processes_have_one_unit_or_are_listed() {
        let process = |pid: u32, unit: &str| (pid, (!unit.is_empty()).then(|| unit.to_owned()));
        assert_eq!(one_of(&[process(7, "a.service"), process(8, "a.service")]), Ok("a.service".to_owned()));
        let several = one_of(&[process(7, "b.service"), process(8, "a.service"), process(9, "")]);
        assert!(several.is_err_and(|why| why.contains("a.service, b.service, process 9: name the unit")));
        assert!(
            one_of(&[process(9, "")]).is_err_and(|why| why.contains("no unit of systemd runs process 9"))
        );
        assert!(one_of(&[]).is_err_and(|why| why.contains("no OpenVPN runs")));
    }
}
