//! The log of a running tunnel. Lines are written by a thread of their own.

mod manner;
mod syslog;
mod writer;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adit_core::{Severity, TableUsage, escaped};

pub use manner::{Manner, Stream};
use syslog::Syslog;
use writer::{Line, Sink, Writer};

/// How long the end of the program waits for the reader of the log.
const LAST_TIMEOUT: Duration = Duration::from_secs(1);

/// Where lines go, and which. Copies write to the same place.
#[derive(Clone)]
pub struct Logger {
    shared: Arc<Mutex<Shared>>,
    verb: Arc<AtomicU8>,
}

/// Receives each line that is written. It must not wait for anything, nor write lines itself.
pub type Listener = Box<dyn FnMut(Severity, &str) + Send>;

/// The state that all copies share.
struct Shared {
    writer: Arc<Writer>,
    /// The tunnel's name, which begins each line where the process runs several tunnels.
    name: Option<String>,
    manner: Manner,
    /// Lines go where the user who started the tunnel does not see them (a file or the system's log).
    elsewhere: bool,
    /// The reader of the lines does not stamp them itself.
    may_be_stamped: bool,
    stamped: bool,
    /// How many lines that are alike may follow each other (`mute`).
    mute: Option<u32>,
    /// The text of the last line, and the number of such lines in a row.
    last: String,
    row: u32,
    listener: Option<Listener>,
}

/// Has all lines written that were logged before it is dropped, as far as that takes no long time.
pub struct FlushOnDrop(Logger);

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// The settings of the log of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The place of the lines; `None`: the standard error, or the standard output where [`Manner`] says so.
    pub place: Option<LogPlace>,
    /// The verbosity, 0 to 11: 0 logs errors alone, more than 5 all.
    pub verb: u8,
    /// The time stands before each line.
    pub stamps: bool,
    /// The most lines in a row that are alike; `None`: there is no bound.
    pub mute: Option<u32>,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings { place: None, verb: 1, stamps: true, mute: None }
    }
}

/// A place for lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPlace {
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// The lines that are in it stay.
        append: bool,
    },
    /// The log of the system, under that name.
    System(Option<String>),
}

/// The logs of one settings. Tunnels whose configurations name the same place write there in turn.
#[derive(Default)]
pub struct Logs {
    places: Vec<(Option<LogPlace>, Arc<Writer>)>,
    manner: Manner,
}

impl Logs {
    /// Logs of that manner.
    pub fn of(manner: Manner) -> Self {
        Logs { places: Vec::new(), manner }
    }

    /// The log as the configuration has it: the standard error, a file, or the system's log. `name` begins each line.
    pub fn open(&mut self, settings: &LogSettings, name: Option<&str>) -> io::Result<Logger> {
        let writer = match self
            .places
            .iter()
            .find(|(place, _)| is_same_place(place.as_ref(), settings.place.as_ref()))
        {
            Some((_, writer)) => Arc::clone(writer),
            None => {
                let writer = Arc::new(Writer::start(sink(settings.place.as_ref(), self.manner)?)?);
                self.places.push((settings.place.clone(), Arc::clone(&writer)));
                writer
            }
        };
        let may_be_stamped = match &settings.place {
            Some(LogPlace::File { .. }) => true,
            // The journal and the system's log stamp each line themselves.
            None => self.manner.stamps_in_journal || std::env::var_os("JOURNAL_STREAM").is_none(),
            Some(LogPlace::System(_)) => false,
        };
        let shared = Shared {
            writer,
            name: name.map(str::to_owned),
            manner: self.manner,
            elsewhere: settings.place.is_some(),
            may_be_stamped,
            stamped: may_be_stamped && settings.stamps,
            mute: settings.mute,
            last: String::new(),
            row: 0,
            listener: None,
        };
        Ok(Logger { shared: Arc::new(Mutex::new(shared)), verb: Arc::new(AtomicU8::new(settings.verb)) })
    }
}

/// Whether two configurations log to the same place. Of one file the first decides whether it is emptied.
fn is_same_place(one: Option<&LogPlace>, other: Option<&LogPlace>) -> bool {
    match (one, other) {
        (Some(LogPlace::File { path, .. }), Some(LogPlace::File { path: other, .. })) => path == other,
        (one, other) => one == other,
    }
}

