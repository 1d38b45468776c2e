//! Generated faults in files and inline material: `adit check` and `adit up` give the same verdict, and the same line.

mod bases;
mod generator;

use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use adit_testbed::{MAX_WAIT, Namespace, Scratch, can_run, wait_until};

use self::bases::{Base, Material};
use self::generator::{Random, break_one};

/// How many faults there are.
const FAULTS: usize = 300;
/// Faults that are tried at once.
const THREADS: usize = 3;

/// A program's verdict on a configuration.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It can be used: `up` went on to its device.
    Good,
    /// The exit code, and why.
    Refused(i32, String),
}

fn adit(command: &str, file: &Path) -> Command {
    let folder = file.parent().unwrap();
    let mut adit = Command::new(env!("CARGO_BIN_EXE_adit"));
    // A fault may name a file that is then written.
    adit.arg(command).arg(file).current_dir(folder).env("STATE_DIRECTORY", folder.join("state"));
    adit
}

/// The error that a program ended with, without the prefix of each program.
fn error_of(text: &str, file: &Path) -> String {
    assert!(!text.contains("panicked"), "{text}");
    let start = text.rfind("\nadit: ").map(|at| at + 1).unwrap_or_default();
    let error = text[start..].trim_end();
    let error = error.strip_prefix("adit: ").unwrap_or(error);
    let named = format!("{}: cannot be used:\n", file.display());
    error.strip_prefix(&named).unwrap_or(error).to_owned()
}

/// The verdict of `adit check`; `None` where it says that a point is not known before the start, as a password is asked for then.
fn check(file: &Path) -> Option<Verdict> {
    let Output { status, stderr, stdout } = adit("check", file).stdin(Stdio::null()).output().unwrap();
    match status.code() {
        Some(0) if String::from_utf8_lossy(&stdout).contains("(not known before the start)") => None,
        Some(0) => Some(Verdict::Good),
        code => Some(Verdict::Refused(code.unwrap(), error_of(&String::from_utf8_lossy(&stderr), file))),
    }
}

/// How many devices a namespace has.
fn devices(namespace: &Namespace) -> usize {
    let list = namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
    list.unwrap().lines().count()
}

/// The verdict of `adit up`, which runs until it has a device or has ended.
fn up(file: &Path, namespace: &Namespace) -> Verdict {
    let before = devices(namespace);
    let mut process = namespace.spawn("adit up", adit("up", file)).unwrap();
    wait_until("a device or an end", MAX_WAIT, || !process.is_running() || devices(namespace) != before)
        .unwrap();
    if process.is_running() {
        let _ = process.terminate(MAX_WAIT).unwrap();
        wait_until("the device to go", MAX_WAIT, || devices(namespace) == before).unwrap();
        return Verdict::Good;
    }
    let status = process.wait(MAX_WAIT).unwrap();
    Verdict::Refused(status.code().unwrap(), error_of(&process.log(), file))
}

/// Tries one fault: the verdict of `adit up`, or as an error both verdicts, if they differ.
fn disagreement(number: usize, material: &Material, namespace: &Namespace) -> Result<Verdict, String> {
    let mut random = Random::new(number as u64);
    let base = Base::ALL[number % Base::ALL.len()];
    let scratch = Scratch::create("fault").unwrap();
    let mut files = base.files(material, &format!("f{}n{number}", std::process::id()));
    let what = break_one(&mut files, &mut random);
    let file = files.write(scratch.path());
    let (checked, started) = (check(&file), up(&file, namespace));
    match checked {
        Some(checked) if checked != started => {
            Err(format!("fault {number} of {base:?}, {what}:\n  check {checked:?}\n  up    {started:?}"))
        }
        _ => Ok(started),
    }
}

/// Tries the faults of these numbers.
fn try_all(faults: Range<usize>) {
    if !can_run("generated faults", &["ip", "openssl"]) {
        return;
    }
    let material = Material::create();
    let (next, good) = (AtomicUsize::new(faults.start), AtomicUsize::new(0));
    let work = || {
        let namespace = Namespace::create("faults").unwrap();
        let mut differing = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= faults.end {
                return differing;
            }
            match disagreement(number, &material, &namespace) {
                Ok(Verdict::Good) => drop(good.fetch_add(1, Ordering::Relaxed)),
                Ok(Verdict::Refused(..)) => {}
                Err(what) => differing.push(what),
            }
        }
    };
    let differing: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(differing.is_empty(), "{} of {faults:?}:\n{}", differing.len(), differing.join("\n"));
    let good = good.into_inner();
    assert!(good > 0 && good < faults.len() / 2, "{good} of {faults:?} can be used all the same");
}

#[test]
fn check_and_up_give_the_same_verdict_of_generated_faults() {
    try_all(0..FAULTS);
}

mod long {
    #[test]
    #[ignore = "long: some minutes"]
    fn check_and_up_give_the_same_verdict_of_many_generated_faults() {
        super::try_all(super::FAULTS..3300);
    }
}
