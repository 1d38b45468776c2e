//! SIGHUP: the configuration is read again, and what a running tunnel can change holds at once.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use adit_config::openvpn::{Config, KeyPassword, Parsed, PerClient, Role};
use adit_core::{Command, Route, Severity, UnixTime};
use adit_io::{Gathered, Handle, HelperFiles};
use adit_openvpn::credentials::Credentials;
use adit_openvpn::{Client, Server};
use adit_pki::Revocations;
use zeroize::Zeroizing;

use super::changes;
use super::tunnel::place;
use super::unlock::{self, Fault};
use super::{Expiry, plan, translate};
use crate::configuration;
use crate::log::Logger;

/// What a tunnel does on SIGHUP. Copies do the same.
#[derive(Clone)]
pub(super) struct Reload(Arc<Mutex<dyn FnMut() + Send>>);

impl Reload {
    /// Begins it, and does not wait for it: files may lie on slow disks.
    pub(super) fn begin(&self) {
        let work = Arc::clone(&self.0);
        let work = move || {
            let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
            (*work)();
        };
        // Without a thread nothing changes; the next signal tries again.
        let _ = thread::Builder::new().name("adit-reload".to_owned()).spawn(work);
    }
}

/// Makes what a tunnel does on SIGHUP, once it is set up.
pub(super) type Reloads<P> = Box<dyn FnOnce(Source, Handle<P>) -> Reload>;

/// The configuration of a running tunnel.
pub(super) struct Source {
    /// The file.
    pub(super) file: PathBuf,
    /// What holds now, as it was read.
    pub(super) holds: Arc<Parsed>,
    /// Routes to the addresses of names, which were looked up at the start.
    pub(super) looked_up: Vec<Route>,
    /// What a server has on disk for its clients.
    pub(super) per_client: Option<Arc<Mutex<PerClient>>>,
    /// Reads files.
    pub(super) files: HelperFiles,
    /// The tunnel's log.
    pub(super) log: Logger,
}

/// A kind of tunnel that takes other settings.
pub(super) trait Reconfigure: Send + 'static {
    /// Whether it connects anew afterwards, also when nothing changed.
    const RESTARTS: bool;

    /// Makes the settings hold.
    ///
    /// # Errors
    /// The directive at fault, and why; nothing was changed then.
    fn apply(&mut self, old: &Config, new: &Config, with: (&Gathered, &Source)) -> Result<(), Fault>;

    /// Connects anew.
    fn restart(&self);
}

/// What a tunnel of that kind does on SIGHUP.
pub(super) fn reload<K: Reconfigure>(mut source: Source, mut kind: K) -> Reload {
    Reload(Arc::new(Mutex::new(move || {
        if let Err(why) = source.read_again(&mut kind) {
            why.lines().for_each(|line| source.log.log(Severity::Error, line));
            let file = source.file.display().to_string();
            source.log.log(Severity::Error, format_args!("SIGHUP: {file} changes nothing"));
        } else if K::RESTARTS {
            kind.restart();
        }
    })))
}

impl Source {
    fn read_again<K: Reconfigure>(&mut self, kind: &mut K) -> Result<(), String> {
        let file = self.file.clone();
        let gathered = self
            .files
            .configuration()
            .map_err(|error| format!("{}: it cannot be read: {error}", file.display()))?;
        let new = configuration::parse_gathered(&file, &gathered).map_err(|failure| failure.to_string())?;
        let old = Arc::clone(&self.holds);
        let changes =
            changes::compare(&new, &old.config).map_err(|why| format!("{}: {why}", file.display()))?;
        let name = file.display();
        if changes.any {
            kind.apply(&old.config, &changes.now, (&gathered, &*self))
                .map_err(|(directive, why)| format!("{}: {why}", place(&new, &file, &[directive])))?;
            self.log.set_verb(changes.now.process.verb);
            self.log.set_mute(changes.now.process.mute);
            self.log
                .log(Severity::Info, format_args!("SIGHUP: {name} was read again, and what changed holds"));
        } else {
            self.log.log(
                Severity::Info,
                format_args!("SIGHUP: {name} was read again: there is nothing new in it"),
            );
        }
        for directives in &changes.later {
            let find = |parsed: &Parsed| {
                let mut entries = parsed.report.iter();
                let entry = entries.find(|entry| directives.contains(&entry.directive.as_str()))?;
                Some((format!("{}:{}", entry.file, entry.line), entry.directive.clone()))
            };
            let first = || (name.to_string(), directives.first().copied().unwrap_or_default().to_owned());
            // What was removed has its line in the file of before.
            let (at, directive) = find(&new).or_else(|| find(&old)).unwrap_or_else(first);
            let text = format_args!("{at}: `{directive}` changed: it holds when adit is started again");
            self.log.log(Severity::Warning, text);
        }
        self.holds = Arc::new(Parsed { config: changes.now, ..new });
        Ok(())
    }
}

