//! Writes lines on a thread of its own, so that no thread that logs waits for the reader of the log.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use adit_core::{Severity, TableUsage};

use super::syslog::Syslog;

/// Lines that wait to be written, and bytes in them: as many as a tunnel writes in its worst second. Further ones are
/// lost.
const MAX_LINES: usize = 4096;
const MAX_BYTES: usize = 1 << 20;
/// Once it has written, the thread looks for more lines after this time, and writes them together. If each line woke it, a
/// server with a thousand handshakes a second would lose 4 to 8 % of them (docs/measure/PERFORMANCE-DIARY.md).
const TOGETHER: Duration = Duration::from_millis(10);
/// When so many lines wait, the thread is woken before that time is over.
const MANY_LINES: usize = MAX_LINES / 4;
/// Bytes of one write at most, unless one line is longer: so many are not mixed with the output of other processes to
/// the same pipe (POSIX, `PIPE_BUF`).
const PIECE: usize = 4096;

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
    fn write(&mut self, lines: &[Line]) {
        match self {
            Sink::Errors => drop(write_error(&joined(lines))),
            Sink::File(file) => drop(file.write_all(joined(lines).as_bytes())),
            Sink::Output { errors_apart } => {
                let is_apart = |line: &Line| *errors_apart && line.severity >= Severity::Error;
                for lines in lines.chunk_by(|one, next| is_apart(one) == is_apart(next)) {
                    let text = joined(lines);
                    let _ = match lines.iter().any(is_apart) {
                        true => write_error(&text),
                        false => io::stdout().write_all(text.as_bytes()),
                    };
                }
            }
            Sink::System(log) => {
                for line in lines {
                    let written = log.write(line.severity, &line.text);
                    let _ = written.or_else(|_| write_error(&joined(std::slice::from_ref(line))));
                }
            }
        }
    }
}

/// The lines in one piece: the standard error is not buffered, and each part would be a system call.
fn joined(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{}{}\n", line.start, line.text)).collect()
}

fn write_error(text: &str) -> io::Result<()> {
    io::stderr().write_all(text.as_bytes())
}

/// One line.
pub(super) struct Line {
    pub(super) severity: Severity,
    /// The text before the line where the system's log does not add it: the time, the severity.
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
    /// The thread is writing lines.
    writing: bool,
    /// The thread waits for a line. If it does not, it looks for one by itself.
    waiting: bool,
    /// How many wait until all is written.
    flushing: usize,
    /// Lines that were lost and that no line has counted yet.
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

    /// The next lines to write. Where lines were lost, a line with their number stands in their place.
    fn take(&mut self) -> Vec<Line> {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while let Some(more) = self.lines.front().map(Line::bytes)
            && (lines.is_empty() || bytes + more <= PIECE)
        {
            bytes += more;
            lines.extend(self.lines.pop_front());
        }
        self.bytes -= bytes;
        if lines.is_empty() { self.take_lost().into_iter().collect() } else { lines }
    }

    fn is_written(&self) -> bool {
        !self.writing && self.lines.is_empty() && self.lost == 0
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
        let mut wrote = false;
        loop {
            let lines = queue.take();
            if !lines.is_empty() {
                queue.writing = true;
                drop(queue);
                sink.write(&lines);
                queue = self.queue();
                (queue.writing, wrote) = (false, true);
                continue;
            }
            if queue.flushing > 0 {
                self.idle.notify_all();
            }
            if queue.ended {
                return;
            }
            queue = match std::mem::take(&mut wrote) {
                true => self.work.wait_timeout(queue, TOGETHER).unwrap_or_else(PoisonError::into_inner).0,
                false => {
                    queue.waiting = true;
                    self.work.wait(queue).unwrap_or_else(PoisonError::into_inner)
                }
            };
            queue.waiting = false;
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
        let is_awaited = queue.waiting || queue.lines.len() == MANY_LINES;
        drop(queue);
        if is_awaited {
            self.0.work.notify_one();
        }
    }

    /// Waits until all is written, but not longer than that.
    pub(super) fn flush(&self, timeout: Duration) {
        let mut queue = self.0.queue();
        queue.flushing += 1;
        self.0.work.notify_one();
        let wait = self.0.idle.wait_timeout_while(queue, timeout, |queue| !queue.is_written());
        wait.unwrap_or_else(PoisonError::into_inner).0.flushing -= 1;
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
    use std::time::Instant;

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
        // The log counts missing lines at the place where they are missing.
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

    /// The second line waits for others, but not for long.
    #[test]
    fn a_line_comes_without_a_flush() {
        let (writer, mut reader) = writer();
        for number in 0..3 {
            writer.push(numbered(number));
            let mut text = [0; 100];
            reader.read_exact(&mut text).unwrap();
            assert_eq!(text[..99], *format!("{number:099}").as_bytes());
        }
    }

    #[test]
    fn lines_are_written_in_pieces() {
        let mut queue = Queue::default();
        (0..50).for_each(|number| queue.put(numbered(number)));
        queue.put(line("x".repeat(10_000)));
        queue.put(numbered(50));
        let pieces = std::iter::from_fn(|| Some(queue.take()).filter(|lines| !lines.is_empty()));
        assert_eq!(pieces.map(|lines| lines.len()).collect::<Vec<_>>(), [40, 10, 1, 1]);
        assert_eq!((queue.bytes, queue.is_written()), (0, true));
    }

    #[test]
    fn long_lines_are_limited_by_their_bytes() {
        let (writer, _reader) = writer();
        (0..100).for_each(|_| writer.push(line("x".repeat(100_000))));
        assert!((10..=11).contains(&writer.usage().entries), "{:?}", writer.usage());
    }
}
