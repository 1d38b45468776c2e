//! The files of a server for its clients: one for each, and the one of the pool's addresses.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_core::{PeerId, PoolEntry, Protocol, Severity};
use adit_guard::HelperFiles;
use adit_io::Handle;
use adit_openvpn::request::{NoSettings, PeerSettings, Reply};
use adit_openvpn_config::{PerClient, PoolFile, client_file_name, parse_client_file, parse_pool_file};

use adit_host::leases::Leases;
use adit_host::log::Logger;

/// The file for clients that have none of their own.
const DEFAULT: &str = "DEFAULT";

enum Job {
    LookUp { peer: PeerId, name: String },
    Leased(PoolEntry),
}

/// A thread that reads and writes these files, so that no other thread waits for a disk. When it is dropped, what is
/// to be remembered has been written.
pub(crate) struct Clients {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Clients {
    /// Starts the thread. `remembered` is what the pool's file said, `leases` what the endpoints of the tunnel remember
    /// together.
    pub(crate) fn start<P: Protocol<Reply = Reply> + 'static>(
        (files, helper): (Arc<Mutex<PerClient>>, HelperFiles),
        (remembered, leases): (Vec<PoolEntry>, Leases),
        handle: Handle<P>,
        log: Logger,
    ) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let pool_file = lock(&files).pool_file.clone();
        let mut leases = PoolLeases::new(pool_file, remembered, leases);
        let mut last_good = LastGood::default();
        let work = move || {
            let mut log = log;
            loop {
                match receiver.recv_timeout(leases.next_write()) {
                    Ok(Job::Leased(entry)) => leases.note(entry),
                    Ok(Job::LookUp { peer, name }) => {
                        let files = lock(&files).clone();
                        let read = |file: &str| helper.client_file(file);
                        let settings = last_good.settings_of((&files, &read), &name, &mut log).map(Box::new);
                        handle.reply(Reply::PeerSettings { peer, name, settings });
                    }
                    Err(RecvTimeoutError::Timeout) => leases.write(&helper, &mut log),
                    Err(RecvTimeoutError::Disconnected) => return leases.write(&helper, &mut log),
                }
            }
        };
        let thread = thread::Builder::new().name("adit-clients".to_owned()).spawn(work)?;
        Ok(Clients { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Asks for what holds for a client; the answer goes to the protocol.
    pub(crate) fn look_up(&self, peer: PeerId, name: String) {
        self.post(Job::LookUp { peer, name });
    }

    /// A name was given an address.
    pub(crate) fn leased(&self, entry: PoolEntry) {
        self.post(Job::Leased(entry));
    }

    fn post(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // The thread ends when this value is dropped, not before.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The settings that may change when the configuration is read again.
fn lock(files: &Mutex<PerClient>) -> MutexGuard<'_, PerClient> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a file of `client-config-dir`; `None` if there is none of that name.
type ReadFile<'a> = &'a dyn Fn(&str) -> io::Result<Option<Vec<u8>>>;

/// The settings of each file of `client-config-dir` when it was last read without a fault.
#[derive(Default)]
struct LastGood(BTreeMap<String, PeerSettings>);

impl LastGood {
    /// The most files that are remembered: with more, each is read as if for the first time once in a while.
    const MOST: usize = 4096;

    /// The settings that the files give a client. A file that has a fault now gives those of when it had none.
    fn settings_of(
        &mut self,
        (files, read): (&PerClient, ReadFile<'_>),
        name: &str,
        log: &mut Logger,
    ) -> Result<PeerSettings, NoSettings> {
        let Some(directory) = &files.directory else { return Ok(PeerSettings::default()) };
        if let Some(file) = client_file_name(name)
            && let Some(settings) = self.of_file((directory, &file), read, log)?
        {
            return Ok(settings);
        }
        if files.exclusive {
            let why = format!("{} has no file for it (ccd-exclusive)", directory.display());
            return Err(NoSettings::Refused(why));
        }
        Ok(self.of_file((directory, DEFAULT), read, log)?.unwrap_or_default())
    }

    fn of_file(
        &mut self,
        (directory, file): (&Path, &str),
        read: ReadFile<'_>,
        log: &mut Logger,
    ) -> Result<Option<PeerSettings>, NoSettings> {
        let shown = directory.join(file).display().to_string();
        let parsed = match read(file) {
            Ok(None) => {
                self.0.remove(&shown);
                return Ok(None);
            }
            Ok(Some(text)) => parse_client_file(&shown, &text).map_err(|failure| failure.to_string()),
            Err(error) => Err(format!("{shown}: {error}")),
        };
        match (parsed, self.0.get(&shown)) {
            (Ok((settings, doubts)), _) => {
                doubts.into_iter().for_each(|doubt| log.log(Severity::Warning, doubt));
                if self.0.len() >= LastGood::MOST {
                    self.0.clear();
                }
                self.0.insert(shown, settings.clone());
                Ok(Some(settings))
            }
            (Err(why), Some(before)) => {
                log.log(Severity::Error, format_args!("{why}; what it said before holds"));
                Ok(Some(before.clone()))
            }
            (Err(why), None) => Err(NoSettings::Fault(why)),
        }
    }
}

/// Reads the pool's file; one that is not there yet is empty.
pub(crate) fn read_pool_file(file: Option<&PoolFile>) -> io::Result<Vec<PoolEntry>> {
    let Some(file) = file else { return Ok(Vec::new()) };
    match fs::read_to_string(&file.path) {
        Ok(text) => Ok(parse_pool_file(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", file.path.display()))),
    }
}

/// The file that says who has which address.
struct PoolLeases {
    file: Option<PoolFile>,
    leases: Leases,
    /// Changes that the file has.
    written: u64,
    /// Since when there are others.
    changed: Option<Instant>,
}

impl PoolLeases {
    fn new(file: Option<PoolFile>, remembered: Vec<PoolEntry>, leases: Leases) -> Self {
        let mut entries = leases.lock();
        // Of a name that another endpoint knows by now, its own file says nothing newer.
        let is_first = entries.is_empty();
        remembered.into_iter().for_each(|entry| entries.note(entry));
        let written = if is_first { entries.changes() } else { 0 };
        drop(entries);
        PoolLeases { file, leases, written, changed: None }
    }

    fn note(&mut self, entry: PoolEntry) {
        self.leases.lock().note(entry);
    }

    /// When to look whether there is something to write. Other endpoints may note leases meanwhile.
    fn next_write(&mut self) -> Duration {
        let every = self.file.as_ref().and_then(|file| file.every);
        let Some(every) = every else { return Duration::from_secs(3600) };
        if self.leases.lock().changes() == self.written {
            return every;
        }
        every.saturating_sub(self.changed.get_or_insert_with(Instant::now).elapsed())
    }

    fn write(&mut self, helper: &HelperFiles, log: &mut Logger) {
        let Some(file) = self.file.as_ref().filter(|file| file.every.is_some()) else { return };
        // Held while it is written, as another endpoint's file may be the same.
        let entries = self.leases.lock();
        self.changed = None;
        if std::mem::replace(&mut self.written, entries.changes()) == entries.changes() {
            return;
        }
        let leases: Vec<PoolEntry> = entries.all();
        if let Err(error) = helper.write_pool(&leases) {
            let path = file.path.display();
            log.log(
                Severity::Warning,
                format_args!("ifconfig-pool-persist {path} cannot be written: {error}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use adit_host::log::{LogPlace, LogSettings};

    use super::*;

    /// A client is not sent away for a fault in its file that was not there before.
    #[test]
    fn a_file_with_a_fault_gives_what_it_gave_without() {
        let nowhere = LogPlace::File { path: "/dev/null".into(), append: true };
        let mut log = Logger::new(&LogSettings { place: Some(nowhere), ..LogSettings::default() }).unwrap();
        let directory = PerClient { directory: Some("ccd".into()), ..PerClient::default() };
        let exclusive = PerClient { exclusive: true, ..directory.clone() };
        let mut last_good = LastGood::default();
        let mut of = |files: &PerClient, name: &str, text: io::Result<Option<&str>>| {
            let read = |file: &str| match (&text, file) {
                (Ok(text), "ann") => Ok(text.map(|text| text.as_bytes().to_vec())),
                (Err(error), "ann") => Err(error.kind().into()),
                _ => Ok(None),
            };
            let settings = last_good.settings_of((files, &read), name, &mut log);
            settings.map(|settings| settings.ipv4.map(|(address, _)| address.to_string()))
        };
        let denied = || Err(io::ErrorKind::PermissionDenied.into());
        let typo = Ok(Some("ifconfig-push 10.8.0.50 255.255.255.0\niroute 192.168.44.0/24\n"));
        let fault = |outcome: Result<Option<String>, NoSettings>| match outcome {
            Err(NoSettings::Fault(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(fault(of(&directory, "ann", denied())).contains("ccd/ann"));
        assert!(fault(of(&directory, "ann", Ok(Some("disabel\n")))).contains("ccd/ann:1"));
        let address = Some("10.8.0.50".to_owned());
        let good = Ok(Some("ifconfig-push 10.8.0.50 255.255.255.0\n"));
        assert_eq!(of(&directory, "ann", good), Ok(address.clone()));
        assert_eq!(of(&directory, "ann", typo), Ok(address.clone()));
        assert_eq!(of(&directory, "ann", denied()), Ok(address));
        assert_eq!(of(&directory, "bob", denied()), Ok(None), "no file of its own, and no DEFAULT");
        // A file that is gone is no fault.
        assert_eq!(of(&directory, "ann", Ok(None)), Ok(None));
        assert!(fault(of(&directory, "ann", denied())).contains("ccd/ann"), "it is forgotten");
        assert!(matches!(of(&exclusive, "bob", Ok(None)), Err(NoSettings::Refused(_))));
    }
}
