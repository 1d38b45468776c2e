//! Files that a tunnel reads and writes while it runs, after it gave up the right to.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::net::ToSocketAddrs as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use adit_core::PoolEntry;
use rustix::fs::{Mode, OFlags, open, openat};
use zeroize::Zeroizing;

use super::channel::Channel;
use super::client::Helper;
use super::gathered::{Allowed, Dialect, Gathered};
use super::policy::{Policy, Revocations};
use super::pool::Pool;
use super::request::{FileRequest, LookedUp, LookedUpOne, Mark, Refusal};
use crate::replace::replace_file;

/// The largest file read for a client, in bytes.
const MAX_CLIENT_FILE: u64 = 1 << 20;
/// Larger files are no revocation lists.
const MAX_REVOCATIONS: u64 = 64 << 20;
/// Larger files hold no username and password.
const MAX_USER_PASSWORD: u64 = 16 << 10;
/// The file of access rules, in the directory of the configuration.
pub const ACCESS_FILE: &str = "access.toml";
/// Larger files are no access rules.
const MAX_ACCESS: u64 = 4 << 20;
/// The longest state of a tunnel, in bytes.
const MAX_STATE: usize = 64;

/// The files of one policy.
pub(super) struct Files {
    dialect: Dialect,
    configuration: Option<Configuration>,
    clients: Mutex<Option<io::Result<OwnedFd>>>,
    revocations: Mutex<Option<Listed>>,
    pool: Option<Mutex<Pool>>,
    user_password: Option<Entry>,
    state: Option<PathBuf>,
    names: Mutex<Vec<String>>,
    /// The text of the configuration that holds, as it was read here, if the tunnel may replace its file. The text that
    /// the tunnel has had written does not change it.
    saved: Mutex<Option<Zeroizing<Vec<u8>>>>,
}

/// The configuration file.
struct Configuration {
    path: PathBuf,
    /// The process that reads it in place of this one.
    reader: Option<Helper>,
    /// The file of access rules beside it.
    access: Entry,
}

/// A configuration that was read again and does not hold yet.
pub(super) struct Proposal {
    /// The requests that it allows.
    pub(super) allowed: Allowed,
    /// Its text, if the tunnel may replace the file.
    text: Option<Zeroizing<Vec<u8>>>,
}

impl Proposal {
    /// The proposal of a configuration that was read; `None` if the configuration has a mistake.
    pub(super) fn of(gathered: &Gathered) -> Option<Self> {
        let allowed = gathered.allowed.clone()?;
        let text = allowed.writes_configuration.then(|| Zeroizing::new(gathered.text.clone()));
        Some(Proposal { allowed, text })
    }
}

/// The revocation lists that the policy names.
struct Listed {
    entry: Entry,
    is_directory: bool,
}

/// A file by its directory, which was opened with root's rights: the way there may lead through directories that only
/// root may enter. The file itself is opened with the rights of now.
struct Entry {
    directory: io::Result<OwnedFd>,
    name: OsString,
}

impl Files {
    /// Opens the files that have to be opened before the process becomes another user.
    ///
    /// # Errors
    /// When a process that reads the configuration is needed and cannot be started.
    pub(super) fn open(policy: &Policy, dialect: Dialect) -> io::Result<Self> {
        let configuration = |path: &PathBuf| -> io::Result<Configuration> {
            let reader = policy.needs_reader().then(|| start_reader(policy)).transpose()?;
            let access = Entry::new(&path.with_file_name(ACCESS_FILE));
            Ok(Configuration { path: path.clone(), reader, access })
        };
        let writable = policy.configuration.as_deref().filter(|_| policy.writes_configuration);
        let saved = writable.map(|path| (dialect.gather)(path)).transpose()?;
        Ok(Files {
            dialect,
            configuration: policy.configuration.as_ref().map(configuration).transpose()?,
            clients: Mutex::new(policy.client_directory.as_deref().map(directory)),
            revocations: Mutex::new(policy.revocations.as_ref().map(Listed::new)),
            pool: policy.pool_file.as_ref().map(|path| Mutex::new(Pool::new(path))),
            user_password: policy.user_password.as_deref().map(Entry::new),
            state: policy.state_file.clone(),
            names: Mutex::new(policy.names.clone()),
            saved: Mutex::new(saved.map(|gathered| Zeroizing::new(gathered.text.clone()))),
        })
    }

