//! A file that is run.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use adit_core::{Ended, Severity, TunnelSettings, UnixTime, escaped};
use adit_guard::{Helper, HelperAccess, Policy};
use adit_host::access::AccessRules;
use adit_host::adapter::{self, Setting};
use adit_host::blocking::{AtStart, BlockedList};
use adit_host::failure::{Failure, no_randomness, tell_end};
use adit_host::helper::{self, HelperOf};
use adit_host::notify::Notifier;
use adit_host::privileges::Starting;
use adit_host::startup::Member;
use adit_host::status::{self, OtherTables};
use adit_ike::machine::{Connection, Endpoint, Limits, Params};
use adit_io::{Driver, Handle};
use adit_system::Netlink;
use rand_core::{OsRng, TryRngCore as _};
use zeroize::Zeroizing;

use crate::addresses::AddressWatch;
use crate::blocked;
use crate::content::Content;
use crate::devices::Devices;
use crate::driver::{self, Device, Ready};
use crate::loaded::Loaded;
use crate::lookups::{LookUps, Ways};
use crate::names::{self, Resolver};
use crate::observer::Lines;
use crate::orders::{Holds, Orders};
use crate::status_rows::ROWS;
use crate::translate::{self, Planned};
use crate::updown::{self, Updown};
use crate::vici::Hub;
use crate::{NAME, forwarding, settings, vici};

/// A file that is run as a tunnel of the process.
pub(crate) struct IpsecTunnel<'a> {
    file: PathBuf,
    content: Arc<Content>,
    setting: Setting<'a>,
}

impl<'a> IpsecTunnel<'a> {
    /// The tunnel of a file with that content.
    pub(crate) fn new(file: PathBuf, content: Arc<Content>, setting: Setting<'a>) -> Self {
        IpsecTunnel { file, content, setting }
    }

