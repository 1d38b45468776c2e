//! The document that `adit status --json` prints.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use adit_core::{Instant, PeerId, PeerInfo, Protocol, TableUsage};
use adit_dataplane::{DirectionSnapshot, DropReason, Snapshot};
use adit_guard::{Confined, Layer};
use adit_io::{IoStatus, OffloadState, OffloadStatus, WorkerStatus};
use serde::{Deserialize, Serialize};

use super::Rows;

/// One tunnel.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// The configuration's file name without its ending.
    pub name: String,
    /// The number of the process.
    pub pid: u32,
    /// The role of this end, such as `client` or `server`.
    pub role: String,
    /// The TUN device.
    pub device: String,
    /// The names of all endpoints of its tunnel, if it has several. Each has a report: `peers` and `tables` are its own,
    /// the counts those of the tunnel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<String>,
    /// Each offload by the name that `adit up --no-offload` knows it by.
    pub offloads: BTreeMap<String, Switch>,
    /// Destinations whose path lately refused UDP_SEGMENT or segments of full length.
    #[serde(default)]
    pub gso_limited_destinations: usize,
    /// The packets that were sent.
    pub sent: Direction,
    /// The packets that were received.
    pub received: Direction,
    /// The threads that move packets.
    pub workers: Vec<Worker>,
    /// The losses outside the data plane, by reason.
    pub losses: BTreeMap<String, u64>,
    /// The peers that are connected.
    pub peers: Vec<Peer>,
    /// Peers that are configured and not connected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconnected: Vec<Unconnected>,
    /// The tables that unauthenticated peers can fill (docs/use/LIMITS.md).
    #[serde(default)]
    pub tables: Vec<Table>,
    /// Certificates and revocation lists that have expired or will in less than 60 days.
    #[serde(default)]
    pub expiring: Vec<Expiring>,
    /// The layers that keep the process from files, programs and rights: `bounding-set`, `landlock`,
    /// `seccomp`.
    #[serde(default)]
    pub sandbox: BTreeMap<String, Switch>,
}

/// How full a table is that unauthenticated peers can fill.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The name of its entries.
    pub name: String,
    /// The number of its entries.
    pub entries: usize,
    /// Entries that there may be from one IPv4 address or IPv6 /64.
    pub share: usize,
    /// Entries that there may be in all.
    pub limit: usize,
    /// Entries that made room for others, since the start.
    pub evicted: u64,
    /// Entries that were not taken, since the start.
    pub refused: u64,
}

impl Table {
    /// The row of a table.
    pub fn new(usage: &TableUsage) -> Self {
        let TableUsage { name, entries, share, limit, evicted, refused } = *usage;
        Table { name: name.to_owned(), entries, share, limit, evicted, refused }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { name, entries, share, limit, evicted, refused } = self;
        write!(
            f,
            "{name}: {entries} of {limit} ({share} of one source), {evicted} evicted, {refused} refused"
        )
    }
}

/// A certificate or a revocation list that expires.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiring {
    /// Its name.
    pub what: String,
    /// Last moment of validity, RFC 3339.
    pub at: String,
    /// Whole days until then; negative when it has expired.
    pub days_left: i64,
    /// How to renew it: a command, or the thing to ask for.
    pub renew: String,
}

impl fmt::Display for Expiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Expiring { what, at, days_left, renew } = self;
        match days_left {
            ..0 => write!(f, "{what} expired on {at}; to renew it: {renew}"),
            _ => write!(f, "{what} expires in {days_left} days, on {at}; to renew it: {renew}"),
        }
    }
}

/// Whether something that can be switched off is in use.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Switch {
    /// The thing is in use.
    On,
    /// By `--no-offload`, `--no-offloads` or `--no-sandbox`.
    SwitchedOff,
    /// The thing does not work here.
    Failed {
        /// The reason.
        why: String,
    },
}

/// All packets of one direction.
#[derive(Debug, Serialize, Deserialize)]
pub struct Direction {
    /// Their number.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped, by reason.
    pub drops: BTreeMap<String, u64>,
}

/// One worker's part in it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Worker {
    /// How many peers it serves.
    pub peers: usize,
    /// The packets that were sent.
    pub packets_sent: u64,
    /// The packets that were received.
    pub packets_received: u64,
    /// Packets and receives that it handed to the worker which serves their peer.
    pub handed_over: u64,
}

