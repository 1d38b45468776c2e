//! The process with the modules: it answers its tunnel until that is gone.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use super::message::{Numbered, Request, receive, send};
use super::module::{Module, Trouble};
use super::{Listing, Outcome, Provider};
use crate::exit;

/// What the command is called.
pub(crate) const NAME: &str = "pkcs11";

/// Speak to smart cards for a tunnel: only for `adit up`
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the command. Its standard input is the socket to the tunnel.
pub(crate) fn run(_: &Args) -> ExitCode {
    match adit_io::forbid_core_files().and_then(|()| serve()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::failure(error),
    }
}

fn serve() -> io::Result<()> {
    // It ends when the tunnel does, not before: a service manager tells all of us to stop at once.
    let unheard = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::clone(&unheard))?;
    }
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let heard = stream.try_clone()?;
    let (sender, requests) = mpsc::channel();
    // A module may be busy, or hang, when the tunnel goes.
    thread::Builder::new().name("adit-pkcs11".to_owned()).spawn(move || {
        while let Ok(request) = receive::<Numbered<Request>>(&heard) {
            if sender.send(request).is_err() {
                break;
            }
        }
        // At once: what a library does at the end of its process may wait for the module that hangs.
        signal_hook::low_level::exit(0);
    })?;
    let mut modules = Modules::default();
    for Numbered { number, content } in requests {
        let content = modules.answer(content);
        send(&stream, &Numbered { number, content })?;
    }
    Ok(())
}

/// All modules.
#[derive(Default)]
struct Modules {
    modules: Vec<Module>,
    pin_cache: Option<Duration>,
}

impl Modules {
    fn answer(&mut self, request: Request) -> Outcome {
        match request {
            Request::Load { providers, pin_cache } => {
                self.pin_cache = pin_cache;
                self.load(&providers)
            }
            Request::Find { pin, token } => {
                let mut pin = pin.as_ref();
                let mut listing = Listing::default();
                for module in &mut self.modules {
                    if let Err(trouble) = module.find((token.as_ref(), &mut pin), &mut listing) {
                        return outcome(trouble);
                    }
                }
                Outcome::Found(listing)
            }
            Request::Sign { identity, operation, data, pin } => {
                let cache = self.pin_cache;
                let mut hindrance = Trouble::Absent;
                for module in &mut self.modules {
                    match module.sign(&identity, (operation, data.as_slice()), pin.as_ref(), cache) {
                        Ok(signature) => return Outcome::Signed(signature),
                        Err(Trouble::Absent) => {}
                        // The token may be one of another module.
                        Err(trouble @ Trouble::Failed(_)) => hindrance = trouble,
                        Err(trouble) => return outcome(trouble),
                    }
                }
                outcome(hindrance)
            }
        }
    }

    fn load(&mut self, providers: &[Provider]) -> Outcome {
        for provider in providers {
            match Module::load(provider) {
                Ok(module) => self.modules.push(module),
                Err(why) => return Outcome::Failed(why),
            }
        }
        Outcome::Loaded
    }
}

fn outcome(trouble: Trouble) -> Outcome {
    match trouble {
        Trouble::Absent => Outcome::Absent,
        Trouble::PinNeeded(label) => Outcome::PinNeeded(label),
        Trouble::PinWrong(label) => Outcome::PinWrong(label),
        Trouble::Failed(why) => Outcome::Failed(why),
    }
}
