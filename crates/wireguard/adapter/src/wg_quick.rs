//! One of wg-quick's files as a tunnel of the process: what `wg-quick up` does, then the interface itself, then what
//! `wg-quick down` does (wg-quick(8)).

mod access;
mod hooks;
mod names;
mod orders;
mod reload;
mod save;

use std::path::PathBuf;
use std::sync::Arc;

use adit_core::{Ended, Severity, TunnelSettings, escaped};
use adit_guard::Helper;
use adit_io::{DriverError, Handle, TunConfig};
use adit_system::Netlink;
use adit_wireguard::{Changes, Interface, PeerChange};
use adit_wireguard_config::{self as file, Parsed};

use self::access::Access;
use self::hooks::{Hooks, Moment};
use self::names::{Endpoints, Families, NamedPeers, Resolver};
use self::orders::Orders;
use self::reload::Holds;
use super::network::{self, Routes};
use super::status_rows::ROWS;
use super::streams::Streams;
use super::{configuration, forwarding as file_forwarding, prepare};
use crate::interface as wireguard;
use crate::interface::{Settings, SharedTunnel, uapi};
use adit_host::endpoints::Shared;
use adit_host::failure::{Failure, tell_end};
use adit_host::log::Logger;
use adit_host::notify::Notifier;
use adit_host::options::Options;
use adit_host::startup::Member;
use adit_host::{adapter, forwarding, helper, status};

/// A file that was read and found good, and what its tunnel is called.
pub(crate) struct Tunnel<'a> {
    /// The options of the process.
    pub(crate) options: &'a Options,
    /// The file.
    pub(crate) file: PathBuf,
    /// The place of the file among those of the process.
    pub(crate) number: usize,
    /// Its name in the log.
    pub(crate) name: String,
    /// The process runs others too.
    pub(crate) has_others: bool,
    /// The file's content.
    pub(crate) parsed: Arc<Parsed>,
    /// Its log.
    pub(crate) log: Logger,
    /// The resources that it shares with OpenVPN servers, as an endpoint of their tunnel.
    pub(crate) shared: Option<Shared>,
}

impl adapter::Tunnel for Tunnel<'_> {
    fn run(self: Box<Self>, member: Member<'_>) -> Result<(), Failure> {
        let _flush = self.log.flush_on_drop();
        let (mut log, name, has_others) = (self.log.clone(), self.name.clone(), self.has_others);
        let outcome = self.start(&member);
        tell_end(&outcome, &mut log, (&name, has_others));
        outcome
    }
}