    fn start(mut self, member: &Member<'_>) -> Result<(), Failure> {
        for warning in &self.content.parsed.warnings {
            self.setting.log.log(Severity::Warning, warning);
        }
        let mut connections = self.resolve();
        // Changes after the look at the addresses are reported.
        let mut watch = AddressWatch::new().map_err(no_netlink)?;
        let sources = watch.sources(&connections);
        let (settings, path_mtu) = self.settings(&connections)?;
        let content = Arc::clone(&self.content);
        let own = content.planned.iter().filter_map(|planned| planned.device.as_ref());
        let device = Device {
            name: content.parsed.config.device.as_deref(),
            mtu: settings.mtu,
            reserved: own.map(|device| device.name.as_str()).collect(),
        };
        let Ready { mut driver, sockets } = Ready::set_up(&self.setting, &device)?;
        let rules = AccessRules::begin(&self.file, &mut driver, &mut self.setting.log)?;
        // The DSCP is the upper six bits of the traffic class (RFC 2474 section 3).
        driver.set_control_traffic_class(translate::dscp(&content.parsed.config).unwrap_or_default() << 2);
        let both: Vec<_> = content.planned.iter().zip(&connections).collect();
        let devices = Devices::make(&mut driver, &mut self.setting, &both)?;
        devices.assign(content.planned.iter().zip(&mut connections));
        let keeper = self.setting.shared.as_ref().map(|shared| shared.pool.keeper());
        keeper.iter().for_each(|keeper| keeper.keep(settings::hosts(&self.content.planned)));
        let handle = driver.handle();
        let shown = self.show(handle.clone(), member);
        let own = vici::bind_own(&self.file, &mut self.setting.log);
        let vici: Vec<_> = vici::bind(&self.content.parsed.config.vici, &mut self.setting.log)
            .into_iter()
            .chain(own)
            .collect();
        let sockets_of = shown.iter().map(status::Socket::path);
        let removed = sockets_of.chain(vici.iter().map(|socket| socket.file().path().to_owned())).collect();
        let mut helper = self.helper(&driver, removed)?;
        helper.reports().into_iter().for_each(|report| self.setting.log.log(report.severity, report));
        let forwarding = self.forward(driver.tun_name())?;
        let access = helper.access();
        driver.use_helper(access.clone(), true).map_err(no_helper)?;
        let from_file = self.content.parsed.config.clone();
        let holds = Holds {
            file: self.file.clone(),
            config: Arc::new(from_file.clone()),
            from_file,
            loaded: Loaded::default(),
            is_stale: false,
            planned: self.content.planned.clone(),
            connections: connections.clone(),
            settings: settings.clone(),
            sources: sources.clone(),
            netlink: Netlink::open().map_err(no_netlink)?,
            keeper,
            files: access.files().map_err(no_helper)?,
            rules,
            devices: devices.clone(),
            has_programs: updown::allowed(&content.planned).is_some(),
        };
        let updown = self.updown(&access, devices)?;
        let orders = Orders::new(handle.clone(), holds, self.setting.log.clone());
        let netlink = Netlink::open().map_err(no_netlink)?;
        let ways = Ways { files: access.files().map_err(no_helper)?, netlink };
        let lookups = LookUps::new(ways, handle, orders.clone(), self.setting.log.clone());
        member.take_orders(orders.receiver()).map_err(no_signals)?;
        let watching = watch.begin(orders.clone()).map_err(no_watch)?;
        let hub = Hub::of(&self.setting.log);
        let serve = |socket| vici::serve(socket, orders.view(&hub), self.setting.log.clone());
        let vici: Vec<_> = vici.into_iter().filter_map(serve).collect();
        let params = Params {
            connections,
            sockets,
            limits: Limits::default(),
            tunnel: Some(settings),
            wall_at_origin: UnixTime(adit_io::unix_at_origin().as_secs()),
        };
        let seed = seed()?;
        let pool = self.setting.shared.as_ref().map(|shared| shared.pool.clone()).unwrap_or_default();
        let endpoint = Endpoint::with_pool(params, pool, adit_io::clock(), *seed);
        let mut endpoint = endpoint.map_err(|error| Failure::Configuration(error.to_string()))?;
        self.block(&mut endpoint);
        endpoint.set_sources(sources);
        if self.setting.shared.is_some() {
            endpoint.limit_mss(path_mtu.saturating_sub(settings::IPV4_AND_TCP));
        }
        let notifier = Notifier::of(&self.setting.name, self.setting.has_others);
        notifier.status("set up");
        let observer = Lines::new(self.setting.log.clone(), hub, lookups, updown);
        let mut observer = Starting { observer, begin: Some(|| member.set_up(None)) };
        let ended = driver.run(endpoint, &mut observer);
        notifier.stopping();
        drop(watching);
        // The programs of children that have gone down run until they have ended, by the helper.
        drop(observer);
        drop(helper);
        drop(forwarding);
        drop(vici);
        drop(shown);
        match ended.map_err(|error| Failure::World(error.to_string()))? {
            Ended::Shutdown => Ok(()),
            Ended::Failed(why) => Err(Failure::World(escaped(&why).into_owned())),
        }
    }

    /// The helper that forwards the packets of peers, if the file, or the file of another endpoint of the tunnel, says so.
    fn forward(&mut self, device: &str) -> Result<Option<Helper>, Failure> {
        let found = match &self.setting.shared {
            Some(shared) => shared.take_forwarding(&self.setting.name),
            None => forwarding::of(&self.content, device),
        };
        adit_host::forwarding::start(found, device, self.setting.options, &mut self.setting.log)
    }

    /// Keeps out the peers that were kept out before this start.
    fn block(&mut self, endpoint: &mut Endpoint) {
        match BlockedList::at_start(blocked::list(&self.file).read(), &mut self.setting.log) {
            AtStart::Listed(names) => endpoint.set_blocked(names),
            AtStart::All => endpoint.block_all(),
        }
    }

    fn resolve(&mut self) -> Vec<Connection> {
        let options = self.setting.options;
        let resolver = match options.kill_switch {
            None => Resolver::System,
            Some(_) => Resolver::Marked(options.resolv_conf.as_deref()),
        };
        names::resolved(&self.content.planned, &resolver, &mut self.setting.log)
    }

