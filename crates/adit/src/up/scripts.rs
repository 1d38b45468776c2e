//! Runs scripts beside the tunnel, which never waits for them: one thread looks after all.
//!
//! Peers cause scripts before they have authenticated, so what waits is limited by source, and each source has its turn
//! ([`queue`]). Of one peer one script runs at once, and one that nobody waits for any more is ended with its process
//! group. Scripts that tell of the end of a client (`client-disconnect`, `learn-address delete`) are never dropped.

mod queue;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_config::openvpn::{Access, parse_client_file};
use adit_core::prefix_table::{SourcePrefix, prefixes};
use adit_core::{
    Command as Order, PeerSettings, Protocol, Script, ScriptFile, ScriptId, ScriptOutcome, TableUsage,
};
use adit_io::Handle;
use queue::{Queue, Waiting};
use rand_core::{OsRng, TryRngCore as _};
use rustix::process::{Pid, Signal, kill_process_group};

/// Processes at once; further scripts wait for their turn. Service managers limit tasks, too.
const MOST_AT_ONCE: usize = 8;
/// Of these, for peers of one IPv4 address or IPv6 /48: the rest is for others, however long these take.
const MOST_OF_ONE_SOURCE: usize = 6;
/// Processes at once with those that were told to end.
const MOST_WITH_ENDING: usize = 16;
/// How long a script has to end that was told to by SIGTERM, before SIGKILL.
const END_TIME: Duration = Duration::from_secs(1);
/// How often a running script is looked at, and a file that will hold an answer.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOK_AT_FILES_EVERY: Duration = Duration::from_millis(100);
/// Scripts that put their answer off, at once.
const MOST_DEFERRED: usize = 4096;
/// How long scripts may take after the tunnel has ended.
const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// The exit code by which a script puts its answer off.
const DEFERRED: i32 = 2;
/// The largest file that is read back.
const MAX_FILE: u64 = 256 << 10;
/// What scripts find programs by.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

enum Job {
    Run { script: Box<Script>, device: String },
    Forget(ScriptId),
}

/// The thread that runs scripts. When this is dropped, those that run have ended.
pub(super) struct Scripts {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    usage: Arc<Mutex<TableUsage>>,
}

impl Scripts {
    /// Whether a server has scripts to run at all.
    pub(super) fn any(access: &Access) -> bool {
        let Access { tls_verify, key_verify, client_connect, client_disconnect, learn_address, .. } = access;
        let others = [tls_verify, key_verify, client_connect, client_disconnect, learn_address];
        access.verify.is_some() || others.iter().any(|script| script.is_some())
    }

