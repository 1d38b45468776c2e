//! Runs scripts beside the tunnel, which never waits for them: one thread looks after all.
//!
//! Peers cause scripts before they have authenticated, so the scripts that wait are limited by source, and each source
//! has its turn (`queue`). Of one peer one script runs at once, and one whose result is no longer needed is ended with
//! its process group. Scripts that tell of the end of something ([`ScriptPriority::End`]) are never ended so, and are
//! the last to make room for others of their source.

mod queue;
mod script;
#[cfg(test)]
mod tests;

use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_core::TableUsage;
use adit_core::prefix_table::{SourcePrefix, prefixes};
use adit_guard::{ScriptCall, ScriptInput, ScriptLauncher, ScriptRun};
use queue::{Queue, Waiting};
use zeroize::Zeroizing;

pub use script::{Script, ScriptFile, ScriptId, ScriptOutcome, ScriptPriority};

/// Processes at once; further scripts wait for their turn. Service managers limit tasks, too.
const MOST_AT_ONCE: usize = 8;
/// Processes for peers of one IPv4 address or IPv6 /48: the rest is for others, however long these take.
const MOST_OF_ONE_SOURCE: usize = 6;
/// Processes at once, with those that were sent SIGTERM.
const MOST_WITH_ENDING: usize = 16;
/// The time between SIGTERM and SIGKILL for a script that does not end.
const END_TIME: Duration = Duration::from_secs(1);
/// How often a running script is looked at, and a file that will hold an answer.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOK_AT_FILES_EVERY: Duration = Duration::from_millis(100);
/// Files that may hold answers are read so many at once, each by a request to the helper, with a pause between: else a thousand clients
/// that are put off would delay the scripts of all others.
const FILES_AT_ONCE: usize = 16;
const PAUSE_BETWEEN_FILES: Duration = Duration::from_millis(10);
/// Scripts that put their answer off, at once.
const MOST_DEFERRED: usize = 4096;
/// How long scripts may take after the tunnel has ended.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);
/// The exit code by which a script puts its answer off.
pub const DEFERRED: i32 = 2;

/// A receiver of outcomes. A script that puts its answer off has two.
pub type Answer = Box<dyn Fn(&Script, ScriptOutcome) + Send>;

enum Job {
    Run { script: Box<Script>, device: String },
    Environment(Environment),
    Forget(ScriptId),
}

/// The thread that has scripts run. When this is dropped, those that run have ended.
pub struct Scripts {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    usage: Arc<Mutex<TableUsage>>,
}

impl Scripts {
    /// Starts the thread. All scripts have the variables of `base`, unless they have others of these names. `name` is the name of those
    /// that wait in `adit status`.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(
        name: &'static str,
        answer: Answer,
        launcher: ScriptLauncher,
        base: Vec<(String, String)>,
    ) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let runner = Runner::new(name, answer, launcher, base);
        let usage = Arc::clone(&runner.usage);
        let work = move || runner.run(&receiver);
        let thread = thread::Builder::new().name("adit-scripts".to_owned()).spawn(work)?;
        Ok(Scripts { jobs: Some(jobs), thread: Some(thread), usage })
    }

    /// How many scripts wait, for `adit status`.
    pub fn usage(&self) -> impl Fn() -> TableUsage + Send + 'static {
        let usage = Arc::clone(&self.usage);
        move || *usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a script; `device` is the tunnel's.
    pub fn run(&self, script: Box<Script>, device: &str) {
        self.post(Job::Run { script, device: device.to_owned() });
    }

    /// All scripts from now on have these variables, too.
    pub fn add_environment(&self, environment: Environment) {
        self.post(Job::Environment(environment));
    }

    /// The result of this script is no longer needed.
    pub fn forget(&self, id: ScriptId) {
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
    run: ScriptRun,
    until: Instant,
}

/// A script that was sent SIGTERM, and is killed after a while. Its result is discarded.
struct Ending {
    run: ScriptRun,
    kill_at: Instant,
}

