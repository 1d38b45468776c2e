//! A file as a tunnel of the process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adit_core::{Command, Ended, Event, EventOf, Protocol as _, Severity, Transport, UnixTime, escaped};
use adit_guard::{Allowed, Dialect, Gathered, HelperFiles, Policy};
use adit_host::access::AccessRules;
use adit_host::adapter::{Setting, Tunnel};
use adit_host::failure::{Failure, no_randomness, tell_end};
use adit_host::helper::{self, HelperOf};
use adit_host::log::Logger;
use adit_host::notify::Notifier;
use adit_host::privileges::Starting;
use adit_host::signals::{Order, Receiver};
use adit_host::startup::Member;
use adit_host::status::{self, OtherTables, Rows};
use adit_io::{
    Buffers, Driver, DriverConfig, Execution, Family, Handle, Listen, Observer, Remote, StreamOptions,
    TunConfig,
};
use adit_system::SocketRouting;
use adit_toy::{Endpoint, PeerSettings, Remotes, Settings};
use adit_toy_codec::{DataSocket, session};
use rand_core::{OsRng, TryRngCore as _};

use crate::NAME;
use crate::dialect::{File, Peer, parse};

/// The MTU of the device in bytes.
const MTU: u16 = 1400;
/// The time that a connection may take to come about; there is none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The functions with which the helper reads a file. No tunnel replaces a file.
pub(crate) const HELPER: Dialect = Dialect {
    gather,
    rewrite: |_, _| Err(std::io::ErrorKind::PermissionDenied.into()),
    print_leases: |_| String::new(),
};

fn gather(path: &Path) -> std::io::Result<Gathered> {
    let text = std::fs::read(path)?;
    let allowed = parse(path, &text).is_ok().then(Allowed::default);
    Ok(Gathered { text, files: Vec::new(), allowed })
}

/// The rows of `adit status`.
const ROWS: Rows<Endpoint> = Rows {
    role: "toy",
    handshake: |()| "a pre-shared key".to_owned(),
    public_key: |()| None,
    sessions: |(), _| Vec::new(),
    unconnected: |_| Vec::new(),
};

/// A file that is run.
pub(crate) struct ToyTunnel<'a> {
    file: PathBuf,
    content: File,
    setting: Setting<'a>,
}

impl<'a> ToyTunnel<'a> {
    pub(crate) fn new(file: PathBuf, content: File, setting: Setting<'a>) -> Self {
        ToyTunnel { file, content, setting }
    }
}

impl Tunnel for ToyTunnel<'_> {
    fn run(self: Box<Self>, member: Member<'_>) -> Result<(), Failure> {
        let Setting { log, name, has_others, .. } = &self.setting;
        let (mut log, name, has_others) = (log.clone(), name.clone(), *has_others);
        let _flush = log.flush_on_drop();
        let outcome = self.start(&member);
        tell_end(&outcome, &mut log, (&name, has_others));
        outcome
    }
}

impl ToyTunnel<'_> {
    fn start(self, member: &Member<'_>) -> Result<(), Failure> {
        let ToyTunnel { file, content, setting } = self;
        let mut log = setting.log.clone();
        let mut driver: Driver<Endpoint> = Driver::new(config(&content, &setting), session).map_err(world)?;
        let rules = AccessRules::begin(&file, &mut driver, &mut log)?;
        let handle = driver.handle();
        let beside = status::Beside {
            expiring: None,
            confinement: member.startup().confinement.clone(),
            tables: OtherTables::default(),
            endpoints: Vec::new(),
        };
        let shown = status::serve(&setting.name, handle.clone(), ROWS, beside).map_err(world)?;
        let mut policy = Policy::from(driver.helper_needs(true));
        policy.configuration = Some(file.clone());
        policy.removed_at_end.push(shown.path());
        policy.without_sandbox = setting.options.no_sandbox;
        let of = HelperOf { protocol: Some(NAME), options: None };
        let mut helper = helper::start(&of, policy, setting.options.in_background).map_err(Failure::World)?;
        helper.reports().into_iter().for_each(|report| log.log(report.severity, report));
        let access = helper.access();
        driver.use_helper(access.clone(), true).map_err(world)?;
        let running = Running {
            file,
            peers: Mutex::new(content.peers.clone()),
            rules: Mutex::new(rules),
            files: access.files().map_err(world)?,
            handle: handle.clone(),
            log: log.clone(),
        };
        member.take_orders(receiver(Arc::new(running))).map_err(world)?;
        let endpoint = Endpoint::new(settings(&content), adit_io::clock(), seed()?);
        let notifier = Notifier::of(&setting.name, setting.has_others);
        notifier.status("set up");
        let begin = || member.set_up(None);
        let mut observer = Starting { observer: Lines(log), begin: Some(begin) };
        let ended = driver.run(endpoint, &mut observer);
        notifier.stopping();
        drop(helper);
        drop(shown);
        match ended.map_err(world)? {
            Ended::Shutdown => Ok(()),
            Ended::Failed(why) => Err(Failure::World(escaped(&why).into_owned())),
        }
    }
}

fn world(error: impl std::fmt::Display) -> Failure {
    Failure::World(error.to_string())
}

