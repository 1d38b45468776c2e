//! A tunnel that is set up and runs: its device and sockets, the threads around its protocol, its end.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use adit_core::{Ended, Severity, escaped};
use adit_guard::{Account, Helper, HelperAccess, Policy};
use adit_io::{Driver, DriverError, Handle, MakeCodec};
use adit_openvpn_config::{Config, NameServerSetting, PerClient, Role};
use time::OffsetDateTime;

use super::back_ends::{self, BackEnds, Programs};
use super::clients::{self, Clients};
use super::credentials::CredentialPrompt;
use super::expiry::{self, Expiry};
use super::external_key::{ExternalKey, Signing};
use super::management::Management;
use super::observer::{Asks, LogObserver};
use super::prepare::Settled;
use super::proxies::ProxyPrompt;
use super::reload::{Reloads, Source};
use super::scripts;
use super::tunnel::Tunnel;
use super::tunnel_scripts::{self, Control, End, TunnelScripts};
use super::{
    attempts, codec, configuration, forwarding as server_forwarding, orders, privileges as own_privileges,
    revocations, status_file, translate,
};
use crate::peer_names::PeerNames;
use crate::reload_order::Reload;
use crate::status_source::{StatusSource, rows};
use crate::watched::Watched;
use adit_host::access::AccessRules;
use adit_host::ending::{EndOnDrop, Ending};
use adit_host::failure::Failure;
use adit_host::helper;
use adit_host::notify::Notifier;
use adit_host::scripts::Scripts;
use adit_host::startup::Member;
use adit_host::status::report::Expiring;
use adit_host::status::{self, OtherTables};
use adit_host::{forwarding, privileges};

/// The credentials that authenticate us.
#[derive(Default)]
pub(crate) struct Own {
    /// Username and password.
    pub(crate) prompt: Option<CredentialPrompt>,
    /// The prompt for the credentials of proxies.
    pub(crate) proxy_prompt: Option<ProxyPrompt>,
    /// The key that is held elsewhere.
    pub(crate) key: Option<ExternalKey>,
}

/// The things with which a tunnel starts: those found in the system, the management socket, and the part in the start of the
/// process.
pub(crate) struct Start<'a> {
    /// The things that were found in the system.
    pub(crate) settled: Settled,
    /// The management socket.
    pub(crate) management: Option<Management>,
    /// The tunnel's part in the start of the process.
    pub(crate) member: Member<'a>,
}

/// The interfaces by which other programs ask the tunnel, there until this is dropped.
struct Shown {
    _pid_file: Option<RemovedOnDrop>,
    socket: Option<status::Socket>,
    status_file: Option<status_file::Output>,
    form: status_file::Form,
    tables: OtherTables,
}