fn sink(log: Option<&LogPlace>, manner: Manner) -> io::Result<Sink> {
    Ok(match log {
        Some(LogPlace::File { path, append }) => Sink::File(open(path, *append)?),
        Some(LogPlace::System(name)) => Sink::System(Syslog::new(name.as_deref().unwrap_or(manner.program))),
        None => match manner.stream {
            Stream::Errors => Sink::Errors,
            Stream::Output { errors_apart } => Sink::Output { errors_apart },
        },
    })
}

impl Logger {
    /// The log of a process with one tunnel.
    pub fn new(settings: &LogSettings) -> io::Result<Self> {
        Logs::default().open(settings, None)
    }

    /// Writes one line if it matters enough; characters that could make another line, or command a terminal, are
    /// [`escaped`]. A log that cannot be written must not stop the tunnel.
    pub fn log(&mut self, severity: Severity, text: impl std::fmt::Display) {
        let least = match self.verb() {
            0 => Severity::Error,
            1..=5 => Severity::Info,
            _ => Severity::Debug,
        };
        if severity >= least {
            self.shared().note(severity, &escaped(&text.to_string()));
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much is written (`verb`).
    pub fn verb(&self) -> u8 {
        self.verb.load(Ordering::Relaxed)
    }

    /// Changes that, for all copies.
    pub fn set_verb(&self, verb: u8) {
        self.verb.store(verb, Ordering::Relaxed);
    }

    /// How many lines that are alike may follow each other (`mute`).
    pub fn mute(&self) -> Option<u32> {
        self.shared().mute
    }

    /// Changes that, for all copies.
    pub fn set_mute(&self, mute: Option<u32>) {
        self.shared().mute = mute;
    }

    /// Begins lines with the time, or not (`suppress-timestamps`), for all copies.
    pub fn set_stamps(&self, stamps: bool) {
        let mut shared = self.shared();
        shared.stamped = shared.may_be_stamped && stamps;
    }

    /// Passes each line that is written from now on to `listener`.
    pub fn listen(&self, listener: Listener) {
        self.shared().listener = Some(listener);
    }

    /// Whether lines go where the user who started the tunnel does not see them.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.shared().elsewhere
    }

    /// How lines look.
    pub fn manner(&self) -> Manner {
        self.shared().manner
    }

    /// Has all lines written at the end of the program, also when it panics.
    pub fn flush_on_drop(&self) -> FlushOnDrop {
        FlushOnDrop(self.clone())
    }

    /// Waits until the lines so far are written, but not longer than a second.
    pub fn flush(&self) {
        self.shared().writer.flush(LAST_TIMEOUT);
    }

    /// How many lines wait to be written, and how many were lost, for `adit status`.
    pub fn usage(&self) -> TableUsage {
        self.shared().writer.usage()
    }
}

impl Shared {
    fn note(&mut self, severity: Severity, text: &str) {
        let Some(most) = self.mute else { return self.write(severity, text) };
        // Lines that differ in numbers and addresses alone are alike.
        let has_digit = |word: &&str| word.bytes().any(|byte| byte.is_ascii_digit());
        let kind: String = text.split(' ').filter(|word| !has_digit(word)).collect();
        if kind == self.last {
            self.row = self.row.saturating_add(1);
            if self.row > most {
                return;
            }
        } else {
            let muted = self.row.saturating_sub(most);
            (self.last, self.row) = (kind, 1);
            if muted > 0 {
                let told = format!("{muted} more like the last one were not written (mute)");
                self.write(severity, &told);
            }
        }
        self.write(severity, text);
    }

    fn write(&mut self, severity: Severity, text: &str) {
        if let Some(listener) = &mut self.listener {
            listener(severity, text);
        }
        let start = (self.manner.start)(severity, self.stamped);
        let text = match &self.name {
            Some(name) => format!("{name}: {text}"),
            None => text.to_owned(),
        };
        self.writer.push(Line { severity, start, text });
    }
}

/// Each line goes to the end of the file, also after another program truncated it. A new file is for its owner and group:
/// it names clients and their addresses.
fn open(path: &Path, append: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o640);
    if !append {
        options.clone().write(true).truncate(true).open(path)?;
    }
    options.append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(process: &LogSettings, lines: &[(Severity, &str)]) -> String {
        let path = std::env::temp_dir().join(format!("adit-log-{}-{}", std::process::id(), lines.len()));
        let log = Some(LogPlace::File { path: path.clone(), append: false });
        let mut log =
            Logger::new(&LogSettings { place: log, stamps: false, ..process.clone() }).expect("a log");
        lines.iter().for_each(|(severity, text)| log.log(*severity, text));
        log.flush();
        let text = std::fs::read_to_string(&path).expect("the log");
        std::fs::remove_file(path).expect("the log");
        text
    }

