//! The process: what its tunnels share, and their start and end.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;

use adit_core::Severity;
use adit_openvpn_config::{Process, Role};
use adit_system::{Forwarding, KillSwitch, Routing};

use super::endpoints::{self, Shared};
use super::failure::Failure;
use super::options::{KillSwitchScope, Options};
use super::signals::{Order, StartupSignals};
use super::startup::{Member, Startup};
use super::{configuration, conflicts, notify, prepare};
use crate::host::configuration::Dialect;
use crate::host::exit;
use crate::host::log::{Logger, Logs};
use crate::openvpn::adapter::log_lines as openvpn_lines;
use crate::openvpn::adapter::tunnel::Tunnel;
use crate::wireguard::adapter::wg_quick as wireguard;

/// Stack of a tunnel's thread in bytes: that of the thread that a program begins with.
const STACK: usize = 8 << 20;

/// Runs the tunnels of all files until they have ended.
pub(crate) fn run(args: &Options) -> ExitCode {
    match args.files.as_slice() {
        [file] => match run_one(args, file) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.exit(),
        },
        files => match run_several(args, files) {
            Ok(code) => code,
            Err(failure) => failure.exit(),
        },
    }
}

/// Reads a configuration for a tunnel.
///
/// # Errors
/// When it is wrong, or cannot be read.
pub(crate) fn read(file: &Path) -> Result<Dialect, Failure> {
    configuration::read(file).map_err(|error| Failure::Configuration(error.to_string()))
}

fn run_one(args: &Options, file: &Path) -> Result<(), Failure> {
    forbid_core_files()?;
    let dialect = read(file)?;
    run_read(args, file, dialect)
}

/// Runs the only tunnel of the process.
pub(crate) fn run_read(args: &Options, file: &Path, dialect: Dialect) -> Result<(), Failure> {
    let mut log = open_log(&mut Logs::of(args.manner), (file, &dialect), None)?;
    openvpn_lines::begin(&mut log);
    check_kill_switch(args, &[(file, &dialect)])?;
    turn_kill_switch_on(args, &marks(args, &[(file, &dialect)]), &mut log)?;
    // Names are looked up later.
    Routing::recover();
    Forwarding::recover();
    notify::connect();
    let mut startup = Startup::new(watch_signals()?, 1, !args.no_sandbox, log.clone());
    startup.in_background = args.in_background;
    let readable = Readable { file, name: stem(file), dialect };
    Any::new(args, readable, (log, false), None).run(startup.member())
}

/// A configuration that can be run.
struct Readable<'a> {
    file: &'a Path,
    name: String,
    dialect: Dialect,
}

