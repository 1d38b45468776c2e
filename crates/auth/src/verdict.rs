//! The verdict on a login, and how the server learns it.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use adit_core::escaped;
use nix::unistd::alarm;

use crate::login::Login;

/// The longest time that a program judges a login, in seconds.
const LONGEST: u32 = 120;
/// The most characters of the line for the server's log: a username may have as many as the client likes.
const LONGEST_LINE: usize = 1000;
/// The exit code of a program that refuses a login.
pub const REFUSED: u8 = 1;
/// The exit code of one that could not judge it. 2 would say that the answer comes later.
pub const FAILED: u8 = 3;

/// Why a login is refused. The words are for the server's log, not for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The login was judged, and refused for this reason.
    Refused(String),
    /// The login could not be judged, for this reason.
    Failed(String),
}

impl Refusal {
    /// The login could not be judged, for this reason.
    pub fn failed(why: impl ToString) -> Self {
        Refusal::Failed(why.to_string())
    }
}

/// Runs a program whose last argument is the file with the username and the password. `judge` is given the arguments before
/// that and the login. A program that takes longer than two minutes is ended by SIGALRM.
pub fn run(program: &str, judge: impl FnOnce(&[String], &Login) -> Result<(), Refusal>) -> ExitCode {
    limit_time();
    let (user, outcome) = match read() {
        Ok((arguments, login)) => (login.username.clone(), judge(&arguments, &login)),
        Err(why) => ("-".to_owned(), Err(Refusal::Failed(why))),
    };
    let (code, why) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Refusal::Refused(why)) => (REFUSED, why),
        Err(Refusal::Failed(why)) => (FAILED, why),
    };
    // The server reads the exit code: a line that cannot be written changes nothing.
    let _ = writeln!(std::io::stderr(), "{program}: {}", line(&user, &why));
    ExitCode::from(code)
}

/// The line for the server's log.
fn line(user: &str, why: &str) -> String {
    let line = format!("{user}: {why}");
    let mut short: String = escaped(&line).chars().take(LONGEST_LINE).collect();
    if short.len() < escaped(&line).len() {
        short.push('…');
    }
    short
}

/// Sends SIGALRM to this process after [`LONGEST`]. The signal's default action, which is not changed here, ends the process.
///
/// A server ends a program that does not answer within `hand-window`, but without CAP_KILL it cannot end one that runs as
/// another user. A module of PAM may wait without an end.
fn limit_time() {
    alarm::set(LONGEST);
}

/// The arguments, and the login in the file that the last of them names.
fn read() -> Result<(Vec<String>, Login), String> {
    let arguments: Result<Vec<String>, _> =
        std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect();
    let mut arguments = arguments.map_err(|_| "an argument is not UTF-8 text".to_owned())?;
    let file = arguments.pop().ok_or("the file with the username and the password is missing")?;
    let login = Login::read(Path::new(&file), |name| std::env::var(name).ok());
    Ok((arguments, login.map_err(|error| format!("{file}: {error}"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_short_however_long_the_username_is() {
        assert_eq!(line("ann\n", "PAM says no"), "ann\\n: PAM says no");
        let long = line(&"\u{1b}".repeat(10_000), "");
        assert_eq!((long.chars().count(), long.chars().last()), (LONGEST_LINE + 1, Some('…')));
    }

    #[test]
    fn a_judgement_has_a_longest_time() {
        limit_time();
        assert!(alarm::cancel().is_some_and(|left| (1..=LONGEST).contains(&left)));
    }
}
