//! `adit up`: runs a configuration until it is told to stop.

mod client_settings;
mod clients;
mod credentials;
mod expiry;
mod hosts;
mod management;
mod notify;
mod observer;
mod offloads;
mod peer_names;
mod privileges;
mod revocations;
mod scripts;
mod signals;
mod static_tunnel;
mod status_file;
mod terminal;
mod tls;
mod translate;
mod unlock;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use adit_config::openvpn::{Config, Parsed, PerClient, Role};
use adit_core::{Command, Ended, Protocol, Severity, UnixTime, escaped};
use adit_io::{
    Account, AccountError, Driver, DriverError, Handle, HelperAccess, KillSwitch, Layer, MAX_WORKERS, Routing,
};
use adit_openvpn::credentials::CredentialError;
use adit_openvpn::{Client, Server, StaticTunnel};
use rand_core::{OsRng, TryRngCore};

use crate::configuration;
use crate::exit;
use crate::log::Logger;
use crate::status::{self, OtherTables, StatusSource};
use clients::Clients;
use credentials::CredentialPrompt;
pub(crate) use expiry::Expiry;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    pub(crate) use super::expiry::expiring;
    pub(crate) use super::management::fuzzing::session;
}
use management::Management;
use observer::LogObserver;
use peer_names::PeerNames;
pub(crate) use privileges::Confinement;
use scripts::Scripts;
use signals::StartupSignals;
use terminal::{Terminal, Waiting as _};
use zeroize::Zeroizing;

/// What a server may ask the person at the terminal, in OpenVPN's words: to open a page, or a question.
const QUESTIONS: &str = "webauth,openurl,crtext";

/// Run an OpenVPN configuration, client or server, in the foreground
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration: an .ovpn or .conf file
    file: PathBuf,
    /// Write name servers to this file, in place of systemd-resolved and /etc/resolv.conf
    #[arg(long, value_name = "FILE")]
    resolv_conf: Option<PathBuf>,
    /// Let nothing leave but the tunnel's packets and its own datagrams, from before the first connection until
    /// `adit kill-switch off`, whatever becomes of adit. With `lan`, local networks may be reached (a client; needs nft)
    #[arg(long, value_name = "lan", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    kill_switch: Option<KillSwitchScope>,
    #[command(flatten)]
    offloads: offloads::OffloadArgs,
    /// Threads that move packets (1 to 8), for a server with many UDP clients on a machine with many cores.
    /// Each client is served by one of them; those on TCP all by the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = workers_in_range)]
    workers: usize,
    /// Do not confine the running tunnel (Landlock, seccomp): for debugging alone
    #[arg(long)]
    no_sandbox: bool,
}

/// What the kill switch keeps in.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum KillSwitchScope {
    /// All.
    All,
    /// All but what stays in local networks.
    Lan,
}

/// Why a configuration does not come up.
enum Failure {
    /// The configuration is wrong: one problem a line.
    Configuration(String),
    /// Something in the world stood in the way.
    World(String),
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match up(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Configuration(why)) => exit::usage(why),
        Err(Failure::World(why)) => exit::failure(why),
    }
}

fn up(args: &Args) -> Result<(), Failure> {
    adit_io::forbid_core_files()
        .map_err(|error| Failure::World(format!("core files cannot be forbidden: {error}")))?;
    let mut parsed =
        configuration::read(&args.file).map_err(|error| Failure::Configuration(error.to_string()))?;
    shuffle(&mut parsed.config)?;
    let mut log = Logger::new(&parsed.config.process)
        .map_err(|error| Failure::World(format!("the log file cannot be written: {error}")))?;
    turn_kill_switch_on(args, &parsed, &mut log)?;
    // Names are looked up below.
    Routing::recover();
    let (routes, missing) = hosts::look_up(&parsed.config.named_routes);
    parsed.config.routes.extend(routes);
    for why in missing {
        log.log(Severity::Warning, format_args!("{why}; there is no such route"));
    }
    let _flush = log.flush_on_drop();
    let outcome = start(args, &parsed, log.clone());
    // Who started it hears of it by the standard error; the log shall tell it as well.
    if let Err(Failure::World(why) | Failure::Configuration(why)) = &outcome
        && log.is_elsewhere()
    {
        log.log(Severity::Error, why);
    }
    outcome
}