/// One peer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Peer {
    /// Its number.
    pub id: u32,
    /// The common name of its certificate, the name that its file has for it, or its public key.
    pub name: String,
    /// Its public key, in base64, if it is known by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// `udp` or `tcp`.
    pub transport: String,
    /// Its address.
    pub remote: SocketAddr,
    /// Inner addresses.
    pub addresses: Vec<IpAddr>,
    /// Networks behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// The cipher of its packets.
    pub cipher: String,
    /// The security of its control channel.
    pub tls: String,
    /// The time since it connected.
    pub connected_seconds: u64,
    /// The handshakes since the first.
    pub rekeys: u64,
    /// The time since the last handshake.
    pub last_handshake_seconds_ago: u64,
    /// `None` of a tunnel that an older adit runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heard_seconds_ago: Option<u64>,
    /// The packets that were sent.
    pub packets_sent: u64,
    /// The bytes that were sent.
    pub bytes_sent: u64,
    /// The packets that were received.
    pub packets_received: u64,
    /// The bytes that were received.
    pub bytes_received: u64,
    /// Its sessions, of a protocol whose peers have several at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<Session>,
}

/// A session of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The name that its file gives to its traffic.
    pub name: String,
    /// The id that packets to this end have, in hexadecimal digits.
    pub id_in: String,
    /// The id that packets to the peer have.
    pub id_out: String,
    /// Its cipher, and the digest of one that does not authenticate.
    pub cipher: String,
    /// Its packets are in UDP.
    pub in_udp: bool,
    /// This end seals with it.
    pub seals: bool,
    /// The packets of this end that it carries, as the protocol's files have them.
    pub local: Vec<String>,
    /// The packets of the peer's end.
    pub remote: Vec<String>,
    /// The time since it was made.
    pub age_seconds: u64,
    /// The time to the next one. `None`: this end makes none by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed_in_seconds: Option<u64>,
    /// The packets of the peer that it has carried.
    #[serde(default)]
    pub packets_in: u64,
    /// Their bytes, without those around them.
    #[serde(default)]
    pub bytes_in: u64,
    /// The packets to the peer that it has carried.
    #[serde(default)]
    pub packets_out: u64,
    /// Their bytes, without those around them.
    #[serde(default)]
    pub bytes_out: u64,
}

/// A peer that is configured and not connected.
#[derive(Debug, Serialize, Deserialize)]
pub struct Unconnected {
    /// Its name (`#adit: name`), or its public key.
    pub name: String,
    /// Its public key, in base64, if it is known by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Where it is, if that is known.
    pub remote: Option<SocketAddr>,
    /// The networks that it may use.
    pub networks: Vec<String>,
    /// Handshakes that were begun with it without an answer.
    pub unanswered: u32,
    /// The peer may not connect.
    pub blocked: bool,
}

impl Report {
    /// The report of a tunnel.
    pub fn new<P: Protocol>(
        name: &str,
        (protocol, rows): (&P, Rows<P>),
        snapshot: &Snapshot,
        io_status: &IoStatus,
    ) -> Self {
        let now = adit_io::clock();
        Report {
            name: name.to_owned(),
            pid: std::process::id(),
            role: rows.role.to_owned(),
            device: io_status.tun_name.clone(),
            endpoints: Vec::new(),
            offloads: offloads(io_status),
            gso_limited_destinations: io_status.gso_limited_destinations,
            sent: direction(&snapshot.egress),
            received: direction(&snapshot.ingress),
            workers: io_status.workers.iter().map(worker).collect(),
            losses: losses(io_status),
            peers: protocol
                .peers()
                .into_iter()
                .map(|(id, info)| peer(rows, now, (id, info), snapshot))
                .collect(),
            unconnected: (rows.unconnected)(protocol),
            tables: protocol.tables().iter().chain(&io_status.tables).map(Table::new).collect(),
            expiring: Vec::new(),
            sandbox: BTreeMap::new(),
        }
    }
}

/// Each layer by its name.
pub(super) fn sandbox(confined: &Confined) -> BTreeMap<String, Switch> {
    let Confined { bounding_set, sandbox } = confined;
    let all =
        [("bounding-set", bounding_set), ("landlock", &sandbox.landlock), ("seccomp", &sandbox.seccomp)];
    let state = |layer: &Layer| match layer {
        Layer::On => Switch::On,
        Layer::SwitchedOff => Switch::SwitchedOff,
        Layer::Unavailable(why) => Switch::Failed { why: why.clone() },
    };
    all.into_iter().map(|(name, layer)| (name.to_owned(), state(layer))).collect()
}