/// The certificate and key of a new configuration: those in use if nothing was said about them anew.
fn credentials(
    (old, new): (&Config, &Config),
    gathered: &Gathered,
    in_use: &Credentials,
) -> Result<Credentials, Fault> {
    let (before, now) = (&old.tls, &new.tls);
    let same = (&before.ca, &before.identity, &before.pkcs12) == (&now.ca, &now.identity, &now.pkcs12);
    if same {
        return Ok(in_use.clone());
    }
    let password = match &now.key_password {
        KeyPassword::Prompt => None,
        KeyPassword::File(path) => gathered.files.iter().find(|(name, _)| name == path),
    };
    let password = password.and_then(|(_, content)| content.as_ref().ok());
    let line =
        password.map(|text| String::from_utf8_lossy(text).lines().next().unwrap_or_default().to_owned());
    unlock::again(new, line.map(Zeroizing::new))
}

/// A server's part.
pub(super) struct ServerKind {
    pub(super) handle: Handle<Server>,
    pub(super) credentials: Credentials,
    pub(super) lists: Option<Revocations>,
    /// Makes tokens, if the file has no key for them.
    pub(super) secret: Zeroizing<[u8; 32]>,
    pub(super) wall: UnixTime,
    pub(super) expiry: Expiry,
}

impl Reconfigure for ServerKind {
    const RESTARTS: bool = false;

    fn apply(&mut self, old: &Config, new: &Config, with: (&Gathered, &Source)) -> Result<(), Fault> {
        let Role::Server(server) = &new.role else { return Ok(()) };
        let (gathered, source) = with;
        let credentials = credentials((old, new), gathered, &self.credentials)?;
        let params =
            translate::server_params(new, server, &credentials, self.lists.clone(), &self.secret, self.wall)
                .map_err(|error| (error.directive(), error.to_string()))?;
        let mut log = source.log.clone();
        for warning in translate::warnings(new, &credentials, self.lists.as_ref()) {
            log.log(Severity::Warning, warning);
        }
        if let Some(files) = &source.per_client {
            let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
            let directory = server.per_client.directory.as_deref();
            files.directory = directory.map(|directory| configuration::find(&source.file, directory));
            files.exclusive = server.per_client.exclusive;
        }
        self.expiry.note_certificates(&credentials);
        self.credentials = credentials;
        self.handle.change(Box::new(move |server, _| server.reconfigure(params)));
        Ok(())
    }

    fn restart(&self) {
        self.handle.command(Command::Restart);
    }
}

/// A client's part.
pub(super) struct ClientKind {
    pub(super) handle: Handle<Client>,
    pub(super) credentials: Credentials,
    pub(super) lists: Option<Revocations>,
    /// How long names that do not exist are looked for.
    pub(super) timeout: Option<Duration>,
    pub(super) wall: UnixTime,
    pub(super) expiry: Expiry,
}

impl Reconfigure for ClientKind {
    const RESTARTS: bool = true;

    fn apply(&mut self, old: &Config, new: &Config, with: (&Gathered, &Source)) -> Result<(), Fault> {
        let Role::Client(client) = &new.role else { return Ok(()) };
        let (gathered, source) = with;
        let credentials = credentials((old, new), gathered, &self.credentials)?;
        let mut new = new.clone();
        new.routes.extend(source.looked_up.iter().cloned());
        let lists = self.lists.clone();
        let mut params = translate::client_params(&new, client, &credentials, self.timeout, lists, self.wall)
            .map_err(|error| (error.directive(), error.to_string()))?;
        plan::say_what_can_be_asked(client, &mut params);
        self.expiry.note_certificates(&credentials);
        self.credentials = credentials;
        self.handle.change(Box::new(move |client, _| client.reconfigure(params)));
        Ok(())
    }

    fn restart(&self) {
        self.handle.command(Command::Restart);
    }
}