/// `--kill-switch`, before anything else that reaches the network.
fn turn_kill_switch_on(args: &Args, parsed: &Parsed, log: &mut Logger) -> Result<(), Failure> {
    let Some(scope) = args.kill_switch else { return Ok(()) };
    if !matches!(parsed.config.role, Role::Client(_)) {
        let why = "--kill-switch is for clients: a server's answers would not leave";
        return Err(Failure::Configuration(why.to_owned()));
    }
    let switch = KillSwitch::new(&args.file, scope == KillSwitchScope::Lan);
    switch.on().map_err(|error| Failure::World(error.to_string()))?;
    let file = args.file.display();
    let text = format_args!(
        "kill switch on: only this tunnel's packets leave, until `adit kill-switch off {file}` (nftables {})",
        switch.table()
    );
    log.log(Severity::Info, text);
    Ok(())
}

fn start(args: &Args, parsed: &Parsed, mut log: Logger) -> Result<(), Failure> {
    for warning in &parsed.warnings {
        log.log(Severity::Warning, warning);
    }
    let signals = StartupSignals::watch().map_err(no_signals)?;
    let Some(management) = open_management(args, parsed, &mut log)? else {
        return start_with(args, parsed, log, None, &signals);
    };
    // Its socket may have a file, which goes first.
    signals.begin();
    let outcome = hold_and_start(args, parsed, log, management, &signals);
    signals.end();
    outcome
}

/// `management-hold`, if the file says so, and then the start.
fn hold_and_start(
    args: &Args,
    parsed: &Parsed,
    log: Logger,
    management: Management,
    signals: &StartupSignals,
) -> Result<(), Failure> {
    if !management.hold(signals) {
        return Err(Failure::World("told to end before `hold release`".to_owned()));
    }
    start_with(args, parsed, log, Some(management), signals)
}

