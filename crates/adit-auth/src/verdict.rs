//! What comes of a login, and how the server learns of it.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use adit_core::escaped;

use crate::login::Login;

/// The exit code of a program that refuses a login.
pub const REFUSED: u8 = 1;
/// The exit code of one that could not judge it. 2 would say that the answer comes later.
pub const FAILED: u8 = 3;

/// Why a login is not let in. The words are for the server's log, not for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It was judged.
    Refused(String),
    /// It could not be judged.
    Failed(String),
}

impl Refusal {
    /// It could not be judged, for this reason.
    pub fn failed(why: impl ToString) -> Self {
        Refusal::Failed(why.to_string())
    }
}

/// Runs a program whose last argument is the file with the username and the password. `judge` is given the arguments before
/// that and the login.
pub fn run(program: &str, judge: impl FnOnce(&[String], &Login) -> Result<(), Refusal>) -> ExitCode {
    let (user, outcome) = match read() {
        Ok((arguments, login)) => (login.username.clone(), judge(&arguments, &login)),
        Err(why) => ("-".to_owned(), Err(Refusal::Failed(why))),
    };
    let (code, why) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Refusal::Refused(why)) => (REFUSED, why),
        Err(Refusal::Failed(why)) => (FAILED, why),
    };
    let line = format!("{user}: {why}");
    // The exit code says the same.
    let _ = writeln!(std::io::stderr(), "{program}: {}", escaped(&line));
    ExitCode::from(code)
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
