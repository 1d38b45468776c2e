//! The process: the things that its tunnels share, and their start and end.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use adit_core::Severity;
use adit_system::{Forwarding, KillSwitch, Routing};

use super::adapter::{Adapters, Configuration, Setting, Tunnel};
use super::endpoints::{self, Named, Shared};
use super::facts::{EndpointRole, Facts};
use super::failure::Failure;
use super::log::{Logger, Logs};
use super::options::{KillSwitchScope, Options};
use super::signals::{Order, StartupSignals};
use super::startup::{Member, Startup};
use super::{configuration, conflicts, exit, notify};

/// Stack of a tunnel's thread in bytes: that of the thread that a program begins with.
const STACK: usize = 8 << 20;

/// Runs the tunnels of all files until they have ended.
pub fn run(options: &Options, adapters: &Adapters) -> ExitCode {
    match options.files.as_slice() {
        [file] => match run_file(options, adapters, file) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.exit(),
        },
        files => match run_several(options, adapters, files) {
            Ok(code) => code,
            Err(failure) => failure.exit(),
        },
    }
}

fn run_file(options: &Options, adapters: &Adapters, file: &Path) -> Result<(), Failure> {
    forbid_core_files()?;
    run_one(options, read(adapters, file)?)
}

/// Reads a configuration for a tunnel.
///
/// # Errors
/// When it is wrong, or cannot be read.
fn read(adapters: &Adapters, file: &Path) -> Result<Box<dyn Configuration>, Failure> {
    configuration::read(adapters, file).map_err(|error| Failure::Configuration(error.to_string()))
}

/// Runs the only tunnel of the process until it ends.
///
/// # Errors
/// Why it did not come up, or ended unasked.
pub fn run_one(options: &Options, configuration: Box<dyn Configuration>) -> Result<(), Failure> {
    let name = stem(configuration.file());
    let readable = Readable { facts: configuration.facts(), name, number: 0, configuration };
    let mut log = open_log(&mut Logs::of(options.manner), &readable, None)?;
    if let Some(line) = options.first_line {
        log.log(Severity::Info, line);
    }
    let all = std::slice::from_ref(&readable);
    turn_kill_switch_on(options, &marks(options, all)?, &mut log)?;
    // Names are looked up later.
    Routing::recover();
    Forwarding::recover();
    notify::connect();
    let mut startup = Startup::new(watch_signals()?, 1, !options.no_sandbox, log.clone());
    startup.in_background = options.in_background;
    readable.tunnel(options, log, None).tunnel.run(startup.member())
}

/// A configuration that can be run.
struct Readable {
    configuration: Box<dyn Configuration>,
    facts: Facts,
    name: String,
    /// The place of the file among those of the process.
    number: usize,
}

/// A tunnel that can be run, by its name and log.
struct Runnable<'a> {
    tunnel: Box<dyn Tunnel + 'a>,
    name: String,
    log: Logger,
}

impl Readable {
    fn tunnel(self, options: &Options, log: Logger, shared: Option<Shared>) -> Runnable<'_> {
        let leads = self.facts.endpoint.is_some_and(|it| matches!(it.role, EndpointRole::Leads(_)));
        let setting = Setting {
            options,
            name: self.name.clone(),
            number: self.number,
            has_others: options.files.len() > 1,
            log: log.clone(),
            unbound: shared.as_ref().filter(|_| leads).map(|shared| shared.binding.endpoint()),
            shared,
        };
        Runnable { tunnel: self.configuration.tunnel(setting), name: self.name, log }
    }
}

fn run_several(options: &Options, adapters: &Adapters, files: &[PathBuf]) -> Result<ExitCode, Failure> {
    forbid_core_files()?;
    let (readable, mut first) = read_all(adapters, files);
    if options.exit_with_first
        && let Some(code) = first
    {
        return Ok(code);
    }
    let all: Vec<&dyn Configuration> = readable.iter().map(|one| &*one.configuration).collect();
    conflicts::check(&all).map_err(Failure::Configuration)?;
    let marks = marks(options, &readable)?;
    let (tunnels, log) = with_logs(options, readable, &mut first);
    let Some(mut log) = log else { return Ok(first.unwrap_or(ExitCode::FAILURE)) };
    turn_kill_switch_on(options, &marks, &mut log)?;
    adit_io::allow_many_descriptors();
    Routing::recover();
    Forwarding::recover();
    notify::connect();
    let startup = Startup::new(watch_signals()?, tunnels.len(), !options.no_sandbox, log);
    thread::scope(|scope| {
        let (ended, ends) = mpsc::channel();
        for tunnel in tunnels {
            let (member, ended, name) = (startup.member(), ended.clone(), tunnel.name.clone());
            let work = move || {
                // The other end is there until all have ended.
                let _ = ended.send(run_caught(tunnel, member));
            };
            let thread = thread::Builder::new().name(format!("adit-{name}")).stack_size(STACK);
            // A thread that cannot be started has dropped its tunnel and its part in the start.
            if let Err(error) = thread.spawn_scoped(scope, work) {
                exit::tell(format_args!("{name}: cannot start a thread: {error}"));
                first.get_or_insert(ExitCode::FAILURE);
            }
        }
        drop(ended);
        for outcome in ends {
            if let Err(failure) = outcome {
                first.get_or_insert(failure.exit_code());
            }
            if options.exit_with_first {
                startup.early.withdraw();
                startup.tunnels.order(Order::Shutdown);
            }
        }
    });
    notify::stopping();
    Ok(first.unwrap_or(ExitCode::SUCCESS))
}

