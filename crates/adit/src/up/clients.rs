//! What a server has on disk for its clients: a file for each, and who had which address.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Seek as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_config::openvpn::{
    PerClient, PoolFile, client_file_name, parse_client_file, parse_pool_file, print_pool_file,
};
use adit_core::{Command, PeerId, PeerSettings, PoolEntry, Protocol, Severity};
use adit_io::Handle;

use crate::log::Logger;

/// The file for clients that have none of their own.
const DEFAULT: &str = "DEFAULT";
/// The largest file read for a client, in bytes.
const MAX_FILE: u64 = 1 << 20;

enum Job {
    LookUp { peer: PeerId, name: String },
    Leased(PoolEntry),
}

/// A thread that reads and writes these files, so that nobody waits for a disk. When it is dropped, what is
/// to be remembered has been written.
pub(super) struct Clients {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Clients {
    /// Starts the thread. `remembered` is what the pool's file said.
    pub(super) fn start<P: Protocol + 'static>(
        files: PerClient,
        remembered: Vec<PoolEntry>,
        handle: Handle<P>,
        log: Logger,
    ) -> io::Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let mut book = Book::new(files.pool_file.clone(), remembered);
        let work = move || {
            let mut log = log;
            loop {
                match receiver.recv_timeout(book.next_write()) {
                    Ok(Job::Leased(entry)) => book.note(entry),
                    Ok(Job::LookUp { peer, name }) => {
                        let settings = settings_of(&files, &name, &mut log).map(Box::new);
                        handle.command(Command::PeerSettings { peer, name, settings });
                    }
                    Err(RecvTimeoutError::Timeout) => book.write(&mut log),
                    Err(RecvTimeoutError::Disconnected) => return book.write(&mut log),
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

/// What the files say of a client; an error says why that cannot be told.
fn settings_of(files: &PerClient, name: &str, log: &mut Logger) -> Result<PeerSettings, String> {
    let Some(directory) = &files.directory else { return Ok(PeerSettings::default()) };
    let own = client_file_name(name).map(|file| directory.join(file)).filter(|path| path.is_file());
    let path = match own {
        Some(path) => path,
        None if files.exclusive => {
            return Err(format!("{} has no file for it (ccd-exclusive)", directory.display()));
        }
        None => directory.join(DEFAULT),
    };
    let shown = path.display().to_string();
    let text = match read_small(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(PeerSettings::default()),
        Err(error) => return Err(format!("{shown}: {error}")),
    };
    let (settings, doubts) = parse_client_file(&shown, &text).map_err(|failure| failure.to_string())?;
    for doubt in doubts {
        log.log(Severity::Warning, doubt);
    }
    Ok(settings)
}

fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.len() > MAX_FILE {
        return Err(io::Error::other("too large for a client's file"));
    }
    fs::read(path)
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

/// Who has which address, and the file that says so.
struct Book {
    file: Option<PoolFile>,
    /// The same, opened while the process could.
    opened: Option<fs::File>,
    entries: BTreeMap<(Option<Ipv4Addr>, Option<Ipv6Addr>), PoolEntry>,
    changed: Option<Instant>,
}

impl Book {
    fn new(file: Option<PoolFile>, remembered: Vec<PoolEntry>) -> Self {
        let mut book = Book {
            opened: file.as_ref().and_then(open_pool_file),
            file,
            entries: BTreeMap::new(),
            changed: None,
        };
        remembered.into_iter().for_each(|entry| book.note(entry));
        book.changed = None;
        book
    }

    /// An address has one owner, and a name one address.
    fn note(&mut self, entry: PoolEntry) {
        let key = (entry.ipv4, entry.ipv6);
        if self.entries.get(&key) == Some(&entry) {
            return;
        }
        self.entries.retain(|_, other| other.name != entry.name);
        self.entries.insert(key, entry);
        self.changed.get_or_insert_with(Instant::now);
    }

    fn next_write(&self) -> Duration {
        let every = self.file.as_ref().and_then(|file| file.every);
        match (every, self.changed) {
            (Some(every), Some(changed)) => every.saturating_sub(changed.elapsed()),
            _ => Duration::from_secs(3600),
        }
    }

    fn write(&mut self, log: &mut Logger) {
        let Some(file) = self.file.as_ref().filter(|file| file.every.is_some()) else { return };
        if self.changed.take().is_none() {
            return;
        }
        let text = print_pool_file(self.entries.values());
        if let Err(error) = replace(&file.path, self.opened.as_mut(), &text) {
            let path = file.path.display();
            log.log(
                Severity::Warning,
                format_args!("ifconfig-pool-persist {path} cannot be written: {error}"),
            );
        }
    }
}

/// Opens the pool's file for the time after `user`, if it is written at all. That it cannot be opened will show
/// when it is to be written.
fn open_pool_file(file: &PoolFile) -> Option<fs::File> {
    file.every?;
    for_owner().create(true).truncate(false).open(&file.path).ok()
}

/// Opens files to write. A new one is for its owner alone: it has the names and addresses of clients.
fn for_owner() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Replaces a file in one step where its directory may be written, else in place.
fn replace(path: &Path, opened: Option<&mut fs::File>, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    // One that an interrupted run left may have other rights.
    let _ = fs::remove_file(&beside);
    let made = for_owner().create_new(true).open(&beside);
    match made.and_then(|mut file| file.write_all(text.as_bytes())).and_then(|()| fs::rename(&beside, path)) {
        Ok(()) => Ok(()),
        Err(_) => {
            let _ = fs::remove_file(&beside);
            match opened {
                Some(file) => {
                    file.set_len(0)?;
                    file.rewind()?;
                    file.write_all(text.as_bytes())
                }
                None => for_owner().create(true).truncate(true).open(path)?.write_all(text.as_bytes()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use adit_testbed::Scratch;

    use super::*;

    #[test]
    fn the_pool_file_is_for_its_owner() {
        let scratch = Scratch::create("pool").expect("a directory");
        let mode = |path: &Path| fs::metadata(path).expect("the file").permissions().mode() & 0o777;
        let path = scratch.path().join("pool");
        let file = PoolFile { path: path.clone(), every: Some(Duration::from_secs(1)) };
        drop(open_pool_file(&file).expect("it can be made"));
        assert_eq!(mode(&path), 0o600);
        // Also after it was made by a version that did not care, and with what that left.
        let beside = scratch.path().join("pool.new");
        for left in [&path, &beside] {
            fs::write(left, "old").expect("it can be written");
            fs::set_permissions(left, fs::Permissions::from_mode(0o644)).expect("it is ours");
        }
        replace(&path, None, "alice,10.8.0.2\n").expect("it can be written");
        assert_eq!(
            (mode(&path), fs::read_to_string(&path).expect("text")),
            (0o600, "alice,10.8.0.2\n".to_owned())
        );
        assert!(!beside.exists());
    }
}
