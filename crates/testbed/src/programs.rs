use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::TestbedError;

/// Directories that only root's PATH has on Debian.
const SBIN: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Finds `name` in PATH and the sbin directories.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SBIN.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

/// A command that runs the installed program `name`.
pub fn program(name: &str) -> Result<Command, TestbedError> {
    find(name).map(Command::new).ok_or_else(|| TestbedError::NoProgram(name.to_owned()))
}

/// Runs `command` to its end and returns what it wrote to standard output.
pub(crate) fn run(command: &mut Command) -> Result<String, TestbedError> {
    run_with_input(command, "")
}

/// [`run`], with that text as the command's input.
pub(crate) fn run_with_input(command: &mut Command, input: &str) -> Result<String, TestbedError> {
    let line = command_line(command);
    let failed = |source| TestbedError::Start { command: line.clone(), source };
    if !input.is_empty() {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let output = match input {
        "" => command.output().map_err(failed)?,
        _ => command.spawn().and_then(|child| answered(child, input)).map_err(failed)?,
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(TestbedError::Failed {
        command: line,
        status: output.status.to_string(),
        output: format!("{} {}", complaint.trim(), text.trim()).trim().to_owned(),
    })
}

/// The output of a process that reads all of this text, which fits a pipe, before it writes much.
fn answered(mut child: Child, input: &str) -> std::io::Result<Output> {
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    child.wait_with_output()
}

/// The command as one would type it.
pub(crate) fn command_line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Whether this process has root's rights.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The things that are missing to build namespaces and run `programs` in them: one sentence each, empty if
/// nothing is.
pub fn missing_prerequisites(programs: &[&str]) -> Vec<String> {
    let mut missing = Vec::new();
    if !is_root() {
        missing.push("the rights of root".to_owned());
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        missing.push("/dev/net/tun (try: modprobe tun)".to_owned());
    }
    for name in programs {
        if find(name).is_none() {
            missing.push(format!("the program '{name}'"));
        }
    }
    missing
}

/// Whether a test that needs namespaces and `programs` can run here.
///
/// If not, it says so past the test harness, which hides what passing tests write. With `CI=true` in the
/// environment nothing may be skipped: then it panics instead.
pub fn can_run(test: &str, programs: &[&str]) -> bool {
    let missing = missing_prerequisites(&[&["ip"], programs].concat());
    if missing.is_empty() {
        return true;
    }
    skip(test, &missing.join(", "));
    false
}

/// Says that a test does not run, past the test harness, and what it needs. With `CI=true` in the environment it panics instead.
pub(crate) fn skip(test: &str, needs: &str) {
    if std::env::var_os("CI").is_some_and(|value| value == "true") {
        #[expect(clippy::panic, reason = "this is how a test fails")]
        {
            panic!("{test} needs {needs}");
        }
    }
    note(&format!("SKIPPED {test}: needs {needs}. `make test` sees to it."));
}

/// Says something past the test harness, which hides what passing tests write.
pub(crate) fn note(text: &str) {
    let line = format!("\n**** {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
