//! The helper's own process.

mod removed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use adit_core::{OpenFailure, Report, RouteTable, Severity, Transport, TunnelSettings};
use adit_io::opener::{self, KnownAddresses, Opened, Refusals};
use adit_io::{Forwarder, PortShare, Proxy, ProxyCredentials, Remote, UdpOptions, allow_many_descriptors};
use adit_system::{Forwarded, Network, Resolving, RouteWatch, SystemSettings};

use self::removed::Removed;
use super::channel::Channel;
use super::files::{self, Files, Proposal};
use super::gathered::{Dialect, Gathered};
use super::policy::Policy;
use super::request::{
    FileRequest, LookedUpOne, NetworkAnswer, NetworkRequest, Note, Opening, Refusal, Request, SocketRequest,
};
use super::scripts::Scripts;
use super::sockets;
use crate::privileges::{allow_files_and_sockets, deny_what_no_program_needs, lock_memory, reduce};

/// Channels at once. A tunnel has one for its network, each kind of file, scripts, and each attempt to connect.
const MAX_CHANNELS: usize = 32;
/// Proxies whose username and password are kept, beside those of the configuration: a program at the management socket can name
/// any number of proxies.
const MAX_PROXIES: usize = 64;

/// Which rights the helper keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// The rights that its policy needs.
    OfThePolicy,
    /// The rights of the whole process, which the helper shares with its tunnel in a test.
    OfTheProcess,
}

/// The state that all channels share.
struct Helper {
    network: Option<Mutex<SystemSettings>>,
    remotes: Mutex<Vec<Remote>>,
    /// The host and port in place of one of them, where the policy allows that.
    replaced: Option<Mutex<Option<(usize, String, u16)>>>,
    /// The proxy in place of that of one of them, where the policy allows that.
    replaced_proxy: Option<Mutex<Option<(usize, Proxy)>>>,
    /// Our credentials, by the host and the port of a proxy, where they came later.
    proxy_credentials: Mutex<BTreeMap<(String, u16), ProxyCredentials>>,
    udp: Option<UdpOptions>,
    binds_udp: bool,
    known: KnownAddresses,
    /// The names of all remotes were resolved, or it was tried.
    learnt: AtomicBool,
    kill_switch: bool,
    starts_programs: bool,
    forwarder: Mutex<Option<Forwarder>>,
    forwarded: Option<Forwarded>,
    files: Files,
    scripts: Option<Mutex<Scripts>>,
    /// The configuration that was read last, until the tunnel has judged it.
    proposed: Mutex<Option<Proposal>>,
    channels: AtomicUsize,
    /// The tunnel is gone: requests on its other channels are refused.
    has_ended: AtomicBool,
}

/// Serves one tunnel until it is gone; then undoes its changes.
pub(super) fn serve(channel: Channel, rights: Rights, dialect: Dialect) -> io::Result<()> {
    let (Request::Start(policy), _) = channel.receive()? else {
        return Err(io::Error::other("the first request must say what the helper is for"));
    };
    match (Unconfigured { rights, dialect }).configure(*policy) {
        Ok((serving, notes)) => {
            channel.send(&Ok::<Vec<Note>, String>(notes))?;
            serving.run(&channel);
            Ok(())
        }
        Err(error) => channel.send(&Err::<Vec<Note>, String>(error.to_string())),
    }
}

/// A helper before it has its policy, which the tunnel sends while it is not confined and has heard no peer.
struct Unconfigured {
    rights: Rights,
    dialect: Dialect,
}

/// A helper with its policy. There is no way to give it another.
struct Serving {
    helper: Arc<Helper>,
    removed_at_end: Vec<Removed>,
}

impl Serving {
    /// Takes further channels until the tunnel is gone. Any other message on this channel ends the helper, a further policy too.
    fn run(self, channel: &Channel) {
        while let Ok((request, descriptor)) = channel.receive() {
            let (Request::Channel, Some(descriptor)) = (request, descriptor) else { break };
            self.helper.open_channel(descriptor);
        }
        self.helper.end(&self.removed_at_end);
    }
}

impl Unconfigured {
    /// Takes the policy, for good, and gives up the rights that it does not need.
    ///
    /// # Errors
    /// When the system refuses an operation that the policy needs.
    fn configure(self, policy: Policy) -> io::Result<(Serving, Vec<Note>)> {
        let removed_at_end = policy.removed_at_end.iter().map(Removed::new).collect();
        let (helper, notes) = start(policy, self.rights, self.dialect)?;
        Ok((Serving { helper: Arc::new(helper), removed_at_end }, notes))
    }
}

