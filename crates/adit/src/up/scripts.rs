//! Runs scripts beside the tunnel, which never waits for them: one thread looks after all.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_config::openvpn::{Access, parse_client_file};
use adit_core::{Command as Order, PeerSettings, Protocol, Script, ScriptId, ScriptOutcome};
use adit_io::{Handle, ScriptLauncher, ScriptRun};

/// Processes at once; further scripts wait for their turn. Service managers limit tasks, too.
const MOST_AT_ONCE: usize = 8;
/// Scripts that wait for their turn; further ones fail.
const MOST_WAITING: usize = 4096;
/// How often a running script is looked at, and a file that will hold an answer.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LOOK_AT_FILES_EVERY: Duration = Duration::from_millis(100);
/// Scripts that put their answer off, at once.
const MOST_DEFERRED: usize = 4096;
/// How long scripts may take after the tunnel has ended.
const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// The exit code by which a script puts its answer off.
const DEFERRED: i32 = 2;

enum Job {
    Run { script: Box<Script>, device: String },
    Forget(ScriptId),
}

/// Whether a server has scripts to run at all.
pub(super) fn any(access: &Access) -> bool {
    !commands(access).is_empty()
}

/// The scripts of a server: programs with the arguments that the configuration gives them.
pub(super) fn commands(access: &Access) -> Vec<Vec<String>> {
    let Access { verify, tls_verify, key_verify, client_crresponse, .. } = access;
    let Access { client_connect, client_disconnect, learn_address, .. } = access;
    let verify = verify.as_ref().map(|script| &script.argv);
    let others =
        [tls_verify, key_verify, client_crresponse, client_connect, client_disconnect, learn_address];
    others.into_iter().map(Option::as_ref).chain([verify]).flatten().cloned().collect()
}

