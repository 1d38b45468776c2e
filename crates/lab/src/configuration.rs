//! How each subject was configured: its programs' command lines, and the files that its first tunnel was made of.
//! They are kept in the run's folder.

use std::io;
use std::path::Path;

use crate::testbed::Testbed;

/// The folder in that of a run that has a folder for each subject.
const FOLDER: &str = "configurations";
/// The file in each of these folders that has one line for each program, the server's first.
const COMMANDS: &str = "commands";
/// The size in bytes of the largest file that counts as a configuration.
const LARGEST: u64 = 64 << 10;

/// Keeps how a tunnel that is up was made, unless the folder has that of another one of this subject.
pub(crate) fn keep(testbed: &Testbed, out: &Path, subject: &str) -> io::Result<()> {
    let folder = out.join(FOLDER).join(subject.replace('/', "_"));
    let ids: Vec<u32> = testbed.processes.iter().map(adit_testbed::Process::id).collect();
    if folder.exists() || ids.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(&folder)?;
    copy(testbed.directory.path(), &folder)?;
    let lines: String = ids.into_iter().map(command_line).collect();
    std::fs::write(folder.join(COMMANDS), lines)
}

/// The command line of a process, and a line's end; nothing of one that is gone.
fn command_line(id: u32) -> String {
    let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let words: Vec<String> = words
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    words.join(" ") + "\n"
}

/// All small files, with the folders that they are in. Sockets and the like are left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            std::fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else if kind.is_file() && entry.metadata()?.len() <= LARGEST {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use adit_testbed::Scratch;

    #[test]
    fn small_files_are_kept_with_their_folders() {
        let (from, to) = (Scratch::create("lab-from").unwrap(), Scratch::create("lab-to").unwrap());
        from.write("a.conf", "a").unwrap();
        std::fs::create_dir(from.path().join("hosts")).unwrap();
        from.write("hosts/b", "b").unwrap();
        from.write("capture", &"x".repeat(LARGEST as usize + 1)).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(from.path().join("socket")).unwrap();
        copy(from.path(), to.path()).unwrap();
        assert_eq!(std::fs::read_to_string(to.path().join("hosts/b")).unwrap(), "b");
        let mut names: Vec<String> = std::fs::read_dir(to.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["a.conf", "hosts"]);
    }

    #[test]
    fn a_command_line_is_a_line() {
        let line = command_line(std::process::id());
        assert!(line.ends_with('\n') && line.contains("adit_lab"), "{line}");
        assert_eq!(command_line(0), "\n");
    }
}
