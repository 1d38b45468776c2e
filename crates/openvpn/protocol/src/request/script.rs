use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use zeroize::Zeroizing;

use super::PeerSettings;

/// Names one run of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptId {
    /// The connection for which it runs; never used twice.
    pub owner: u64,
    /// Counts the runs for that owner.
    pub number: u32,
}

/// Which scripts make room when too many wait for peers of one source: the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScriptPriority {
    /// About a peer that has not authenticated.
    Unauthenticated,
    /// About a peer that has.
    Authenticated,
    /// The end of something about which a script ran before: a client (`client-disconnect`), or its address
    /// (`learn-address delete`). Without it, accounting and firewalls keep things that are over.
    End,
}

/// A program to run beside the machine, which does not wait for it. Nothing of it is read by a shell.
#[derive(Clone)]
pub struct Script {
    /// Names this run.
    pub id: ScriptId,
    /// The address of the peer that it is about: scripts of each source have their turn.
    pub source: Option<IpAddr>,
    /// Which make room first when too many wait.
    pub priority: ScriptPriority,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its environment, besides `secrets`, `PATH` and `dev`, the tunnel's device.
    pub env: Vec<(String, String)>,
    /// Environment variables that hold secrets. They are wiped when the script has begun.
    pub secrets: Vec<(&'static str, Zeroizing<String>)>,
    /// Files made for it and removed afterwards, readable by us alone.
    pub files: Vec<ScriptFile>,
    /// Which of the files holds settings of a peer, in the form of the configuration, when it has succeeded.
    pub settings: Option<usize>,
    /// With exit code 2 the script defers its result, which stands in the first file later: when that is no longer
    /// empty, nor `2`, a second [`super::Reply::ScriptDone`] follows.
    pub defers: bool,
    /// The network that it tells of. It begins only when all scripts that tell of the same network, and which were asked
    /// for before it, have ended; and one script at once tells of any.
    pub in_order: Option<IpNet>,
    /// Another script, which put its answer off: this script gets the environment variables that name the files of the
    /// other script, so that it can answer in its place.
    pub beside: Option<ScriptId>,
    /// After this long it is killed.
    pub timeout: Duration,
}

impl Script {
    /// Wipes the secrets: the variables, and the content of its files.
    pub fn wipe(&mut self) {
        self.secrets.clear();
        self.files.iter_mut().for_each(|file| file.content = Zeroizing::default());
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("id", &self.id).field("argv", &self.argv).finish_non_exhaustive()
    }
}

/// A file for a script.
#[derive(Clone)]
pub struct ScriptFile {
    /// Its first content.
    pub content: Zeroizing<Vec<u8>>,
    /// Its path is the next argument.
    pub is_argument: bool,
    /// The environment variable that holds its path.
    pub variable: Option<&'static str>,
}

/// The result of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOutcome {
    /// Its exit code; or why it could not be run to its end.
    pub exit: Result<i32, String>,
    /// The content of its files now, in their order.
    pub files: Vec<Vec<u8>>,
    /// The settings that it wrote, if it was to write some and succeeded; or the fault in them.
    pub settings: Option<Result<Box<PeerSettings>, String>>,
}