impl Tunnel<'_> {
    fn start(mut self, member: &Member<'_>) -> Result<(), Failure> {
        for warning in &self.parsed.warnings {
            self.log.log(Severity::Warning, warning);
        }
        let prepared = prepare::prepare(&self.file, &self.parsed, &mut self.log)?;
        let interface = self.interface().to_owned();
        let hooks = Hooks::new(&self.file, &interface, &self.parsed);
        hooks.run(Moment::PreUp, &mut self.log)?;
        let resolver = match self.options.kill_switch {
            None => Resolver::System,
            Some(_) => Resolver::Marked(self.options.resolv_conf.as_deref()),
        };
        let by = (&resolver, Families::of_the_system());
        let endpoints = names::look_up(&self.file, &self.parsed, by, &mut self.log)?;
        let (settings, routes) = self.settings(&endpoints)?;
        let streams = prepared.map_or_else(|| Streams::new(&self.file, &self.parsed.config), Ok)?;
        let mut tunnel = self.set_up(&interface, (settings.clone(), routes), &endpoints, &streams)?;
        let rules = tunnel.begin_rules(&self.file)?;
        let socket = uapi::bind(&interface).map_err(Failure::World)?;
        tunnel.listen(socket).map_err(no_thread)?;
        let tables = status::OtherTables::default();
        let usage = self.log.clone();
        tables.add(move || usage.usage());
        let shown = self.show(tunnel.orders().handle(), member, tables.clone());
        let helper = self.helper(&tunnel, routes, shown.as_ref())?;
        let forwarding = self.forward(&interface)?;
        let access = helper.access();
        tunnel.use_helper(&access, true).map_err(no_helper)?;
        let waiting = hooks.prepare()?;
        let config = &self.parsed.config;
        let has_programs = configuration::programs(&config.interface).is_some();
        let launcher = has_programs.then(|| access.scripts()).transpose().map_err(no_helper)?;
        let beside = (tunnel.orders(), self.log.clone(), tables);
        let peers = Access::start(config, &interface, launcher, beside).map_err(no_thread)?;
        let words = peers.words();
        tunnel.watch(Box::new(move |event| words.event(event)));
        let files = access.files().map_err(no_helper)?;
        let keeps_mark = self.options.kill_switch.is_some() || routes.go_by_mark();
        let named = NamedPeers::new(config);
        let _names = named.watch(&access, tunnel.orders(), self.log.clone()).map_err(no_thread)?;
        let access = peers.words();
        let holds = Holds {
            config: config.clone(),
            settings,
            routes,
            access,
            named,
            streams,
            keeps_mark,
            files,
            rules,
        };
        let beside = (tunnel.orders(), holds);
        let orders = Orders::new(self.file.clone(), beside, waiting, self.log.clone());
        member.take_orders(orders.receiver()).map_err(no_signals)?;
        let notifier = Notifier::of(&self.name, self.has_others);
        notifier.status("set up");
        let begin = {
            let orders = orders.clone();
            move || {
                member.set_up(None)?;
                // On a thread of its own: a hook may run `wg`, which the interface answers.
                orders.run_post_up().map_err(|error| format!("cannot start a thread: {error}"))
            }
        };
        let ended = tunnel.run(Box::new(begin));
        notifier.stopping();
        drop(peers);
        drop(helper);
        drop(forwarding);
        drop(shown);
        orders.post_down();
        orders.failure().map_or_else(|| outcome(ended), Err)
    }

    /// The helper that forwards the packets of peers, if the file, or the file of another endpoint of the tunnel, says so.
    fn forward(&mut self, interface: &str) -> Result<Option<Helper>, Failure> {
        let found = match &self.shared {
            Some(shared) => shared.take_forwarding(&self.name),
            None => file_forwarding::of(&self.parsed.config, interface),
        };
        forwarding::start(found, interface, self.options, &mut self.log)
    }

    /// Starts the helper with all that it is for.
    fn helper(
        &mut self,
        tunnel: &wireguard::Tunnel,
        routes: Routes,
        shown: Option<&status::Socket>,
    ) -> Result<Helper, Failure> {
        let allowed = configuration::allowed(&self.parsed.config);
        let mut policy = tunnel.policy(true);
        policy.removed_at_end.extend(shown.map(status::Socket::path));
        policy.configuration = Some(self.file.clone());
        policy.writes_configuration = allowed.writes_configuration;
        policy.names = allowed.names.unwrap_or_default();
        policy.scripts = allowed.scripts;
        policy.without_sandbox = self.options.no_sandbox;
        policy.starts_programs = routes.go_by_mark();
        let mut helper =
            helper::start(&super::helper_of(), policy, self.options.in_background).map_err(Failure::World)?;
        helper.reports().into_iter().for_each(|report| self.log.log(report.severity, report));
        Ok(helper)
    }

    /// The socket of `adit status`. A tunnel that cannot be asked for its status is still a tunnel.
    fn show(
        &mut self,
        handle: Handle<Interface>,
        member: &Member<'_>,
        tables: status::OtherTables,
    ) -> Option<status::Socket> {
        let beside = status::Beside {
            expiring: None,
            confinement: member.startup().confinement.clone(),
            tables,
            endpoints: self.shared.as_ref().map(|shared| shared.names.clone()).unwrap_or_default(),
        };
        let served = status::serve(&self.name, handle, ROWS, beside);
        served
            .inspect_err(|error| {
                let text = format_args!("`adit status` will not see this tunnel: {error}");
                self.log.log(Severity::Warning, text);
            })
            .ok()
    }

    /// The interface's name; the file has it, as it was found good.
    fn interface(&self) -> &str {
        self.file.to_str().and_then(file::interface_name).unwrap_or_default()
    }

    /// The settings that the system is to have, and how allowed IPs become routes.
    fn settings(&mut self, endpoints: &Endpoints) -> Result<(TunnelSettings, Routes), Failure> {
        let mut netlink = Netlink::open().map_err(no_netlink)?;
        let addresses: Vec<_> = endpoints.values().map(std::net::SocketAddr::ip).collect();
        let path = netlink.path_mtu(&addresses).map_err(no_netlink)?;
        let of_device = self.shared.as_ref().and_then(|shared| shared.terms).map(|terms| terms.mtu);
        let mtu = of_device.unwrap_or_else(|| network::mtu(&self.parsed.config.interface, path));
        let kill_switch =
            self.options.kill_switch.map(|_| network::kill_switch_mark(&self.parsed.config, self.number));
        let routes = network::routes(&self.parsed.config, kill_switch)
            .map_err(|why| network::at_line(&self.parsed, &self.file, "Table", &why))?;
        Ok((network::settings(&self.parsed.config, mtu, routes), routes))
    }

    /// The device and its sockets.
    fn set_up(
        &self,
        interface: &str,
        (tunnel, routes): (TunnelSettings, Routes),
        endpoints: &Endpoints,
        streams: &Streams,
    ) -> Result<wireguard::Tunnel, Failure> {
        let mtu = tunnel.mtu;
        let tun = TunConfig {
            name: Some(interface.to_owned()),
            mtu: Some(mtu.into()),
            offloads: self.options.offloads,
            ..TunConfig::default()
        };
        let mut driver = wireguard::driver_config(tun, self.options.workers);
        driver.changes_routing = self.shared.is_none();
        driver.kill_switch = self.options.kill_switch.is_some();
        if let Some(terms) = self.shared.as_ref().and_then(|shared| shared.terms) {
            driver.tun.txqueuelen = terms.txqueuelen;
            driver.dataplane.client_to_client = terms.client_to_client;
        }
        // The servers' device may carry larger packets than the links of WireGuard's peers.
        let most = if self.shared.is_some() { wireguard::MTU } else { u16::MAX };
        driver.resolv_conf.clone_from(&self.options.resolv_conf);
        driver.socket_routing.mark = routes.own_mark();
        streams.set_up(&mut driver, &self.parsed.config, routes.mark);
        let settings = Settings {
            driver,
            mtu,
            clamp_mss: most,
            tunnel: Some(tunnel),
            configuration: Changes {
                fwmark: Some(routes.mark),
                ..changes(&self.parsed.config, endpoints, streams)
            },
            shared: self
                .shared
                .as_ref()
                .map(|shared| SharedTunnel { device: shared.device.clone(), pool: shared.pool.clone() }),
        };
        if let Some(shared) = &self.shared {
            // A port that is a server's is used, too.
            shared.binding.wait();
        }
        wireguard::Tunnel::set_up(settings, self.log.clone()).map_err(Failure::World)
    }
}

