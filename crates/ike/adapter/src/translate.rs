//! The connections of a file as parameters of the machine.

mod authentication;
mod certificates;
mod device;
mod eap;
mod equal_traffic;
mod identity;
mod inner;
mod ppk;
pub(crate) mod private_keys;
mod problems;
mod secret;
#[cfg(test)]
mod tests;
mod traffic;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use adit_core::configuration::Problem;
use adit_core::{DeviceId, IpNet};
use adit_ike::machine::{self, EndAction, EspLimits, StartAction, Times};
use adit_ike_config::{
    self as model, Action, Config, Credentials, DscpCopy, Fragmentation, Host, Place, SecretBytes,
    SharedSecret,
};

use self::authentication::Authentication;
pub(crate) use self::device::{OwnDevice, explain};
use self::problems::Problems;
pub(crate) use self::traffic::networks;

/// The longest datagram that stays within 1,280 bytes, the MTU that each path of IPv6 has, and strongSwan's default: without the
/// headers of IPv6 (40) and UDP (8), and the marker (4).
const LONGEST_DATAGRAM: usize = 1228;
/// Longer than any message: fragments are taken and not sent.
const NEVER_FRAGMENTED: usize = 1 << 16;

/// The settings of a file that have no effect so far, each with its line.
pub(crate) fn without_effect(config: &Config) -> Vec<Problem> {
    let has_dscp = dscp(config).is_some();
    config.connections.iter().flat_map(|of| problems::without_effect(of, has_dscp)).collect()
}

/// The DSCP of IKE messages, 0 to 63. `None`: the connections differ.
pub(crate) fn dscp(config: &Config) -> Option<u8> {
    let first = config.connections.first()?.dscp;
    config.connections.iter().all(|connection| connection.dscp == first).then_some(first)
}

/// A connection of a file.
#[derive(Clone)]
pub(crate) struct Planned {
    /// The parameters, without the addresses to initiate to.
    pub(crate) connection: machine::Connection,
    /// The line of the peer's address, or of the section.
    pub(crate) place: Place,
    /// The addresses and names to initiate to.
    pub(crate) targets: Vec<Target>,
    /// The port to initiate to.
    pub(crate) port: u16,
    /// The networks of the inner addresses that peers get.
    pub(crate) pool_networks: Vec<IpNet>,
    /// The device that it has of its own.
    pub(crate) device: Option<OwnDevice>,
    /// The section of the file.
    source: model::Connection,
    /// The key that both ends have, if there is one.
    secret: Option<SecretBytes>,
    /// The passwords of users, if the connection has EAP.
    passwords: Vec<SharedSecret>,
    /// The key beside the key exchange, if there is one.
    ppk: Option<SecretBytes>,
    /// The certificates and private keys of the file.
    credentials: Arc<Credentials>,
}

/// An address or a name to initiate to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Address(IpAddr),
    Name(String),
}

impl Planned {
    /// Whether two readings of a file give the same connection.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.source == other.source
            && self.secret == other.secret
            && self.passwords == other.passwords
            && self.ppk == other.ppk
            && self.connection.inner == other.connection.inner
            && self.device == other.device
            && self.connection.full_transcript == other.connection.full_transcript
            && (!self.has_certificates() || self.credentials == other.credentials)
    }

    /// Whether the certificates and private keys of the file matter to it: both ends have a key otherwise.
    const fn has_certificates(&self) -> bool {
        let machine::Connection { local_auth, remote_auth, .. } = &self.connection;
        !matches!(local_auth.proof, machine::LocalProof::SharedKey(_))
            || !matches!(remote_auth.proof, machine::RemoteProof::SharedKey(_))
    }

    /// The networks of this end.
    pub(crate) fn local_networks(&self) -> impl Iterator<Item = IpNet> {
        self.connection.children.iter().flat_map(|child| &child.local).flat_map(networks)
    }

    /// Whether it asks for inner addresses. Its addresses, routes and name servers come with them.
    pub(crate) const fn asks_for_addresses(&self) -> bool {
        matches!(self.connection.inner, machine::Inner::Ask(_))
    }

    /// Whether the tunnel's device has its routes, and addresses of this machine from its networks.
    pub(crate) const fn is_policy_based(&self) -> bool {
        self.device.is_none()
    }

    /// The programs of `updown` of its children.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        self.connection.children.iter().filter_map(|child| child.updown.as_deref())
    }

    /// The networks behind the peer.
    pub(crate) fn remote_networks(&self) -> impl Iterator<Item = IpNet> {
        self.connection.children.iter().flat_map(|child| &child.remote).flat_map(networks)
    }
}

