use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::TestbedError;
use crate::namespace::creating;
use crate::programs::command_line;

/// How many lines of a log an error shows.
const SHOWN: usize = 60;
/// How long a test waits for an event that must happen, on a machine that is busy and slow: the wait ends as soon as it
/// has happened.
pub const MAX_WAIT: Duration = Duration::from_secs(60);
/// How often something that gives no signal is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_millis(60);

/// A running program whose output is kept and can be searched. Killed on drop.
#[derive(Debug)]
pub struct Process {
    label: String,
    child: Child,
    log: Arc<Log>,
    readers: Vec<JoinHandle<()>>,
}

/// The lines a program wrote, on either stream, in the order in which they came.
#[derive(Debug, Default)]
struct Log {
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    /// When each line came, counted from the start of the process.
    times: Vec<Duration>,
    /// Streams that are still open.
    open: usize,
}

impl Process {
    /// Starts `command` with no input and both outputs captured. `label` names it in errors.
    pub fn spawn(label: &str, command: Command) -> Result<Self, TestbedError> {
        Self::spawn_with(label, command, Stdio::null())
    }

    /// Starts a process with this input.
    pub(crate) fn spawn_with(label: &str, mut command: Command, stdin: Stdio) -> Result<Self, TestbedError> {
        let line = command_line(&command);
        let _creating = creating();
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| TestbedError::Start { command: line, source })?;
        let streams: Vec<Box<dyn Read + Send>> = [
            child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>),
            child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>),
        ]
        .into_iter()
        .flatten()
        .collect();
        let start = Instant::now();
        let log = Arc::new(Log::default());
        log.with(|lines| lines.open = streams.len());
        let readers = streams
            .into_iter()
            .map(|stream| {
                let log = Arc::clone(&log);
                std::thread::spawn(move || log.collect(start, stream))
            })
            .collect();
        Ok(Self { label: label.to_owned(), child, log, readers })
    }

    /// How many lines it has written. Give this to [`Process::wait_for_line`] to look at later lines only.
    pub fn mark(&self) -> usize {
        self.log.with(|lines| lines.lines.len())
    }

    /// Everything it has written.
    pub fn log(&self) -> String {
        self.log.with(|lines| lines.lines.join("\n"))
    }

    /// The last of its output, each line with the second at which it came.
    pub fn log_tail(&self) -> String {
        self.log.tail()
    }

    /// How many of its lines, from the line `from` on, contain `pattern`.
    pub fn count_lines(&self, from: usize, pattern: &str) -> usize {
        self.log.with(|lines| lines.lines.iter().skip(from).filter(|l| l.contains(pattern)).count())
    }

    /// The latest of its lines that contains `pattern`.
    pub fn last_line(&self, pattern: &str) -> Option<String> {
        self.log.with(|lines| lines.lines.iter().rev().find(|line| line.contains(pattern)).cloned())
    }

    /// Waits for a line that contains `pattern`, from the line `from` on, and returns it.
    pub fn wait_for_line(
        &mut self,
        from: usize,
        pattern: &str,
        timeout: Duration,
    ) -> Result<String, TestbedError> {
        if let Some(line) = self.log.wait(from, pattern, timeout) {
            return Ok(line);
        }
        let ended = match self.child.try_wait() {
            Ok(Some(status)) => format!(" (it ended: {status})"),
            _ => String::new(),
        };
        Err(TestbedError::NoLine {
            label: self.label.clone(),
            pattern: pattern.to_owned(),
            waited: timeout,
            ended,
            log: self.log.tail(),
        })
    }

    /// Its name in errors.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGINT, as Ctrl-C does.
    pub fn interrupt(&mut self) {
        self.signal(Signal::INT);
    }

    /// Sends SIGHUP.
    pub fn hang_up(&mut self) {
        self.signal(Signal::HUP);
    }

    /// Sends SIGUSR1, by which clients connect anew.
    pub fn restart(&mut self) {
        self.signal(Signal::USR1);
    }

    /// Sends SIGUSR2, by which adit and OpenVPN write their state to the log.
    pub fn write_state(&mut self) {
        self.signal(Signal::USR2);
    }

    /// Sends SIGTERM, and does not wait.
    pub fn send_terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGTERM, waits for the end and returns how it ended.
    pub fn terminate(&mut self, timeout: Duration) -> Result<ExitStatus, TestbedError> {
        self.signal(Signal::TERM);
        self.wait(timeout)
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(&mut self) -> Result<ExitStatus, TestbedError> {
        self.signal(Signal::KILL);
        // The kernel takes the process's device away first, and does one such thing at a time on the whole machine.
        self.wait(MAX_WAIT)
    }

    /// Waits for the end, and for the last line of its output.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus, TestbedError> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    for reader in self.readers.drain(..) {
                        let _ = reader.join();
                    }
                    return Ok(status);
                }
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
                _ => {
                    return Err(TestbedError::StillRunning {
                        label: self.label.clone(),
                        waited: timeout,
                        log: self.log.tail(),
                    });
                }
            }
        }
    }

    /// Signals the process unless it has been waited for, when its id may belong to another by now.
    fn signal(&mut self, signal: Signal) {
        if self.is_running() {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Log {
    fn with<T>(&self, work: impl FnOnce(&mut Lines) -> T) -> T {
        work(&mut self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn collect(&self, start: Instant, stream: Box<dyn Read + Send>) {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            self.with(|lines| {
                lines.lines.push(text);
                lines.times.push(start.elapsed());
            });
            self.changed.notify_all();
            line.clear();
        }
        self.with(|lines| lines.open -= 1);
        self.changed.notify_all();
    }

    /// Waits until a line matches; gives up at the deadline or when no more lines can come.
    fn wait(&self, from: usize, pattern: &str, timeout: Duration) -> Option<String> {
        let deadline = Instant::now() + timeout;
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = from;
        loop {
            let found = lines.lines.iter().skip(seen).find(|line| line.contains(pattern));
            if let Some(line) = found {
                return Some(line.clone());
            }
            seen = seen.max(lines.lines.len());
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || lines.open == 0 {
                return None;
            }
            lines = self.changed.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tail(&self) -> String {
        self.with(|lines| {
            let start = lines.lines.len().saturating_sub(SHOWN);
            let shown = lines.times.iter().zip(&lines.lines).skip(start);
            let shown = shown.map(|(time, line)| format!("{:8.3} {line}", time.as_secs_f64()));
            shown.collect::<Vec<_>>().join("\n")
        })
    }
}

/// Looks again and again until `done` says yes: the longer it takes, the less often, as many a look starts a program.
pub fn wait_until(what: &str, timeout: Duration, mut done: impl FnMut() -> bool) -> Result<(), TestbedError> {
    let began = Instant::now();
    while !done() {
        let waited = began.elapsed();
        if waited >= timeout {
            return Err(TestbedError::TimedOut { what: what.to_owned(), waited: timeout });
        }
        std::thread::sleep((waited / 16).clamp(LOOK_EVERY, LOOK_AT_LEAST_EVERY));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::spawn("shell", command).unwrap()
    }

    #[test]
    fn both_streams_are_kept_and_searched() {
        let mut process = shell("echo one; echo two >&2");
        process.wait_for_line(0, "one", MAX_WAIT).unwrap();
        process.wait_for_line(0, "two", MAX_WAIT).unwrap();
        assert!(process.wait(MAX_WAIT).unwrap().success());
        assert_eq!(process.mark(), 2);
        assert_eq!(process.count_lines(0, "o"), 2);
        assert_eq!(process.last_line("one").as_deref(), Some("one"));
        assert_eq!(process.last_line("three"), None);
    }

    #[test]
    fn a_mark_hides_earlier_lines() {
        let scratch = crate::Scratch::create("mark").unwrap();
        let go_on = scratch.path().join("go-on");
        let script =
            format!("echo ready; until [ -e {} ]; do sleep 0.1; done; echo ready again", go_on.display());
        let mut process = shell(&script);
        process.wait_for_line(0, "ready", MAX_WAIT).unwrap();
        let mark = process.mark();
        std::fs::write(&go_on, "").unwrap();
        assert_eq!(process.wait_for_line(mark, "ready", MAX_WAIT).unwrap(), "ready again");
    }

    #[test]
    fn an_early_end_is_reported_without_waiting() {
        let mut process = shell("echo no luck; exit 3");
        let error = process.wait_for_line(0, "ready", Duration::from_secs(600)).unwrap_err();
        assert!(error.to_string().contains("no luck"), "{error}");
    }

    #[test]
    fn terminate_says_how_it_ended() {
        use std::os::unix::process::ExitStatusExt as _;
        let mut process = shell("echo up; exec sleep 60");
        process.wait_for_line(0, "up", MAX_WAIT).unwrap();
        assert_eq!(process.terminate(MAX_WAIT).unwrap().signal(), Some(15));
        assert!(!process.is_running());
    }
}
