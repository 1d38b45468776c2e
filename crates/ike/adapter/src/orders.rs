//! The orders of signals to a tunnel that runs.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use adit_core::{AddressKeeper, Command, Protocol as _, Severity, TunnelSettings};
use adit_guard::HelperFiles;
use adit_host::access::AccessRules;
use adit_host::log::Logger;
use adit_host::signals::{Order, Receiver};
use adit_ike::machine::{Connection, Endpoint, Reply};
use adit_ike_config::Config;
use adit_io::Handle;
use adit_system::Netlink;

use crate::addresses;
use crate::devices::Devices;
use crate::loaded::{Change, Loaded};
use crate::reload;
use crate::status_rows;
use crate::translate::Planned;
use crate::vici::{Configured, Hub, View};

/// The state of the file and of the tunnel that the next reading is compared with.
pub(crate) struct Holds {
    /// The file.
    pub(crate) file: PathBuf,
    /// The content of the file as it was read last.
    pub(crate) from_file: Config,
    /// The parts that programs have loaded and unloaded.
    pub(crate) loaded: Loaded,
    /// The content of the file with those parts.
    pub(crate) config: Arc<Config>,
    /// Whether secrets or certificates have changed that the connections do not have yet.
    pub(crate) is_stale: bool,
    /// The connections of the file as it was read last, with those that programs have loaded.
    pub(crate) planned: Vec<Planned>,
    /// The connections with the addresses of their peers.
    pub(crate) connections: Vec<Connection>,
    /// The settings that the system has.
    pub(crate) settings: TunnelSettings,
    /// The addresses from which this machine reaches its peers.
    pub(crate) sources: BTreeMap<IpAddr, IpAddr>,
    /// Asks the system for addresses and routes. A process that has given up its rights opens no further one.
    pub(crate) netlink: Netlink,
    /// Keeps the pool of a tunnel with other endpoints from leasing the addresses behind the peers.
    pub(crate) keeper: Option<AddressKeeper>,
    /// Reads the file, and resolves names.
    pub(crate) files: HelperFiles,
    /// The access rules beside the file.
    pub(crate) rules: AccessRules,
    /// The devices that connections have of their own.
    pub(crate) devices: Devices,
    /// Whether the helper runs programs of `updown`.
    pub(crate) has_programs: bool,
}

/// Speaks to a tunnel. Copies speak to the same tunnel.
#[derive(Clone)]
pub(crate) struct Orders(Arc<Shared>);

struct Shared {
    handle: Handle<Endpoint>,
    holds: Mutex<Holds>,
    log: Logger,
}

impl Orders {
    /// Orders to the tunnel of that handle.
    pub(crate) fn new(handle: Handle<Endpoint>, holds: Holds, log: Logger) -> Self {
        Orders(Arc::new(Shared { handle, holds: Mutex::new(holds), log }))
    }

    /// The tunnel's way to take orders.
    pub(crate) fn receiver(&self) -> Receiver {
        let orders = self.clone();
        Box::new(move |order| match order {
            Order::Shutdown => orders.0.handle.command(Command::Shutdown),
            Order::Restart => orders.0.handle.command(Command::Restart),
            Order::Status => orders.tell_status(),
            Order::Reload => orders.in_thread("adit-reload", |orders| drop(orders.reload())).is_ok(),
        })
    }

    /// The connection of that name in the file as it was read last.
    pub(crate) fn planned(&self, name: &str) -> Option<Planned> {
        let holds = self.0.holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.planned.iter().find(|planned| planned.connection.name == name).cloned()
    }

    /// Notes the addresses of a connection's peer. Gives whether they are others than before.
    pub(crate) fn set_remotes(&self, name: &str, remotes: &[SocketAddr]) -> bool {
        let mut holds = self.0.holds.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = holds.connections.iter_mut().find(|connection| connection.name == name);
        let Some(connection) = connection.filter(|connection| connection.remotes != remotes) else {
            return false;
        };
        connection.remotes = remotes.to_vec();
        true
    }

    /// The tunnel as programs see it that speak to it. `hub` has what they hear of the tunnel.
    pub(crate) fn view(&self, hub: &Hub) -> View {
        View::new(self.0.handle.clone(), hub.clone(), Arc::new(self.clone()))
    }

    /// Files may lie on slow disks, and names take their time.
    fn in_thread(&self, name: &str, work: impl FnOnce(&Orders) + Send + 'static) -> io::Result<()> {
        let orders = self.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || work(&orders)).map(drop)
    }

    /// An order that comes while another one is carried out waits here.
    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.0.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reload(&self) -> Result<(), String> {
        let mut log = self.0.log.clone();
        let mut holds = self.holds();
        let Holds { rules, files, .. } = &mut *holds;
        rules.reload(files, &self.0.handle, &mut log);
        reload::reload(&self.0.handle, &mut holds, &mut log).inspect_err(|why| {
            why.lines().for_each(|line| log.log(Severity::Error, line));
            log.log(Severity::Error, format_args!("SIGHUP: {} changes nothing", holds.file.display()));
        })
    }

    /// Routes or addresses have changed: the machine gets the addresses from which peers are reached, if they are others.
    pub(crate) fn look_at_addresses(&self, netlink: &mut Netlink) {
        let mut holds = self.holds();
        let sources = addresses::sources(netlink, &holds.connections);
        if sources != holds.sources {
            holds.sources.clone_from(&sources);
            self.0.handle.reply(Reply::Sources(sources));
        }
    }

    /// Writes a line for each peer that is connected to the log.
    fn tell_status(&self) -> bool {
        let mut log = self.0.log.clone();
        self.0.handle.inspect(Box::new(move |endpoint: &Endpoint, _, _| {
            for (_, info) in endpoint.peers() {
                let text = format_args!("{} at {}: {}", info.name, info.path, status_rows::summary(&info));
                log.log(Severity::Info, text);
            }
        }))
    }
}

impl Configured for Orders {
    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.holds().config)
    }

    fn load(&self, change: Change) -> Result<(), String> {
        reload::load(&self.0.handle, &mut self.holds(), change, &mut self.0.log.clone())
    }

    fn settle(&self) {
        reload::settle(&self.0.handle, &mut self.holds(), &mut self.0.log.clone());
    }

    fn reload(&self) -> Result<(), String> {
        self.reload()
    }
}
