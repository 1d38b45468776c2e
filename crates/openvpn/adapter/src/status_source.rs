//! The rows of OpenVPN's ends in `adit status`.

use adit_core::{Instant, Protocol};
use adit_openvpn::codec::Codec;
use adit_openvpn::request::{PeerDetail, Reply, Request};
use adit_openvpn::{Client, PushUpdateError, Server, StaticTunnel};

use adit_host::status::Rows;

/// A machine whose state `adit status` shows.
pub(crate) trait StatusSource:
    Protocol<Request = Request, Reply = Reply, Detail = PeerDetail, Codec = Codec> + Send + 'static
{
    /// `client`, `server` or `static key`.
    const ROLE: &'static str;

    /// Sends other settings to one connected client of a server, or to all ([`Server::push_update`]). `None`: it is no server.
    fn push_update(
        &mut self,
        _now: Instant,
        _client: Option<u64>,
        _changes: &str,
    ) -> Option<Result<usize, PushUpdateError>> {
        None
    }
}

impl StatusSource for Client {
    const ROLE: &'static str = "client";
}

impl StatusSource for Server {
    const ROLE: &'static str = "server";

    fn push_update(
        &mut self,
        now: Instant,
        client: Option<u64>,
        changes: &str,
    ) -> Option<Result<usize, PushUpdateError>> {
        Some(Server::push_update(self, now, client, changes))
    }
}

impl StatusSource for StaticTunnel {
    const ROLE: &'static str = "static key";
}

/// The rows of an end in its reports.
pub(crate) fn rows<P: StatusSource>() -> Rows<P> {
    Rows {
        role: P::ROLE,
        handshake: |detail| detail.tls.clone(),
        public_key: |_| None,
        sessions: |_, _| Vec::new(),
        unconnected: |_| Vec::new(),
    }
}