    /// Starts the thread. `tmp_dir` is where files for scripts are made, if not where the system has such files.
    pub(super) fn start<P: Protocol + 'static>(
        handle: Handle<P>,
        tmp_dir: Option<PathBuf>,
    ) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let answer = move |id, outcome| {
            handle.command(Order::ScriptDone { id, outcome });
        };
        let tmp_dir = tmp_dir.unwrap_or_else(std::env::temp_dir);
        let runner = Runner::new(Box::new(answer), tmp_dir);
        let usage = Arc::clone(&runner.usage);
        let work = move || runner.run(&receiver);
        let thread = thread::Builder::new().name("adit-scripts".to_owned()).spawn(work)?;
        Ok(Scripts { jobs: Some(jobs), thread: Some(thread), usage })
    }

    /// How many scripts wait, for `adit status`.
    pub(super) fn usage(&self) -> impl Fn() -> TableUsage + Send + 'static {
        let usage = Arc::clone(&self.usage);
        move || *usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a script; `device` is the tunnel's.
    pub(super) fn run(&self, script: &Script, device: &str) {
        self.post(Job::Run { script: Box::new(script.clone()), device: device.to_owned() });
    }

    /// Nobody waits for this script any more.
    pub(super) fn forget(&self, id: ScriptId) {
        self.post(Job::Forget(id));
    }

    fn post(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The thread ends when this value is dropped, not before.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A script that runs.
struct Running {
    script: Box<Script>,
    child: Child,
    until: Instant,
    desk: Desk,
}

/// A script that was told to end, and is killed after a while. Nobody hears how it ended.
struct Ending {
    child: Child,
    kill_at: Instant,
    _desk: Desk,
}

/// A script that put its answer off.
struct Deferred {
    script: Box<Script>,
    desk: Desk,
}

struct Runner {
    answer: Box<dyn Fn(ScriptId, ScriptOutcome) + Send>,
    waiting: Queue,
    usage: Arc<Mutex<TableUsage>>,
    running: Vec<Running>,
    ending: Vec<Ending>,
    deferred: Vec<Deferred>,
    look_at_files: Instant,
    tmp_dir: PathBuf,
}

impl Runner {
    fn new(answer: Box<dyn Fn(ScriptId, ScriptOutcome) + Send>, tmp_dir: PathBuf) -> Self {
        let waiting = Queue::new();
        Runner {
            answer,
            usage: Arc::new(Mutex::new(waiting.usage())),
            waiting,
            running: Vec::new(),
            ending: Vec::new(),
            deferred: Vec::new(),
            look_at_files: Instant::now(),
            tmp_dir,
        }
    }

    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        loop {
            let none_runs = self.running.is_empty() && self.ending.is_empty();
            let patience = match (none_runs, self.deferred.is_empty()) {
                (false, _) => LOOK_EVERY,
                (true, false) => LOOK_AT_FILES_EVERY,
                (true, true) => Duration::from_secs(3600),
            };
            match jobs.recv_timeout(patience) {
                Ok(job) => self.take(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
            jobs.try_iter().for_each(|job| self.take(job));
            self.look();
            *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = self.waiting.usage();
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Run { script, device } => {
                if let Some(evicted) = self.waiting.push(Waiting { script, device }) {
                    let why = "too many scripts wait for peers of its source (see docs/LIMITS.md)";
                    self.fail(&evicted.script, why.to_owned());
                }
            }
            Job::Forget(id) => self.forget(id),
        }
    }

    fn forget(&mut self, id: ScriptId) {
        self.waiting.remove(id);
        self.deferred.retain(|deferred| deferred.script.id != id);
        if let Some(index) = self.running.iter().position(|running| running.script.id == id) {
            let Running { child, desk, .. } = self.running.swap_remove(index);
            self.tell_to_end(child, desk);
        }
    }

    fn tell_to_end(&mut self, child: Child, desk: Desk) {
        signal_group(&child, Signal::TERM);
        self.ending.push(Ending { child, kill_at: Instant::now() + END_TIME, _desk: desk });
    }

    /// Kills those that did not end by themselves, and forgets those that ended.
    fn look_at_ending(&mut self) {
        self.ending.retain_mut(|ending| {
            if Instant::now() >= ending.kill_at {
                signal_group(&ending.child, Signal::KILL);
            }
            matches!(ending.child.try_wait(), Ok(None))
        });
    }

    /// The tunnel has ended: what was started, or was to be, may end in peace.
    fn finish(&mut self) {
        self.deferred.clear();
        let until = Instant::now() + LAST_PATIENCE;
        while !(self.running.is_empty() && self.waiting.is_empty()) && Instant::now() < until {
            self.look();
            thread::sleep(LOOK_EVERY);
        }
        for running in &mut self.running {
            end(&mut running.child);
        }
        for ending in &mut self.ending {
            end(&mut ending.child);
        }
    }

    fn look(&mut self) {
        self.look_at_ending();
        let mut still = Vec::new();
        for mut running in std::mem::take(&mut self.running) {
            match running.child.try_wait() {
                Ok(None) if Instant::now() < running.until => still.push(running),
                Ok(None) => {
                    let seconds = running.script.patience.as_secs();
                    self.fail(&running.script, format!("it did not end within {seconds} s"));
                    self.tell_to_end(running.child, running.desk);
                }
                Ok(Some(status)) => {
                    let exit = status.code().ok_or_else(|| format!("it ended by {status}"));
                    self.ended(running, exit);
                }
                Err(error) => self.fail(&running.script, error.to_string()),
            }
        }
        self.running = still;
        while let Some(Waiting { mut script, device }) = self.next() {
            let beside = script.beside.and_then(|id| self.deferred.iter().find(|it| it.script.id == id));
            match begin(&script, &device, beside, &self.tmp_dir) {
                Ok((child, desk)) => {
                    script.wipe();
                    let until = Instant::now() + script.patience;
                    self.running.push(Running { script, child, until, desk });
                }
                Err(why) => self.fail(&script, why),
            }
        }
        if Instant::now() >= self.look_at_files {
            self.look_at_files = Instant::now() + LOOK_AT_FILES_EVERY;
            self.look_at_deferred();
        }
    }

    /// The next script that may begin.
    fn next(&mut self) -> Option<Waiting> {
        let processes = self.running.len();
        if processes >= MOST_AT_ONCE || processes + self.ending.len() >= MOST_WITH_ENDING {
            return None;
        }
        let running = &self.running;
        let held = running.iter().any(|running| running.script.in_order.is_some());
        self.waiting.take(|script| {
            let of_peer = running.iter().any(|it| it.script.id.owner == script.id.owner);
            let of_source = running.iter().filter(|it| site(&it.script) == site(script)).count();
            !(of_peer || held && script.in_order.is_some() || of_source >= MOST_OF_ONE_SOURCE)
        })
    }

    fn ended(&mut self, running: Running, exit: Result<i32, String>) {
        let Running { script, desk, .. } = running;
        let outcome = desk.outcome(&script, exit);
        let answered = outcome.files.first().is_some_and(|file| is_answer(file));
        let put_off = script.defers && outcome.exit == Ok(DEFERRED) && !answered;
        (self.answer)(script.id, outcome);
        if put_off && self.deferred.len() < MOST_DEFERRED {
            self.deferred.push(Deferred { script, desk });
        }
    }

    fn look_at_deferred(&mut self) {
        let answer = &self.answer;
        self.deferred.retain(|Deferred { script, desk }| {
            let says = desk.files.first().is_some_and(|file| read_small(file).is_ok_and(|it| is_answer(&it)));
            if says {
                answer(script.id, desk.outcome(script, Ok(DEFERRED)));
            }
            !says
        });
    }

    fn fail(&self, script: &Script, why: String) {
        let outcome = ScriptOutcome { exit: Err(why), files: Vec::new(), settings: None };
        (self.answer)(script.id, outcome);
    }
}

/// The source that scripts running at once are counted by: an IPv4 address or IPv6 /48.
fn site(script: &Script) -> Option<SourcePrefix> {
    let prefixes: Vec<SourcePrefix> = prefixes(source(script)).collect();
    prefixes.iter().rev().nth(1).copied()
}

/// Where the peer of a script is; scripts about none are of one source.
fn source(script: &Script) -> IpAddr {
    script.source.unwrap_or(IpAddr::from([0, 0, 0, 0]))
}

/// Signals a script that was not waited for, so that its process group is still its own, and what it started.
fn signal_group(child: &Child, signal: Signal) {
    // It may have ended meanwhile.
    let _ = kill_process_group(Pid::from_child(child), signal);
}

fn end(child: &mut Child) {
    signal_group(child, Signal::KILL);
    let _ = child.wait();
}

fn begin(
    script: &Script,
    device: &str,
    beside: Option<&Deferred>,
    tmp_dir: &Path,
) -> Result<(Child, Desk), String> {
    let (program, arguments) = script.argv.split_first().ok_or("no program is named")?;
    let desk =
        Desk::lay(&script.files, tmp_dir).map_err(|error| format!("its files cannot be made: {error}"))?;
    let mut command = Command::new(program);
    command.process_group(0);
    command.args(arguments).env_clear().env("PATH", PATH).env("dev", device).stdin(Stdio::null());
    command.envs(script.env.iter().map(|(name, value)| (name, value)));
    // The copies that the standard library makes until the program begins are out of reach.
    command.envs(script.secrets.iter().map(|(name, value)| (name, value.as_str())));
    if let Some(Deferred { script, desk }) = beside {
        command.envs(desk.variables(script));
    }
    command.envs(desk.variables(script));
    let arguments = script.files.iter().zip(&desk.files).filter(|(file, _)| file.is_argument);
    command.args(arguments.map(|(_, path)| path));
    let child = command.spawn().map_err(|error| format!("{program} cannot be run: {error}"))?;
    Ok((child, desk))
}

/// The files of one script, in a directory that only we can enter. Gone when this is dropped.
struct Desk {
    directory: Option<PathBuf>,
    files: Vec<PathBuf>,
}

impl Desk {
    fn lay(files: &[ScriptFile], tmp_dir: &Path) -> io::Result<Self> {
        let mut desk = Desk { directory: None, files: Vec::new() };
        if files.is_empty() {
            return Ok(desk);
        }
        let tag = OsRng.try_next_u64().map_err(io::Error::other)?;
        let directory = tmp_dir.join(format!("adit-{tag:016x}"));
        DirBuilder::new().mode(0o700).create(&directory)?;
        desk.directory = Some(directory.clone());
        for (number, file) in files.iter().enumerate() {
            let path = directory.join(number.to_string());
            let mut made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            made.write_all(&file.content)?;
            desk.files.push(path);
        }
        Ok(desk)
    }

    /// The environment variables that name the files, of the script that they were laid out for.
    fn variables<'a>(&'a self, script: &'a Script) -> impl Iterator<Item = (&'static str, &'a PathBuf)> {
        script.files.iter().zip(&self.files).filter_map(|(file, path)| Some((file.variable?, path)))
    }

    /// What came of the script, with what its files hold now.
    fn outcome(&self, script: &Script, exit: Result<i32, String>) -> ScriptOutcome {
        let read = |path: &PathBuf| read_small(path).unwrap_or_default();
        let files: Vec<Vec<u8>> = self.files.iter().map(read).collect();
        let good = match exit {
            Ok(0) => true,
            Ok(DEFERRED) => script.defers && files.first().is_some_and(|file| file.first() == Some(&b'1')),
            _ => false,
        };
        let text = script.settings.filter(|_| good).and_then(|index| files.get(index));
        let settings = text.map(|text| settings_of(&script.argv, text));
        ScriptOutcome { exit, files, settings }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

fn settings_of(argv: &[String], text: &[u8]) -> Result<Box<PeerSettings>, String> {
    let name = format!("what {} wrote", argv.first().map_or("the script", String::as_str));
    match parse_client_file(&name, text) {
        Ok((settings, _)) => Ok(Box::new(settings)),
        Err(failure) => Err(failure.to_string()),
    }
}

/// Whether a script has said what it had put off.
fn is_answer(file: &[u8]) -> bool {
    file.first().is_some_and(|first| *first != b'2')
}

fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > MAX_FILE {
        return Err(io::Error::other("too large"));
    }
    fs::read(path)
}