/// A script that put its answer off.
struct Deferred {
    script: Box<Script>,
    run: ScriptRun,
}

/// A script as the helper runs it.
fn call(script: &Script, base: &Environment, (device, beside): (String, Option<u64>)) -> ScriptCall {
    let input = |file: &ScriptFile| ScriptInput {
        content: file.content.to_vec(),
        is_argument: file.is_argument,
        variable: file.variable.map(str::to_owned),
        // The script may judge by it, or put its answer there.
        is_optional: false,
    };
    let secret = |(name, value): &(&'static str, Zeroizing<String>)| (name.to_string(), value.to_string());
    ScriptCall {
        argv: script.argv.clone(),
        env: base.variables.iter().chain(&script.env).cloned().collect(),
        secrets: script.secrets.iter().map(secret).collect(),
        device,
        files: script.files.iter().map(input).collect(),
        beside,
        gateways: base.gateways.clone(),
    }
}

/// Variables of all scripts.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Names and values.
    pub variables: Vec<(String, String)>,
    /// Further names, whose value is the system's default gateway; of IPv6 if true.
    pub gateways: Vec<(String, bool)>,
}

struct Runner {
    answer: Answer,
    waiting: Queue,
    usage: Arc<Mutex<TableUsage>>,
    running: Vec<Running>,
    ending: Vec<Ending>,
    deferred: Vec<Deferred>,
    look_at_files: Instant,
    /// Where in `deferred` that goes on.
    next_deferred: usize,
    launcher: ScriptLauncher,
    base: Environment,
}

