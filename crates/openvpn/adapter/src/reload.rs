//! SIGHUP: the configuration is read again, and what a running tunnel can change holds at once.

mod kinds;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adit_core::{Route, Severity};
use adit_guard::{Gathered, HelperFiles};
use adit_io::Handle;
use adit_openvpn_config::{Config, Parsed, PerClient};

use super::changes::{self, Changes, Place, Since};
use super::reload_order::Reload;
use super::{attempts, configuration, revocations};
use crate::fault::Fault;
use crate::place::place;
use adit_host::log::Logger;
pub(crate) use kinds::{ClientKind, PointKind, Remotes, ServerKind, StaticKind, Trust};

/// Makes what a tunnel does on SIGHUP, once it is set up.
pub(crate) type Reloads<P> = Box<dyn FnOnce(Source, Handle<P>) -> Reload>;

/// The configuration of a running tunnel.
pub(crate) struct Source {
    /// The file.
    pub(crate) file: PathBuf,
    /// The file's content at the start of adit.
    pub(crate) start: Arc<Parsed>,
    /// The content that holds now, as it was read.
    pub(crate) holds: Arc<Parsed>,
    /// Routes to the addresses of names, which were looked up at the start.
    pub(crate) looked_up: Vec<Route>,
    /// How long a client looks for names that do not exist, as the file says that was read last.
    pub(crate) resolve_timeout: Option<Duration>,
    /// The files of a server for its clients.
    pub(crate) per_client: Option<Arc<Mutex<PerClient>>>,
    /// Watches what `crl-verify` names.
    pub(crate) crl: revocations::Watch,
    /// Reads files.
    pub(crate) files: HelperFiles,
    /// The tunnel's log.
    pub(crate) log: Logger,
}

/// Settings that can hold.
pub(crate) struct Prepared {
    /// The remotes of a client, if there are others now: where each stands in the file, in the order to try them.
    remotes: Option<Vec<usize>>,
    /// Makes them hold, once the helper has adopted the file.
    commit: Box<dyn FnOnce() + Send>,
}

impl Prepared {
    fn new(commit: impl FnOnce() + Send + 'static) -> Self {
        Prepared { remotes: None, commit: Box::new(commit) }
    }
}

/// A kind of tunnel that takes other settings.
pub(crate) trait Reconfigure: Send + 'static {
    /// Whether a change of anything but the log makes it connect anew, as its settings are those of a connection.
    const CONNECTS: bool;

    /// Finds out whether the settings can hold, and gives what makes them.
    ///
    /// # Errors
    /// The directive at fault, and why; nothing was changed then.
    fn prepare(&mut self, old: &Config, new: &Config, with: (&Gathered, &Source)) -> Result<Prepared, Fault>;

    /// Connects anew.
    fn restart(&self);
}

/// The action of a tunnel of that kind on SIGHUP.
pub(crate) fn reload<K: Reconfigure>(mut source: Source, mut kind: K) -> Reload {
    Reload(Arc::new(Mutex::new(move || {
        if let Err(why) = source.read_again(&mut kind) {
            why.lines().for_each(|line| source.log.log(Severity::Error, line));
            let file = source.file.display().to_string();
            source.log.log(Severity::Error, format_args!("SIGHUP: {file} changes nothing"));
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
        self.resolve_timeout = attempts::resolve_timeout(&new);
        let old = Arc::clone(&self.holds);
        let changes =
            changes::compare(&new, &old.config).map_err(|why| format!("{}: {why}", file.display()))?;
        let reconnects = K::CONNECTS && differ_besides_log(&changes.now, &old.config);
        if changes.any {
            let Prepared { remotes, commit } =
                kind.prepare(&old.config, &changes.now, (&gathered, &*self))
                    .map_err(|(directive, why)| format!("{}: {why}", place(&new, &file, &[directive])))?;
            self.files.adopt(remotes).map_err(|error| {
                format!("{}: the helper process does not take it: {error}", file.display())
            })?;
            commit();
            let process = &changes.now.process;
            self.log.set_verb(process.verb);
            self.log.set_mute(process.mute);
            self.log.set_stamps(process.stamps);
        }
        self.tell(&new, &changes, reconnects);
        self.holds = Arc::new(Parsed { config: changes.now, ..new });
        if reconnects {
            kind.restart();
        }
        Ok(())
    }

    /// Says what came of it.
    fn tell(&mut self, new: &Parsed, changes: &Changes, reconnects: bool) {
        let name = self.file.display();
        let outcome = match () {
            () if reconnects => ", and what changed holds with the next connection, which begins now",
            () if changes.at_once => ", and what changed holds",
            () if changes.later.is_empty() => ": there is nothing new in it",
            () => "",
        };
        self.log.log(Severity::Info, format_args!("SIGHUP: {name} was read again{outcome}"));
        for (directives, since) in &changes.later {
            let before = match since {
                Since::Restart => &self.holds,
                Since::Start(_) => &self.start,
            };
            let what = match changes::place(new, before, directives) {
                Some(Place::Changed(entry)) => {
                    format!("{}:{}: `{}` changed", entry.file, entry.line, entry.directive)
                }
                Some(Place::Removed(entry)) => {
                    format!(
                        "{}: `{}`, which was in line {}, is gone",
                        entry.file, entry.directive, entry.line
                    )
                }
                None => format!("{name}: `{}` changed", directives.first().copied().unwrap_or_default()),
            };
            let when = match since {
                Since::Restart => "it holds from the tunnel's next restart on (SIGUSR1)".to_owned(),
                Since::Start(why) => format!("it holds when adit is started again: {why}"),
            };
            self.log.log(Severity::Warning, format_args!("{what}: {when}"));
        }
    }
}

/// Whether configurations differ in anything but how much is logged.
fn differ_besides_log(new: &Config, old: &Config) -> bool {
    let mut new = new.clone();
    new.process.clone_from(&old.process);
    new != *old
}