fn start(policy: Policy, rights: Rights, dialect: Dialect) -> io::Result<(Helper, Vec<Note>)> {
    let mut reports = Vec::new();
    // Files that only root may open are opened before the process gives up root's rights.
    let files = Files::open(&policy, dialect)?;
    if rights == Rights::OfThePolicy {
        if policy.lock_memory {
            lock_memory()?;
        }
        confine(&policy, &mut reports)?;
    }
    let filters_files = rights == Rights::OfThePolicy && !policy.without_sandbox && !policy.runs_programs();
    let network = policy.network.map(|network| system_settings(network, &mut reports)).transpose()?;
    let scripts = policy.scripts.map(Scripts::new);
    if filters_files {
        reports.extend(allow_files_and_sockets().err().map(|error| {
            let text = format!("the helper can run programs: seccomp cannot be had: {error}");
            Report { severity: Severity::Warning, path: None, text }
        }));
    }
    let forwarded = policy.forwarding.map(|forwarding| {
        let (forwarded, what) = forwarding.begin();
        reports.extend(what);
        forwarded
    });
    let helper = Helper {
        network,
        remotes: Mutex::new(policy.remotes),
        replaced: policy.replaces_remotes.then(Mutex::default),
        replaced_proxy: policy.replaces_proxies.then(Mutex::default),
        proxy_credentials: Mutex::default(),
        udp: policy.udp,
        binds_udp: policy.binds_udp,
        known: KnownAddresses::default(),
        learnt: AtomicBool::new(false),
        kill_switch: policy.kill_switch,
        starts_programs: policy.starts_programs,
        forwarder: Mutex::new(policy.port_share.as_ref().map(forwarder).transpose()?),
        forwarded,
        files,
        scripts: scripts.map(Mutex::new),
        proposed: Mutex::new(None),
        channels: AtomicUsize::new(0),
        has_ended: AtomicBool::new(false),
    };
    Ok((helper, reports.into_iter().map(Note::from).collect()))
}

/// Gives up the rights that the policy does not need. Where programs are started, the filter that they inherit comes first: it must
/// not keep them from more rights (`sudo`), and installing it so needs root's.
fn confine(policy: &Policy, reports: &mut Vec<Report>) -> io::Result<()> {
    if policy.runs_programs() && !policy.without_sandbox {
        reports.extend(deny_what_no_program_needs().err().map(|error| {
            let text = format!("the helper and its programs may make every system call: {error}");
            Report { severity: Severity::Info, path: None, text }
        }));
    }
    reduce(policy.account.as_ref(), policy.capabilities(), policy.scripts.is_some()).map_err(io::Error::other)
}

fn forwarder(share: &PortShare) -> io::Result<Forwarder> {
    allow_many_descriptors();
    Forwarder::start(share)
}

fn system_settings(network: Network, reports: &mut Vec<Report>) -> io::Result<Mutex<SystemSettings>> {
    let (settings, found) = SystemSettings::of(network)?;
    reports.extend(found);
    Ok(Mutex::new(settings))
}