impl Tunnel<'_> {
    /// Sets everything up, waits until the other tunnels of the process are set up too, and runs the protocol until it
    /// ends.
    pub(crate) fn run_protocol<P: StatusSource>(
        mut self,
        watched: Watched,
        (own, reloads): (Own, Reloads<P>),
        start: Start<'_>,
        protocol: impl FnOnce(adit_core::Instant) -> P,
    ) -> Result<(), Failure> {
        let Own { mut prompt, mut proxy_prompt, key } = own;
        let Start { settled, management, member } = start;
        let Settled { account, per_client, .. } = settled;
        let mut driver: Driver<P> = self.driver()?;
        let rules = AccessRules::begin(&self.file, &mut driver, &mut self.log)?;
        drop(self.unbound.take());
        let handle = driver.handle();
        let mut shown = self.show(&handle, &watched.expiry, &member)?;
        let network = own_privileges::needs_network(&self.parsed.config);
        let mut policy = Policy::from(driver.helper_needs(network));
        policy.client_directory = per_client.as_ref().and_then(|files| files.directory.clone());
        let per_client = per_client.map(|files| Arc::new(Mutex::new(files)));
        policy.user_password = prompt.as_ref().and_then(CredentialPrompt::file);
        let helper = self.helper(policy, account.as_ref(), &watched, &shown)?;
        let forwarding = self.forward(driver.tun_name())?;
        let access = helper.access();
        driver.use_helper(access.clone(), network).map_err(no_helper)?;
        if let Some(prompt) = &mut prompt {
            prompt.use_helper(access.clone());
        }
        if let Some(prompt) = &mut proxy_prompt {
            prompt.use_helper(access.clone());
        }
        let clients = self.start_clients(per_client.clone(), &access, &handle)?;
        let ending = Ending::default();
        let crl = revocations::Watch::new(access.clone(), ending.clone(), self.log.clone());
        let reload = self.reload(reloads, (per_client, &access, crl.clone()), (&handle, rules))?;
        let receiver = orders::receiver(handle.clone(), shown.form, (self.log.clone(), reload.clone()));
        member.take_orders(receiver).map_err(no_signals)?;
        let _ending = self.watch(watched, &access, &handle, (&crl, &ending))?;
        if let Some(output) = shown.status_file.take() {
            output.start(handle.clone(), self.log.clone()).map_err(no_thread)?;
        }
        for address in driver.local_addresses() {
            self.log.log(Severity::Info, format_args!("listening on {address}"));
        }
        let back_end_helper = self.back_end_helper()?;
        let programs = Programs {
            scripts: self.start_scripts(&access, &handle, &shown.tables)?,
            back_ends: self.start_back_ends(back_end_helper.as_ref(), &handle, &shown.tables)?,
        };
        let tunnel_scripts = self.start_tunnel_scripts(&access, &handle)?;
        let notifier = Notifier::of(&self.name, self.has_others);
        notifier.status("set up");
        let files = management.as_ref().map(|_| access.files()).transpose().map_err(no_helper)?;
        let beside = (self.log.clone(), reload, files);
        let watcher =
            management.as_ref().map(|it| it.attach(handle.clone(), shown.form, beside, self.up_down()));
        let signing = key.map(|key| Signing::start(&key, handle.clone())).transpose().map_err(no_thread)?;
        let (asks, log) = (Asks { prompt, proxy_prompt, programs, signing }, self.log.clone());
        let observer =
            LogObserver::new((log, notifier), handle.clone(), clients, asks, tunnel_scripts, watcher);
        let begin = || member.set_up(account);
        let mut observer = privileges::Starting { observer, begin: Some(begin) };
        let device = driver.tun_name().to_owned();
        let ended = driver.run(protocol(adit_io::clock()), &mut observer);
        let failure = observer.observer.finish(&device);
        // The threads that wait for the helper's answers go before it.
        drop(observer);
        drop(back_end_helper);
        drop(helper);
        drop(forwarding);
        drop(shown);
        match ended.map_err(world)? {
            Ended::Shutdown => failure.map_or(Ok(()), |why| Err(Failure::World(why))),
            Ended::Failed(why) => Err(Failure::World(escaped(&why).into_owned())),
        }
    }

    /// The device and the listening sockets.
    fn driver<P: StatusSource>(&mut self) -> Result<Driver<P>, Failure> {
        let leaves_names = self.leaves_names_as_openvpn();
        let (options, parsed) = (self.options, &self.parsed);
        let mut config = translate::driver_config(&parsed.config, options.offloads, options.workers);
        if options.workers > 1 && !config.remotes.is_empty() {
            let text = "--workers changes nothing for a client: one peer is served by one worker";
            self.log.log(Severity::Info, text);
        }
        config.resolv_conf.clone_from(&options.resolv_conf);
        config.execution.leaves_names |= leaves_names;
        config.kill_switch = options.kill_switch.is_some();
        own_privileges::settle_in(&parsed.config.process).map_err(Failure::World)?;
        let make_codec: MakeCodec<P> = match parsed.config.socket.passtos {
            true => codec::openvpn_with_dscp,
            false => codec::openvpn,
        };
        match &self.shared {
            None => Driver::new(config, make_codec),
            Some(shared) => Driver::join(config, make_codec, &shared.device),
        }
        .map_err(world)
    }

    /// Called as `openvpn`, which is 2.6 and has no `dns-updown`, adit leaves the name servers as they are unless the file asks
    /// for them.
    fn leaves_names_as_openvpn(&mut self) -> bool {
        let Config { role, scripts, .. } = &self.parsed.config;
        let by_default = scripts.names == NameServerSetting::Default;
        let leaves = by_default && !self.log.manner().is_own();
        if leaves && scripts.up.is_none() && matches!(role, Role::Client(_)) {
            let text = "name servers that the server pushes are not set, as by OpenVPN 2.6: write `dns-updown force` to have them set";
            self.log.log(Severity::Info, text);
        }
        leaves
    }

    /// `writepid`, the socket of `adit status`, and the status file.
    fn show<P: StatusSource>(
        &mut self,
        handle: &Handle<P>,
        expiry: &Expiry,
        member: &Member<'_>,
    ) -> Result<Shown, Failure> {
        let _pid_file = self.write_pid()?;
        let tables = OtherTables::default();
        let usage = self.log.clone();
        tables.add(move || usage.usage());
        let beside = status::Beside {
            expiring: Some(expiring(expiry)),
            confinement: member.startup().confinement.clone(),
            tables: tables.clone(),
            endpoints: self.shared.as_ref().map(|shared| shared.names.clone()).unwrap_or_default(),
        };
        let socket = match status::serve(&self.name, handle.clone(), rows(), beside) {
            Ok(socket) => Some(socket),
            // A tunnel that cannot be asked for its status is still a tunnel.
            Err(error) => {
                let text = format_args!("`adit status` will not see this tunnel: {error}");
                self.log.log(Severity::Warning, text);
                None
            }
        };
        let form = status_form(&self.parsed.config);
        let status_file = self.open_status_file(form);
        Ok(Shown { _pid_file, socket, status_file, form, tables })
    }

    /// `status`: as with OpenVPN, a tunnel goes on without.
    fn open_status_file(&mut self, form: status_file::Form) -> Option<status_file::Output> {
        let file = self.parsed.config.process.status.as_ref()?;
        match status_file::Output::open(file, form) {
            Ok(output) => Some(output),
            Err(error) => {
                let path = file.path.display();
                let text = format_args!("status {path}: it cannot be written: {error}");
                self.log.log(Severity::Warning, text);
                None
            }
        }
    }

    /// `writepid`: the file goes when the tunnel does.
    fn write_pid(&self) -> Result<Option<RemovedOnDrop>, Failure> {
        let Some(path) = &self.parsed.config.process.pid_file else { return Ok(None) };
        std::fs::write(path, format!("{}\n", std::process::id()))
            .map_err(|error| Failure::World(format!("writepid {}: {error}", path.display())))?;
        Ok(Some(RemovedOnDrop(path.clone())))
    }

    /// Starts the helper with all that it is for.
    fn helper(
        &mut self,
        mut policy: Policy,
        account: Option<&Account>,
        watched: &Watched,
        shown: &Shown,
    ) -> Result<Helper, Failure> {
        let config = &self.parsed.config;
        own_privileges::complete(&mut policy, config, account);
        policy.revocations = watched.revocations.as_ref().map(revocations::Source::watched);
        policy.removed_at_end =
            own_privileges::files_of(config, shown.socket.as_ref().map(status::Socket::path));
        policy.names = watched.names.as_ref().map(PeerNames::hosts).unwrap_or_default();
        policy.without_sandbox = self.options.no_sandbox;
        policy.replaces_remotes = config.process.management.as_ref().is_some_and(|it| it.query_remote);
        policy.replaces_proxies = config.process.management.as_ref().is_some_and(|it| it.query_proxy);
        policy.configuration = Some(self.file.clone());
        let mut helper = helper::start(&configuration::helper_of(), policy, self.options.in_background)
            .map_err(Failure::World)?;
        helper.reports().into_iter().for_each(|report| self.log.log(report.severity, report));
        Ok(helper)
    }

    /// The thread that knows the clients' files.
    fn start_clients<P: StatusSource>(
        &self,
        files: Option<Arc<Mutex<PerClient>>>,
        helper: &HelperAccess,
        handle: &Handle<P>,
    ) -> Result<Option<Clients>, Failure> {
        let Some(files) = files else { return Ok(None) };
        // The remembered addresses are in the protocol already; here they are kept for the next file.
        let pool_file = files.lock().unwrap_or_else(PoisonError::into_inner).pool_file.clone();
        let remembered = clients::read_pool_file(pool_file.as_ref()).unwrap_or_default();
        let helper = helper.files().map_err(no_helper)?;
        let leases = self.shared.as_ref().map(|shared| shared.leases.clone()).unwrap_or_default();
        Clients::start((files, helper), (remembered, leases), handle.clone(), self.log.clone())
            .map(Some)
            .map_err(no_thread)
    }

    /// The action on SIGHUP.
    fn reload<P: StatusSource>(
        &self,
        reloads: Reloads<P>,
        (per_client, helper, crl): (Option<Arc<Mutex<PerClient>>>, &HelperAccess, revocations::Watch),
        (handle, mut rules): (&Handle<P>, AccessRules),
    ) -> Result<Reload, Failure> {
        let known = self.as_read.config.routes.len();
        let source = Source {
            file: self.file.clone(),
            start: Arc::clone(&self.as_read),
            resolve_timeout: attempts::resolve_timeout(&self.as_read),
            holds: Arc::clone(&self.as_read),
            looked_up: self.parsed.config.routes.get(known..).unwrap_or_default().to_vec(),
            per_client,
            crl,
            files: helper.files().map_err(no_helper)?,
            log: self.log.clone(),
        };
        let (files, handle, mut log) = (helper.files().map_err(no_helper)?, handle.clone(), self.log.clone());
        let own = reloads(source, handle.clone());
        Ok(own.and_then(move || rules.reload(&files, &handle, &mut log)))
    }

    fn start_scripts<P: StatusSource>(
        &self,
        helper: &HelperAccess,
        handle: &Handle<P>,
        tables: &OtherTables,
    ) -> Result<Option<Scripts>, Failure> {
        let any = match &self.parsed.config.role {
            Role::Server(server) => scripts::any(&server.access),
            Role::Client(_) | Role::PointToPoint(_) => self.parsed.config.scripts.tls_verify.is_some(),
        };
        if !any {
            return Ok(None);
        }
        let launcher = helper.scripts().map_err(no_helper)?;
        let scripts =
            scripts::start(handle.clone(), launcher, self.client_environment()).map_err(no_scripts)?;
        tables.add(scripts.usage());
        Ok(Some(scripts))
    }

    /// The helper of the programs that judge passwords, if there are any.
    fn back_end_helper(&mut self) -> Result<Option<Helper>, Failure> {
        let Some(policy) = back_ends::policy(&self.parsed.config) else { return Ok(None) };
        let mut helper = helper::start(&configuration::helper_of(), policy, self.options.in_background)
            .map_err(Failure::World)?;
        helper.reports().into_iter().for_each(|report| self.log.log(report.severity, report));
        Ok(Some(helper))
    }

    /// The helper that forwards the packets of clients, if the file, or the file of another endpoint of the tunnel, says so.
    fn forward(&mut self, device: &str) -> Result<Option<Helper>, Failure> {
        let forwarding = match &self.shared {
            Some(shared) => shared.take_forwarding(&self.name),
            None => server_forwarding::of(&self.parsed.config, device),
        };
        forwarding::start(forwarding, device, self.options, &mut self.log)
    }

    fn start_back_ends<P: StatusSource>(
        &self,
        helper: Option<&Helper>,
        handle: &Handle<P>,
        tables: &OtherTables,
    ) -> Result<Option<BackEnds>, Failure> {
        let (Some(helper), Role::Server(server)) = (helper, &self.parsed.config.role) else {
            return Ok(None);
        };
        let launcher = helper.access().scripts().map_err(no_helper)?;
        let runner = scripts::start_back_ends(handle.clone(), launcher, self.client_environment());
        let runner = runner.map_err(no_scripts)?;
        tables.add(runner.usage());
        Ok(Some(BackEnds { runner, commands: back_ends::commands(&server.access) }))
    }

    /// The environment of programs about clients besides the protocol's variables.
    fn client_environment(&self) -> Vec<(String, String)> {
        let base = self.script_environment();
        match self.parsed.config.role {
            Role::Server(_) => tunnel_scripts::environment::of_clients(&self.parsed.config, base),
            Role::Client(_) | Role::PointToPoint(_) => base,
        }
    }

    /// `management-up-down`: the variables of scripts, and whether the device stays while a server is looked for.
    fn up_down(&self) -> Option<(Vec<(String, String)>, bool)> {
        let config = &self.parsed.config;
        let tells = config.process.management.as_ref().is_some_and(|management| management.up_down);
        tells.then(|| (self.script_environment(), config.scripts.keeps_device))
    }

    fn script_environment(&self) -> Vec<(String, String)> {
        let parsed = &self.parsed;
        let daemon = parsed.has("daemon") || self.options.in_background;
        tunnel_scripts::environment::base(&parsed.config, &self.file, daemon)
    }

    /// The programs that run when the tunnel comes up and goes down, if there are any.
    fn start_tunnel_scripts<P: StatusSource>(
        &self,
        helper: &HelperAccess,
        handle: &Handle<P>,
    ) -> Result<Option<TunnelScripts>, Failure> {
        let config = &self.parsed.config;
        let any = config.scripts.commands().next().is_some();
        if !any && config.scripts.route_delay.is_none() {
            return Ok(None);
        }
        let end = match &config.role {
            Role::Client(_) => End::Connects,
            Role::PointToPoint(_) => End::Waits,
            Role::Server(_) => End::Serves,
        };
        let launcher = if any { Some(helper.scripts().map_err(no_helper)?) } else { None };
        let control = Control::new(handle.clone(), self.log.clone(), self.options.in_background);
        let base = self.script_environment();
        let mut scripts = TunnelScripts::start(config.scripts.clone(), end, base, (launcher, control))
            .map_err(no_thread)?;
        if config.process.user.is_some() {
            scripts.tell_names_by_file();
        }
        Ok(Some(scripts))
    }

    /// Watches what changes outside, until what is given back is dropped.
    fn watch<P: StatusSource>(
        &self,
        Watched { revocations, expiry, names }: Watched,
        helper: &HelperAccess,
        handle: &Handle<P>,
        (crl, ending): (&revocations::Watch, &Ending),
    ) -> Result<EndOnDrop, Failure> {
        let beside = || (self.log.clone(), ending.clone());
        if let Some(source) = revocations {
            let no_watch = |error: io::Error| {
                Failure::World(format!("no thread to watch what crl-verify names: {error}"))
            };
            crl.start(source, handle.clone()).map_err(no_watch)?;
        }
        expiry.watch(self.log.clone(), expiry::EVERY, ending.clone()).map_err(no_thread)?;
        if let Some(names) = names {
            let helper = helper.files().map_err(no_helper)?;
            names.watch(helper, handle.clone(), beside()).map_err(no_thread)?;
        }
        Ok(ending.on_drop())
    }
}

fn no_scripts(error: io::Error) -> Failure {
    Failure::World(format!("scripts cannot be run: {error}"))
}

fn no_helper(error: io::Error) -> Failure {
    Failure::World(format!("the helper process does not answer: {error}"))
}

fn no_signals(error: io::Error) -> Failure {
    Failure::World(format!("signals cannot be watched: {error}"))
}

fn no_thread(error: io::Error) -> Failure {
    Failure::World(format!("cannot start a thread: {error}"))
}

fn world(error: DriverError) -> Failure {
    Failure::World(error.to_string())
}

/// The certificates and lists that have expired or will soon, whenever a report is asked for.
fn expiring(expiry: &Expiry) -> Box<dyn Fn() -> Vec<Expiring> + Send> {
    let expiry = expiry.clone();
    Box::new(move || expiry.near(OffsetDateTime::now_utc()))
}

fn status_form(config: &Config) -> status_file::Form {
    match &config.role {
        Role::Server(_) => {
            status_file::Form::Clients(config.process.status.as_ref().map_or(1, |status| status.version))
        }
        Role::Client(_) | Role::PointToPoint(_) => status_file::Form::Statistics,
    }
}

struct RemovedOnDrop(PathBuf);

impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
