//! The thread that runs scripts one after the other.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_core::{Command, Protocol, Severity};
use adit_guard::{ScriptCall, ScriptLauncher, run_script};
use adit_io::Handle;
use adit_openvpn::request::Reply;

use adit_host::log::Logger;

/// How often a running script is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a script that sets the tunnel up may go on when the end of the tunnel is asked for.
const GRACE: Duration = Duration::from_secs(5);
/// How long after SIGTERM it is killed.
const END_TIME: Duration = Duration::from_secs(1);
/// How long after that it is waited for: one of another user (by `sudo`) goes on.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// Runs scripts by the helper. `None` in a tunnel that has none, and only delays its routes.
pub(crate) type Launcher = Option<ScriptLauncher>;

/// The orders of scripts to the tunnel.
pub(crate) struct Control {
    /// Lets routes and name servers be set.
    pub(crate) go_on: Box<dyn Fn() + Send>,
    /// Ends the tunnel.
    pub(crate) shut_down: Box<dyn Fn() + Send>,
    /// Takes what is said of scripts.
    pub(crate) log: Logger,
    /// The output of a script of this process goes nowhere: another process waits for the word that the tunnel is set
    /// up, on the standard output.
    pub(crate) in_background: bool,
}

impl Control {
    /// The control of a driver.
    pub(crate) fn new<P: Protocol<Reply = Reply> + 'static>(
        handle: Handle<P>,
        log: Logger,
        in_background: bool,
    ) -> Self {
        let other = handle.clone();
        Control {
            // A driver that has ended needs neither.
            go_on: Box::new(move || {
                handle.go_on();
            }),
            shut_down: Box::new(move || {
                other.command(Command::Shutdown);
            }),
            log,
            in_background,
        }
    }
}

/// The meaning of a script's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnFailure {
    /// A warning.
    Warn,
    /// The end of the tunnel.
    Fail,
}

/// One opening of the device, as scripts see it: they are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Opening(pub(super) u64);

/// A script to run.
pub(super) struct Run {
    pub(super) name: String,
    pub(super) call: Box<ScriptCall>,
    pub(super) on_failure: OnFailure,
    /// The opening that it tells of. `None` for what tells of the end of one, or of the peer.
    pub(super) of: Option<Opening>,
}

/// The jobs of the thread, in this order.
pub(super) enum Job {
    Run(Run),
    /// Stands before all that tells of this opening.
    Begin(Opening),
    /// Before the routes of this opening.
    Wait(Duration, Opening),
    GoOn,
    GiveUpRights,
    Tell(Sender<()>),
}

impl Job {
    /// Whether it is of no use without this opening.
    fn is_of(&self, opening: Opening) -> bool {
        match self {
            Job::Run(run) => run.of == Some(opening),
            Job::Begin(of) | Job::Wait(_, of) => *of == opening,
            // Routes wait for one word for each time that they were held up.
            Job::GoOn | Job::GiveUpRights | Job::Tell(_) => false,
        }
    }
}

/// The state that the thread and its owner share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is a job, or an end.
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    ended: bool,
    failure: Option<String>,
    /// When a script ends that runs, or waits to, since before the tunnel was ordered to end.
    until: Option<Instant>,
}

/// The thread, as its owner sees it.
pub(super) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    here: Arc<Runner>,
}

/// The runner of a script.
struct Runner {
    launcher: Launcher,
    control: Mutex<Control>,
    shared: Arc<Shared>,
}