/// The thread that has scripts run. When this is dropped, those that run have ended.
pub(super) struct Scripts {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Scripts {
    /// Starts the thread.
    pub(super) fn start<P: Protocol + 'static>(
        handle: Handle<P>,
        launcher: ScriptLauncher,
    ) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let answer = move |id, outcome| {
            handle.command(Order::ScriptDone { id, outcome });
        };
        let work = move || Runner::new(Box::new(answer), launcher).run(&receiver);
        let thread = thread::Builder::new().name("adit-scripts".to_owned()).spawn(work)?;
        Ok(Scripts { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs a script; `device` is the tunnel's.
    pub(super) fn run(&self, script: &Script, device: &str) {
        self.post(Job::Run { script: Box::new(script.clone()), device: device.to_owned() });
    }

    /// What this script put off is of no interest any more.
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
    run: ScriptRun,
    until: Instant,
}

/// A script that put its answer off.
struct Deferred {
    script: Box<Script>,
    run: ScriptRun,
}

struct Runner {
    answer: Box<dyn Fn(ScriptId, ScriptOutcome)>,
    waiting: VecDeque<(Box<Script>, String)>,
    running: Vec<Running>,
    deferred: Vec<Deferred>,
    look_at_files: Instant,
    launcher: ScriptLauncher,
}

impl Runner {
    fn new(answer: Box<dyn Fn(ScriptId, ScriptOutcome)>, launcher: ScriptLauncher) -> Self {
        Runner {
            answer,
            waiting: VecDeque::new(),
            running: Vec::new(),
            deferred: Vec::new(),
            look_at_files: Instant::now(),
            launcher,
        }
    }

    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        loop {
            let patience = match (self.running.is_empty(), self.deferred.is_empty()) {
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
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Run { script, .. } if self.waiting.len() >= MOST_WAITING => {
                self.fail(&script, "too many scripts wait for their turn".to_owned());
            }
            Job::Run { script, device } => self.waiting.push_back((script, device)),
            Job::Forget(id) => self.deferred.retain(|deferred| deferred.script.id != id),
        }
    }

    /// The tunnel has ended: what was started, or was to be, may end in peace.
    fn finish(&mut self) {
        self.deferred.clear();
        let until = Instant::now() + LAST_PATIENCE;
        while !(self.running.is_empty() && self.waiting.is_empty()) && Instant::now() < until {
            self.look();
            thread::sleep(LOOK_EVERY);
        }
        // Those that still run end as they are dropped.
    }

    fn look(&mut self) {
        let mut still = Vec::new();
        for running in std::mem::take(&mut self.running) {
            match running.run.poll() {
                Ok(None) if Instant::now() < running.until => still.push(running),
                Ok(None) => {
                    let Running { script, run, .. } = running;
                    drop(run);
                    let seconds = script.patience.as_secs();
                    self.fail(&script, format!("it did not end within {seconds} s"));
                }
                Ok(Some(exit)) => self.ended(running, exit),
                Err(error) => self.fail(&running.script, error.to_string()),
            }
        }
        self.running = still;
        while self.running.len() < MOST_AT_ONCE {
            let Some((mut script, device)) = self.next() else { break };
            let beside = script.beside.and_then(|id| self.deferred.iter().find(|it| it.script.id == id));
            match self.launcher.run(&script, &device, beside.map(|deferred| &deferred.run)) {
                Ok(run) => {
                    script.wipe();
                    let until = Instant::now() + script.patience;
                    self.running.push(Running { script, run, until });
                }
                Err(error) => {
                    let program = script.argv.first().map_or("the script", String::as_str);
                    self.fail(&script, format!("{program} cannot be run: {error}"));
                }
            }
        }
        if Instant::now() >= self.look_at_files {
            self.look_at_files = Instant::now() + LOOK_AT_FILES_EVERY;
            self.look_at_deferred();
        }
    }

    /// The next script that may begin.
    fn next(&mut self) -> Option<(Box<Script>, String)> {
        let held = self.running.iter().any(|running| running.script.in_order);
        let index = self.waiting.iter().position(|(script, _)| !(held && script.in_order))?;
        self.waiting.remove(index)
    }

    fn ended(&mut self, running: Running, exit: Result<i32, String>) {
        let Running { script, run, .. } = running;
        let outcome = outcome(&script, &run, exit);
        let answered = outcome.files.first().is_some_and(|file| is_answer(file));
        let put_off = script.defers && outcome.exit == Ok(DEFERRED) && !answered;
        (self.answer)(script.id, outcome);
        if put_off && self.deferred.len() < MOST_DEFERRED {
            self.deferred.push(Deferred { script, run });
        }
    }

    fn look_at_deferred(&mut self) {
        let answer = &self.answer;
        self.deferred.retain(|Deferred { script, run }| {
            let says = run.first_file().is_ok_and(|file| is_answer(&file));
            if says {
                answer(script.id, outcome(script, run, Ok(DEFERRED)));
            }
            !says
        });
    }

    fn fail(&self, script: &Script, why: String) {
        let outcome = ScriptOutcome { exit: Err(why), files: Vec::new(), settings: None };
        (self.answer)(script.id, outcome);
    }
}

/// What came of a script, with what its files hold now.
fn outcome(script: &Script, run: &ScriptRun, exit: Result<i32, String>) -> ScriptOutcome {
    let files = run.files();
    let good = match exit {
        Ok(0) => true,
        Ok(DEFERRED) => script.defers && files.first().is_some_and(|file| file.first() == Some(&b'1')),
        _ => false,
    };
    let text = script.settings.filter(|_| good).and_then(|index| files.get(index));
    let settings = text.map(|text| settings_of(&script.argv, text));
    ScriptOutcome { exit, files, settings }
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

#[cfg(test)]
mod tests {
    use super::*;
    use adit_core::ScriptFile;
    use adit_io::{Helper, Policy};
    use std::sync::mpsc::Receiver;
    use zeroize::Zeroizing;

    const SOON: Duration = Duration::from_secs(10);

    /// Runs what the tests have run.
    fn helper() -> Helper {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let scripts = adit_io::Scripts {
            commands: vec![words(&["/bin/sh", "-c"]), words(&["/nowhere/script"])],
            variables: words(&["WORD"]),
            directory: std::env::temp_dir(),
        };
        Helper::within_process(Policy { scripts: Some(scripts), ..Policy::default() }).unwrap()
    }

    /// A thread that has scripts run, and what they come to.
    fn runner() -> (mpsc::Sender<Job>, Receiver<(ScriptId, ScriptOutcome)>) {
        let (jobs, receiver) = mpsc::channel();
        let (answers, came) = mpsc::channel();
        let helper = helper();
        thread::spawn(move || {
            Runner::new(
                Box::new(move |id, outcome| {
                    let _ = answers.send((id, outcome));
                }),
                helper.access().scripts().unwrap(),
            )
            .run(&receiver)
        });
        (jobs, came)
    }

    fn shell(number: u32, text: &str, patience: Duration) -> Job {
        let file = |content: &[u8], is_argument, variable| ScriptFile {
            content: Zeroizing::new(content.to_vec()),
            is_argument,
            variable,
        };
        let script = Script {
            id: ScriptId { owner: 1, number },
            argv: ["/bin/sh", "-c", text, "name"].map(str::to_owned).to_vec(),
            env: vec![("WORD".to_owned(), "a b".to_owned())],
            secrets: vec![("password", Zeroizing::new("s3 cret".to_owned()))],
            files: vec![file(b"", false, Some("control")), file(b"in", true, None)],
            settings: Some(1),
            defers: true,
            in_order: false,
            beside: None,
            patience,
        };
        Job::Run { script: Box::new(script), device: "tun7".to_owned() }
    }

    #[test]
    fn environment_files_and_settings() {
        let (jobs, came) = runner();
        let text = "[ \"$(cat \"$1\")$WORD$dev$password\" = ina\\ btun7s3\\ cret ] && echo 'iroute 10.7.0.0 255.255.0.0' >\"$1\"";
        jobs.send(shell(1, text, SOON)).unwrap();
        let (id, outcome) = came.recv_timeout(SOON).unwrap();
        assert_eq!((id.number, outcome.exit), (1, Ok(0)));
        let settings = outcome.settings.unwrap().unwrap();
        assert_eq!(settings.routes, ["10.7.0.0/16".parse().unwrap()]);
        jobs.send(shell(2, "echo bogus >\"$1\"", SOON)).unwrap();
        let (_, outcome) = came.recv_timeout(SOON).unwrap();
        assert!(outcome.settings.unwrap().unwrap_err().contains("bogus"));
    }

    /// A script that puts its answer off may be kept for long.
    #[test]
    fn secrets_are_wiped_when_a_script_has_begun() {
        let helper = helper();
        let mut runner = Runner::new(Box::new(|_, _| {}), helper.access().scripts().unwrap());
        runner.take(shell(1, "exec sleep 60", SOON));
        runner.look();
        let Running { script, .. } = &runner.running[0];
        assert!(script.secrets.is_empty() && script.files.iter().all(|file| file.content.is_empty()));
    }

    #[test]
    fn slow_scripts_keep_nobody_waiting_and_are_killed() {
        let (jobs, came) = runner();
        jobs.send(shell(1, "exec sleep 60", Duration::from_millis(300))).unwrap();
        jobs.send(shell(2, "exit 3", SOON)).unwrap();
        let (id, outcome) = came.recv_timeout(SOON).unwrap();
        assert_eq!((id.number, outcome.exit), (2, Ok(3)));
        let (id, outcome) = came.recv_timeout(SOON).unwrap();
        assert_eq!(id.number, 1);
        assert!(outcome.exit.unwrap_err().contains("did not end"));
    }

    #[test]
    fn an_answer_that_was_put_off_comes_later() {
        let (jobs, came) = runner();
        let text = "(sleep 0.3; printf 1 >\"$control\") >/dev/null 2>&1 & exit 2";
        jobs.send(shell(1, text, SOON)).unwrap();
        let (_, outcome) = came.recv_timeout(SOON).unwrap();
        assert_eq!((outcome.exit, outcome.files[0].len()), (Ok(2), 0));
        let (_, outcome) = came.recv_timeout(SOON).unwrap();
        assert_eq!((outcome.exit, outcome.files[0].as_slice()), (Ok(2), &b"1"[..]));
        // Said once.
        assert!(came.recv_timeout(Duration::from_millis(300)).is_err());
    }

    #[test]
    fn some_wait_for_each_other() {
        let (jobs, came) = runner();
        for (number, text) in [(1, "sleep 0.4"), (2, ":"), (3, ":")] {
            let Job::Run { mut script, device } = shell(number, text, SOON) else { unreachable!() };
            script.in_order = number != 3;
            jobs.send(Job::Run { script, device }).unwrap();
        }
        let order: Vec<u32> = (0..3).map(|_| came.recv_timeout(SOON).unwrap().0.number).collect();
        assert_eq!(order, [3, 1, 2]);
    }

    #[test]
    fn another_script_gives_the_answer_that_was_put_off() {
        let (jobs, came) = runner();
        jobs.send(shell(1, "exit 2", SOON)).unwrap();
        assert_eq!(came.recv_timeout(SOON).unwrap().1.exit, Ok(2));
        let Job::Run { mut script, device } = shell(2, "printf 1 >\"$control\"", SOON) else {
            unreachable!()
        };
        script.beside = Some(ScriptId { owner: 1, number: 1 });
        (script.settings, script.defers) = (None, false);
        script.files.remove(0);
        jobs.send(Job::Run { script, device }).unwrap();
        let mut outcomes: Vec<_> = (0..2).map(|_| came.recv_timeout(SOON).unwrap()).collect();
        outcomes.sort_by_key(|(id, _)| id.number);
        assert_eq!((outcomes[0].1.exit.clone(), outcomes[0].1.files[0].as_slice()), (Ok(2), &b"1"[..]));
        assert_eq!(outcomes[1].1.exit, Ok(0));
    }

    #[test]
    fn what_cannot_be_run_is_said() {
        let (jobs, came) = runner();
        let Job::Run { mut script, device } = shell(1, "", SOON) else { unreachable!() };
        script.argv = vec!["/nowhere/script".to_owned()];
        jobs.send(Job::Run { script, device }).unwrap();
        let (_, outcome) = came.recv_timeout(SOON).unwrap();
        assert!(outcome.exit.unwrap_err().contains("/nowhere/script"));
    }
}