fn offloads(io_status: &IoStatus) -> BTreeMap<String, Switch> {
    let OffloadStatus { tun_tcp, tun_udp, udp_send, udp_receive } = &io_status.offloads;
    let all = [("tun-tso", tun_tcp), ("tun-uso", tun_udp), ("udp-gso", udp_send), ("udp-gro", udp_receive)];
    all.into_iter().map(|(name, state)| (name.to_owned(), offload(state))).collect()
}

fn offload(state: &OffloadState) -> Switch {
    match state {
        OffloadState::On => Switch::On,
        OffloadState::SwitchedOff => Switch::SwitchedOff,
        OffloadState::Failed(why) => Switch::Failed { why: why.clone() },
    }
}

fn direction(snapshot: &DirectionSnapshot) -> Direction {
    let drops =
        DropReason::ALL.into_iter().map(|reason| (reason.text().to_owned(), snapshot.dropped(reason)));
    Direction {
        packets: snapshot.packets,
        bytes: snapshot.bytes,
        drops: drops.filter(|(_, count)| *count > 0).collect(),
    }
}

fn worker(status: &WorkerStatus) -> Worker {
    let WorkerStatus { peers, packets_sent, packets_received, handed_over } = *status;
    Worker { peers, packets_sent, packets_received, handed_over }
}

fn losses(io_status: &IoStatus) -> BTreeMap<String, u64> {
    let losses = &io_status.losses;
    let all = [
        ("TUN queue full (a larger txqueuelen helps)", io_status.tun_dropped),
        ("UDP send refused by the system", losses.udp_send),
        ("UDP datagram larger than the receive buffer", losses.udp_truncated),
        ("packet refused by the TUN device", losses.tun_write),
        ("path closed", losses.no_path),
        ("TCP connection's queue full", losses.tcp_full),
        ("control datagrams too fast", losses.control_full),
        ("protocol messages too fast", losses.notices_full),
        ("forwarding between workers full", losses.forward_full),
        ("TCP connections refused", losses.connections_refused),
        ("control datagrams rejected", losses.rejected),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name.to_owned(), count)).collect()
}

fn peer<P: Protocol>(
    rows: Rows<P>,
    now: Instant,
    (id, info): (PeerId, PeerInfo<P::Detail>),
    snapshot: &Snapshot,
) -> Peer {
    let traffic = snapshot.peers.iter().find(|peer| peer.peer == id);
    Peer {
        id: id.0,
        name: info.name,
        public_key: (rows.public_key)(&info.detail),
        transport: match info.path.transport() {
            adit_core::Transport::Udp => "udp".to_owned(),
            adit_core::Transport::Tcp => "tcp".to_owned(),
            adit_core::Transport::Ip(protocol) => format!("ip {protocol}"),
        },
        remote: info.path.remote(),
        addresses: info.addresses,
        networks: info.routes.iter().map(ToString::to_string).collect(),
        cipher: info.cipher.name().to_owned(),
        tls: (rows.handshake)(&info.detail),
        connected_seconds: (now - info.since).as_secs(),
        rekeys: info.rekeys,
        last_handshake_seconds_ago: (now - info.last_handshake).as_secs(),
        last_heard_seconds_ago: Some((now - info.heard).as_secs()),
        packets_sent: traffic.map_or(0, |peer| peer.packets_sent),
        bytes_sent: traffic.map_or(0, |peer| peer.bytes_sent),
        packets_received: traffic.map_or(0, |peer| peer.packets_received),
        bytes_received: traffic.map_or(0, |peer| peer.bytes_received),
        sessions: (rows.sessions)(&info.detail, now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_offload_has_its_state() {
        let why = "the kernel does not know it".to_owned();
        let status = IoStatus {
            offloads: OffloadStatus {
                tun_tcp: OffloadState::On,
                udp_send: OffloadState::Failed(why.clone()),
                ..OffloadStatus::default()
            },
            ..IoStatus::default()
        };
        let json = serde_json::to_value(offloads(&status)).expect("plain data");
        let expected = serde_json::json!({
            "tun-tso": { "state": "on" },
            "tun-uso": { "state": "switched-off" },
            "udp-gso": { "state": "failed", "why": why },
            "udp-gro": { "state": "switched-off" },
        });
        assert_eq!(json, expected);
        let back: BTreeMap<String, Switch> = serde_json::from_value(json).expect("what was written");
        assert_eq!(back, offloads(&status));
    }
}
