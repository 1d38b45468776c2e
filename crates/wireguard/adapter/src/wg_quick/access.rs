//! Which peers may be connected: a program is asked about a peer that connects and told of one that has disconnected; a
//! peer expires on a day, or may be connected for some time only. All are settings of adit's own in the file.
//!
//! One thread per tunnel decides. Where there is a program `client-connect`, the interface lets no packet of a peer pass before the
//! thread has admitted its connection ([`Changes::gated`]), which it does when the program has said yes. It blocks a peer at the
//! interface ([`PeerChange::blocked`]); who unblocks it there, `adit allow`, lets it connect again.

mod call;
mod rules;

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use adit_core::{PeerId, Severity, escaped};
use adit_guard::ScriptLauncher;
use adit_host::scripts::{ScriptId, ScriptOutcome, Scripts};
use adit_wireguard::{Changes, Event, PeerChange, PeerInfo, PublicKey};
use adit_wireguard_config::{Config, Interface, Peer};

use self::call::Connection;
use self::rules::{Now, Reason, Rules};
use crate::interface::Orders;
use adit_host::log::Logger;
use adit_host::status::OtherTables;

/// The name of programs that wait in the status.
const WAITING: &str = "scripts that wait";
/// How long a peer stays blocked that `client-connect` refused: then it may connect, and the program is asked again.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// How often it looks at the clock, which may be set, and at who is blocked. A peer that another unblocked is found then.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A message to the thread.
enum Word {
    Up(PeerId, Box<PeerInfo>),
    Down(PeerId, String),
    Script(ScriptId, ScriptOutcome),
    Config(Box<Config>),
    End,
}

/// A way to tell the thread of a tunnel. Copies tell the same.
#[derive(Clone)]
pub(super) struct Words(mpsc::Sender<Word>);

impl Words {
    /// Takes an event of the interface.
    pub(super) fn event(&self, event: &Event) {
        let word = match event {
            Event::PeerUp { peer, info } => Word::Up(*peer, info.clone()),
            Event::PeerDown { peer, reason } => Word::Down(*peer, reason.clone()),
            _ => return,
        };
        self.tell(word);
    }

    /// The file was read again.
    pub(super) fn config(&self, config: &Config) {
        self.tell(Word::Config(Box::new(config.clone())));
    }

    fn tell(&self, word: Word) {
        // A thread that has ended needs no word.
        let _ = self.0.send(word);
    }
}

/// The thread. When this is dropped, the programs that it has run have ended.
pub(super) struct Access {
    words: Words,
    thread: Option<JoinHandle<()>>,
}

