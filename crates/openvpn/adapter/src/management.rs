//! `management`: a socket at which other programs ask and command the tunnel, in OpenVPN's protocol.
//!
//! One thread speaks to all programs that are connected. Events of the tunnel are noted in a [`Journal`], which never waits for
//! the thread; the thread asks for facts of the tunnel as `adit status` does.

mod client_auth;
mod client_commands;
mod commands;
mod journal;
mod listener;
mod outgoing;
mod output;
mod pending_auths;
mod pending_queries;
mod program;
mod serve;
mod session;
mod texts;
mod tunnel;
mod up_down;
mod watcher;
mod words;

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use adit_core::{Protocol, Severity};
use adit_guard::HelperFiles;
use adit_io::Handle;
use adit_openvpn::params::AuthRetry;
use adit_openvpn_config::{Config, Role};
use signal_hook::consts::SIGTERM;
use zeroize::Zeroizing;

use super::password_file::first_line;
use super::status_file::Form;
use crate::fault::Fault;
use crate::reload_order::Reload;
use crate::status_source::StatusSource;
use adit_host::log::Logger;
use adit_host::remarks::Notes;
use adit_host::terminal::Waiting;
use journal::{Journal, Kind};
use listener::ManagementListener;
use pending_auths::PendingAuths;
pub(crate) use pending_queries::{Listed, PendingQueries, Topic};
use tunnel::{Running, Tunnel};
use up_down::UpDown;
pub(crate) use watcher::Watcher;

/// The password that a program at the management socket has to give, if one is wanted.
pub(crate) type SocketPassword = Option<Zeroizing<String>>;

/// Where the tunnel is put once it runs.
type Place = Arc<Mutex<Option<Box<dyn Tunnel>>>>;

/// The management socket, which is there until this is dropped.
pub(crate) struct Management {
    journal: Journal,
    questions: Arc<PendingQueries>,
    queries: bool,
    /// Of a remote only the proxy is asked for.
    queries_proxy: bool,
    pending_auths: PendingAuths,
    tunnel: Place,
    thread: Option<JoinHandle<()>>,
}

/// The things that the thread works with.
struct CommandContext {
    journal: Journal,
    questions: Arc<PendingQueries>,
    pending_auths: PendingAuths,
    tunnel: Place,
    log: Logger,
    auth_retry: &'static str,
}

impl CommandContext {
    /// The tunnel, if it runs yet.
    fn tunnel(&self) -> MutexGuard<'_, Option<Box<dyn Tunnel>>> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a command into the log, without its secrets.
    fn tell_command(&mut self, name: &str, arguments: &[&str]) {
        let shown = match name {
            // Asked for again and again.
            "load-stats" | "status" => return,
            "password" | "cr-response" => "...".to_owned(),
            // URLs with secrets may follow.
            "client-pending-auth" => format!("{} ...", arguments.get(..2).unwrap_or_default().join(" ")),
            "client-deny" => arguments.get(..3).unwrap_or_default().join(" "),
            _ => arguments.join(" "),
        };
        self.log.log(Severity::Debug, format_args!("management: {name} {shown}"));
    }

    /// Ends the process before there is a tunnel.
    fn end_process(&self) -> bool {
        signal_hook::low_level::raise(SIGTERM).is_ok()
    }
}

impl Management {
    /// Judges what the configuration in `file` says of the socket, and reads the password.
    ///
    /// # Errors
    /// The directive at fault, and why.
    pub(crate) fn judge(
        config: &Config,
        file: &Path,
        notes: &mut dyn Notes,
    ) -> Result<SocketPassword, Fault> {
        let Some(settings) = &config.process.management else { return Ok(None) };
        let fault = |why: String| ("management", format!("management: {why}"));
        let password = match &settings.password {
            None => None,
            Some(path) => Some(first_line(file, path, notes).map_err(fault)?),
        };
        if password.as_ref().is_some_and(|password| password.is_empty()) {
            return Err(fault("the file of the password is empty".to_owned()));
        }
        listener::judge(settings).map(|()| password)
    }