    #[test]
    fn lines_that_are_alike_are_muted_after_a_few() {
        let process = LogSettings { mute: Some(2), ..LogSettings::default() };
        let like = |number| format!("udp 192.0.2.{number}:1194: cannot send");
        let lines: Vec<String> = (1..=5).map(like).collect();
        let mut all: Vec<_> = lines.iter().map(|line| (Severity::Info, line.as_str())).collect();
        all.push((Severity::Info, "tunnel up"));
        all.push((Severity::Info, &lines[0]));
        let expected = format!(
            "{}\n{}\n3 more like the last one were not written (mute)\ntunnel up\n{}\n",
            lines[0], lines[1], lines[0]
        );
        assert_eq!(written(&process, &all), expected);
    }

    #[test]
    fn tunnels_that_log_to_one_file_begin_their_lines_with_their_names() {
        let path = std::env::temp_dir().join(format!("adit-log-{}-shared", std::process::id()));
        let log = |append| Some(LogPlace::File { path: path.clone(), append });
        let mut logs = Logs::default();
        let mut open = |append, verb, name| {
            let process = LogSettings { place: log(append), stamps: false, verb, mute: Some(1) };
            logs.open(&process, Some(name)).expect("a log")
        };
        let (mut a, mut b) = (open(true, 1, "a"), open(false, 6, "b"));
        let (info, debug) = (Severity::Info, Severity::Debug);
        a.log(debug, "not written: verb 1");
        for log in [&mut a, &mut b] {
            log.log(info, "up");
        }
        b.log(debug, "more");
        a.flush();
        let text = std::fs::read_to_string(&path).expect("the log");
        std::fs::remove_file(path).expect("the log");
        assert_eq!(text, "a: up\nb: up\ndebug: b: more\n", "each has its own verb and mute");
    }

    #[test]
    fn a_line_makes_no_other_and_commands_no_terminal() {
        let lines =
            [(Severity::Info, "bob\nalice connected \u{1b}[2J\u{202e}\u{85}"), (Severity::Info, "a\tb")];
        let expected = "bob\\nalice connected \\u{1b}[2J\\u{202e}\\u{85}\na\tb\n";
        for mute in [None, Some(5)] {
            assert_eq!(written(&LogSettings { mute, ..LogSettings::default() }, &lines), expected);
        }
    }

    #[test]
    fn a_new_log_is_not_for_all_accounts() {
        use std::os::unix::fs::PermissionsExt as _;
        for append in [false, true] {
            let path = std::env::temp_dir().join(format!("adit-log-mode-{}-{append}", std::process::id()));
            drop(open(&path, append).expect("a log"));
            let mode = std::fs::metadata(&path).expect("the log").permissions().mode();
            std::fs::remove_file(path).expect("the log");
            // The umask may take more rights away.
            assert_eq!(mode & 0o137, 0, "{mode:o}");
        }
    }

    #[test]
    fn stamps_can_be_had_later() {
        let path = std::env::temp_dir().join(format!("adit-log-{}-stamps", std::process::id()));
        let log = Some(LogPlace::File { path: path.clone(), append: false });
        let mut log =
            Logger::new(&LogSettings { place: log, stamps: false, ..LogSettings::default() }).expect("a log");
        log.log(Severity::Info, "a");
        log.set_stamps(true);
        log.log(Severity::Info, "b");
        log.flush();
        let text = std::fs::read_to_string(&path).expect("the log");
        std::fs::remove_file(path).expect("the log");
        assert!(text.starts_with("a\n2") && text.ends_with("Z b\n"), "{text}");
    }

    #[test]
    fn verb_says_what_matters() {
        let lines =
            [(Severity::Debug, "a"), (Severity::Info, "b"), (Severity::Warning, "c"), (Severity::Error, "d")];
        for (verb, expected) in
            [(0, "error: d\n"), (1, "b\nwarning: c\nerror: d\n"), (6, "debug: a\nb\nwarning: c\nerror: d\n")]
        {
            assert_eq!(written(&LogSettings { verb, ..LogSettings::default() }, &lines), expected);
        }
    }
}