impl Access {
    /// Starts it. `launcher` runs the programs, if the file has some; `tables` gets that of
    /// the programs that wait.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub(super) fn start(
        config: &Config,
        device: &str,
        launcher: Option<ScriptLauncher>,
        (orders, log, tables): (Orders, Logger, OtherTables),
    ) -> io::Result<Self> {
        let (words, receiver) = mpsc::channel();
        let words = Words(words);
        let answers = words.clone();
        let scripts = launcher.map(|launcher| {
            Scripts::start(
                WAITING,
                Box::new(move |script, outcome| answers.tell(Word::Script(script.id, outcome))),
                launcher,
                Vec::new(),
            )
        });
        let scripts = scripts.transpose()?;
        if let Some(scripts) = &scripts {
            tables.add(scripts.usage());
        }
        let worker = Worker {
            rules: Rules::new(config),
            programs: config.interface.clone(),
            scripts,
            device: device.to_owned(),
            connected: BTreeMap::new(),
            owners: 0,
            asked: BTreeMap::new(),
            orders,
            log,
        };
        let work = move || worker.run(&receiver);
        let thread = thread::Builder::new().name("adit-access".to_owned()).spawn(work)?;
        Ok(Access { words, thread: Some(thread) })
    }

    /// A way to tell it.
    pub(super) fn words(&self) -> Words {
        self.words.clone()
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        self.words.tell(Word::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether the peer has expired by the system's clock.
pub(super) fn has_expired(peer: &Peer) -> bool {
    peer.expires.is_some_and(|expires| expires <= wall())
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn now() -> Now {
    Now { wall: wall(), at: adit_io::clock() }
}

struct Worker {
    rules: Rules,
    programs: Interface,
    scripts: Option<Scripts>,
    device: String,
    connected: BTreeMap<PeerId, Connection>,
    /// Connections so far: each has its scripts one after the other.
    owners: u64,
    /// The scripts that were asked about a connection, by its number, of a peer.
    asked: BTreeMap<ScriptId, (u64, PublicKey)>,
    orders: Orders,
    log: Logger,
}

impl Worker {
    fn run(mut self, words: &mpsc::Receiver<Word>) {
        loop {
            self.enforce();
            let word = match self.rules.wait(now()) {
                Some(wait) => words.recv_timeout(wait.min(LOOK_EVERY)),
                None => words.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match word {
                Ok(Word::Up(id, info)) => self.up(id, *info),
                Ok(Word::Down(id, reason)) => self.down(id, &reason),
                Ok(Word::Script(id, outcome)) => self.answered(id, &outcome),
                Ok(Word::Config(config)) => {
                    self.rules.replace(&config);
                    // The helper runs what the file names that was read last.
                    self.programs = config.interface;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Word::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn up(&mut self, id: PeerId, info: PeerInfo) {
        let key = info.detail.public_key;
        self.rules.connected(key, adit_io::clock());
        self.owners += 1;
        let connection = Connection::new(self.owners, info, self.rules.called(&key), wall());
        match (&self.scripts, &self.programs.client_connect) {
            (Some(scripts), Some(argv)) => {
                let script = connection.connect(argv);
                self.asked.insert(script.id, (self.owners, key));
                scripts.run(Box::new(script), &self.device);
            }
            _ => self.admit(&connection),
        }
        self.connected.insert(id, connection);
    }

    fn down(&mut self, id: PeerId, reason: &str) {
        let Some(connection) = self.connected.remove(&id) else { return };
        if let (Some(scripts), Some(argv)) = (&self.scripts, &self.programs.client_disconnect) {
            let last = self.orders.peer(connection.key());
            let script = connection.disconnect(argv, reason, (last, adit_io::clock()));
            scripts.run(Box::new(script), &self.device);
        }
    }

    /// Packets of the connection may pass, if it is there still.
    fn admit(&self, connection: &Connection) {
        let change = PeerChange {
            update_only: true,
            admit: Some(connection.since()),
            ..PeerChange::new(connection.key())
        };
        self.change(change);
    }

    fn change(&self, change: PeerChange) {
        let changes = Changes { peers: vec![change], ..Changes::default() };
        // Nothing of it can be refused, and an interface that has ended has no peers.
        let _ = self.orders.configure(Box::new(changes));
    }

    /// A script has ended.
    fn answered(&mut self, id: ScriptId, outcome: &ScriptOutcome) {
        let why = match &outcome.exit {
            Ok(0) => None,
            Ok(code) => Some(format!("exit code {code}")),
            Err(why) => Some(escaped(why).into_owned()),
        };
        // Programs about a disconnection give no answer.
        let asked = self.asked.remove(&id);
        let Some(why) = why else {
            let number = asked.map(|(number, _)| number);
            let connection = self.connected.values().find(|connection| Some(connection.number()) == number);
            return connection.into_iter().for_each(|connection| self.admit(connection));
        };
        match asked {
            Some((_, key)) => {
                let called = self.rules.called(&key);
                let text = format_args!("peer {called}: client-connect refuses it: {why}");
                self.log.log(Severity::Warning, text);
                self.rules.refuse(key, adit_io::clock() + REFUSED_FOR);
            }
            None => self.log.log(Severity::Warning, format_args!("client-disconnect: {why}")),
        }
    }

    /// Has the interface block who is to be blocked, and no other peer that this thread has blocked.
    fn enforce(&mut self) {
        let blocked = self.rules.blocked();
        if !blocked.is_empty() {
            for (key, is_blocked) in self.orders.blocked(blocked).unwrap_or_default() {
                if self.rules.found(key, is_blocked) {
                    let text = format_args!("peer {}: it may connect again", self.rules.called(&key));
                    self.log.log(Severity::Info, text);
                }
            }
        }
        for (key, reason) in self.rules.changes(now()) {
            let change =
                PeerChange { update_only: true, blocked: Some(reason.is_some()), ..PeerChange::new(key) };
            self.change(change);
            let called = self.rules.called(&key);
            match reason {
                // The answer of the program is in the log.
                Some(Reason::Refused) => {}
                Some(reason) => {
                    self.log.log(Severity::Info, format_args!("peer {called}: blocked: {reason}"))
                }
                None => self.log.log(Severity::Info, format_args!("peer {called}: it may connect again")),
            }
        }
    }
}