/// The changes that `wg` makes by a file: an interface without peers becomes that of the file.
fn changes(config: &file::Config, endpoints: &Endpoints, streams: &Streams) -> Changes {
    let file::Config { interface, peers } = config;
    let peer = |peer: &file::Peer| PeerChange {
        preshared_key: Some(peer.preshared_key.clone().unwrap_or_default()),
        endpoint: endpoints.get(&peer.line).copied(),
        remote: streams.number(peer),
        name: peer.name.clone(),
        persistent_keepalive: peer.persistent_keepalive,
        blocked: access::has_expired(peer).then_some(true),
        post_quantum: Some(config.post_quantum(peer)),
        replace_allowed_ips: true,
        allowed_ips: peer.allowed_ips.clone(),
        ..PeerChange::new(peer.public_key)
    };
    Changes {
        private_key: Some(interface.private_key.clone()),
        listen_port: interface.listen_port,
        fwmark: interface.fwmark,
        replace_peers: true,
        // Without a program the thread of `access` admits at once.
        gated: Some(interface.client_connect.is_some()),
        peers: peers.iter().map(peer).collect(),
    }
}

fn outcome(ended: Result<Ended, DriverError>) -> Result<(), Failure> {
    match ended.map_err(|error| Failure::World(error.to_string()))? {
        Ended::Shutdown => Ok(()),
        Ended::Failed(why) => Err(Failure::World(escaped(&why).into_owned())),
    }
}

fn no_netlink(error: std::io::Error) -> Failure {
    Failure::World(format!("the system does not tell its routes: {error}"))
}

fn no_helper(error: std::io::Error) -> Failure {
    Failure::World(format!("the helper process does not answer: {error}"))
}

fn no_signals(error: std::io::Error) -> Failure {
    Failure::World(format!("signals cannot be watched: {error}"))
}

fn no_thread(error: std::io::Error) -> Failure {
    Failure::World(format!("cannot start a thread: {error}"))
}

#[cfg(test)]
mod tests {
    use adit_wireguard::PublicKey;

    use super::*;

    #[test]
    fn a_peer_has_the_name_that_its_file_gives_it() {
        let key = PublicKey([1; 32]);
        let text = format!("[Interface]\n[Peer]\nPublicKey = {key}\n#adit: name = phone\n");
        let config = file::parse(text.as_bytes(), "wg0.conf").expect("a good file").config;
        let changes = changes(&config, &Endpoints::new(), &Streams::default());
        let names: Vec<_> = changes.peers.iter().map(|peer| peer.name.as_deref()).collect();
        assert_eq!(names, [Some("phone")]);
    }
}