impl Worker {
    pub(super) fn start(launcher: Launcher, control: Control) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let here = Arc::new(Runner { launcher, control: Mutex::new(control), shared: Arc::clone(&shared) });
        let runner = Arc::clone(&here);
        let work = move || runner.work();
        let thread = thread::Builder::new().name("adit-hooks".to_owned()).spawn(work)?;
        Ok(Worker { shared, thread: Some(thread), here })
    }

    pub(super) fn post(&self, job: Job) {
        lock(&self.shared.state).jobs.push_back(job);
        self.shared.work.notify_one();
    }

    /// Has a script run; `now`: by this process and with its rights, and this waits for it.
    pub(super) fn run(&self, run: Run, now: bool) {
        if !now {
            return self.post(Job::Run(run));
        }
        if self.failure().is_none() {
            let inherits_output = !lock(&self.here.control).in_background;
            self.here.judge(&run.name, run.on_failure, run_script(&run.call, inherits_output));
        }
    }

    /// Takes back the runs of a script that wait, as another supersedes them.
    pub(super) fn withdraw_runs(&self, name: &str) {
        lock(&self.shared.state).jobs.retain(|job| !matches!(job, Job::Run(waits) if waits.name == name));
    }

    /// Takes back what tells of an opening, if nothing of it has begun: then scripts need not be told of its end. Whether it
    /// was so.
    pub(super) fn withdraw(&self, opening: Opening) -> bool {
        let jobs = &mut lock(&self.shared.state).jobs;
        let is_unheard = jobs.iter().any(|job| matches!(job, Job::Begin(of) if *of == opening));
        if is_unheard {
            jobs.retain(|job| !job.is_of(opening));
        }
        is_unheard
    }

    /// Hurries, as the tunnel was ordered to end: scripts that began before have a moment.
    pub(super) fn hurry(&self) {
        self.hurry_within(GRACE);
    }

    pub(super) fn hurry_within(&self, grace: Duration) {
        lock(&self.shared.state).until.get_or_insert(Instant::now() + grace);
        self.finish_all();
        lock(&self.shared.state).until = None;
    }

    /// Waits until all has run.
    pub(super) fn finish_all(&self) {
        let (told, wait) = mpsc::channel();
        self.post(Job::Tell(told));
        // It is dropped with a thread that failed.
        let _ = wait.recv();
    }

    /// The names of the scripts that wait for those before them.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> Vec<String> {
        let state = lock(&self.shared.state);
        let names = state.jobs.iter().filter_map(|job| match job {
            Job::Run(run) => Some(run.name.clone()),
            _ => None,
        });
        names.collect()
    }

    /// Why a script has made the tunnel fail.
    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.shared.state).failure.clone()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        lock(&self.shared.state).ended = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Runner {
    /// The next job; `None` when all are done and there will be no more.
    fn next(&self) -> Option<Job> {
        let state = lock(&self.shared.state);
        let waits = |state: &mut State| state.jobs.is_empty() && !state.ended;
        let waited = self.shared.work.wait_while(state, waits);
        waited.unwrap_or_else(PoisonError::into_inner).jobs.pop_front()
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            match job {
                Job::Tell(told) => drop(told.send(())),
                // OpenVPN ends at once when a script fails that must not.
                _ if lock(&self.shared.state).failure.is_some() => {}
                Job::Run(Run { name, call, on_failure, .. }) => {
                    let exit = self.run(*call);
                    self.judge(&name, on_failure, exit);
                }
                Job::Begin(_) => {}
                Job::Wait(delay, _) => self.wait(delay),
                Job::GoOn => (lock(&self.control).go_on)(),
                Job::GiveUpRights => {
                    // A helper that is gone runs nothing.
                    let _ = self.launcher.as_ref().map(ScriptLauncher::give_up_rights);
                }
            }
        }
    }

    fn wait(&self, delay: Duration) {
        let until = Instant::now() + delay;
        while Instant::now() < until && lock(&self.shared.state).until.is_none() {
            thread::sleep(LOOK_EVERY);
        }
    }

    fn run(&self, call: ScriptCall) -> io::Result<Result<i32, String>> {
        let launcher = self.launcher.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let run = launcher.run(call)?;
        let mut told_to_end = None;
        loop {
            if let Some(exit) = run.poll()? {
                return Ok(exit);
            }
            let now = Instant::now();
            let is_late = lock(&self.shared.state).until.is_some_and(|until| now >= until);
            match told_to_end {
                None if is_late => {
                    run.terminate();
                    told_to_end = Some(now + END_TIME);
                }
                Some(kill_at) if now >= kill_at + KILLED_WITHIN => {
                    return Ok(Err("it cannot be ended".to_owned()));
                }
                Some(kill_at) if now >= kill_at => run.kill(),
                _ => {}
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn judge(&self, name: &str, on_failure: OnFailure, exit: io::Result<Result<i32, String>>) {
        let why = match exit {
            Ok(Ok(0)) => return,
            Ok(Ok(code)) => format!("the script {name} failed: it ended with exit code {code}"),
            Ok(Err(why)) => format!("the script {name} failed: {why}"),
            Err(error) => format!("the script {name} cannot be run: {error}"),
        };
        if on_failure == OnFailure::Warn {
            return lock(&self.control).log.log(Severity::Warning, why);
        }
        lock(&self.shared.state).failure.get_or_insert(why);
        (lock(&self.control).shut_down)();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
