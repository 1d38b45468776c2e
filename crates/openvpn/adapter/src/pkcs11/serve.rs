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
use super::{Identity, Listing, Operation, Outcome, Pin};
use adit_host::exit;

/// The name of the command.
pub(crate) const NAME: &str = "pkcs11";

/// Speak to smart cards for a tunnel: only for `adit up`
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the command. Its standard input is the socket to the tunnel.
pub(crate) fn run(_: Args) -> ExitCode {
    // Before a module is loaded: what the kernel lacks leaves the process as it was.
    if let Err(error) = adit_guard::restrict_libraries() {
        exit::tell(format_args!("the modules of smart cards may make every system call: {error}"));
    }
    match adit_guard::forbid_core_files().and_then(|()| serve()) {
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
    let mut requests = requests.into_iter();
    let Some(Numbered { number, content }) = requests.next() else { return Ok(()) };
    let mut serving = match Unconfigured.configure(content)? {
        Ok(serving) => serving,
        Err(why) => return send(&stream, &Numbered { number, content: Outcome::Failed(why) }),
    };
    send(&stream, &Numbered { number, content: Outcome::Loaded })?;
    for Numbered { number, content } in requests {
        let content = serving.answer(content)?;
        send(&stream, &Numbered { number, content })?;
    }
    Ok(())
}

/// The process before it has its policy, which are the modules that it loads. The policy is the first message. It is sent while
/// the tunnel's process is not confined and has heard no peer.
struct Unconfigured;

impl Unconfigured {
    /// Loads the modules of the policy. The inner error is that of a module, for the tunnel; the process ends then.
    ///
    /// # Errors
    /// When the message is not the policy.
    fn configure(self, first: Request) -> io::Result<Result<Serving, String>> {
        let Request::Load { providers, pin_cache } = first else {
            return Err(refused("the first message must say which modules are loaded"));
        };
        let modules: Result<Vec<Module>, String> = providers.iter().map(Module::load).collect();
        Ok(modules.map(|modules| Serving { modules, pin_cache }))
    }
}

/// The process with the modules of its policy. It has no way to load another.
struct Serving {
    modules: Vec<Module>,
    pin_cache: Option<Duration>,
}

impl Serving {
    /// The answer to a request.
    ///
    /// # Errors
    /// When the message is a policy once more: the process ends then, as such a message is that of a tunnel's process that was
    /// taken over.
    fn answer(&mut self, request: Request) -> io::Result<Outcome> {
        match request {
            Request::Load { .. } => Err(refused(
                "modules are loaded once, at the start: a further request to load some ends the process",
            )),
            Request::Find { pin, token } => Ok(self.find(pin.as_ref(), token.as_ref())),
            Request::Sign { identity, operation, data, pin } => {
                Ok(self.sign(&identity, (operation, data.as_slice()), pin.as_ref()))
            }
        }
    }

    fn find(&mut self, mut pin: Option<&Pin>, token: Option<&Identity>) -> Outcome {
        let mut listing = Listing::default();
        for module in &mut self.modules {
            if let Err(trouble) = module.find((token, &mut pin), &mut listing) {
                return outcome(trouble);
            }
        }
        Outcome::Found(listing)
    }

    fn sign(&mut self, identity: &Identity, task: (Operation, &[u8]), pin: Option<&Pin>) -> Outcome {
        let mut hindrance = Trouble::Absent;
        for module in &mut self.modules {
            match module.sign(identity, task, pin, self.pin_cache) {
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

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn outcome(trouble: Trouble) -> Outcome {
    match trouble {
        Trouble::Absent => Outcome::Absent,
        Trouble::PinNeeded(label) => Outcome::PinNeeded(label),
        Trouble::PinWrong(label) => Outcome::PinWrong(label),
        Trouble::Failed(why) => Outcome::Failed(why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Provider;
    use super::*;

    fn load(paths: &[&str]) -> Request {
        let provider =
            |path: &&str| Provider { path: path.into(), protected: false, private_certificates: false };
        Request::Load { providers: paths.iter().map(provider).collect(), pin_cache: None }
    }

    /// Every message. One that is added to the type does not compile until it is here.
    fn all() -> [Request; 3] {
        let identity = Identity::parse("pkcs11:id=%01").expect("a good name");
        let sign = Request::Sign { identity, operation: Operation::Ecdsa, data: vec![1], pin: None };
        match sign {
            Request::Load { .. } | Request::Find { .. } | Request::Sign { .. } => {
                [load(&["/nonexistent/module.so"]), Request::Find { pin: None, token: None }, sign]
            }
        }
    }

    #[test]
    fn modules_are_loaded_once() {
        for first in all() {
            let is_policy = matches!(first, Request::Load { .. });
            let outcome = Unconfigured.configure(first).map(|loaded| loaded.err());
            match outcome {
                Ok(why) => {
                    assert!(is_policy && why.is_some_and(|why| why.contains("/nonexistent/module.so")))
                }
                Err(why) => assert!(!is_policy && why.kind() == io::ErrorKind::PermissionDenied),
            }
        }
        let mut serving = Unconfigured.configure(load(&[])).expect("it is the policy").expect("no module");
        for request in all().into_iter().chain(all()) {
            let is_policy = matches!(request, Request::Load { .. });
            match serving.answer(request) {
                Ok(outcome) => {
                    assert!(
                        !is_policy && matches!(outcome, Outcome::Found(_) | Outcome::Absent),
                        "{outcome:?}"
                    );
                }
                Err(why) => assert!(is_policy && why.kind() == io::ErrorKind::PermissionDenied),
            }
            assert!(serving.modules.is_empty(), "no module is loaded later");
        }
    }
}