fn start_with(
    args: &Args,
    parsed: &Parsed,
    mut log: Logger,
    management: Option<Management>,
    signals: &StartupSignals,
) -> Result<(), Failure> {
    let wall = UnixTime(adit_io::unix_now().0.saturating_sub(adit_io::clock().as_nanos() / 1_000_000_000));
    let mut seed = [0; 32];
    OsRng.try_fill_bytes(&mut seed).map_err(no_randomness)?;
    if let Some(secret) = &parsed.config.secret {
        let names = PeerNames::look_up(&parsed.config);
        let only_from = names.as_ref().map(PeerNames::addresses);
        let params = static_tunnel::params(&parsed.config, secret, timeout(parsed), (wall, only_from));
        let expiry = Expiry::new(&args.file, &parsed.config.role);
        let watched = Watched { revocations: None, expiry, names };
        return run_protocol(args, parsed, watched, (None, management), (log, signals), |now| {
            StaticTunnel::new(params, now, seed)
        });
    }
    let expiry = Expiry::new(&args.file, &parsed.config.role);
    let (lists, mut source) = revocations::load(parsed.config.tls.crl.as_ref(), &args.file, &expiry)
        .map_err(|error| at_line(parsed, &args.file, "crl-verify", &error))?;
    let questions = management.as_ref().and_then(Management::questions);
    let credentials =
        unlock::credentials(&parsed.config, &args.file, &mut log, signals, questions.as_deref())
            .map_err(|(directive, why)| at_line(parsed, &args.file, directive, &why))?;
    expiry.note_certificates(&credentials);
    source.iter_mut().for_each(|source| source.set_authorities(&credentials.ca));
    for warning in translate::warnings(&parsed.config, &credentials, lists.as_ref()) {
        log.log(Severity::Warning, warning);
    }
    let names = PeerNames::look_up(&parsed.config);
    let only_from = names.as_ref().map(PeerNames::addresses);
    let source = Watched { revocations: source, expiry, names };
    match &parsed.config.role {
        Role::Client(client) => {
            let timeout = timeout(parsed);
            let mut params =
                translate::client_params(&parsed.config, client, &credentials, timeout, lists, wall)
                    .map_err(|error| locate(parsed, &args.file, &error))?;
            let prompt = CredentialPrompt::new(client.auth.as_ref(), &args.file, questions);
            if let Some(auth) = &mut params.auth {
                let answer = prompt.first(&mut log, signals);
                let answer = answer.map_err(|why| at_line(parsed, &args.file, "auth-user-pass", &why))?;
                auth.credentials = Some(answer);
                if prompt.asks_all_at_once() {
                    auth.challenge = None;
                } else if auth.challenge.is_some() {
                    Terminal::open().map_err(|why| at_line(parsed, &args.file, "static-challenge", &why))?;
                }
            }
            let says = params.peer_info.iter().any(|(name, _)| name == "IV_SSO");
            if client.pull && Terminal::is_there() && !says {
                params.peer_info.push(("IV_SSO".to_owned(), QUESTIONS.to_owned()));
            }
            run_protocol(args, parsed, source, (Some(prompt), management), (log, signals), |now| {
                Client::new(params, now, seed)
            })
        }
        Role::Server(server) => {
            let mut secret = Zeroizing::new([0; 32]);
            OsRng.try_fill_bytes(secret.as_mut_slice()).map_err(no_randomness)?;
            let mut params =
                translate::server_params(&parsed.config, server, &credentials, lists, &secret, wall)
                    .map_err(|error| locate(parsed, &args.file, &error))?;
            let remembered = clients::read_pool_file(server.per_client.pool_file.as_ref())
                .map_err(|error| Failure::World(format!("ifconfig-pool-persist: {error}")))?;
            params.per_client.remembered = remembered;
            run_protocol(args, parsed, source, (None, management), (log, signals), |now| {
                Server::new(params, now, seed)
            })
        }
        Role::Point(point) => {
            let params =
                translate::point_params(&parsed.config, point, &credentials, lists, (wall, only_from))
                    .map_err(|error| locate(parsed, &args.file, &error))?;
            run_protocol(args, parsed, source, (None, management), (log, signals), |now| {
                Server::new(params, now, seed)
            })
        }
    }
}

/// How long names that do not exist are looked for. A misspelt one shall not go unnoticed for ever, unless the file
/// says so.
fn timeout(parsed: &Parsed) -> Option<Duration> {
    let mentioned = parsed.report.iter().any(|entry| entry.directive == "resolv-retry");
    match &parsed.config.role {
        Role::Client(client) if mentioned => client.resolve_retry,
        _ => Some(Duration::ZERO),
    }
}

/// `remote-random`: the servers in any order (Fisher–Yates).
fn shuffle(config: &mut Config) -> Result<(), Failure> {
    let Role::Client(client) = &mut config.role else { return Ok(()) };
    if client.remote_random {
        for last in (1..client.remotes.len()).rev() {
            let random = OsRng.try_next_u64().map_err(no_randomness)?;
            // The bias of the remainder is below 2^-50 for any number of remotes.
            let chosen = random % (last as u64 + 1);
            client.remotes.swap(last, usize::try_from(chosen).unwrap_or(last));
        }
    }
    Ok(())
}

fn no_randomness(error: impl std::fmt::Display) -> Failure {
    Failure::World(format!("no randomness from the system: {error}"))
}

/// An error of the credentials, with the line of the directive at fault.
fn locate(parsed: &Parsed, path: &Path, error: &CredentialError) -> Failure {
    at_line(parsed, path, error.directive(), error)
}

/// An error in what a directive names, with the directive's line.
fn at_line(parsed: &Parsed, path: &Path, directive: &str, error: &impl std::fmt::Display) -> Failure {
    Failure::Configuration(format!("{}: {error}", place(parsed, path, directive)))
}

