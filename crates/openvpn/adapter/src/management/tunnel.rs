//! The questions of the management socket to the running tunnel.

use std::net::SocketAddr;
use std::sync::mpsc;

use adit_core::{Command, PeerId, Protocol, Transport};
use adit_guard::HelperFiles;
use adit_io::{Handle, Proxy};
use adit_openvpn::request::{PeerInfo, Reply};

use crate::reload_order::Reload;
use crate::status_file::{self, Form};
use crate::status_source::StatusSource;
use adit_host::log::Logger;

/// A tunnel that can be asked and commanded.
pub(super) trait Tunnel: Send {
    /// How its state is printed when nothing else is said.
    fn form(&self) -> Form;

    /// Its state as `status` prints it, or `None` when it does not answer.
    fn status(&self, form: Form) -> Option<String>;

    /// The connected peers, and the bytes that passed.
    fn load(&self) -> Option<Load>;

    /// Gives it an order. False when it has ended.
    fn command(&self, command: Command) -> bool;

    /// Gives the protocol an order that only it knows. False when it has ended.
    fn reply(&self, reply: Reply) -> bool;

    /// Has the next attempt at a remote go elsewhere, or to the remote itself. False when that cannot be.
    fn replace_remote(&self, remote: usize, instead: Option<(String, u16)>) -> bool;

    /// Has the next attempt at a remote go by a proxy, or as the file says. False when that cannot be.
    fn replace_proxy(&self, remote: usize, proxy: Option<Proxy>) -> bool;

    /// Sends other settings to one client of a server, or to all: to how many, or why to none. `None`: it has no clients, or
    /// does not answer.
    fn push_update(&self, client: Option<u64>, changes: &str) -> Option<Result<usize, String>>;

    /// Has it read its file again. False when it has ended.
    fn reload(&self) -> bool;

    /// Writes its state to the log.
    fn tell_status(&mut self);
}

/// The bytes that passed, in all and by peer.
pub(super) struct Load {
    /// Bytes received from the network.
    pub(super) received: u64,
    /// Bytes sent to the network.
    pub(super) sent: u64,
    /// A server's clients; the other end otherwise.
    pub(super) peers: Vec<Peer>,
}

/// A connected peer.
pub(super) struct Peer {
    /// Its number for orders that concern it, and among all that ever came (OpenVPN: the client id, CID).
    pub(super) number: u64,
    /// The name it proved.
    pub(super) name: String,
    /// Where it is.
    pub(super) remote: SocketAddr,
    /// By which way it came.
    pub(super) transport: Transport,
    /// Bytes received from it.
    pub(super) received: u64,
    /// Bytes sent to it.
    pub(super) sent: u64,
}

/// The tunnel that a driver runs.
pub(super) struct Running<P: Protocol> {
    pub(super) handle: Handle<P>,
    pub(super) form: Form,
    pub(super) log: Logger,
    pub(super) reload: Reload,
    /// The way to the helper that connects for it.
    pub(super) helper: Option<HelperFiles>,
}

impl<P: Protocol + StatusSource> Tunnel for Running<P> {
    fn form(&self) -> Form {
        self.form
    }

    fn status(&self, form: Form) -> Option<String> {
        status_file::text(form, &self.handle)
    }

    fn load(&self) -> Option<Load> {
        let state = status_file::look(&self.handle)?;
        let peer = |(id, info): &(PeerId, PeerInfo)| {
            let (received, sent) = state.bytes(*id);
            let (remote, transport) = (info.path.remote(), info.path.transport());
            Peer { number: info.detail.number, name: info.name.clone(), remote, transport, received, sent }
        };
        let peers = state.peers.iter().map(peer).collect();
        Some(Load { received: state.received, sent: state.sent, peers })
    }

    fn command(&self, command: Command) -> bool {
        self.handle.command(command)
    }

    fn reply(&self, reply: Reply) -> bool {
        self.handle.reply(reply)
    }

    fn replace_remote(&self, remote: usize, instead: Option<(String, u16)>) -> bool {
        self.helper.as_ref().is_some_and(|helper| helper.replace_remote(remote, instead).is_ok())
    }

    fn replace_proxy(&self, remote: usize, proxy: Option<Proxy>) -> bool {
        self.helper.as_ref().is_some_and(|helper| helper.replace_proxy(remote, proxy).is_ok())
    }

    fn push_update(&self, client: Option<u64>, changes: &str) -> Option<Result<usize, String>> {
        let (sender, receiver) = mpsc::channel();
        let changes = changes.to_owned();
        self.handle.change(Box::new(move |protocol, now| {
            // The thread that asked may have given up.
            let _ = sender.send(protocol.push_update(now, client, &changes));
        }));
        let outcome = receiver.recv_timeout(status_file::TIMEOUT).ok()??;
        Some(outcome.map_err(|error| error.to_string()))
    }

    fn reload(&self) -> bool {
        self.reload.begin();
        true
    }

    fn tell_status(&mut self) {
        status_file::tell(self.form, &self.handle, &mut self.log);
    }
}