    /// Reads the configuration again, with the files that it names.
    pub(super) fn configuration(&self) -> io::Result<Gathered> {
        let Configuration { path, reader, .. } = self.configuration.as_ref().ok_or_else(not_named)?;
        match reader {
            Some(reader) => reader.access().files()?.configuration(),
            None => (self.dialect.gather)(path),
        }
    }

    /// Reads the file of access rules beside the configuration. `None`: there is none.
    fn access_rules(&self) -> io::Result<Option<Vec<u8>>> {
        let Configuration { reader, access, .. } = self.configuration.as_ref().ok_or_else(not_named)?;
        if let Some(reader) = reader {
            return reader.access().files()?.access_rules();
        }
        match access.read(MAX_ACCESS) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// The files that a configuration allows hold from now on.
    pub(super) fn adopt(&self, Proposal { allowed, text }: &Proposal) {
        *self.clients() = allowed.client_directory.as_deref().map(directory);
        *self.listed() = allowed.revocations.as_ref().map(Listed::new);
        if let Some(names) = &allowed.names {
            self.names().clone_from(names);
        }
        self.saved().clone_from(text);
    }

    /// Whether the configuration that holds has a name.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names().iter().any(|known| known == name)
    }

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn saved(&self) -> MutexGuard<'_, Option<Zeroizing<Vec<u8>>>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, Option<io::Result<OwnedFd>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self) -> MutexGuard<'_, Option<Listed>> {
        self.revocations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn serve(&self, channel: &Channel, request: FileRequest) -> io::Result<()> {
        match request {
            FileRequest::Client(name) => channel.send(&self.client(&name).map_err(Refusal::from)),
            FileRequest::RevocationMark => channel.send(&self.mark().map_err(Refusal::from)),
            FileRequest::Revocations => channel.send(&self.revocations().map_err(Refusal::from)),
            FileRequest::WritePool(leases) => channel.send(&self.write_pool(&leases).map_err(Refusal::from)),
            FileRequest::Names => channel.send(&Ok::<_, Refusal>(self.look_up())),
            FileRequest::WriteState(state) => channel.send(&self.write_state(&state).map_err(Refusal::from)),
            FileRequest::SaveConfiguration(state) => {
                channel.send(&self.save_configuration(&state.0).map_err(Refusal::from))
            }
            FileRequest::AccessRules => channel.send(&self.access_rules().map_err(Refusal::from)),
            FileRequest::UserPassword => channel.send(&self.user_password().map_err(Refusal::from)),
            // The caller takes these, as scripts, remotes and the network depend on them too.
            FileRequest::Configuration => channel.send(&Err::<Gathered, _>(Refusal::from(not_named()))),
            FileRequest::ProposedRevocations => channel.send(&Err::<Vec<u8>, _>(Refusal::from(not_named()))),
            FileRequest::Adopt(_)
            | FileRequest::ReplaceRemote(..)
            | FileRequest::ReplaceProxy(..)
            | FileRequest::ProxyCredentials(..) => channel.send(&Err::<(), _>(Refusal::from(not_named()))),
            FileRequest::Name(_) => channel.send(&Err::<LookedUpOne, _>(Refusal::from(not_named()))),
        }
    }

    fn client(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name of a client's file"));
        }
        let clients = self.clients();
        let directory = clients.as_ref().ok_or_else(not_named)?;
        let directory = directory.as_ref().map_err(copy)?;
        match read_at(directory, OsStr::new(name), MAX_CLIENT_FILE) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn mark(&self) -> io::Result<Mark> {
        let listed = self.listed();
        let metadata = listed.as_ref().ok_or_else(not_named)?.open()?.metadata()?;
        Ok((metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino()))
    }

    fn revocations(&self) -> io::Result<Vec<u8>> {
        self.listed().as_ref().ok_or_else(not_named)?.read()
    }

    /// The revocation lists that a configuration names which does not hold yet.
    pub(super) fn proposed_revocations(&self, proposed: Option<&Proposal>) -> io::Result<Vec<u8>> {
        let revocations = proposed.and_then(|proposal| proposal.allowed.revocations.as_ref());
        Listed::new(revocations.ok_or_else(not_named)?).read()
    }

    fn write_pool(&self, leases: &[PoolEntry]) -> io::Result<()> {
        let pool = self.pool.as_ref().ok_or_else(not_named)?;
        let text = (self.dialect.print_leases)(leases);
        pool.lock().unwrap_or_else(PoisonError::into_inner).replace(&text)
    }

    fn write_state(&self, state: &[u8]) -> io::Result<()> {
        let path = self.state.as_ref().ok_or_else(not_named)?;
        if state.len() > MAX_STATE {
            return Err(io::Error::other(format!("the state of a tunnel has at most {MAX_STATE} bytes")));
        }
        let digits: String = state.iter().map(|byte| format!("{byte:02x}")).collect();
        replace_file(path, format!("{digits}\n").as_bytes())
    }

    fn save_configuration(&self, state: &[u8]) -> io::Result<()> {
        let configuration = self.configuration.as_ref().ok_or_else(not_named)?;
        let saved = self.saved();
        let text = (self.dialect.rewrite)(saved.as_ref().ok_or_else(not_named)?, state)?;
        // A link stays one, to the new file.
        replace_file(&fs::canonicalize(&configuration.path)?, &text)
    }

    /// By the system's resolver, which reads files too.
    fn look_up(&self) -> Vec<LookedUp> {
        let names = self.names().clone();
        let addresses = |name: &String| {
            let found = look_up_one(name)?.into_iter();
            Ok(found.map(|address| address.ip().to_canonical()).collect())
        };
        names.iter().map(addresses).collect()
    }

    fn user_password(&self) -> io::Result<Vec<u8>> {
        self.user_password.as_ref().ok_or_else(not_named)?.read(MAX_USER_PASSWORD)
    }
}

/// By the system's resolver.
pub(super) fn look_up_one(name: &str) -> LookedUpOne {
    Ok((name, 0).to_socket_addrs().map_err(|error| error.to_string())?.collect())
}

/// Starts the process that reads the configuration: this program once more, with nothing but the right to read.
fn start_reader(policy: &Policy) -> io::Result<Helper> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut words = std::env::args_os();
    // By the name that this process has, which may say which program it is.
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words);
    let policy = Policy {
        configuration: policy.configuration.clone(),
        reads_for_another: true,
        account: policy.account.clone(),
        lock_memory: policy.lock_memory,
        without_sandbox: policy.without_sandbox,
        ..Policy::default()
    };
    Helper::start(command, policy)
}