    /// Opens the socket that the configuration speaks of, if it does, with the password that [`Management::judge`] read.
    ///
    /// # Errors
    /// The directive at fault, and why.
    pub(crate) fn open(
        config: &Config,
        password: SocketPassword,
        log: &mut Logger,
    ) -> Result<Option<Self>, Fault> {
        let Some(settings) = &config.process.management else { return Ok(None) };
        let fault = |why: String| ("management", format!("management: {why}"));
        let listener = ManagementListener::open(settings)?;
        if let Some(warning) = listener.warning(settings) {
            log.log(Severity::Warning, format_args!("management: {warning}"));
        }
        let (waker, woken) = pipe().map_err(|error| fault(error.to_string()))?;
        let journal = Journal::new(usize::try_from(settings.log_cache).unwrap_or(usize::MAX), waker);
        config.process.echo.iter().for_each(|text| journal.note(Kind::Echo, text));
        let notes = journal.clone();
        log.listen(Box::new(move |severity, text| notes.note_line(severity, text)));
        let how = if listener.is_outgoing() { "connected to" } else { "listening on" };
        log.log(Severity::Info, format_args!("management: {how} {listener}"));
        let questions = Arc::new(PendingQueries::new(settings.hold, journal.clone()));
        let (pending_auths, tunnel) = (PendingAuths::default(), Place::default());
        let context = CommandContext {
            journal: journal.clone(),
            questions: Arc::clone(&questions),
            pending_auths: pending_auths.clone(),
            tunnel: Arc::clone(&tunnel),
            log: log.clone(),
            auth_retry: auth_retry(config),
        };
        let on_leave = serve::OnLeave { restart: settings.signal, forget: settings.forget_disconnect };
        let thread = serve::start(listener, woken, context, password, on_leave)
            .map_err(|error| fault(format!("cannot start a thread: {error}")))?;
        Ok(Some(Management {
            journal,
            questions,
            queries: settings.query_passwords,
            queries_proxy: settings.query_proxy && !settings.query_remote,
            pending_auths,
            tunnel,
            thread: Some(thread),
        }))
    }

    /// Waits for `hold release` if the configuration says so. False if the start was cancelled.
    pub(crate) fn hold(&self, waiting: &dyn Waiting) -> bool {
        self.questions.wait_for_release(waiting)
    }

    /// The questions that only the program at the socket can answer.
    pub(crate) fn front_end(&self) -> Arc<PendingQueries> {
        Arc::clone(&self.questions)
    }

    /// The questions for passwords, if they go here.
    pub(crate) fn questions(&self) -> Option<Arc<PendingQueries>> {
        self.queries.then(|| Arc::clone(&self.questions))
    }

    /// Attaches a tunnel, which can be asked and commanded from now on. The returned value takes the events of the
    /// tunnel. With `up_down`, the program is notified when it comes up and goes down: the variables of its scripts,
    /// and whether it keeps its device.
    pub(crate) fn attach<P: Protocol + StatusSource>(
        &self,
        handle: Handle<P>,
        form: Form,
        (log, reload, helper): (Logger, Reload, Option<HelperFiles>),
        up_down: Option<(Vec<(String, String)>, bool)>,
    ) -> Watcher {
        let tunnel: Box<dyn Tunnel> = Box::new(Running { handle, form, log, reload, helper });
        *self.tunnel.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
        let asked = (self.pending_auths.clone(), Arc::clone(&self.questions));
        let up_down = up_down.map(|(env, keeps)| UpDown::new(self.journal.clone(), env, keeps));
        let mut watcher =
            Watcher::new(self.journal.clone(), asked, matches!(form, Form::Clients(_)), up_down);
        if self.queries_proxy {
            watcher.ask_for_proxies();
        }
        watcher
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        self.journal.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two ends of a pipe that never block.
fn pipe() -> std::io::Result<(UnixStream, UnixStream)> {
    let (waker, woken) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    Ok((waker, woken))
}

fn auth_retry(config: &Config) -> &'static str {
    let auth = match &config.role {
        Role::Client(client) => client.auth.as_ref(),
        Role::Server(_) | Role::PointToPoint(_) => None,
    };
    match auth.map(|auth| auth.retry).unwrap_or_default() {
        AuthRetry::None => "none",
        AuthRetry::NoInteract => "nointeract",
        AuthRetry::Interact => "interact",
    }
}

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
#[cfg(any(test, feature = "fuzzing"))]
mod testing;
#[cfg(test)]
mod tests;