/// The connections of a file.
///
/// # Errors
/// The settings that are not carried out, and values that are missing, each with its line.
pub(crate) fn connections(config: &Config) -> Result<Vec<Planned>, Vec<Problem>> {
    let (mut problems, credentials) = (Problems::default(), Arc::new(config.credentials.clone()));
    let devices = device::of_connections(config, &mut problems);
    equal_traffic::refuse(config, &devices, &mut problems);
    let mut all: Vec<Planned> =
        config.connections.iter().filter_map(|of| planned(config, &credentials, of, &mut problems)).collect();
    all.iter_mut().for_each(|planned| planned.device = devices.get(&planned.connection.name).cloned());
    problems.or(all)
}

/// A connection, which need not be of the file, with the secrets and certificates of `config`.
///
/// # Errors
/// The settings that are not carried out, and values that are missing.
pub(crate) fn connection(
    config: &Config,
    credentials: &Arc<Credentials>,
    of: &model::Connection,
) -> Result<Planned, Vec<Problem>> {
    let mut problems = Problems::default();
    let planned = planned(config, credentials, of, &mut problems);
    let device = device::of_connection(config, of, &mut problems);
    let found = problems.or(planned)?;
    found.map(|planned| Planned { device, ..planned }).ok_or_else(Vec::new)
}

fn planned(
    config: &Config,
    credentials: &Arc<Credentials>,
    of: &model::Connection,
    problems: &mut Problems,
) -> Option<Planned> {
    problems.refuse_missing(of);
    let authentication = authentication::of(config, of, problems);
    let ppk = ppk::of(config, of, problems);
    let children: Vec<Option<machine::Child>> =
        of.children.iter().map(|of_child| child(of_child, problems)).collect();
    if children.is_empty() {
        let text =
            "the connection has no child: add `children { net { … } }` with `local_ts` and `remote_ts`";
        problems.add(of.places.section(), text);
    }
    let targets = targets(of, problems);
    let inner = inner::of(config, of, problems);
    let Authentication { local_auth, remote_auth, secret, passwords } = authentication?;
    let inner::Planned { inner, networks } = inner?;
    let connection = machine::Connection {
        name: of.name.clone(),
        remotes: Vec::new(),
        has_names: targets.iter().any(|target| matches!(target, Target::Name(_))),
        // The devices are there from the start on (`devices.rs`).
        device: DeviceId::MAIN,
        sources: sources(&of.remote_addrs),
        local_auth,
        remote_auth,
        ike: of.proposals.clone(),
        children: children.into_iter().collect::<Option<_>>()?,
        inner,
        unique: unique(of.unique),
        childless: childless(of.childless),
        forces_encapsulation: of.encap,
        mobike: of.mobike,
        longest_datagram: longest_datagram(of.fragmentation),
        ppk: ppk.as_ref().map(ppk::for_machine),
        full_transcript: config.full_transcripts.get(&of.name).copied().unwrap_or_default(),
        times: times(of),
    };
    let place = of.places.of("remote_addrs").clone();
    Some(Planned {
        connection,
        place,
        targets,
        port: of.remote_port,
        pool_networks: networks,
        device: None,
        source: of.clone(),
        secret,
        passwords,
        ppk: ppk.map(|ppk| ppk.secret.clone()),
        credentials: Arc::clone(credentials),
    })
}

