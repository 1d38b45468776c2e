//! The terminal of the person who started the program.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use adit_core::escaped;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use zeroize::Zeroizing;

/// Longest line typed at the terminal, in bytes.
const MAX_LINE: usize = 4096;
/// How often is looked whether the question still stands.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Numbers questions: a new one makes those before it void.
#[derive(Clone, Default)]
pub struct Turns(Arc<AtomicU64>);

impl Turns {
    /// Voids all questions so far, and gives the turn of a new one.
    pub fn next(&self) -> Turn {
        let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        Turn { turns: self.clone(), number }
    }
}

/// A thread that waits for an answer.
pub trait Waiting {
    /// Whether it is still wanted.
    fn wants_it(&self) -> bool;

    /// There is something that must not be left behind, such as a terminal that hides typed text.
    fn begin(&self) {}

    /// The terminal is as it was before [`Waiting::begin`].
    fn end(&self) {}
}

/// Holds until there is a next one.
pub struct Turn {
    turns: Turns,
    number: u64,
}

impl Turn {
    /// The answer is no longer needed.
    pub fn is_over(&self) -> bool {
        self.turns.0.load(Ordering::SeqCst) != self.number
    }
}

impl Waiting for Turn {
    fn wants_it(&self) -> bool {
        !self.is_over()
    }
}

/// The terminal, opened while the process could.
static KEPT: OnceLock<File> = OnceLock::new();

/// A terminal to ask at.
pub struct Terminal(File);

impl Terminal {
    /// The terminal that the program belongs to.
    pub fn open() -> Result<Self, String> {
        let opened = match KEPT.get() {
            Some(kept) => kept.try_clone(),
            None => open(),
        };
        let terminal = opened.map_err(|_| {
            "there is no terminal to ask at: let a file say it, readable by its owner alone".to_owned()
        })?;
        // A process that reads from the terminal in the background is stopped, and with it the tunnel.
        match tcgetpgrp(&terminal) {
            Ok(group) if group == getpgrp() => Ok(Terminal(terminal)),
            _ => Err("adit runs in the background and cannot ask at the terminal".to_owned()),
        }
    }

    /// Keeps the terminal, if there is one, for the time when it cannot be opened any more.
    pub fn keep() {
        if let Ok(terminal) = open() {
            let _ = KEPT.set(terminal);
        }
    }

    /// Whether a user can be asked.
    pub fn is_there() -> bool {
        Self::open().is_ok()
    }

    /// Writes a line.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn say(&mut self, text: &str) -> Result<(), String> {
        self.0.write_all(text.as_bytes()).map_err(|error| error.to_string())
    }

    /// Asks and reads one line, shown as it is typed or not. Gives up as soon as the answer is no longer needed.
    pub fn ask(
        &mut self,
        question: &str,
        shown: bool,
        waiting: &dyn Waiting,
    ) -> Result<Zeroizing<String>, String> {
        waiting.begin();
        let line = self.ask_and_read(question, shown, waiting);
        waiting.end();
        line
    }

    fn ask_and_read(
        &mut self,
        question: &str,
        shown: bool,
        waiting: &dyn Waiting,
    ) -> Result<Zeroizing<String>, String> {
        // Turning echo off discards the text that was typed before, which cannot be an answer yet.
        let silence = if shown { None } else { Some(Silence::over(&self.0)?) };
        self.say(&escaped(question))?;
        let line = self.line(waiting);
        if silence.is_some() || line.is_err() {
            drop(silence);
            self.say("\n")?;
        }
        line
    }

    fn line(&mut self, waiting: &dyn Waiting) -> Result<Zeroizing<String>, String> {
        // Room for all of it, so that no copy is left behind by growing.
        let mut line = Zeroizing::new(Vec::with_capacity(MAX_LINE));
        let mut byte = [0];
        while line.len() < MAX_LINE {
            self.wait(waiting)?;
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

    /// Waits until there is something to read.
    fn wait(&self, waiting: &dyn Waiting) -> Result<(), String> {
        loop {
            if !waiting.wants_it() {
                return Err("the question was withdrawn".to_owned());
            }
            let mut terminal = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut terminal, Some(&LOOK_EVERY)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

fn open() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// The terminal shows no typed text, until this is dropped.
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
