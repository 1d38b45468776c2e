//! A connection of a peer, and the environment of programs about it, which has OpenVPN's names, so that the same
//! program serves both.

use std::net::IpAddr;
use std::time::Duration;

use adit_core::Instant;
use adit_host::scripts::{Script, ScriptId, ScriptPriority};
use adit_wireguard::{PeerDetail, PeerInfo, PublicKey};

/// How long a program may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A peer that is connected.
pub(super) struct Connection {
    owner: u64,
    info: PeerInfo,
    called: String,
    /// Since 1970-01-01T00:00:00Z.
    began: Duration,
}

impl Connection {
    /// `owner` numbers the connection.
    pub(super) fn new(owner: u64, info: PeerInfo, called: String, began: Duration) -> Self {
        Connection { owner, info, called, began }
    }

    pub(super) fn key(&self) -> PublicKey {
        self.info.detail.public_key
    }

    /// The number of the connection.
    pub(super) const fn number(&self) -> u64 {
        self.owner
    }

    /// When the connection began, by which the interface knows it.
    pub(super) const fn since(&self) -> Instant {
        self.info.since
    }

    /// The call of `client-connect`.
    pub(super) fn connect(&self, argv: &[String]) -> Script {
        self.script((0, ScriptPriority::Authenticated), argv, self.environment("client-connect"))
    }

    /// The call of `client-disconnect`. `last` is the peer's detail now, if it is configured still.
    pub(super) fn disconnect(
        &self,
        argv: &[String],
        reason: &str,
        (last, at): (Option<PeerDetail>, Instant),
    ) -> Script {
        let mut environment = self.environment("client-disconnect");
        let mut add = |name: &str, value: String| environment.push((name.to_owned(), value));
        add("time_duration", at.saturating_since(self.info.since).as_secs().to_string());
        add("disconnect_reason", reason.to_owned());
        if let Some(last) = last {
            let first = &self.info.detail;
            add("bytes_received", last.received_bytes.saturating_sub(first.received_bytes).to_string());
            add("bytes_sent", last.sent_bytes.saturating_sub(first.sent_bytes).to_string());
        }
        self.script((1, ScriptPriority::End), argv, environment)
    }

    fn environment(&self, kind: &str) -> Vec<(String, String)> {
        let remote = self.info.path.remote();
        let of_family = |name: &str, address: IpAddr| match address {
            IpAddr::V4(_) => name.to_owned(),
            IpAddr::V6(_) => format!("{name}6"),
        };
        let mut environment = vec![
            ("script_type".to_owned(), kind.to_owned()),
            ("common_name".to_owned(), self.called.clone()),
            ("public_key".to_owned(), self.key().to_string()),
            (of_family("trusted_ip", remote.ip()), remote.ip().to_string()),
            ("trusted_port".to_owned(), remote.port().to_string()),
            ("time_unix".to_owned(), self.began.as_secs().to_string()),
        ];
        for family in [IpAddr::is_ipv4, IpAddr::is_ipv6] {
            let first = self.info.addresses.iter().find(|address| family(address));
            let variable = |it: &IpAddr| (of_family("ifconfig_pool_remote_ip", *it), it.to_string());
            environment.extend(first.map(variable));
        }
        environment
    }

    fn script(
        &self,
        (number, priority): (u32, ScriptPriority),
        argv: &[String],
        env: Vec<(String, String)>,
    ) -> Script {
        Script {
            id: ScriptId { owner: self.owner, number },
            source: Some(self.info.path.remote().ip()),
            priority,
            argv: argv.to_vec(),
            env,
            secrets: Vec::new(),
            files: Vec::new(),
            defers: false,
            in_order: None,
            beside: None,
            timeout: TIMEOUT,
        }
    }
}
