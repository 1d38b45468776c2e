//! Writes lines on a thread of its own, so that what logs never waits for what reads the log.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use adit_core::{Severity, TableUsage};

use super::syslog::Syslog;

/// Lines that wait to be written, and bytes in them: what a tunnel says in its worst second. Further ones are lost.
const MAX_LINES: usize = 4096;
const MAX_BYTES: usize = 1 << 20;

/// Where lines go.
pub(super) enum Sink {
    Errors,
    /// The standard output.
    Output {
        /// Errors go to the standard error.
        errors_apart: bool,
    },
    File(File),
    System(Syslog),
}

impl Sink {
    /// A log that cannot be written must not stop the tunnel.
    fn write(&mut self, line: &Line) {
        // In one piece: the standard error is not buffered, and each part would be a system call.
        let whole = || format!("{}{}\n", line.start, line.text);
        let _ = match self {
            Sink::Output { errors_apart } if !*errors_apart || line.severity < Severity::Error => {
                io::stdout().write_all(whole().as_bytes())
            }
            Sink::Errors | Sink::Output { .. } => io::stderr().write_all(whole().as_bytes()),
            Sink::File(file) => file.write_all(whole().as_bytes()),
            Sink::System(log) => {
                log.write(line.severity, &line.text).or_else(|_| io::stderr().write_all(whole().as_bytes()))
            }
        };
    }
}

/// One line.
pub(super) struct Line {
    pub(super) severity: Severity,
    /// What stands before the text where the system's log does not put it: the time, the severity.
    pub(super) start: String,
    pub(super) text: String,
}

impl Line {
    fn bytes(&self) -> usize {
        self.start.len() + self.text.len() + 1
    }
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Line>,
    bytes: usize,
    /// The thread is writing a line.
    writing: bool,
    /// Lines that were lost and not told of yet.
    lost: u64,
    lost_ever: u64,
    ended: bool,
}

impl Queue {
    fn has_room(&self, line: &Line) -> bool {
        self.lines.len() < MAX_LINES && self.bytes + line.bytes() <= MAX_BYTES
    }

    fn put(&mut self, line: Line) {
        self.bytes += line.bytes();
        self.lines.push_back(line);
    }

    /// The next line to write. What was lost is told where it is missing: after what was queued before.
    fn take(&mut self) -> Option<Line> {
        let next = self.lines.pop_front();
        if let Some(line) = &next {
            self.bytes -= line.bytes();
            return next;
        }
        self.take_lost()
    }

    fn take_lost(&mut self) -> Option<Line> {
        let lost = std::mem::take(&mut self.lost);
        (lost > 0).then(|| Line {
            severity: Severity::Warning,
            start: "warning: ".to_owned(),
            text: format!("{lost} lines were lost: what takes the log was too slow"),
        })
    }
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// There is a line, or an end.
    work: Condvar,
    /// All lines are written.
    idle: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut sink: Sink) {
        let mut queue = self.queue();
        loop {
            if let Some(line) = queue.take() {
                queue.writing = true;
                drop(queue);
                sink.write(&line);
                queue = self.queue();
                queue.writing = false;
                continue;
            }
            self.idle.notify_all();
            if queue.ended {
                return;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A thread that writes lines in their order. It ends when this is dropped and all lines are written.
pub(super) struct Writer(Arc<Shared>);

impl Writer {
    pub(super) fn start(sink: Sink) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("adit-log".to_owned()).spawn(move || theirs.run(sink))?;
        Ok(Writer(shared))
    }

    /// One more line. It is lost if too many wait.
    pub(super) fn push(&self, line: Line) {
        let mut queue = self.0.queue();
        if !queue.has_room(&line) {
            queue.lost += 1;
            queue.lost_ever += 1;
            return;
        }
        if let Some(lost) = queue.take_lost() {
            queue.put(lost);
        }
        queue.put(line);
        self.0.work.notify_one();
    }

    /// Waits until all is written, but not longer than that.
    pub(super) fn flush(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut queue = self.0.queue();
        while queue.writing || !queue.lines.is_empty() || queue.lost > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            queue = self.0.idle.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn usage(&self) -> TableUsage {
        let queue = self.0.queue();
        TableUsage {
            name: "lines of the log that wait to be written",
            entries: queue.lines.len(),
            share: MAX_LINES,
            limit: MAX_LINES,
            evicted: 0,
            refused: queue.lost_ever,
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.queue().ended = true;
        self.0.work.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read as _};
    use std::os::fd::OwnedFd;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// A writer to a pipe, and its other end.
    fn writer() -> (Writer, PipeReader) {
        let (reader, end) = io::pipe().unwrap();
        let file = File::from(OwnedFd::from(end));
        (Writer::start(Sink::File(file)).unwrap(), reader)
    }

    fn line(text: String) -> Line {
        Line { severity: Severity::Info, start: String::new(), text }
    }

    /// 100 bytes with a number.
    fn numbered(number: usize) -> Line {
        line(format!("{number:099}"))
    }

    #[test]
    fn a_log_that_is_not_read_blocks_no_thread_and_what_is_lost_is_counted() {
        let (writer, mut reader) = writer();
        let before = Instant::now();
        (0..50_000).for_each(|number| writer.push(numbered(number)));
        assert!(before.elapsed() < SOON, "a pipe holds 64 KiB of these 5 MB");
        let usage = writer.usage();
        assert!((MAX_LINES / 2..=MAX_LINES).contains(&usage.entries), "{usage:?}");
        writer.flush(Duration::from_millis(100));
        let lost = usize::try_from(usage.refused).unwrap();

        let mut text = String::new();
        let reading = thread::spawn(move || reader.read_to_string(&mut text).map(|_| text));
        writer.flush(SOON);
        writer.push(line("the last".to_owned()));
        writer.flush(SOON);
        drop(writer);
        let text = reading.join().unwrap().unwrap();
        // What is missing is told where it is missing.
        let mut next = 0;
        for line in text.lines().take_while(|line| *line != "the last") {
            match line.strip_prefix("warning: ").and_then(|rest| rest.split_once(' ')) {
                Some((lost, rest)) => {
                    assert_eq!(rest, "lines were lost: what takes the log was too slow");
                    next += lost.parse::<usize>().unwrap();
                }
                None => {
                    assert_eq!(line, format!("{next:099}"));
                    next += 1;
                }
            }
        }
        assert_eq!(next, 50_000);
        assert!(text.ends_with("the last\n") && lost > 40_000, "{lost}");
    }

    #[test]
    fn long_lines_are_limited_by_their_bytes() {
        let (writer, _reader) = writer();
        (0..100).for_each(|_| writer.push(line("x".repeat(100_000))));
        assert!((10..=11).contains(&writer.usage().entries), "{:?}", writer.usage());
    }
}
