//! The helper as its tunnel sees it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use adit_core::{IpNet, PoolEntry, Report, Transport, TunnelSettings};
use adit_io::opener::{Opened, Refusals};
use adit_io::{
    Attempt, DriverHelper, ForwardChannel, NetworkChannel, OpenOutcome, Proxy, ProxyCredentials, Relay,
    SocketChannel, UdpOptions,
};
use adit_system::RouteWatch;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::channel::Channel;
use super::gathered::Gathered;
use super::policy::Policy;
use super::request::{
    FileRequest, LookedUp, LookedUpOne, Mark, NetworkAnswer, NetworkRequest, Note, Opening, Refusal, Request,
    Secret,
};
use super::sockets::HelperSockets;

/// The helper at work. When this is dropped, it has undone its changes, and ended.
#[derive(Debug)]
pub struct Helper {
    access: HelperAccess,
    runs_in: Place,
    reports: Vec<Report>,
}

/// Where it runs.
#[derive(Debug)]
pub(super) enum Place {
    Process(Child),
    Thread(Option<JoinHandle<()>>),
}

/// A way to ask the helper, for any thread.
#[derive(Clone, Debug)]
pub struct HelperAccess(Arc<Mutex<Option<Channel>>>);

impl Helper {
    /// Starts the helper by a command that runs [`super::serve_helper`] on its standard input.
    ///
    /// # Errors
    /// It cannot be started, or cannot do the work of the policy.
    pub fn start(mut command: Command, policy: Policy) -> io::Result<Self> {
        let (ours, theirs) = Channel::pair()?;
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let child = command.spawn()?;
        // It has the other end of the channel, too: were the child to end at once, this would not be seen.
        drop(command);
        Helper::greet(ours, Place::Process(child), policy)
    }

    /// Gives the helper at the other end of the channel its policy.
    pub(super) fn greet(channel: Channel, runs_in: Place, policy: Policy) -> io::Result<Self> {
        let access = HelperAccess(Arc::new(Mutex::new(Some(channel))));
        let mut helper = Helper { access, runs_in, reports: Vec::new() };
        let started: Result<Vec<Note>, String> =
            helper.access.with(|channel| channel.call(&Request::Start(Box::new(policy))))?;
        helper.reports = started.map_err(io::Error::other)?.into_iter().map(Report::from).collect();
        Ok(helper)
    }

    /// The reports of its start for the administrator; once.
    pub fn reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// A way to ask it.
    pub fn access(&self) -> HelperAccess {
        self.access.clone()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It sees the end of its input, undoes its changes, and ends.
        drop(self.access.lock().take());
        match &mut self.runs_in {
            Place::Process(child) => drop(child.wait()),
            Place::Thread(thread) => drop(thread.take().map(JoinHandle::join)),
        }
    }
}

impl HelperAccess {
    fn lock(&self) -> MutexGuard<'_, Option<Channel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, act: impl FnOnce(&Channel) -> io::Result<T>) -> io::Result<T> {
        act(self.lock().as_ref().ok_or(io::ErrorKind::BrokenPipe)?)
    }

    /// A channel of its own, so that a request on it does not wait for those on others.
    fn channel(&self) -> io::Result<Channel> {
        let (ours, theirs) = Channel::pair()?;
        self.with(|channel| channel.send_with(&Request::Channel, Some(theirs.as_fd())))?;
        Ok(ours)
    }

    /// A way to the files that the policy names.
    ///
    /// # Errors
    /// When the helper is gone.
    pub fn files(&self) -> io::Result<HelperFiles> {
        Ok(HelperFiles { channel: self.channel()? })
    }

    /// A way to the scripts that the policy names.
    ///
    /// # Errors
    /// When the helper is gone.
    pub fn scripts(&self) -> io::Result<super::ScriptLauncher> {
        Ok(super::ScriptLauncher::new(self.channel()?))
    }
}

impl DriverHelper for HelperAccess {
    fn network(&self) -> io::Result<Box<dyn NetworkChannel>> {
        Ok(Box::new(HelperNetwork { channel: self.channel()?, state: NetworkAnswer::default() }))
    }

    fn sockets(&self) -> io::Result<Box<dyn SocketChannel>> {
        Ok(Box::new(HelperSockets::new(self.channel()?)))
    }

    fn forwarding(&self) -> io::Result<Box<dyn ForwardChannel>> {
        Ok(Box::new(HelperForwarding { channel: self.channel()? }))
    }