/// Where a directive stands; the file, if it does not.
fn place(parsed: &Parsed, path: &Path, directive: &str) -> String {
    match parsed.report.iter().find(|entry| entry.directive == directive) {
        Some(entry) => format!("{}:{}", entry.file, entry.line),
        None => path.display().to_string(),
    }
}

/// What may change while the tunnel runs.
struct Watched {
    revocations: Option<revocations::Source>,
    expiry: Expiry,
    /// The names of the only peer.
    names: Option<PeerNames>,
}

fn run_protocol<P: Protocol + StatusSource>(
    args: &Args,
    parsed: &Parsed,
    Watched { revocations, expiry, names }: Watched,
    (mut prompt, management): (Option<CredentialPrompt>, Option<Management>),
    (mut log, signals): (Logger, &StartupSignals),
    protocol: impl FnOnce(adit_core::Instant) -> P,
) -> Result<(), Failure> {
    let mut config = translate::driver_config(&parsed.config, args.offloads.switches(), args.workers);
    if args.workers > 1 && !config.remotes.is_empty() {
        log.log(Severity::Info, "--workers changes nothing for a client: one peer is served by one worker");
    }
    config.resolv_conf.clone_from(&args.resolv_conf);
    config.kill_switch = args.kill_switch.is_some();
    let account = account(args, parsed)?;
    privileges::settle_in(&parsed.config.process).map_err(Failure::World)?;
    let mut driver: Driver<P> = Driver::new(config).map_err(world)?;
    let handle = driver.handle();
    let _pid_file = write_pid(parsed)?;
    let confinement = Confinement::default();
    let tables = OtherTables::default();
    let usage = log.clone();
    tables.add(move || usage.usage());
    let socket = serve_status(args, &handle, (&expiry, &confinement, &tables), &mut log);
    let form = status_form(&parsed.config);
    let status_file = open_status_file(&parsed.config, form, &mut log);
    let per_client = per_client_files(args, parsed)?;
    let network = privileges::needs_network(&parsed.config);
    let mut policy = driver.policy(network);
    privileges::complete(&mut policy, &parsed.config, account.as_ref());
    policy.client_directory = per_client.as_ref().and_then(|files| files.directory.clone());
    policy.revocations = revocations.as_ref().map(revocations::Source::watched);
    policy.user_password = prompt.as_ref().and_then(CredentialPrompt::file);
    policy.removed_at_end = privileges::files_of(&parsed.config, socket.as_ref().map(status::Socket::path));
    policy.names = names.as_ref().map(PeerNames::hosts).unwrap_or_default();
    policy.without_sandbox = args.no_sandbox;
    let mut helper = privileges::start_helper(policy).map_err(Failure::World)?;
    helper.reports().into_iter().for_each(|report| log.log(report.severity, report));
    let access = helper.access();
    driver.use_helper(access.clone(), network).map_err(no_helper)?;
    if let Some(prompt) = &mut prompt {
        prompt.use_helper(access.clone());
    }
    let clients = start_clients(per_client, &access, &handle, &log)?;
    signals::watch(handle.clone(), form, log.clone()).map_err(no_signals)?;
    if signals.hand_over() {
        handle.command(Command::Shutdown);
    }
    if let Some(source) = revocations {
        source
            .watch(access.files().map_err(no_helper)?, handle.clone(), log.clone())
            .map_err(|error| Failure::World(format!("no thread to watch what crl-verify names: {error}")))?;
    }
    expiry.watch(log.clone(), expiry::EVERY).map_err(no_thread)?;
    if let Some(names) = names {
        let helper = access.files().map_err(no_helper)?;
        names.watch(helper, handle.clone(), log.clone()).map_err(no_thread)?;
    }
    if let Some(output) = status_file {
        output.start(handle.clone(), log.clone()).map_err(no_thread)?;
    }
    for address in driver.local_addresses() {
        log.log(Severity::Info, format_args!("listening on {address}"));
    }
    let scripts = match &parsed.config.role {
        Role::Server(server) if scripts::any(&server.access) => Some(
            Scripts::start(handle.clone(), access.scripts().map_err(no_helper)?)
                .map_err(|error| Failure::World(format!("scripts cannot be run: {error}")))?,
        ),
        _ => None,
    };
    if let Some(scripts) = &scripts {
        tables.add(scripts.usage());
    }
    Terminal::keep();
    notify::connect();
    let watcher = management.as_ref().map(|it| it.attach(handle.clone(), form, log.clone()));
    let begin = begin(account, !args.no_sandbox, confinement, log.clone());
    let observer = LogObserver::new(log, handle.clone(), clients, (prompt, scripts), watcher);
    let mut observer = privileges::Starting { observer, begin: Some(begin) };
    let ended = driver.run(protocol(adit_io::clock()), &mut observer);
    // Who waits for the helper's answers goes before it.
    drop(observer);
    drop(helper);
    drop(socket);
    match ended.map_err(world)? {
        Ended::Shutdown => Ok(()),
        Ended::Failed(why) => Err(Failure::World(escaped(&why).into_owned())),
    }
}

