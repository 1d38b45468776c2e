//! A tunnel's process that was taken over, played: it sends its helper any messages. Nothing outside the policy of the start is
//! opened, written or run.

#[cfg(test)]
mod generator;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Read as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};
use zeroize::Zeroizing;

use super::channel::Channel;
use super::gathered::{Allowed, Dialect, Gathered};
use super::policy::{Policy, Revocations, Scripts};
use super::request::Request;
use super::serve::{self, Rights};

/// The content of the files that no policy names.
const SECRET: &str = "what no answer may hold";
/// How long an answer may take.
const LONGEST: Duration = Duration::from_secs(30);

/// The files of a policy, and beside them files that it does not name.
pub(crate) struct World {
    root: PathBuf,
    /// The watch, which reports every file that is opened in the forbidden directory.
    watch: OwnedFd,
    forbidden: Vec<Entry>,
}

/// A file, by the properties that are compared.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    path: PathBuf,
    content: Vec<u8>,
    mode: u32,
    changed: (i64, i64),
}

/// The names of a world's files, each below its root.
const CONFIGURATION: &str = "allowed/tunnel.conf";
const PROGRAM: &str = "allowed/program";
const FORBIDDEN: &str = "forbidden";
/// The names that may be in the allowed directory at the end. A file that is written anew has a name with `.new` for a moment.
const ALLOWED: [&str; 10] = [
    "clients",
    "lists",
    "password",
    "pool",
    "program",
    "ran",
    "resolv.conf",
    "scripts",
    "state",
    "tunnel.conf",
];

impl World {
    /// Makes the files below a directory that is empty.
    ///
    /// # Errors
    /// When the system refuses one.
    pub(crate) fn create(root: &Path) -> io::Result<Self> {
        let allowed = root.join("allowed");
        for directory in ["allowed/clients", "allowed/scripts", FORBIDDEN] {
            fs::create_dir_all(root.join(directory))?;
        }
        for (name, content) in [("clients/alice", "iroute"), ("lists", "list"), ("password", "ann\nsecret\n")]
        {
            fs::write(allowed.join(name), content)?;
        }
        fs::write(root.join(CONFIGURATION), "!start")?;
        let forbidden = root.join(FORBIDDEN);
        fs::write(forbidden.join("secret"), SECRET)?;
        for (program, directory) in [(root.join(PROGRAM), &allowed), (forbidden.join("program"), &forbidden)]
        {
            fs::write(&program, format!("#!/bin/sh\n: {SECRET}\n: >{}/ran\n", directory.display()))?;
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        }
        let entries = entries(&forbidden)?;
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&watch, &forbidden, WatchFlags::OPEN | WatchFlags::CREATE | WatchFlags::DELETE)?;
        Ok(World { root: root.to_owned(), watch, forbidden: entries })
    }

    /// The policy of the helper: it names all that is allowed, and nothing else.
    pub(crate) fn policy(&self) -> Policy {
        let path = |name: &str| Some(self.root.join("allowed").join(name));
        let scripts = Scripts {
            commands: vec![vec![self.root.join(PROGRAM).display().to_string()]],
            directory: self.root.join("allowed/scripts"),
            ..Scripts::default()
        };
        Policy {
            names: vec!["localhost".to_owned()],
            configuration: path("tunnel.conf"),
            writes_configuration: true,
            state_file: path("state"),
            client_directory: path("clients"),
            revocations: path("lists").map(|path| Revocations { path, is_directory: false }),
            pool_file: path("pool"),
            user_password: path("password"),
            scripts: Some(scripts),
            ..Policy::default()
        }
    }

    /// Texts that a tunnel's process would try: names of files that are allowed and that are not, commands, variables.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<String> {
        let paths = [CONFIGURATION, PROGRAM, "forbidden/secret", "forbidden/program"];
        let paths = paths.iter().map(|name| self.root.join(name).display().to_string());
        let words = [
            "",
            "alice",
            "../../forbidden/secret",
            "/bin/sh",
            "-c",
            "localhost",
            "dev",
            "LD_PRELOAD",
            "a\nb,c",
        ];
        let command = format!(": >{}/ran", self.root.join(FORBIDDEN).display());
        paths.chain(words.map(str::to_owned)).chain([command]).collect()
    }

    /// Starts a helper in a thread of this process.
    pub(crate) fn start(&self, policy: Policy) -> io::Result<Played> {
        let (main, helper) = begin()?;
        let started: Result<Vec<super::request::Note>, String> =
            main.call(&Request::Start(Box::new(policy)))?;
        started.map_err(io::Error::other)?;
        Ok(Played { main, helper })
    }

    /// Checks that the helper has done nothing outside its policy, whatever was sent.
    ///
    /// # Panics
    /// If a file that no policy names was opened, made, removed or changed, or if the configuration has a text that no helper
    /// writes.
    pub(crate) fn check(&self) {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
        let mut reader = inotify::Reader::new(&self.watch, &mut buffer);
        let touched: Vec<String> =
            std::iter::from_fn(|| reader.next().ok().map(|event| format!("{event:?}"))).collect();
        assert_eq!(touched, Vec::<String>::new(), "a file was opened, made or removed that no policy names");
        let now = entries(&self.root.join(FORBIDDEN)).expect("they are there");
        assert_eq!(now, self.forbidden);
        // The events of this check's own reading.
        while reader.next().is_ok() {}
        for entry in fs::read_dir(self.root.join("allowed")).expect("it is there") {
            let name = entry.expect("its name").file_name();
            let known = ALLOWED.iter().any(|known| name.to_str() == Some(known));
            assert!(known, "{name:?} was made, which no policy names");
        }
        let text = fs::read_to_string(self.root.join(CONFIGURATION)).expect("it is there");
        assert!(text == "!start" || text.starts_with("!start saved "), "{text}");
    }
}