/// A tunnel of any dialect.
enum Any<'a> {
    OpenVpn(Box<Tunnel<'a>>),
    WireGuard(Box<wireguard::Tunnel<'a>>),
}

impl<'a> Any<'a> {
    fn new(
        args: &'a Options,
        Readable { file, name, dialect }: Readable<'a>,
        (log, has_others): (Logger, bool),
        shared: Option<Shared>,
    ) -> Self {
        match dialect {
            Dialect::OpenVpn(parsed) => {
                let parsed = Arc::from(parsed);
                let as_read = Arc::clone(&parsed);
                let unbound = shared.as_ref().map(|shared| shared.binding.server());
                let tunnel = Tunnel { args, file, name, has_others, parsed, as_read, log, shared, unbound };
                Any::OpenVpn(Box::new(tunnel))
            }
            Dialect::WireGuard(parsed) => {
                let parsed = Arc::from(parsed);
                let tunnel = wireguard::Tunnel { args, file, name, has_others, parsed, log, shared };
                Any::WireGuard(Box::new(tunnel))
            }
        }
    }

    fn name(&self) -> &str {
        match self {
            Any::OpenVpn(tunnel) => &tunnel.name,
            Any::WireGuard(tunnel) => &tunnel.name,
        }
    }

    fn log(&self) -> Logger {
        match self {
            Any::OpenVpn(tunnel) => tunnel.log.clone(),
            Any::WireGuard(tunnel) => tunnel.log.clone(),
        }
    }

    fn run(self, member: Member<'_>) -> Result<(), Failure> {
        match self {
            Any::OpenVpn(tunnel) => tunnel.run(member),
            Any::WireGuard(tunnel) => tunnel.run(member),
        }
    }
}

fn run_several(args: &Options, files: &[PathBuf]) -> Result<ExitCode, Failure> {
    forbid_core_files()?;
    let (readable, mut first) = read_all(files);
    if args.exit_with_first
        && let Some(code) = first
    {
        return Ok(code);
    }
    let all: Vec<(&Path, &Dialect)> = readable.iter().map(|one| (one.file, &one.dialect)).collect();
    conflicts::check(&all).map_err(Failure::Configuration)?;
    check_kill_switch(args, &all)?;
    let marks = marks(args, &all);
    let (tunnels, log) = with_logs(args, readable, &mut first);
    let Some(mut log) = log else { return Ok(first.unwrap_or(ExitCode::FAILURE)) };
    turn_kill_switch_on(args, &marks, &mut log)?;
    adit_io::allow_many_descriptors();
    Routing::recover();
    Forwarding::recover();
    notify::connect();
    let startup = Startup::new(watch_signals()?, tunnels.len(), !args.no_sandbox, log);
    thread::scope(|scope| {
        let (ended, ends) = mpsc::channel();
        for tunnel in tunnels {
            let (member, ended, name) = (startup.member(), ended.clone(), tunnel.name().to_owned());
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
            if args.exit_with_first {
                startup.early.withdraw();
                startup.tunnels.order(Order::Shutdown);
            }
        }
    });
    notify::stopping();
    Ok(first.unwrap_or(ExitCode::SUCCESS))
}

/// Reads all files. Gives those that can be run, and the exit code for the first that cannot, which the standard error
/// hears of.
fn read_all(files: &[PathBuf]) -> (Vec<Readable<'_>>, Option<ExitCode>) {
    let (mut readable, mut first) = (Vec::new(), None);
    for (file, name) in files.iter().zip(names(files)) {
        match read(file) {
            Ok(dialect) => readable.push(Readable { file, name, dialect }),
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
    args: &'a Options,
    readable: Vec<Readable<'a>>,
    first: &mut Option<ExitCode>,
) -> (Vec<Any<'a>>, Option<Logger>) {
    let (mut logs, mut tunnels, mut own) = (Logs::default(), Vec::new(), None);
    let named: Vec<(&str, &Path, &Dialect)> =
        readable.iter().map(|one| (one.name.as_str(), one.file, &one.dialect)).collect();
    let shared = endpoints::share(&named);
    for (one, shared) in readable.into_iter().zip(shared) {
        match open_log(&mut logs, (one.file, &one.dialect), Some(&one.name)) {
            Ok(log) => {
                own = own.or_else(|| open_log(&mut logs, (one.file, &one.dialect), None).ok());
                tunnels.push(Any::new(args, one, (log, true), shared));
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
fn run_caught(tunnel: Any<'_>, member: Member<'_>) -> Result<(), Failure> {
    let mut log = tunnel.log();
    catch_unwind(AssertUnwindSafe(|| tunnel.run(member))).unwrap_or_else(|_| {
        let why = "a fault in adit ended this tunnel".to_owned();
        log.log(Severity::Error, &why);
        Err(Failure::World(why))
    })
}

/// What the tunnels are called: their files' names without the endings, with numbers where two are the same.
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

fn open_log(
    logs: &mut Logs,
    (file, dialect): (&Path, &Dialect),
    name: Option<&str>,
) -> Result<Logger, Failure> {
    let process = match dialect {
        Dialect::OpenVpn(parsed) => &parsed.config.process,
        // A WireGuard file says nothing of the process.
        Dialect::WireGuard(_) => &Process::default(),
    };
    prepare::log_place(file, process, dialect.report())?;
    logs.open(process, name)
        .map_err(|error| Failure::World(format!("the log file cannot be written: {error}")))
}

fn watch_signals() -> Result<StartupSignals, Failure> {
    StartupSignals::watch().map_err(|error| Failure::World(format!("signals cannot be watched: {error}")))
}

/// `--kill-switch` holds back what servers answer.
fn check_kill_switch(args: &Options, all: &[(&Path, &Dialect)]) -> Result<(), Failure> {
    let reason = |dialect: &Dialect| match dialect {
        Dialect::OpenVpn(parsed) if matches!(parsed.config.role, Role::Client(_)) => None,
        Dialect::OpenVpn(_) => {
            Some("clients and WireGuard files: an OpenVPN server's answers would not leave")
        }
        // Their datagrams have a mark that the kill switch is told.
        Dialect::WireGuard(_) => None,
    };
    let held_back = all.iter().find_map(|(file, dialect)| Some((file, reason(dialect)?)));
    match held_back.filter(|_| args.kill_switch.is_some()) {
        None => Ok(()),
        Some((file, reason)) => {
            let file = file.display();
            let why = format!("{file}: --kill-switch is for {reason}");
            Err(Failure::Configuration(why))
        }
    }
}

/// The firewall marks of the tunnels' datagrams, where a file has its own, if there is a kill switch.
fn marks(args: &Options, all: &[(&Path, &Dialect)]) -> Vec<u32> {
    let mark = |(file, dialect): &(&Path, &Dialect)| match dialect {
        Dialect::WireGuard(parsed) => Some(wireguard::kill_switch_mark(args, file, parsed)),
        Dialect::OpenVpn(parsed) => parsed.config.socket.mark,
    };
    all.iter().filter_map(mark).collect()
}

/// `--kill-switch`, before anything else that reaches the network: one for all files, also those with a mistake.
fn turn_kill_switch_on(args: &Options, marks: &[u32], log: &mut Logger) -> Result<(), Failure> {
    let Some(scope) = args.kill_switch else { return Ok(()) };
    let files: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
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
