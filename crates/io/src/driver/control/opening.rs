//! Paths that the protocol asks for: names are resolved and sockets opened by threads of their own, or by the helper.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use adit_core::{Command, Instant, OpenFailure, Protocol};

use super::Control;
use crate::config::Remote;
use crate::driver::mail::Mail;
use crate::helper::Attempt;
use crate::opener::{self, Opened, Refusals};

impl<P: Protocol> Control<'_, P> {
    pub(super) fn open(&mut self, remote: usize) {
        let number = self.remotes.next_attempt(remote);
        let mail = self.own_mail.clone();
        let fail = |reason: String| {
            self.own_mail.post(Mail::Opened { remote, result: Err(OpenFailure::Unreachable(reason)) });
            self.own_mail.wake();
        };
        let helper = self.remotes.helper.clone();
        let target = self.remotes.all.get(remote).cloned();
        // The helper may have others by now.
        if helper.is_none() && target.is_none() {
            return fail(format!("there is no remote number {remote}"));
        }
        let options = self.sockets.options;
        let known = self.remotes.known_addresses.clone();
        let resolving = self.network.system.resolving(self.remotes.kill_switch);
        let ahead = self.remotes.to_learn_ahead(number);
        let work = move || {
            let mut prepare = |addresses| {
                let (go, wait) = mpsc::sync_channel(1);
                mail.post(Mail::Reaching { addresses, go });
                mail.wake();
                // It is answered at once; if the driver ends meanwhile, that is an answer too.
                let _ = wait.recv();
            };
            let result = match (helper, target) {
                (Some(helper), _) => helper.open(Attempt { remote, number }, &options, &mut prepare),
                (None, Some(target)) => {
                    let result = opener::open(&target, number, &options, (&known, &resolving), prepare);
                    let question =
                        result.as_ref().ok().and_then(|opened| known.ask(&target, opened, &options));
                    Ok((result, Refusals::Asked(question)))
                }
                (None, None) => Err(io::ErrorKind::NotFound.into()),
            };
            let (opened, watched) = match result {
                Ok((result, refusals)) => {
                    let address = result.as_ref().ok().and_then(Opened::datagrams_to);
                    (Mail::Opened { remote, result }, address.zip(Some(refusals)))
                }
                Err(error) => (Mail::Died { thread: "helper", why: format!("no answer: {error}") }, None),
            };
            mail.post(opened);
            mail.wake();
            if let Some((address, refusals)) = watched
                && let Some(why) = refusals.wait()
            {
                mail.post(Mail::Refused { remote, address, why });
                mail.wake();
            }
        };
        if ahead.len() > 1 {
            self.learn_ahead(ahead);
        }
        if let Err(error) = thread::Builder::new().name("adit-open".to_owned()).spawn(work) {
            fail(format!("cannot start a thread: {error}"));
        }
    }

    /// Resolves the names of all servers while the system's resolver works: later it may be in a dead tunnel.
    fn learn_ahead(&self, remotes: Vec<Remote>) {
        let known = self.remotes.known_addresses.clone();
        let resolving = self.network.system.resolving(self.remotes.kill_switch);
        let work = move || known.learn(&remotes, &resolving);
        // Without it the names are resolved when they are needed.
        let _ = thread::Builder::new().name("adit-resolve".to_owned()).spawn(work);
    }

    /// The address at which a remote was tried last refuses datagrams.
    pub(super) fn refused(&mut self, now: Instant, remote: usize, address: SocketAddr, why: String) {
        let path = self.remotes.opened_last.get(&remote).copied();
        if let Some(path) = path.filter(|path| path.remote() == address) {
            self.protocol.handle_command(now, Command::Closed { path, reason: why });
        }
    }

    pub(super) fn opened(&mut self, now: Instant, remote: usize, result: Result<Opened, OpenFailure>) {
        let command = match result {
            Ok(Opened::Udp(socket, address)) => {
                let demultiplexer = self.remotes.demultiplexer(remote);
                let number = self.sockets.sources.next_number();
                let path = socket.path(number, address);
                self.add_sockets((number, vec![Arc::new(socket)]), demultiplexer.as_ref());
                self.remotes.opened_last.insert(remote, path);
                Command::Opened { path }
            }
            Ok(Opened::Tcp(stream, address)) => return self.connected(now, remote, stream, address),
            Err(failure) => Command::OpenFailed { remote, failure },
        };
        self.protocol.handle_command(now, command);
    }
}
