//! The process with the modules, as a tunnel sees it.

use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::message::{Numbered, Request, receive_within, send};
use super::{Found, Identity, NAME, Operation, Outcome, Pin, Provider};

/// How long an answer may take from its first byte to its last.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

/// The time between two checks whether an answer is still wanted.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The process, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Cards {
    stream: Mutex<Numbering>,
    child: Child,
}

#[derive(Debug)]
struct Numbering {
    stream: UnixStream,
    /// The number of the last request.
    last: u32,
}

impl Cards {
    /// Starts the process and has it load these modules. A PIN holds for `pin_cache`, or until the token is taken out. Waits as
    /// long as `wanted` says so.
    ///
    /// # Errors
    /// Why there is no process, or a module cannot be used, or that they are not wanted any more.
    pub(crate) fn start(
        providers: &[Provider],
        pin_cache: Option<Duration>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Self, String> {
        let (child, stream) =
            spawn().map_err(|error| format!("the process for smart cards cannot be started: {error}"))?;
        let cards = Cards { stream: Mutex::new(Numbering { stream, last: 0 }), child };
        match cards.ask(Request::Load { providers: providers.to_vec(), pin_cache }, wanted)? {
            Outcome::Loaded => Ok(cards),
            other => Err(unexpected(other)),
        }
    }

    /// The certificates that are there, or [`Outcome::PinNeeded`] or [`Outcome::PinWrong`]. With `token`, only the token of that
    /// identity needs a PIN. Waits as long as `wanted` says so.
    ///
    /// # Errors
    /// When they cannot be read, or are not wanted any more.
    pub(crate) fn find(
        &self,
        token: Option<&Identity>,
        pin: Option<Pin>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Outcome, String> {
        self.ask(Request::Find { pin, token: token.cloned() }, wanted)
    }

    /// The signature by the key of that certificate, or what hinders it. Waits as long as `wanted` says so.
    ///
    /// # Errors
    /// When the process does not answer, or the signature is not wanted any more.
    pub(crate) fn sign(
        &self,
        identity: &Identity,
        (operation, data): (Operation, &[u8]),
        pin: Option<Pin>,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Outcome, String> {
        let request = Request::Sign { identity: identity.clone(), operation, data: data.to_vec(), pin };
        self.ask(request, wanted)
    }

    fn ask(&self, content: Request, wanted: &dyn Fn() -> bool) -> Result<Outcome, String> {
        let broken = |error: io::Error| format!("the process for smart cards does not answer: {error}");
        let mut numbering = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        numbering.last = numbering.last.wrapping_add(1);
        let Numbering { stream, last: number } = &*numbering;
        send(stream, &Numbered { number: *number, content }).map_err(broken)?;
        loop {
            let mut fds = [PollFd::new(stream, PollFlags::IN)];
            match poll(&mut fds, Some(&LOOK_EVERY)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => {
                    let answer: Numbered<Outcome> =
                        receive_within(stream, LONGEST_ANSWER).map_err(|error| {
                            // The bytes that follow may be the rest of this answer. The process ends with its
                            // socket.
                            let _ = stream.shutdown(Shutdown::Both);
                            broken(error)
                        })?;
                    // One that was given up before is passed over.
                    if answer.number == *number {
                        return Ok(answer.content);
                    }
                }
                Err(error) => return Err(broken(error.into())),
            }
            if !wanted() {
                return Err("the answer of the process for smart cards is not wanted any more".to_owned());
            }
        }
    }
}

impl Drop for Cards {
    /// The process ends when its socket is closed, whatever a module is doing.
    fn drop(&mut self) {
        let numbering = self.stream.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = numbering.stream.shutdown(Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// The certificates of an answer; if there are none, why tokens could not be read.
pub(super) fn found(outcome: Outcome) -> Result<Vec<Found>, String> {
    match outcome {
        Outcome::Found(listing) => match listing.reasons() {
            Some(reasons) if listing.certificates.is_empty() => Err(reasons),
            _ => Ok(listing.certificates),
        },
        other => Err(unexpected(other)),
    }
}

fn unexpected(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed(why) => why,
        Outcome::PinNeeded(label) | Outcome::PinWrong(label) => {
            format!("the PIN of the token {label} is needed")
        }
        Outcome::Loaded | Outcome::Found(_) | Outcome::Signed(_) | Outcome::Absent => {
            "the process for smart cards answers something else".to_owned()
        }
    }
}

fn spawn() -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(std::env::current_exe()?);
    // A terminal's signals, which it sends to the whole process group, are for the tunnel alone. A module that prints
    // something spoils no output of ours.
    command.arg0("adit").arg(NAME).process_group(0).stdout(Stdio::null());
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    Ok((command.spawn()?, ours))
}