impl Runner {
    fn new(
        name: &'static str,
        answer: Answer,
        launcher: ScriptLauncher,
        base: Vec<(String, String)>,
    ) -> Self {
        let waiting = Queue::new(name);
        Runner {
            answer,
            usage: Arc::new(Mutex::new(waiting.usage())),
            waiting,
            running: Vec::new(),
            ending: Vec::new(),
            deferred: Vec::new(),
            look_at_files: Instant::now(),
            next_deferred: 0,
            launcher,
            base: Environment { variables: base, gateways: Vec::new() },
        }
    }

    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        loop {
            let none_runs = self.running.is_empty() && self.ending.is_empty();
            let timeout = match (none_runs, self.deferred.is_empty()) {
                (false, _) => LOOK_EVERY,
                (true, false) => self.look_at_files.saturating_duration_since(Instant::now()).max(LOOK_EVERY),
                (true, true) => Duration::from_secs(3600),
            };
            match jobs.recv_timeout(timeout) {
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
                    let why = "too many scripts wait for peers of its source (see docs/use/LIMITS.md)";
                    self.fail(&evicted.script, why.to_owned());
                }
            }
            Job::Environment(Environment { variables, gateways }) => {
                self.base.variables.extend(variables);
                self.base.gateways = gateways;
            }
            Job::Forget(id) => self.forget(id),
        }
    }

    fn forget(&mut self, id: ScriptId) {
        self.waiting.remove(id);
        self.deferred.retain(|deferred| deferred.script.id != id);
        if let Some(index) = self.running.iter().position(|running| running.script.id == id) {
            let Running { run, .. } = self.running.swap_remove(index);
            self.tell_to_end(run);
        }
    }

    fn tell_to_end(&mut self, run: ScriptRun) {
        run.terminate();
        self.ending.push(Ending { run, kill_at: Instant::now() + END_TIME });
    }

    /// Kills those that did not end by themselves, and forgets those that ended.
    fn look_at_ending(&mut self) {
        self.ending.retain(|ending| {
            if Instant::now() >= ending.kill_at {
                ending.run.kill();
            }
            matches!(ending.run.poll(), Ok(None))
        });
    }

    /// The tunnel has ended: scripts that were started, or were to be, may end in peace.
    fn finish(&mut self) {
        self.deferred.clear();
        let until = Instant::now() + FAREWELL_TIMEOUT;
        while !(self.running.is_empty() && self.waiting.is_empty()) && Instant::now() < until {
            self.look();
            thread::sleep(LOOK_EVERY);
        }
        // Those that still run are killed as they are dropped.
    }

    fn look(&mut self) {
        self.look_at_ending();
        let mut still = Vec::new();
        for running in std::mem::take(&mut self.running) {
            match running.run.poll() {
                Ok(None) if Instant::now() < running.until => still.push(running),
                Ok(None) => {
                    let seconds = running.script.timeout.as_secs();
                    self.fail(&running.script, format!("it did not end within {seconds} s"));
                    self.tell_to_end(running.run);
                }
                Ok(Some(exit)) => self.ended(running, exit),
                Err(error) => self.fail(&running.script, error.to_string()),
            }
        }
        self.running = still;
        while let Some(Waiting { mut script, device }) = self.next() {
            let beside = script.beside.and_then(|id| self.deferred.iter().find(|it| it.script.id == id));
            let beside = beside.map(|deferred| deferred.run.number());
            match self.launcher.run(call(&script, &self.base, (device, beside))) {
                Ok(run) => {
                    script.wipe();
                    let until = Instant::now() + script.timeout;
                    self.running.push(Running { script, run, until });
                }
                Err(error) => {
                    let program = script.argv.first().map_or("the script", String::as_str);
                    self.fail(&script, format!("{program} cannot be run: {error}"));
                }
            }
        }
        if Instant::now() >= self.look_at_files {
            let complete = self.look_at_deferred();
            let pause = if complete { LOOK_AT_FILES_EVERY } else { PAUSE_BETWEEN_FILES };
            self.look_at_files = Instant::now() + pause;
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
        let Running { script, run, .. } = running;
        let outcome = outcome(&script, &run, exit);
        let answered = outcome.files.first().is_some_and(|(_, content)| is_answer(content));
        let put_off = script.defers && outcome.exit == Ok(DEFERRED) && !answered;
        (self.answer)(&script, outcome);
        if put_off && self.deferred.len() < MOST_DEFERRED {
            self.deferred.push(Deferred { script, run });
        }
    }

    /// Looks at the next of those that may have answered. True if those were the last.
    fn look_at_deferred(&mut self) -> bool {
        let answer = &self.answer;
        let have_answered = |Deferred { script, run }: &Deferred| {
            let says = run.first_file().is_ok_and(|file| is_answer(&file));
            if says {
                answer(script, outcome(script, run, Ok(DEFERRED)));
            }
            says
        };
        self.next_deferred = take_some(&mut self.deferred, self.next_deferred, have_answered);
        self.next_deferred == 0
    }

    fn fail(&self, script: &Script, why: String) {
        (self.answer)(script, ScriptOutcome { exit: Err(why), files: Vec::new() });
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

/// The outcome of a script, with the present content of its files.
fn outcome(script: &Script, run: &ScriptRun, exit: Result<i32, String>) -> ScriptOutcome {
    let names = script.files.iter().map(|file| file.name);
    ScriptOutcome { exit, files: names.zip(run.files()).collect() }
}

/// Looks at [`FILES_AT_ONCE`] entries from one on, and removes those that are done. Gives where to go on: 0 after the last.
fn take_some<T>(entries: &mut Vec<T>, from: usize, mut is_done: impl FnMut(&T) -> bool) -> usize {
    let mut index = from.min(entries.len());
    for _ in 0..FILES_AT_ONCE {
        match entries.get(index).map(&mut is_done) {
            Some(true) => {
                entries.remove(index);
            }
            Some(false) => index += 1,
            None => break,
        }
    }
    if index < entries.len() { index } else { 0 }
}

/// Whether a script has given the answer that it had put off.
fn is_answer(file: &[u8]) -> bool {
    file.first().is_some_and(|first| *first != b'2')
}