fn seed() -> Result<[u8; 32], Failure> {
    let mut seed = [0; 32];
    OsRng.try_fill_bytes(&mut seed).map_err(no_randomness)?;
    Ok(seed)
}

fn config(content: &File, setting: &Setting<'_>) -> DriverConfig {
    let remote = |peer: &Peer| {
        peer.remote.map(|address| Remote {
            host: address.ip().to_string(),
            random_hostname: false,
            port: address.port(),
            transport: Transport::Udp,
            family: Family::Any,
            bind: None,
            connect_timeout: CONNECT_TIMEOUT,
            proxy: None,
            mark: None,
        })
    };
    DriverConfig {
        tun: TunConfig {
            name: Some(content.device.clone()),
            mtu: Some(MTU.into()),
            offloads: setting.options.offloads,
            ..TunConfig::default()
        },
        single_peer: false,
        changes_routing: false,
        listen: content
            .listen
            .map(|address| Listen { transport: Transport::Udp, address })
            .into_iter()
            .collect(),
        multihome: false,
        remotes: content.peers.iter().filter_map(remote).collect(),
        buffers: Buffers::default(),
        socket_routing: SocketRouting::default(),
        port_share: None,
        workers: setting.options.workers,
        max_connections: 0,
        resolv_conf: None,
        kill_switch: false,
        dataplane: adit_dataplane::Config::new(DataSocket),
        execution: Execution::default(),
        demultiplexers: BTreeMap::new(),
        streams: StreamOptions::default(),
    }
}

/// The settings of the machine. The remotes have the order of the peers that have an address.
fn settings(content: &File) -> Settings {
    let mut remotes = 0..;
    let peer = |peer: &Peer| {
        let data = peer.remote.and_then(|_| remotes.next());
        PeerSettings { remotes: data.map(|data| Remotes { control: None, data }), ..of_peer(peer) }
    };
    Settings {
        addresses: vec![content.address],
        mtu: MTU,
        started: UnixTime(adit_io::unix_now().0),
        peers: content.peers.iter().map(peer).collect(),
    }
}

fn of_peer(peer: &Peer) -> PeerSettings {
    PeerSettings::new(peer.identity, *peer.key, vec![peer.network])
}

/// A tunnel that runs, as its orders find it.
struct Running {
    file: PathBuf,
    /// The peers that it has.
    peers: Mutex<Vec<Peer>>,
    rules: Mutex<AccessRules>,
    files: HelperFiles,
    handle: Handle<Endpoint>,
    log: Logger,
}

fn receiver(running: Arc<Running>) -> Receiver {
    Box::new(move |order| match order {
        Order::Shutdown => running.handle.command(Command::Shutdown),
        Order::Restart => running.handle.command(Command::Restart),
        Order::Status => running.tell_status(),
        Order::Reload => {
            let running = Arc::clone(&running);
            // A file may lie on a slow disk. Without a thread nothing changes; the next signal tries again.
            let name = "adit-reload".to_owned();
            std::thread::Builder::new().name(name).spawn(move || running.reload()).is_ok()
        }
    })
}

impl Running {
    /// Writes a line for each peer that is up to the log.
    fn tell_status(&self) -> bool {
        let mut log = self.log.clone();
        self.handle.inspect(Box::new(move |endpoint: &Endpoint, _, _| {
            for (id, info) in endpoint.peers() {
                log.log(Severity::Info, format_args!("peer {} at {}", id.0, info.path.remote()));
            }
        }))
    }

    /// Reads the file again and adds the peers that are new in it.
    fn reload(&self) {
        let mut log = self.log.clone();
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.reload(&self.files, &self.handle, &mut log);
        match self.read_again() {
            Ok(added) => log.log(Severity::Info, format_args!("SIGHUP: {added} peers were added")),
            Err(why) => log.log(Severity::Error, format_args!("SIGHUP changes nothing: {why}")),
        }
    }

    fn read_again(&self) -> Result<usize, String> {
        let gathered = self.files.configuration().map_err(|error| error.to_string())?;
        let new = parse(&self.file, &gathered.text).map_err(|problem| problem.to_string())?;
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |peer: &&Peer| !peers.iter().any(|known| known.identity == peer.identity);
        let added: Vec<Peer> = new.peers.iter().filter(is_new).cloned().collect();
        self.files.adopt(None).map_err(|error| error.to_string())?;
        for peer in &added {
            let settings = of_peer(peer);
            self.handle
                .change(Box::new(move |endpoint: &mut Endpoint, now| endpoint.add_peer(settings, now)));
        }
        peers.extend(added.iter().cloned());
        Ok(added.len())
    }
}

/// Writes the events of the machine to the log.
struct Lines(Logger);

impl Observer<Endpoint> for Lines {
    fn event(&mut self, event: &EventOf<Endpoint>, tun_name: &str) {
        match event {
            Event::Up(_) => self.0.log(Severity::Info, format_args!("tunnel up on {tun_name}")),
            Event::Report(report) => self.0.log(report.severity, &report.text),
            _ => {}
        }
    }

    fn request(&mut self, (): (), _tun_name: &str) {}
}
