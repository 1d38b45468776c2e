//! `auth-user-pass`: username and password from a file, from the configuration, or from the person at the
//! terminal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use adit_config::Secret;
use adit_config::openvpn::UserPass;
use adit_core::{Command, Protocol, Severity, UserPassword};
use adit_io::Handle;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::configuration;
use crate::log::Logger;

/// Larger files hold no username and password.
const MAX_FILE: u64 = 16 << 10;
/// Longest line typed at the terminal, in bytes.
const MAX_LINE: usize = 4096;

/// Where username and password come from.
#[derive(Clone)]
pub(super) enum Asker {
    Terminal,
    File(PathBuf),
    Text(Secret),
}

impl Asker {
    /// What the configuration in `file` says.
    pub(super) fn new(source: &UserPass, file: &Path) -> Self {
        match source {
            UserPass::Prompt => Asker::Terminal,
            UserPass::File(path) => Asker::File(configuration::find(file, path)),
            UserPass::Inline(text) => Asker::Text(text.clone()),
        }
    }

    /// Username and password for the first connection.
    pub(super) fn first(&self, log: &mut Logger) -> Result<UserPassword, String> {
        if let Asker::File(path) = self
            && fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o077 != 0)
        {
            let path = path.display();
            log.log(
                Severity::Warning,
                format_args!(
                    "{path} holds a password, and others than its owner can read it: chmod 600 {path}"
                ),
            );
        }
        self.get(None)
    }

    /// Asks again, and gives the protocol the answer, without keeping anybody waiting.
    pub(super) fn ask<P: Protocol + 'static>(&self, reason: Option<String>, handle: Handle<P>) {
        let asker = self.clone();
        let for_failure = handle.clone();
        let work = move || {
            handle.command(Command::Credentials(asker.get(reason)));
        };
        if let Err(error) = thread::Builder::new().name("adit-ask".to_owned()).spawn(work) {
            for_failure.command(Command::Credentials(Err(format!("cannot start a thread: {error}"))));
        }
    }

    fn get(&self, reason: Option<String>) -> Result<UserPassword, String> {
        match (self, reason) {
            (Asker::File(path), None) => {
                let unreadable = |error: io::Error| format!("{} cannot be read: {error}", path.display());
                if fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE {
                    return Err(format!("{} is too large for a username and a password", path.display()));
                }
                let text = fs::read_to_string(path).map(Zeroizing::new).map_err(unreadable)?;
                complete(&text).map_err(|why| format!("{}: {why}", path.display()))
            }
            (Asker::Text(text), None) => complete(text.text()),
            (_, reason) => {
                let mut terminal = Terminal::open()?;
                if let Some(reason) = reason {
                    terminal.say(&format!("{reason}\n"))?;
                }
                let username = terminal.ask("Username: ", true)?.to_string();
                let password = terminal.ask("Password: ", false)?;
                checked(username, password)
            }
        }
    }
}

/// Username and password from the first two lines; the password is asked for if there is none.
fn complete(text: &str) -> Result<UserPassword, String> {
    let mut lines = text.lines();
    let username = lines.next().unwrap_or_default().to_owned();
    let password = match lines.next() {
        Some(password) => Zeroizing::new(password.to_owned()),
        None => {
            let mut terminal = Terminal::open()
                .map_err(|why| format!("the password is missing: write it on the second line ({why})"))?;
            terminal.ask(&format!("Password of {username}: "), false)?
        }
    };
    checked(username, password)
}

fn checked(username: String, password: Zeroizing<String>) -> Result<UserPassword, String> {
    if username.is_empty() {
        return Err("the username is empty".to_owned());
    }
    if username.chars().any(char::is_control) || password.contains('\0') {
        return Err("the username or the password holds control characters".to_owned());
    }
    Ok(UserPassword { username, password })
}

/// The terminal of the person who started the program.
pub(super) struct Terminal(File);

impl Terminal {
    pub(super) fn open() -> Result<Self, String> {
        OpenOptions::new().read(true).write(true).open("/dev/tty").map(Terminal).map_err(|_| {
            "there is no terminal to ask at: let a file say it, readable by its owner alone".to_owned()
        })
    }

    fn say(&mut self, text: &str) -> Result<(), String> {
        self.0.write_all(text.as_bytes()).map_err(|error| error.to_string())
    }

    /// Asks and reads one line, shown as it is typed or not.
    pub(super) fn ask(&mut self, question: &str, shown: bool) -> Result<Zeroizing<String>, String> {
        self.say(question)?;
        let silence = if shown { None } else { Some(Silence::over(&self.0)?) };
        let line = self.line();
        if silence.is_some() {
            drop(silence);
            self.say("\n")?;
        }
        line
    }

    fn line(&mut self) -> Result<Zeroizing<String>, String> {
        // Room for all of it, so that no copy is left behind by growing.
        let mut line = Zeroizing::new(Vec::with_capacity(MAX_LINE));
        let mut byte = [0];
        while line.len() < MAX_LINE {
            match self.0.read(&mut byte) {
                Ok(1) if byte[0] != b'\n' => line.push(byte[0]),
                Ok(1) => break,
                Ok(_) if line.is_empty() => return Err("no answer was given".to_owned()),
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        let text = std::str::from_utf8(&line).map_err(|_| "the answer is no UTF-8 text".to_owned())?;
        Ok(Zeroizing::new(text.to_owned()))
    }
}

/// The terminal shows nothing of what is typed, until this is dropped.
struct Silence {
    terminal: File,
    before: Termios,
}

impl Silence {
    fn over(terminal: &File) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the terminal cannot be kept from showing it: {error}");
        let terminal = terminal.try_clone().map_err(failed)?;
        let before = tcgetattr(&terminal).map_err(|error| failed(error.into()))?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &silent).map_err(|error| failed(error.into()))?;
        Ok(Silence { terminal, before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lines() {
        let read = |text| complete(text).map(|it| (it.username, it.password.to_string()));
        let wanted = ("ann".to_owned(), " p w ".to_owned());
        assert_eq!(read("ann\n p w \nmore\n"), Ok(wanted.clone()));
        assert_eq!(read("ann\r\n p w \r\n"), Ok(wanted));
        assert!(read("\nx\n").unwrap_err().contains("empty"));
        assert!(read("a\tb\nx\n").unwrap_err().contains("control"));
    }
}