/// What is done when all is set up, before the first datagram is received.
fn begin(
    account: Option<Account>,
    sandbox: bool,
    confinement: Confinement,
    mut log: Logger,
) -> impl FnOnce() -> Result<(), String> {
    move || {
        let confined = privileges::confine(account.as_ref(), sandbox)?;
        let layers = [
            ("the capability bounding set", &confined.bounding_set),
            ("Landlock", &confined.sandbox.landlock),
            ("seccomp", &confined.sandbox.seccomp),
        ];
        for (name, layer) in layers {
            match layer {
                Layer::On => {}
                Layer::SwitchedOff => {
                    log.log(Severity::Warning, format_args!("{name} is switched off (--no-sandbox)"));
                }
                Layer::Unavailable(why) => {
                    log.log(Severity::Warning, format_args!("{name} does not confine the tunnel: {why}"));
                }
            }
        }
        // It is set here alone.
        let _ = confinement.set(confined);
        notify::ready();
        Ok(())
    }
}

fn no_helper(error: std::io::Error) -> Failure {
    Failure::World(format!("the helper process does not answer: {error}"))
}

/// `management`, if the file has it.
fn open_management(args: &Args, parsed: &Parsed, log: &mut Logger) -> Result<Option<Management>, Failure> {
    Management::open(&parsed.config, &args.file, log).map_err(|fault| match fault {
        // A port that is taken, a file that is not there.
        ("management", why) => Failure::World(format!("{}: {why}", place(parsed, &args.file, "management"))),
        (directive, why) => at_line(parsed, &args.file, directive, &why),
    })
}

/// Whom `user` and `group` name.
fn account(args: &Args, parsed: &Parsed) -> Result<Option<Account>, Failure> {
    let process = &parsed.config.process;
    let directive = |error: &AccountError| match error {
        AccountError::Unknown { kind, .. } | AccountError::LookUp { kind, .. } => kind,
        AccountError::Assume { .. } => "user",
    };
    Account::find(process.user.as_deref(), process.group.as_deref())
        .map_err(|error| at_line(parsed, &args.file, directive(&error), &error))
}

/// A server's files on its clients, if it has any.
fn per_client_files(args: &Args, parsed: &Parsed) -> Result<Option<PerClient>, Failure> {
    let Role::Server(server) = &parsed.config.role else { return Ok(None) };
    let mut files = server.per_client.clone();
    if let Some(directory) = &mut files.directory {
        *directory = configuration::find(&args.file, directory);
        std::fs::read_dir(&*directory)
            .map_err(|error| Failure::World(format!("client-config-dir {}: {error}", directory.display())))?;
    }
    Ok(Some(files))
}

