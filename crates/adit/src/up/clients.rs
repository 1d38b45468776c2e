//! What a server has on disk for its clients: a file for each, and who had which address.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_config::openvpn::{PerClient, PoolFile, client_file_name, parse_pool_file};
use adit_core::{PeerId, PoolEntry, Protocol, Severity};
use adit_io::{Handle, HelperFiles};
use adit_openvpn::request::{PeerSettings, Reply};

use super::client_settings;
use crate::log::Logger;

/// The file for clients that have none of their own.
const DEFAULT: &str = "DEFAULT";

enum Job {
    LookUp { peer: PeerId, name: String },
    Leased(PoolEntry),
}

/// A thread that reads and writes these files, so that no other thread waits for a disk. When it is dropped, what is
/// to be remembered has been written.
pub(super) struct Clients {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Clients {
    /// Starts the thread. `remembered` is what the pool's file said, `leases` what the endpoints of the tunnel remember
    /// together.
    pub(super) fn start<P: Protocol<Reply = Reply> + 'static>(
        (files, helper): (Arc<Mutex<PerClient>>, HelperFiles),
        (remembered, leases): (Vec<PoolEntry>, Leases),
        handle: Handle<P>,
        log: Logger,
    ) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let pool_file = lock(&files).pool_file.clone();
        let mut leases = PoolLeases::new(pool_file, remembered, leases);
        let work = move || {
            let mut log = log;
            loop {
                match receiver.recv_timeout(leases.next_write()) {
                    Ok(Job::Leased(entry)) => leases.note(entry),
                    Ok(Job::LookUp { peer, name }) => {
                        let settings =
                            settings_of(&lock(&files).clone(), &helper, &name, &mut log).map(Box::new);
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
    pub(super) fn look_up(&self, peer: PeerId, name: String) {
        self.post(Job::LookUp { peer, name });
    }

    /// A name was given an address.
    pub(super) fn leased(&self, entry: PoolEntry) {
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

/// What may change when the configuration is read again.
fn lock(files: &Mutex<PerClient>) -> MutexGuard<'_, PerClient> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the files say of a client; an error says why that cannot be told.
fn settings_of(
    files: &PerClient,
    helper: &HelperFiles,
    name: &str,
    log: &mut Logger,
) -> Result<PeerSettings, String> {
    let Some(directory) = &files.directory else { return Ok(PeerSettings::default()) };
    let read = |file: &str| -> Result<Option<(String, Vec<u8>)>, String> {
        let shown = directory.join(file).display().to_string();
        let text = helper.client_file(file).map_err(|error| format!("{shown}: {error}"))?;
        Ok(text.map(|text| (shown, text)))
    };
    let own = client_file_name(name).map(|file| read(&file)).transpose()?.flatten();
    let found = match own {
        Some(own) => Some(own),
        None if files.exclusive => {
            return Err(format!("{} has no file for it (ccd-exclusive)", directory.display()));
        }
        None => read(DEFAULT)?,
    };
    let Some((shown, text)) = found else { return Ok(PeerSettings::default()) };
    let (settings, doubts) = client_settings::parse(&shown, &text).map_err(|failure| failure.to_string())?;
    for doubt in doubts {
        log.log(Severity::Warning, doubt);
    }
    Ok(settings)
}

/// Reads the pool's file; one that is not there yet is empty.
pub(super) fn read_pool_file(file: Option<&PoolFile>) -> io::Result<Vec<PoolEntry>> {
    let Some(file) = file else { return Ok(Vec::new()) };
    match fs::read_to_string(&file.path) {
        Ok(text) => Ok(parse_pool_file(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", file.path.display()))),
    }
}

/// Who has which address of a tunnel's pool. Clones are the same: the endpoints of a tunnel remember together, in one file
/// or in one each.
#[derive(Clone, Default)]
pub(super) struct Leases(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    by_address: BTreeMap<(Option<Ipv4Addr>, Option<Ipv6Addr>), PoolEntry>,
    /// Changes so far.
    changes: u64,
}

impl Entries {
    /// An address has one owner, and a name one address.
    fn note(&mut self, entry: PoolEntry) {
        let key = (entry.ipv4, entry.ipv6);
        if self.by_address.get(&key) == Some(&entry) {
            return;
        }
        self.by_address.retain(|_, other| other.name != entry.name);
        self.by_address.insert(key, entry);
        self.changes += 1;
    }
}

impl Leases {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let is_first = entries.by_address.is_empty();
        remembered.into_iter().for_each(|entry| entries.note(entry));
        let written = if is_first { entries.changes } else { 0 };
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
        if self.leases.lock().changes == self.written {
            return every;
        }
        every.saturating_sub(self.changed.get_or_insert_with(Instant::now).elapsed())
    }

    fn write(&mut self, helper: &HelperFiles, log: &mut Logger) {
        let Some(file) = self.file.as_ref().filter(|file| file.every.is_some()) else { return };
        // Held while it is written, as another endpoint's file may be the same.
        let entries = self.leases.lock();
        self.changed = None;
        if std::mem::replace(&mut self.written, entries.changes) == entries.changes {
            return;
        }
        let leases: Vec<PoolEntry> = entries.by_address.values().cloned().collect();
        if let Err(error) = helper.write_pool(&leases) {
            let path = file.path.display();
            log.log(
                Severity::Warning,
                format_args!("ifconfig-pool-persist {path} cannot be written: {error}"),
            );
        }
    }
}