impl Listed {
    fn new(revocations: &Revocations) -> Self {
        Listed { entry: Entry::new(&revocations.path), is_directory: revocations.is_directory }
    }

    fn open(&self) -> io::Result<fs::File> {
        self.entry.open()
    }

    /// The lists, or the names in the directory, one a line.
    fn read(&self) -> io::Result<Vec<u8>> {
        if !self.is_directory {
            return self.entry.read(MAX_REVOCATIONS);
        }
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(self.open()?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." && std::str::from_utf8(name).is_ok() {
                names.extend_from_slice(name);
                names.push(b'\n');
            }
        }
        Ok(names)
    }
}

impl Entry {
    fn new(path: &Path) -> Self {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let name = path.file_name().map_or_else(|| path.as_os_str().to_owned(), OsStr::to_owned);
        Entry { directory: directory(parent.unwrap_or(Path::new("."))), name }
    }

    fn open(&self) -> io::Result<fs::File> {
        open_at(self.directory.as_ref().map_err(copy)?, &self.name)
    }

    fn read(&self, most: u64) -> io::Result<Vec<u8>> {
        read_at(self.directory.as_ref().map_err(copy)?, &self.name, most)
    }
}

fn directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn open_at(directory: &OwnedFd, name: &OsStr) -> io::Result<fs::File> {
    // A pipe of that name must not stop the helper.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(openat(directory, name, flags, Mode::empty())?.into())
}

