//! How commands end and how they speak.

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The exit codes, for `--help`.
pub const HELP: &str = "Exit codes:
  0  success
  1  failure: something in the world stood in the way
  2  usage: the command line or a configuration is wrong";

/// The command line or a configuration is wrong.
pub(crate) const USAGE: u8 = 2;

/// How long the standard error may take.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Says why on the standard error and gives the exit code for a failure.
pub fn failure(why: impl Display) -> ExitCode {
    tell(why);
    ExitCode::FAILURE
}

/// Says why on the standard error and gives the exit code for wrong usage.
pub fn usage(why: impl Display) -> ExitCode {
    tell(why);
    ExitCode::from(USAGE)
}

/// Writes `text` to the standard output. A closed standard output is no failure of the command.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Says it on the standard error. A reader that does not read it there delays the end of the program for a moment only.
pub fn tell(why: impl Display) {
    let text = format!("adit: {why}\n");
    let (done, written) = mpsc::sync_channel(1);
    let write = move || {
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
        let _ = done.send(());
    };
    // Without a thread it is not said, but the exit code is.
    let _ = thread::Builder::new().name("adit-tell".to_owned()).spawn(write);
    let _ = written.recv_timeout(TIMEOUT);
}

/// Writes a question to the standard error, without a line's end.
pub fn ask(question: impl Display) {
    let mut stream = std::io::stderr().lock();
    let _ = write!(stream, "{question}").and_then(|()| stream.flush());
}

/// Says each note on the standard output.
pub fn notes(notes: Vec<String>) {
    notes.iter().for_each(|note| say(format_args!("Note: {note}.")));
}
