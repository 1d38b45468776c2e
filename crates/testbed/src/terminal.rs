use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::TestbedError;
use crate::namespace::Namespace;
use crate::process::{Process, wait_until};
use crate::programs::program;

/// The byte that the key sends.
const CTRL_C: u8 = 3;

/// A pseudo-terminal: text that a program shows on it can be read, and answered as by typing.
#[derive(Debug)]
pub struct Terminal {
    keyboard: File,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    /// Starts `command` in a namespace, in a session of its own with this terminal. Its own outputs are kept as those
    /// of other processes.
    pub fn spawn(
        namespace: &Namespace,
        label: &str,
        command: &Command,
    ) -> Result<(Self, Process), TestbedError> {
        let failed = |error: rustix::io::Errno| TestbedError::Network {
            what: "cannot open a terminal".to_owned(),
            source: error.into(),
        };
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).map_err(failed)?;
        grantpt(&master).and_then(|()| unlockpt(&master)).map_err(failed)?;
        let slave: OwnedFd = ioctl_tiocgptpeer(&master, flags).map_err(failed)?;
        let mut in_session = program("setsid")?;
        in_session.arg("--ctty").arg(command.get_program()).args(command.get_args());
        let process = namespace.enter(|| Process::spawn_with(label, in_session, Stdio::from(slave)))??;
        let keyboard = File::from(master);
        let shown = Arc::new(Mutex::new(String::new()));
        let mut screen = keyboard.try_clone().map_err(|source| TestbedError::Network {
            what: "cannot read from a terminal".to_owned(),
            source,
        })?;
        let text = shown.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(length @ 1..) = screen.read(&mut buffer) {
                let piece = String::from_utf8_lossy(&buffer[..length]);
                text.lock().unwrap_or_else(PoisonError::into_inner).push_str(&piece);
            }
        });
        Ok((Terminal { keyboard, shown }, process))
    }

    /// All text that was shown so far, with the typed text unless that was hidden.
    pub fn shown(&self) -> String {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Types this line once the question is shown for the `time`th time.
    pub fn answer(
        &mut self,
        question: &str,
        time: usize,
        line: &str,
        timeout: Duration,
    ) -> Result<(), TestbedError> {
        self.type_at(question, time, format!("{line}\n").as_bytes(), timeout)
    }

    /// Presses Ctrl-C once the question is shown.
    pub fn interrupt(&mut self, question: &str, timeout: Duration) -> Result<(), TestbedError> {
        self.type_at(question, 1, &[CTRL_C], timeout)
    }

    fn type_at(
        &mut self,
        question: &str,
        time: usize,
        bytes: &[u8],
        timeout: Duration,
    ) -> Result<(), TestbedError> {
        wait_until("a question at the terminal", timeout, || self.shown().matches(question).count() >= time)?;
        // Text that is typed before the terminal was set to hide it is thrown away.
        std::thread::sleep(Duration::from_millis(400));
        self.keyboard
            .write_all(bytes)
            .map_err(|source| TestbedError::Network { what: "cannot type at a terminal".to_owned(), source })
    }
}