fn read_at(directory: &OwnedFd, name: &OsStr, most: u64) -> io::Result<Vec<u8>> {
    let file = open_at(directory, name)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if metadata.len() > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(most).read_to_end(&mut content)?;
    Ok(content)
}

fn not_named() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the configuration names no such file")
}

fn copy(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use adit_system::testing::Scratch;

    use super::*;

    /// The files of a policy. The tunnel may replace a configuration that begins with an exclamation mark: by its text, a space,
    /// and the state.
    fn opened(policy: &Policy) -> Files {
        let gather = |path: &Path| {
            let text = fs::read(path)?;
            let allowed = Allowed {
                client_directory: Some(path.with_extension("ccd")),
                writes_configuration: text.starts_with(b"!"),
                ..Allowed::default()
            };
            Ok(Gathered { text, files: Vec::new(), allowed: Some(allowed) })
        };
        let rewrite = |text: &[u8], state: &[u8]| Ok(Zeroizing::new([text, state].join(&b' ')));
        let dialect = Dialect { gather, rewrite, print_leases: |leases| leases[0].name.clone() };
        Files::open(policy, dialect).unwrap()
    }

    fn proposal(allowed: Allowed) -> Proposal {
        Proposal { allowed, text: None }
    }

    /// Reads the configuration again, and has it hold.
    fn reload(files: &Files) {
        files.adopt(&Proposal::of(&files.configuration().unwrap()).unwrap());
    }

    #[test]
    fn a_configuration_that_is_read_again_says_where_clients_files_are() {
        let scratch = Scratch::new("gathered");
        let path = scratch.path().join("server.conf");
        fs::write(&path, "one").unwrap();
        let directory = scratch.path().join("server.ccd");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("alice"), "x").unwrap();
        let files = opened(&Policy { configuration: Some(path.clone()), ..Policy::default() });
        let gathered = files.configuration().unwrap();
        assert_eq!(gathered.text, b"one");
        assert!(files.client("alice").is_err(), "nothing that holds named a directory");
        files.adopt(&Proposal::of(&gathered).unwrap());
        assert_eq!(files.client("alice").unwrap().unwrap(), b"x");
        assert!(opened(&Policy::default()).configuration().is_err(), "the policy names no configuration");
    }

    #[test]
    fn only_what_the_policy_names_is_read() {
        let scratch = Scratch::new("files");
        let clients = scratch.path().join("ccd");
        fs::create_dir(&clients).unwrap();
        fs::create_dir(clients.join("directory")).unwrap();
        fs::write(clients.join("alice"), "push \"route 10.1.0.0\"").unwrap();
        fs::write(scratch.path().join("secret"), "x").unwrap();
        fs::File::create(clients.join("large")).unwrap().set_len(MAX_CLIENT_FILE + 1).unwrap();
        let files = opened(&Policy { client_directory: Some(clients), ..Policy::default() });
        assert_eq!(files.client("alice").unwrap().unwrap(), b"push \"route 10.1.0.0\"");
        for none in ["bob", "directory"] {
            assert!(files.client(none).unwrap().is_none(), "{none}");
        }
        for bad in ["../secret", "", ".", "..", "/etc/passwd", "directory/../alice", "large", "a\0"] {
            assert!(files.client(bad).is_err(), "{bad}");
        }
        assert!(files.revocations().is_err() && files.mark().is_err());
        assert!(files.user_password().is_err() && files.write_pool(&[]).is_err());
    }

    #[test]
    fn only_files_that_the_policy_names_are_written() {
        let scratch = Scratch::new("written");
        let (path, link) = (scratch.path().join("real.conf"), scratch.path().join("tunnel.conf"));
        fs::write(&path, "!old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let state = scratch.path().join("state");
        let mut policy = Policy { configuration: Some(link.clone()), ..Policy::default() };
        let files = opened(&policy);
        assert!(files.write_state(b"x").is_err() && files.save_configuration(b"x").is_err());
        reload(&files);
        files.save_configuration(b"1").unwrap();
        assert!(fs::read(&path).unwrap() == b"!old 1" && link.is_symlink());
        fs::write(&path, "old").unwrap();
        reload(&files);
        assert!(files.save_configuration(b"x").is_err(), "the file says otherwise now");
        fs::write(&path, "!new").unwrap();
        policy.writes_configuration = true;
        policy.state_file = Some(state.clone());
        let files = opened(&policy);
        files.save_configuration(b"1").unwrap();
        files.write_state(b"\x00\x7f").unwrap();
        assert!(fs::read(&path).unwrap() == b"!new 1" && fs::read(&state).unwrap() == b"007f\n");
        assert!(files.write_state(&[0; MAX_STATE + 1]).is_err());
    }

    #[test]
    fn what_is_saved_is_built_of_what_was_read_here() {
        let scratch = Scratch::new("saved");
        let path = scratch.path().join("tunnel.conf");
        fs::write(&path, "!start").unwrap();
        let configuration = Some(path.clone());
        let files = opened(&Policy { configuration, writes_configuration: true, ..Policy::default() });
        let saved = |state: &[u8]| {
            files.save_configuration(state).unwrap();
            fs::read(&path).unwrap()
        };
        assert_eq!(saved(b"1"), b"!start 1");
        assert_eq!(saved(b"2"), b"!start 2", "what was saved is not the ground of the next text");
        fs::write(&path, "!edited").unwrap();
        let gathered = files.configuration().unwrap();
        assert_eq!(saved(b"3"), b"!start 3", "what was read does not hold yet");
        files.adopt(&Proposal::of(&gathered).unwrap());
        assert_eq!(saved(b"4"), b"!edited 4");
    }

    #[test]
    fn revocations_are_read_again() {
        let scratch = Scratch::new("crl");
        let list = scratch.path().join("crl.pem");
        fs::write(&list, "one").unwrap();
        let revocations = |path: &Path, is_directory| {
            let revocations = Some(Revocations { path: path.to_owned(), is_directory });
            opened(&Policy { revocations, ..Policy::default() })
        };
        let files = revocations(&list, false);
        let mark = files.mark().unwrap();
        assert_eq!(files.revocations().unwrap(), b"one");
        fs::write(scratch.path().join("new"), "two").unwrap();
        fs::rename(scratch.path().join("new"), &list).unwrap();
        assert_ne!(files.mark().unwrap(), mark);
        assert_eq!(files.revocations().unwrap(), b"two");
        // Those of a configuration that is read again.
        let other = scratch.path().join("other.pem");
        fs::write(&other, "three").unwrap();
        let allowed = proposal(Allowed {
            revocations: Some(Revocations { path: other, is_directory: false }),
            ..Allowed::default()
        });
        assert_eq!(files.proposed_revocations(Some(&allowed)).unwrap(), b"three");
        assert!(files.proposed_revocations(None).is_err() && files.revocations().unwrap() == b"two");
        files.adopt(&allowed);
        assert_eq!(files.revocations().unwrap(), b"three");
        files.adopt(&proposal(Allowed::default()));
        assert!(files.revocations().is_err());
        let files = revocations(scratch.path(), true);
        let names = files.revocations().unwrap();
        assert!(names == b"crl.pem\nother.pem\n" || names == b"other.pem\ncrl.pem\n");
        assert_eq!(files.revocations().unwrap(), names, "from its beginning each time");
    }
}