    fn open(
        &self,
        attempt: Attempt,
        udp: &UdpOptions,
        prepare: &mut dyn FnMut(Vec<IpAddr>),
    ) -> io::Result<OpenOutcome> {
        let channel = self.channel()?;
        channel.send(&Request::Open { remote: attempt.remote, attempt: attempt.number })?;
        let mut relay = None;
        loop {
            match channel.receive()? {
                (Opening::Reaching(addresses), _) => {
                    prepare(addresses);
                    channel.send(&())?;
                }
                (Opening::Relay(header), Some(connection)) => {
                    relay = Some(Relay::new(header, connection.into()));
                }
                (Opening::Failed(failure), _) => return Ok((Err(failure), Refusals::Asked(None))),
                (Opening::Done(Transport::Udp | Transport::Ip(_), address), Some(socket)) => {
                    let opened = Opened::udp(socket, address, udp, relay)?;
                    return Ok((Ok(opened), Refusals::Helper(Box::new(move || refusal(&channel)))));
                }
                (Opening::Done(Transport::Tcp, address), Some(socket)) => {
                    return Ok((Ok(Opened::tcp(socket, address)?), Refusals::Asked(None)));
                }
                _ => return Err(io::Error::other("an answer that is none")),
            }
        }
    }
}

/// Why the address refuses that was opened by this channel. Waits until the helper says so, or closes the channel.
fn refusal(channel: &Channel) -> Option<String> {
    match channel.receive() {
        Ok((Opening::Refused(why), _)) => Some(why),
        _ => None,
    }
}

/// The system's network, set up by the helper.
#[derive(Debug)]
struct HelperNetwork {
    channel: Channel,
    /// Its last answer.
    state: NetworkAnswer,
}

impl HelperNetwork {
    fn ask(&mut self, request: NetworkRequest) -> io::Result<(Vec<Report>, Option<OwnedFd>)> {
        let answer = self.channel.send(&Request::Network(request)).and_then(|()| self.channel.receive());
        let (mut state, descriptor): (NetworkAnswer, _) = answer.inspect_err(|error| {
            self.state.lacks = Some(format!("its helper process failed: {error}"));
        })?;
        let reports = std::mem::take(&mut state.reports);
        self.state = state;
        Ok((reports.into_iter().map(Report::from).collect(), descriptor))
    }
}

impl NetworkChannel for HelperNetwork {
    fn apply(&mut self, settings: &TunnelSettings) -> io::Result<Vec<Report>> {
        Ok(self.ask(NetworkRequest::Apply(settings.clone()))?.0)
    }

    fn bypass(&mut self, addresses: &[IpAddr]) -> io::Result<()> {
        self.ask(NetworkRequest::Bypass(addresses.to_vec())).map(drop)
    }

    fn follow(&mut self) -> io::Result<()> {
        self.ask(NetworkRequest::Follow).map(drop)
    }

    fn undo(&mut self) -> io::Result<()> {
        self.ask(NetworkRequest::Undo).map(drop)
    }

    fn depends_on_network(&self) -> bool {
        self.state.depends_on_network
    }

    fn takes_all(&self) -> bool {
        self.state.takes_all
    }

    fn missing_addresses(&self) -> &[IpNet] {
        &self.state.missing_addresses
    }

    fn lacks(&self) -> Option<String> {
        self.state.lacks.clone()
    }

    fn watch(&mut self) -> io::Result<RouteWatch> {
        let (_, descriptor) = self.ask(NetworkRequest::Watch)?;
        Ok(RouteWatch::from(descriptor.ok_or(io::ErrorKind::Unsupported)?))
    }
}

/// Connections at a shared port that are not of the protocol, forwarded by the helper.
#[derive(Debug)]
struct HelperForwarding {
    channel: Channel,
}

impl ForwardChannel for HelperForwarding {
    fn forward(&self, connection: BorrowedFd<'_>, source: SocketAddr) -> io::Result<()> {
        self.channel.send_with(&Request::Forward(source), Some(connection))
    }
}

/// Files that the policy names, read and written by the helper.
#[derive(Debug)]
pub struct HelperFiles {
    channel: Channel,
}

impl HelperFiles {
    fn ask<T: DeserializeOwned>(&self, request: FileRequest) -> io::Result<T> {
        let answer: Result<T, Refusal> = self.channel.call(&Request::File(request))?;
        Ok(answer?)
    }

    /// A file in the directory of clients' files; `None` if there is none of that name.
    ///
    /// # Errors
    /// When it cannot be read or is too large, or the name is no file's.
    pub fn client_file(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.ask(FileRequest::Client(name.to_owned()))
    }