    /// The settings of the tunnel, and the MTU that the paths to the peers leave. In a tunnel with other endpoints the device has the
    /// MTU and the addresses of those that lead.
    fn settings(&self, connections: &[Connection]) -> Result<(TunnelSettings, u16), Failure> {
        let planned = &self.content.planned;
        let peers: Vec<IpAddr> = settings::peer_addresses(connections).collect();
        let mut netlink = Netlink::open().map_err(no_netlink)?;
        let mtu = settings::mtu(planned, netlink.path_mtu(&peers).map_err(no_netlink)?);
        if let Some(shared) = &self.setting.shared {
            let of_device = shared.terms.map_or(mtu, |terms| terms.mtu);
            return Ok((settings::settings(planned, connections, Vec::new(), of_device), mtu));
        }
        let by_policy = planned.iter().filter(|planned| planned.is_policy_based());
        let networks: Vec<_> = by_policy.flat_map(Planned::local_networks).collect();
        let addresses = driver::inner_addresses(&mut netlink, &networks).map_err(no_netlink)?;
        Ok((settings::settings(planned, connections, addresses, mtu), mtu))
    }

    /// The socket of `adit status`. A tunnel that cannot be asked for its status is still a tunnel.
    fn show(&mut self, handle: Handle<Endpoint>, member: &Member<'_>) -> Option<status::Socket> {
        let tables = OtherTables::default();
        let usage = self.setting.log.clone();
        tables.add(move || usage.usage());
        let confinement = member.startup().confinement.clone();
        let shared = self.setting.shared.as_ref();
        let endpoints = shared.map(|shared| shared.names.clone()).unwrap_or_default();
        let beside = status::Beside { expiring: None, confinement, tables, endpoints };
        let served = status::serve(&self.setting.name, handle, ROWS, beside);
        served
            .inspect_err(|error| {
                let text = format_args!("`adit status` will not see this tunnel: {error}");
                self.setting.log.log(Severity::Warning, text);
            })
            .ok()
    }

    /// The programs of children, if there are any.
    fn updown(&self, access: &HelperAccess, devices: Devices) -> Result<Option<Updown>, Failure> {
        if updown::allowed(&self.content.planned).is_none() {
            return Ok(None);
        }
        let launcher = access.scripts().map_err(no_helper)?;
        let updown = Updown::start(launcher, devices, self.setting.log.clone());
        updown
            .map(Some)
            .map_err(|error| Failure::World(format!("no thread for programs of `updown`: {error}")))
    }

    /// Starts the helper with its work. `removed_at_end`: the files of sockets.
    fn helper(&self, driver: &Driver<Endpoint>, removed_at_end: Vec<PathBuf>) -> Result<Helper, Failure> {
        let mut policy = Policy::from(driver.helper_needs(true));
        policy.configuration = Some(self.file.clone());
        policy.names = names::names(&self.content.planned);
        policy.scripts = updown::allowed(&self.content.planned);
        policy.removed_at_end.extend(removed_at_end);
        policy.without_sandbox = self.setting.options.no_sandbox;
        let of = HelperOf { protocol: Some(NAME), options: None };
        helper::start(&of, policy, self.setting.options.in_background).map_err(Failure::World)
    }
}

impl adapter::Tunnel for IpsecTunnel<'_> {
    fn run(self: Box<Self>, member: Member<'_>) -> Result<(), Failure> {
        let Setting { log, name, has_others, .. } = &self.setting;
        let (mut log, name, has_others) = (log.clone(), name.clone(), *has_others);
        let _flush = log.flush_on_drop();
        let outcome = self.start(&member);
        tell_end(&outcome, &mut log, (&name, has_others));
        outcome
    }
}

fn seed() -> Result<Zeroizing<[u8; 32]>, Failure> {
    let mut seed = Zeroizing::new([0; 32]);
    OsRng.try_fill_bytes(&mut *seed).map_err(no_randomness)?;
    Ok(seed)
}

fn no_netlink(error: std::io::Error) -> Failure {
    Failure::World(format!("the system does not tell its addresses and routes: {error}"))
}

fn no_watch(error: std::io::Error) -> Failure {
    Failure::World(format!("changes of addresses cannot be watched: {error}"))
}

fn no_helper(error: std::io::Error) -> Failure {
    Failure::World(format!("the helper process does not answer: {error}"))
}

fn no_signals(error: std::io::Error) -> Failure {
    Failure::World(format!("signals cannot be watched: {error}"))
}