impl Helper {
    fn open_channel(self: &Arc<Self>, descriptor: OwnedFd) {
        if self.channels.fetch_add(1, Ordering::Relaxed) >= MAX_CHANNELS {
            self.channels.fetch_sub(1, Ordering::Relaxed);
            // The other end sees that it is closed.
            return;
        }
        let helper = Arc::clone(self);
        let serve = move || {
            // The tunnel learns of an error by the end of the channel.
            let _ = helper.serve_channel(&Channel::from(descriptor));
            helper.channels.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("adit-helper".to_owned()).spawn(serve).is_err() {
            self.channels.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn serve_channel(&self, channel: &Channel) -> io::Result<()> {
        loop {
            let (request, descriptor) = channel.receive()?;
            if self.has_ended.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match request {
                Request::Network(request) => self.serve_network(channel, request)?,
                Request::Open { remote, attempt } => return self.open(channel, remote, attempt),
                Request::File(FileRequest::Configuration) => {
                    channel.send(&self.read_configuration().map_err(Refusal::from))?;
                }
                Request::File(FileRequest::ProposedRevocations) => {
                    let content = self.files.proposed_revocations(lock(&self.proposed).as_ref());
                    channel.send(&content.map_err(Refusal::from))?;
                }
                Request::File(FileRequest::Adopt(remotes)) => {
                    channel.send(&self.adopt(remotes).map_err(Refusal::from))?;
                }
                Request::File(FileRequest::ReplaceRemote(remote, instead)) => {
                    channel.send(&self.replace_remote(remote, instead).map_err(Refusal::from))?;
                }
                Request::File(FileRequest::ReplaceProxy(remote, proxy)) => {
                    channel.send(&self.replace_proxy(remote, proxy).map_err(Refusal::from))?;
                }
                Request::File(FileRequest::ProxyCredentials(remote, credentials)) => {
                    channel.send(&self.introduce(remote, credentials).map_err(Refusal::from))?;
                }
                Request::File(FileRequest::Name(name)) => {
                    channel.send(&self.look_up(&name).map_err(Refusal::from))?;
                }
                Request::File(request) => self.files.serve(channel, request)?,
                Request::Forward(source) => {
                    let forwarder = lock(&self.forwarder);
                    let forwarder = forwarder.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
                    // Without room for one more, here or in the table of descriptors, the connection is closed.
                    let _ = descriptor.map(|stream| forwarder.take(stream.into(), source));
                }
                Request::Socket(request) => self.serve_sockets(channel, request, descriptor)?,
                Request::Script(request) => {
                    let scripts = self.scripts.as_ref().ok_or(io::ErrorKind::PermissionDenied)?;
                    lock(scripts).serve(channel, request)?;
                }
                Request::Start(_) | Request::Channel => return Err(io::ErrorKind::PermissionDenied.into()),
            }
        }
    }

    /// Reads the configuration again, and keeps the operations that it allows until the tunnel has judged it.
    fn read_configuration(&self) -> io::Result<Gathered> {
        let gathered = self.files.configuration()?;
        *lock(&self.proposed) = Proposal::of(&gathered);
        Ok(gathered)
    }

    /// Allows from now on the operations that the configuration that was read last allows, and nothing else.
    fn adopt(&self, remotes: Option<Vec<usize>>) -> io::Result<()> {
        let proposal = lock(&self.proposed).take().ok_or(io::ErrorKind::PermissionDenied)?;
        let allowed = &proposal.allowed;
        if let Some(order) = remotes {
            let remote = |place: usize| allowed.remotes.get(place).cloned();
            let ordered: Option<Vec<Remote>> = order.into_iter().map(remote).collect();
            *lock(&self.remotes) = ordered.ok_or(io::ErrorKind::InvalidInput)?;
            self.learnt.store(false, Ordering::Relaxed);
        }
        self.files.adopt(&proposal);
        if let Some(scripts) = &self.scripts {
            lock(scripts).allow(proposal.allowed.scripts.unwrap_or_default());
        }
        Ok(())
    }

    /// The next attempts at a remote go elsewhere, or to itself again.
    fn replace_remote(&self, remote: usize, instead: Option<(String, u16)>) -> io::Result<()> {
        let mut replaced = lock(self.replaced.as_ref().ok_or(io::ErrorKind::PermissionDenied)?);
        *replaced = instead.map(|(host, port)| (remote, host, port));
        Ok(())
    }

    /// The next attempts at a remote go by that proxy, or as the policy has it again.
    fn replace_proxy(&self, remote: usize, proxy: Option<Proxy>) -> io::Result<()> {
        let mut replaced = lock(self.replaced_proxy.as_ref().ok_or(io::ErrorKind::PermissionDenied)?);
        *replaced = proxy.map(|proxy| (remote, proxy));
        Ok(())
    }

    /// The proxy of a remote gets our credentials from the next attempt on.
    fn introduce(&self, remote: usize, credentials: ProxyCredentials) -> io::Result<()> {
        let proxy = self.target(remote).and_then(|target| target.proxy).ok_or(io::ErrorKind::NotFound)?;
        let key = (proxy.host.clone(), proxy.port);
        let remotes = lock(&self.remotes).clone();
        let mut known = lock(&self.proxy_credentials);
        if known.len() >= MAX_PROXIES && !known.contains_key(&key) {
            known.retain(|proxy, _| remotes.iter().any(|remote| is_by(remote, proxy)));
        }
        known.insert(key, credentials);
        Ok(())
    }

    /// Where an attempt at a remote goes.
    fn target(&self, remote: usize) -> Option<Remote> {
        let mut target = lock(&self.remotes).get(remote).cloned()?;
        let replaced = self.replaced.as_ref().and_then(|replaced| lock(replaced).clone());
        if let Some((_, host, port)) = replaced.filter(|(place, ..)| *place == remote) {
            (target.host, target.port, target.random_hostname) = (host, port, false);
        }
        let by = self.replaced_proxy.as_ref().and_then(|replaced| lock(replaced).clone());
        if let Some((_, proxy)) = by.filter(|(place, _)| *place == remote) {
            target.proxy = Some(proxy);
        }
        if let Some(proxy) = &mut target.proxy {
            let known = lock(&self.proxy_credentials).get(&(proxy.host.clone(), proxy.port)).cloned();
            proxy.credentials = known.or(proxy.credentials.take());
        }
        Some(target)
    }

    /// The addresses of a name that the configuration has which holds, or that was read last.
    fn look_up(&self, name: &str) -> io::Result<LookedUpOne> {
        let is_proposed =
            |proposal: &Proposal| proposal.allowed.names.iter().flatten().any(|known| known == name);
        if !self.files.has_name(name) && !lock(&self.proposed).as_ref().is_some_and(is_proposed) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(match self.resolving() {
            Resolving::Marked(servers) => {
                opener::look_up_beside(name, &servers).map_err(|error| error.to_string())
            }
            Resolving::System => files::look_up_one(name),
        })
    }

    fn serve_sockets(
        &self,
        channel: &Channel,
        request: SocketRequest,
        descriptor: Option<OwnedFd>,
    ) -> io::Result<()> {
        let options = self.udp.as_ref().filter(|_| self.binds_udp).ok_or(io::ErrorKind::PermissionDenied)?;
        sockets::serve(channel, request, (options, descriptor))
    }

    fn serve_network(&self, channel: &Channel, request: NetworkRequest) -> io::Result<()> {
        let mut network = lock(self.network.as_ref().ok_or(io::ErrorKind::PermissionDenied)?);
        let mut reports = Vec::new();
        let mut watch = None;
        match request {
            NetworkRequest::Apply(TunnelSettings { table: RouteTable::ByMark(_), .. })
                if !self.starts_programs =>
            {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            NetworkRequest::Apply(settings) => reports = network.apply(&settings),
            NetworkRequest::Bypass(addresses) => network.bypass(&addresses),
            NetworkRequest::Follow => network.follow(),
            NetworkRequest::Undo => network.undo(),
            NetworkRequest::Watch => watch = RouteWatch::new().ok(),
        }
        let answer = NetworkAnswer {
            reports: reports.into_iter().map(Note::from).collect(),
            depends_on_network: network.depends_on_network(),
            takes_all: network.takes_all(),
            missing_addresses: network.missing_addresses().to_vec(),
            lacks: network.lacks().map(str::to_owned),
        };
        channel.send_with(&answer, watch.as_ref().map(RouteWatch::as_fd))
    }

    fn open(&self, channel: &Channel, remote: usize, attempt: usize) -> io::Result<()> {
        let target = self.target(remote);
        let (Some(target), Some(udp)) = (target, &self.udp) else {
            let why = OpenFailure::Unreachable(format!("there is no remote number {remote}"));
            return channel.send(&Opening::Failed(why));
        };
        let prepare = |addresses: Vec<IpAddr>| {
            // If the tunnel is gone, the answer will find out.
            let _ = channel.send(&Opening::Reaching(addresses)).and_then(|()| channel.receive::<()>());
        };
        let resolving = self.resolving();
        self.learn_ahead(&resolving);
        match opener::open(&target, attempt, udp, (&self.known, &resolving), prepare) {
            Ok(Opened::Udp(socket, address)) => {
                if let Some(relay) = socket.relay() {
                    let header = Opening::Relay(relay.header().to_vec());
                    channel.send_with(&header, Some(relay.connection()))?;
                }
                channel.send_with(&Opening::Done(target.transport, address), Some(socket.as_fd()))?;
                let question = self.known.ask(&target, &Opened::Udp(socket, address), udp);
                match Refusals::Asked(question).wait() {
                    Some(why) => channel.send(&Opening::Refused(why)),
                    None => Ok(()),
                }
            }
            Ok(Opened::Tcp(stream, address)) => {
                channel.send_with(&Opening::Done(Transport::Tcp, address), Some(stream.as_fd()))
            }
            Err(failure) => channel.send(&Opening::Failed(failure)),
        }
    }

    fn resolving(&self) -> Resolving {
        match &self.network {
            Some(network) => lock(network).resolving(self.kill_switch),
            None => Resolving::System,
        }
    }

    /// Resolves the names of all remotes while the system's resolver works, once: later it may be in a dead tunnel.
    fn learn_ahead(&self, resolving: &Resolving) {
        let remotes = lock(&self.remotes).clone();
        if remotes.len() < 2 || self.learnt.swap(true, Ordering::Relaxed) {
            return;
        }
        let (known, resolving) = (self.known.clone(), resolving.clone());
        let work = move || known.learn(&remotes, &resolving);
        // Without it the names are resolved when they are needed.
        let _ = thread::Builder::new().name("adit-resolve".to_owned()).spawn(work);
    }

    /// The tunnel is gone.
    fn end(&self, removed_at_end: &[Removed]) {
        self.has_ended.store(true, Ordering::SeqCst);
        if let Some(network) = &self.network {
            lock(network).undo();
        }
        if let Some(scripts) = &self.scripts {
            lock(scripts).end();
        }
        if let Some(forwarded) = &self.forwarded {
            forwarded.undo();
        }
        drop(lock(&self.forwarder).take());
        removed_at_end.iter().for_each(Removed::remove);
    }
}

/// Whether the configuration has a remote reached by that proxy.
fn is_by(remote: &Remote, (host, port): &(String, u16)) -> bool {
    remote.proxy.as_ref().is_some_and(|proxy| proxy.host == *host && proxy.port == *port)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