/// The files in a directory.
fn entries(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    let entry = |path: PathBuf| {
        let metadata = fs::metadata(&path)?;
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        Ok(Entry { content: fs::read(&path)?, mode: metadata.mode(), changed, path })
    };
    paths.into_iter().map(entry).collect()
}

/// The files of the configuration's dialect: a text that begins with an exclamation mark allows as much as the policy
/// does. The state of the tunnel is printed as the number of its bytes.
fn dialect() -> Dialect {
    let gather = |path: &Path| {
        let text = fs::read(path)?;
        let allowed = text.starts_with(b"!start").then(|| Allowed {
            writes_configuration: true,
            client_directory: path.parent().map(|parent| parent.join("clients")),
            ..Allowed::default()
        });
        Ok(Gathered { text, files: Vec::new(), allowed })
    };
    // The text holds no state that was saved before: the helper builds on its own reading.
    let rewrite = |text: &[u8], state: &[u8]| {
        let own = text.strip_prefix(b"!start").ok_or(io::ErrorKind::InvalidData)?;
        assert!(own.is_empty() || own.starts_with(b" saved "), "the helper reads what it has written alone");
        Ok(Zeroizing::new(format!("!start saved {}", state.len()).into_bytes()))
    };
    let print_leases = |leases: &[adit_core::PoolEntry]| format!("{}\n", leases.len());
    Dialect { gather, rewrite, print_leases }
}

/// A helper without a policy, and the channel to it.
pub(crate) fn begin() -> io::Result<(Channel, JoinHandle<io::Result<()>>)> {
    let (ours, theirs) = Channel::pair()?;
    let work = move || serve::serve(theirs, Rights::OfTheProcess, dialect());
    let helper = thread::Builder::new().name("adit-played".to_owned()).spawn(work)?;
    Ok((ours, helper))
}

/// A helper that serves, and the channel on which its tunnel's process asks for further ones.
pub(crate) struct Played {
    pub(crate) main: Channel,
    helper: JoinHandle<io::Result<()>>,
}

impl Played {
    /// A further channel.
    pub(crate) fn channel(&self) -> io::Result<Channel> {
        let (ours, theirs) = Channel::pair()?;
        self.main.send_with(&Request::Channel, Some(theirs.as_fd()))?;
        Ok(ours)
    }

    /// Sends these messages on a channel of their own, each with a descriptor, and returns all answers until the helper closes the
    /// channel.
    ///
    /// # Panics
    /// If an answer holds the content of a file that no policy names.
    pub(crate) fn say(&self, messages: &[impl Serialize]) -> io::Result<Vec<u8>> {
        let channel = self.channel()?;
        for message in messages {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
            // The helper may have closed the channel at the message before.
            let _ = channel.send_with(message, Some(socket.as_fd()));
        }
        let mut stream = UnixStream::from(OwnedFd::from(channel));
        stream.shutdown(Shutdown::Write)?;
        stream.set_read_timeout(Some(LONGEST))?;
        let mut answers = Vec::new();
        match stream.read_to_end(&mut answers) {
            // The helper closed its end before it had read all messages.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            outcome => drop(outcome?),
        }
        let holds = answers.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
        assert!(!holds, "a file was read that no policy names");
        Ok(answers)
    }

    /// Ends the tunnel's process, and waits until the helper has ended.
    pub(crate) fn end(self) -> io::Result<()> {
        drop(self.main);
        self.helper.join().map_err(|_| io::Error::other("the helper panicked"))?
    }
}

/// Sends a helper the messages of `input`: a byte tells how many bytes of a message follow, at most.
///
/// # Panics
/// If something outside the policy of the start is opened or written, or an answer holds it.
pub(crate) fn play(mut input: &[u8]) -> io::Result<()> {
    let root = std::env::temp_dir().join(format!("adit-played-{}", std::process::id()));
    let _ = fs::remove_dir_all(&root);
    let world = World::create(&root)?;
    // A program takes longer than all else.
    let policy = Policy { scripts: None, ..world.policy() };
    let played = world.start(policy)?;
    while let Some((length, rest)) = input.split_first() {
        let (message, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        input = rest;
        if let Ok(request) = postcard::from_bytes::<Request>(message)
            && !is_slow(&request)
        {
            played.say(&[request])?;
        }
    }
    played.end()?;
    world.check();
    fs::remove_dir_all(&root)
}

/// Whether a request waits for a name server.
fn is_slow(request: &Request) -> bool {
    use super::request::FileRequest;
    matches!(request, Request::File(FileRequest::Names | FileRequest::Name(_)))
}