/// The thread that knows them.
fn start_clients<P: StatusSource>(
    files: Option<PerClient>,
    helper: &HelperAccess,
    handle: &Handle<P>,
    log: &Logger,
) -> Result<Option<Clients>, Failure> {
    let Some(files) = files else { return Ok(None) };
    // What was remembered is in the protocol already; here it is kept for the next file.
    let remembered = clients::read_pool_file(files.pool_file.as_ref()).unwrap_or_default();
    let helper = helper.files().map_err(no_helper)?;
    Clients::start((files, helper), remembered, handle.clone(), log.clone()).map(Some).map_err(no_thread)
}

fn no_signals(error: std::io::Error) -> Failure {
    Failure::World(format!("signals cannot be watched: {error}"))
}

fn no_thread(error: std::io::Error) -> Failure {
    Failure::World(format!("cannot start a thread: {error}"))
}

fn status_form(config: &Config) -> status_file::Form {
    match &config.role {
        Role::Server(_) => {
            status_file::Form::Clients(config.process.status.as_ref().map_or(1, |status| status.version))
        }
        Role::Client(_) | Role::Point(_) => status_file::Form::Statistics,
    }
}

/// `status`: as with OpenVPN, a tunnel goes on without.
fn open_status_file(
    config: &Config,
    form: status_file::Form,
    log: &mut Logger,
) -> Option<status_file::Output> {
    let file = config.process.status.as_ref()?;
    match status_file::Output::open(file, form) {
        Ok(output) => Some(output),
        Err(error) => {
            let path = file.path.display();
            log.log(Severity::Warning, format_args!("status {path}: it cannot be written: {error}"));
            None
        }
    }
}

fn world(error: DriverError) -> Failure {
    Failure::World(error.to_string())
}

fn workers_in_range(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=MAX_WORKERS) => Ok(number),
        _ => Err(format!("give a number from 1 to {MAX_WORKERS}")),
    }
}

/// A tunnel without a status socket still runs.
fn serve_status<P: Protocol + StatusSource>(
    args: &Args,
    handle: &Handle<P>,
    (expiry, confinement, tables): (&Expiry, &Confinement, &OtherTables),
    log: &mut Logger,
) -> Option<status::Socket> {
    let shown = (Confinement::clone(confinement), tables.clone());
    match status::serve(&args.file, handle.clone(), expiry.clone(), shown) {
        Ok(socket) => Some(socket),
        Err(error) => {
            log.log(Severity::Warning, format_args!("`adit status` will not see this tunnel: {error}"));
            None
        }
    }
}

/// `writepid`: the file goes when the tunnel does.
fn write_pid(parsed: &Parsed) -> Result<Option<RemovedOnDrop>, Failure> {
    let Some(path) = &parsed.config.process.pid_file else { return Ok(None) };
    std::fs::write(path, format!("{}\n", std::process::id()))
        .map_err(|error| Failure::World(format!("writepid {}: {error}", path.display())))?;
    Ok(Some(RemovedOnDrop(path.clone())))
}

struct RemovedOnDrop(PathBuf);

impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A client's file with these lines besides.
    pub(super) fn config(lines: &str) -> Config {
        let file = format!(
            "client\nremote a\nremote b\nremote c\nauth-user-pass\n{lines}\
             <ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n"
        );
        let none = |_: &Path| Err("no such file".to_owned());
        let parsed = adit_config::openvpn::parse("test.conf", file.as_bytes(), &none);
        parsed.expect("a good file").config
    }

    fn remotes(lines: &str) -> Vec<String> {
        let mut config = config(lines);
        assert!(shuffle(&mut config).is_ok());
        let Role::Client(client) = config.role else { return Vec::new() };
        client.remotes.into_iter().map(|remote| remote.host).collect()
    }

    #[test]
    fn remote_random_gives_every_order() {
        assert_eq!(remotes(""), ["a", "b", "c"]);
        // One of the six is missing once in 10^15 times.
        let orders: BTreeSet<Vec<String>> = (0..200).map(|_| remotes("remote-random\n")).collect();
        assert_eq!(orders.len(), 6, "{orders:?}");
    }
}
