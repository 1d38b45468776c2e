//! The parameters of the machines.

use std::net::{IpAddr, SocketAddr};

use adit_core::UnixTime;
use adit_ike::machine::{
    Child, Childless, Connection, EndAction, EspLimits, FamilySockets, FullTranscript, Inner, Limits,
    LocalAuth, LocalProof, Params, PeerIdentity, Ppk, RemoteAuth, RemoteProof, SharedKey, Sockets,
    StartAction, Times, Traffic, Unique,
};
use adit_ike::suite::{BadKeyword, esp_proposals, ike_proposals};
use adit_ike::wire::{IdType, Identification};

use super::scenario::{A, RETRANSMISSION, RETRANSMISSIONS, RETRY, Scenario};
use crate::violation::Violation;

/// The numbers of an end's sockets: port 500, port 4500, and ESP as IP protocol 50.
pub(crate) const PLAIN: u32 = 0;
pub(crate) const MARKED: u32 = 1;
pub(crate) const ESP: u32 = 2;
/// The name of each end's connection.
pub(crate) const CONNECTION: &str = "peer";

/// The port of a socket. ESP as an IP protocol has none.
pub(crate) const fn port(socket: u32) -> u16 {
    match socket {
        PLAIN => 500,
        MARKED => 4500,
        _ => 0,
    }
}

/// The address that an end starts with.
pub(crate) fn first_address(end: usize) -> IpAddr {
    IpAddr::from([192, 0, 2, end as u8 + 1])
}

/// The inner address of an end's host, whose packets are a child's.
pub(crate) fn inner(end: usize, child: usize, host: u8) -> IpAddr {
    IpAddr::from([10, end as u8 + 1, child as u8, host])
}

/// The child whose network of that end has an inner address.
pub(crate) fn child_of(end: usize, address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V4(address) => {
            let [ten, network, child, _] = address.octets();
            (ten == 10 && network == end as u8 + 1).then_some(usize::from(child))
        }
        IpAddr::V6(_) => None,
    }
}

pub(crate) fn identity(end: usize) -> Identification {
    Identification { kind: IdType::FQDN, data: format!("end-{end}.example").into_bytes() }
}

/// The pre-shared key of both ends.
pub(crate) fn shared_key() -> SharedKey {
    SharedKey(b"a key that both ends have".to_vec().into())
}

fn child(scenario: &Scenario, end: usize, number: usize) -> Result<Child, BadKeyword> {
    let network = |end: usize| {
        let prefix = ipnet(inner(end, number, 0));
        vec![Traffic::all_of(prefix)]
    };
    let (start, again) = if initiates(scenario, end) {
        (StartAction::Start, EndAction::Start)
    } else {
        (StartAction::None, EndAction::None)
    };
    Ok(Child {
        name: format!("child-{number}"),
        esp: esp_proposals(scenario.esp)?,
        local: network(end),
        remote: network(1 - end),
        start,
        on_close: again,
        on_dead_peer: again,
        rekey: scenario.lifetimes.child,
        lifetime: None,
        inactivity: None,
        limits: EspLimits::default(),
        updown: None,
    })
}

fn ipnet(network: IpAddr) -> adit_core::IpNet {
    adit_core::IpNet::new_assert(network, 24)
}

/// Whether an end initiates.
pub(crate) const fn initiates(scenario: &Scenario, end: usize) -> bool {
    end == A || scenario.both_initiate
}

fn connection(scenario: &Scenario, end: usize, peer: IpAddr) -> Result<Connection, BadKeyword> {
    let children = (0..scenario.children).map(|number| child(scenario, end, number));
    Ok(Connection {
        name: CONNECTION.to_owned(),
        remotes: if initiates(scenario, end) { vec![SocketAddr::new(peer, port(PLAIN))] } else { Vec::new() },
        has_names: false,
        device: adit_core::DeviceId::MAIN,
        sources: Vec::new(),
        local_auth: LocalAuth { identity: identity(end), proof: LocalProof::SharedKey(shared_key()) },
        remote_auth: RemoteAuth {
            identity: PeerIdentity::Exactly(identity(1 - end)),
            proof: RemoteProof::SharedKey(shared_key()),
        },
        ike: ike_proposals(scenario.ike)?,
        children: children.collect::<Result<_, _>>()?,
        inner: Inner::None,
        unique: Unique::No,
        childless: if scenario.is_childless { Childless::Force } else { Childless::Allow },
        forces_encapsulation: false,
        mobike: scenario.is_mobile,
        longest_datagram: scenario.longest_datagram,
        ppk: scenario.has_ppk.then(|| Ppk {
            identity: b"ppk".to_vec(),
            key: SharedKey(vec![7; 32].into()),
            is_required: true,
        }),
        full_transcript: FullTranscript::Offer,
        times: Times {
            ike_rekey: scenario.lifetimes.ike,
            reauthentication: scenario.lifetimes.reauthentication,
            dead_peer_detection: Some(scenario.lifetimes.dead_peer_detection),
            retransmission: RETRANSMISSION,
            retransmissions: RETRANSMISSIONS,
            retry: RETRY,
        },
    })
}

fn family(socket: u32) -> FamilySockets {
    FamilySockets { ipv4: Some(socket), ipv6: None }
}

/// The parameters of an end's machine, whose peer is at that address.
pub(crate) fn params(scenario: &Scenario, end: usize, peer: IpAddr) -> Result<Params, Violation> {
    let connection = connection(scenario, end, peer).map_err(|error| Violation::new(error.to_string()))?;
    let esp = if scenario.has_raw_esp { family(ESP) } else { FamilySockets::default() };
    Ok(Params {
        connections: vec![connection],
        sockets: Sockets { plain: family(PLAIN), marked: family(MARKED), esp },
        limits: Limits::default(),
        tunnel: None,
        wall_at_origin: UnixTime(1_700_000_000),
    })
}