fn child(of: &model::Child, problems: &mut Problems) -> Option<machine::Child> {
    let local = traffic::of_this_end(of, problems);
    let remote = traffic::of_the_peer(of, problems);
    Some(machine::Child {
        name: of.name.clone(),
        esp: of.esp_proposals.clone(),
        local: local?,
        remote: remote?,
        start: start_action(of.start_action),
        on_close: end_action(of.close_action),
        on_dead_peer: end_action(of.dpd_action),
        rekey: of.time.rekey.map(Duration::from_secs),
        lifetime: of.time.life.map(Duration::from_secs),
        inactivity: of.inactivity,
        limits: limits(of),
        updown: of.updown.as_deref().map(Arc::from),
    })
}

const fn limits(of: &model::Child) -> EspLimits {
    EspLimits {
        rekey_bytes: of.bytes.rekey,
        most_bytes: of.bytes.life,
        rekey_packets: of.packets.rekey,
        most_packets: of.packets.life,
        replay_window: of.replay_window,
        ignores_ecn: !of.copy_ecn,
        copies_dscp: matches!(of.copy_dscp, DscpCopy::Out | DscpCopy::Both),
    }
}

/// The addresses and names to initiate to.
fn targets(of: &model::Connection, problems: &mut Problems) -> Vec<Target> {
    let target = |host: &Host| match host {
        Host::Address(address) => Some(Target::Address(*address)),
        Host::Name(name) => Some(Target::Name(name.clone())),
        Host::Any { .. } | Host::Network(_) | Host::Range(..) => None,
    };
    let targets: Vec<Target> = of.remote_addrs.iter().filter_map(target).collect();
    let brings_up = of.children.iter().find(|child| child.start_action.start || child.start_action.trap);
    if let Some(child) = brings_up.filter(|_| targets.is_empty()) {
        let text = "`start_action`: there is no address to initiate to: give the peer's address or name in `remote_addrs`";
        problems.add(child.places.of("start_action"), text);
    }
    targets
}

/// The networks from which the peer may initiate; empty: any.
fn sources(hosts: &[Host]) -> Vec<IpNet> {
    let mut sources = Vec::new();
    for host in hosts {
        match host {
            // The address of a name may change.
            Host::Name(_) | Host::Any { ipv4: true, ipv6: true } => return Vec::new(),
            Host::Any { ipv4, .. } => {
                let all = if *ipv4 { [IpAddr::from([0; 4])] } else { [IpAddr::from([0; 16])] };
                sources.extend(all.iter().filter_map(|address| IpNet::new(*address, 0).ok()));
            }
            Host::Address(address) => sources.push(IpNet::from(*address)),
            Host::Network(network) => sources.push(*network),
            Host::Range(first, last) => sources.extend(traffic::subnets(*first, *last)),
        }
    }
    sources
}

const fn start_action(action: Action) -> StartAction {
    match (action.start, action.trap) {
        (false, false) => StartAction::None,
        (true, false) => StartAction::Start,
        (false, true) => StartAction::Trap,
        (true, true) => StartAction::TrapAndStart,
    }
}

const fn end_action(action: Action) -> EndAction {
    match (action.start, action.trap) {
        (false, false) => EndAction::None,
        (true, _) => EndAction::Start,
        (false, true) => EndAction::Trap,
    }
}

const fn unique(unique: model::Unique) -> machine::Unique {
    match unique {
        model::Unique::Never => machine::Unique::Never,
        model::Unique::No => machine::Unique::No,
        model::Unique::Keep => machine::Unique::Keep,
        model::Unique::Replace => machine::Unique::Replace,
    }
}

const fn childless(childless: model::Childless) -> machine::Childless {
    match childless {
        model::Childless::Allow => machine::Childless::Allow,
        model::Childless::Prefer => machine::Childless::Prefer,
        model::Childless::Force => machine::Childless::Force,
        model::Childless::Never => machine::Childless::Never,
    }
}

const fn longest_datagram(fragmentation: Fragmentation) -> Option<usize> {
    match fragmentation {
        Fragmentation::Yes => Some(LONGEST_DATAGRAM),
        Fragmentation::Accept => Some(NEVER_FRAGMENTED),
        Fragmentation::No => None,
    }
}

fn times(of: &model::Connection) -> Times {
    Times {
        ike_rekey: of.rekey_time,
        reauthentication: of.reauth_time,
        dead_peer_detection: of.dpd_delay,
        ..Times::default()
    }
}