/// Reads all files. Gives those that can be run, and the exit code for the first that cannot, which is written to the
/// standard error.
fn read_all(adapters: &Adapters, files: &[PathBuf]) -> (Vec<Readable>, Option<ExitCode>) {
    let (mut readable, mut first) = (Vec::new(), None);
    for (number, (file, name)) in files.iter().zip(names(files)).enumerate() {
        match read(adapters, file) {
            Ok(configuration) => {
                readable.push(Readable { facts: configuration.facts(), name, number, configuration });
            }
            Err(failure) => {
                let code = failure.exit();
                first.get_or_insert(code);
            }
        }
    }
    (readable, first)
}

/// Opens the log of each tunnel, and that of the process, which goes where the first tunnel's goes. A tunnel whose log
/// cannot be opened has failed.
fn with_logs<'a>(
    options: &'a Options,
    readable: Vec<Readable>,
    first: &mut Option<ExitCode>,
) -> (Vec<Runnable<'a>>, Option<Logger>) {
    let (mut logs, mut tunnels, mut own) = (Logs::default(), Vec::new(), None);
    let named: Vec<Named<'_>> =
        readable.iter().map(|one| Named { name: &one.name, facts: &one.facts }).collect();
    let shared = endpoints::share(&named);
    for (one, shared) in readable.into_iter().zip(shared) {
        match open_log(&mut logs, &one, Some(&one.name)) {
            Ok(log) => {
                own = own.or_else(|| open_log(&mut logs, &one, None).ok());
                tunnels.push(one.tunnel(options, log, shared));
            }
            Err(failure) => {
                let code = failure.exit();
                first.get_or_insert(code);
            }
        }
    }
    (tunnels, own)
}

/// Runs a tunnel to its end. A fault in its code ends it alone.
fn run_caught(runnable: Runnable<'_>, member: Member<'_>) -> Result<(), Failure> {
    let Runnable { tunnel, mut log, .. } = runnable;
    catch_unwind(AssertUnwindSafe(|| tunnel.run(member))).unwrap_or_else(|_| {
        let why = "a fault in adit ended this tunnel".to_owned();
        log.log(Severity::Error, &why);
        Err(Failure::World(why))
    })
}

/// The names of the tunnels: their files' names without the endings, with numbers where two are equal.
fn names(files: &[PathBuf]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let name = |file: &PathBuf| {
        let stem = stem(file);
        let numbered = (2..).map(|number: u32| format!("{stem}-{number}"));
        let free = std::iter::once(stem.clone()).chain(numbered).find(|name| taken.insert(name.clone()));
        free.unwrap_or_default()
    };
    files.iter().map(name).collect()
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn forbid_core_files() -> Result<(), Failure> {
    adit_guard::forbid_core_files()
        .map_err(|error| Failure::World(format!("core files cannot be forbidden: {error}")))
}

fn open_log(logs: &mut Logs, readable: &Readable, name: Option<&str>) -> Result<Logger, Failure> {
    readable.configuration.check_log_place()?;
    logs.open(&readable.facts.log.value, name)
        .map_err(|error| Failure::World(format!("the log file cannot be written: {error}")))
}

fn watch_signals() -> Result<StartupSignals, Failure> {
    StartupSignals::watch().map_err(|error| Failure::World(format!("signals cannot be watched: {error}")))
}

/// The firewall marks of the tunnels' datagrams, where they have some, if there is a kill switch.
///
/// # Errors
/// The file whose tunnel cannot have a kill switch, and why.
fn marks(options: &Options, all: &[Readable]) -> Result<Vec<u32>, Failure> {
    if options.kill_switch.is_none() {
        return Ok(Vec::new());
    }
    let mark = |one: &Readable| {
        one.configuration.kill_switch_mark(one.number).map_err(|reason| {
            let file = one.configuration.file().display();
            Failure::Configuration(format!("{file}: --kill-switch is for {reason}"))
        })
    };
    Ok(all.iter().map(mark).collect::<Result<Vec<Option<u32>>, Failure>>()?.into_iter().flatten().collect())
}

/// `--kill-switch`, before anything else that reaches the network: one for all files, also those with a mistake.
fn turn_kill_switch_on(options: &Options, marks: &[u32], log: &mut Logger) -> Result<(), Failure> {
    let Some(scope) = options.kill_switch else { return Ok(()) };
    let files: Vec<&Path> = options.files.iter().map(PathBuf::as_path).collect();
    let switch = KillSwitch::new(&files, scope == KillSwitchScope::Lan).with_marks(marks.iter().copied());
    switch.on().map_err(|error| Failure::World(error.to_string()))?;
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let (whose, files) = (if files.len() > 1 { "these tunnels'" } else { "this tunnel's" }, files.join(" "));
    let text = format_args!(
        "kill switch on: only {whose} packets leave, until `adit kill-switch off {files}` (nftables {})",
        switch.table()
    );
    log.log(Severity::Info, text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_have_names_of_their_own() {
        let files = ["a/office.conf", "b/office.ovpn", "office-2.conf", "home.conf"].map(PathBuf::from);
        assert_eq!(names(&files), ["office", "office-2", "office-2-2", "home"]);
    }
}