    /// The mark that differs after a change of the revocation lists' file or directory.
    ///
    /// # Errors
    /// When it is not there.
    pub fn revocation_mark(&self) -> io::Result<Mark> {
        self.ask(FileRequest::RevocationMark)
    }

    /// The revocation lists, or the names in their directory, one a line.
    ///
    /// # Errors
    /// When they cannot be read or are too large.
    pub fn revocations(&self) -> io::Result<Vec<u8>> {
        self.ask(FileRequest::Revocations)
    }

    /// Replaces the content of the file of leases by these ([`super::Dialect::print_leases`]).
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_pool(&self, leases: &[PoolEntry]) -> io::Result<()> {
        self.ask(FileRequest::WritePool(leases.to_vec()))
    }

    /// The addresses of the policy's names, in their order.
    ///
    /// # Errors
    /// When the helper is gone.
    pub fn look_up(&self) -> io::Result<Vec<LookedUp>> {
        self.ask(FileRequest::Names)
    }

    /// The addresses of one name, which the configuration has that holds or that was read last.
    ///
    /// # Errors
    /// When neither has it, or the helper is gone.
    pub fn look_up_one(&self, name: &str) -> io::Result<LookedUpOne> {
        self.ask(FileRequest::Name(name.to_owned()))
    }

    /// Replaces the policy's file of state by these bytes in hexadecimal, on a line: at most 64. On success the disk has it.
    ///
    /// # Errors
    /// When there are more, or they cannot be written; the old file is there then.
    pub fn write_state(&self, state: &[u8]) -> io::Result<()> {
        self.ask(FileRequest::WriteState(state.to_vec()))
    }

    /// Replaces the configuration file, or the file that it is a link to, by one that its owner alone may read: it has
    /// the text of the one that holds, with this state of the tunnel ([`super::Dialect::rewrite`]).
    ///
    /// # Errors
    /// When the configuration does not allow it, the state is none, or the file cannot be written; the old one is there then.
    pub fn save_configuration(&self, state: &[u8]) -> io::Result<()> {
        self.ask(FileRequest::SaveConfiguration(Secret(state.to_vec())))
    }

    /// The file of access rules beside the configuration; `None`: there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn access_rules(&self) -> io::Result<Option<Vec<u8>>> {
        self.ask(FileRequest::AccessRules)
    }

    /// The configuration with the files that it names now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn configuration(&self) -> io::Result<Gathered> {
        self.ask(FileRequest::Configuration)
    }

    /// The revocation lists that the configuration that was read last names, or the names in their directory,
    /// one a line.
    ///
    /// # Errors
    /// When they cannot be read or are too large.
    pub fn proposed_revocations(&self) -> io::Result<Vec<u8>> {
        self.ask(FileRequest::ProposedRevocations)
    }

    /// The requests that the configuration which was read last allows are allowed from now on. `remotes` are other ones: where
    /// each stands in the file, in the order in which they are numbered.
    ///
    /// # Errors
    /// When no configuration without a mistake was read since the last time, or it has no such remote.
    pub fn adopt(&self, remotes: Option<Vec<usize>>) -> io::Result<()> {
        self.ask(FileRequest::Adopt(remotes))
    }

    /// The next attempts at a remote go to another host and port, or to its own again.
    ///
    /// # Errors
    /// When the policy does not allow it.
    pub fn replace_remote(&self, remote: usize, instead: Option<(String, u16)>) -> io::Result<()> {
        self.ask(FileRequest::ReplaceRemote(remote, instead))
    }

    /// The next attempts at a remote go by that proxy, or as the policy has it again.
    ///
    /// # Errors
    /// When the policy does not allow it.
    pub fn replace_proxy(&self, remote: usize, proxy: Option<Proxy>) -> io::Result<()> {
        self.ask(FileRequest::ReplaceProxy(remote, proxy))
    }

    /// Sets our credentials for the proxy by which a remote is reached: from the next attempt on.
    ///
    /// # Errors
    /// When there is no such proxy.
    pub fn proxy_credentials(&self, remote: usize, credentials: ProxyCredentials) -> io::Result<()> {
        self.ask(FileRequest::ProxyCredentials(remote, credentials))
    }

    /// The content of the file with our username and password.
    ///
    /// # Errors
    /// When it cannot be read or is too large.
    pub fn user_password(&self) -> io::Result<Zeroizing<Vec<u8>>> {
        self.ask::<Vec<u8>>(FileRequest::UserPassword).map(Zeroizing::new)
    }
}
