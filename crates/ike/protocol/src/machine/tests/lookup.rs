//! The look-up of connections: by the index as by a walk over all of them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use adit_core::{Instant, IpNet, Path};
use adit_pki::signature::Sha1;
use adit_pki::{PeerRequirements, Purpose, SIGNATURE_ALGORITHMS, Verifier};
use proptest::prelude::*;

use super::world::{B, connection, identity};
use crate::crypto::AnnouncedMethods;
use crate::machine::connections::Connections;
use crate::machine::init::{FirstRequest, offers};
use crate::machine::params::{
    Connection, FullTranscript, PeerCertificates, PeerIdentity, Ppk, RemoteProof, SharedKey,
};
use crate::machine::proof::{Claim, request_certificates};
use crate::machine::sa::{IkeSa, NewSa, Phase};
use crate::suite::{Preference, choose, ike_proposals};
use crate::wire::{
    AuthMethod, Authentication, ExchangeType, Flags, Header, IdType, Identification, Message, Payload,
    Proposal, Spi,
};

const ADDRESSES: [&str; 4] = ["192.0.2.1", "192.0.2.130", "198.51.100.1", "2001:db8::1"];
const SOURCES: [&[&str]; 3] = [&[], &["192.0.2.0/25"], &["198.51.100.0/24", "2001:db8::/32"]];
const PROPOSALS: [&str; 3] = [
    "aes256gcm16-prfsha256-x25519",
    "aes128gcm16-prfsha256-ecp256,aes256gcm16-prfsha256-x25519",
    "aes256-sha256-ecp256",
];
const NAMES: [&str; 5] = ["a.example", "A.Example", "b.example", "c.example", "d.other"];

fn remote_identities() -> Vec<PeerIdentity> {
    let ending = |suffix: &[u8]| PeerIdentity::EndingWith { kind: IdType::FQDN, suffix: suffix.to_vec() };
    let mail = Identification { kind: IdType::RFC822_ADDR, data: NAMES[0].into() };
    let key_id = Identification { kind: IdType::KEY_ID, data: NAMES[1].into() };
    let exact = NAMES.map(|name| PeerIdentity::Exactly(identity(name)));
    let others = [PeerIdentity::Any, ending(b".example"), ending(b".other")];
    let others = others.into_iter().chain([mail, key_id].map(PeerIdentity::Exactly));
    exact.into_iter().chain(others).collect()
}

/// A connection, by the numbers of its values in the lists.
#[derive(Clone, Debug)]
struct Values {
    remote: usize,
    local: usize,
    remotes: Vec<usize>,
    sources: usize,
    proposals: usize,
    has_ppk: bool,
    offers_full_transcript: bool,
    /// The digests of authorities. `None`: the connection has a pre-shared key.
    requested: Option<Vec<u8>>,
    is_removed: bool,
}

fn values() -> impl Strategy<Value = Values> {
    let requested = proptest::option::of(proptest::collection::vec(0..20_u8, 0..12));
    let remotes = proptest::collection::vec(0..ADDRESSES.len(), 0..3);
    let places = (0..remote_identities().len(), 0..2_usize, remotes, 0..SOURCES.len(), 0..PROPOSALS.len());
    let flags = any::<[bool; 3]>();
    (places, flags, requested).prop_map(|(places, flags, requested)| {
        let (remote, local, remotes, sources, proposals) = places;
        let [has_ppk, offers_full_transcript, is_removed] = flags;
        Values {
            remote,
            local,
            remotes,
            sources,
            proposals,
            has_ppk,
            offers_full_transcript,
            requested,
            is_removed,
        }
    })
}

impl Values {
    fn connection(&self, number: usize) -> Connection {
        let mut connection = connection(B);
        connection.name = number.to_string();
        let address = |index: &usize| SocketAddr::new(ADDRESSES[*index].parse().unwrap(), 500);
        connection.remotes = self.remotes.iter().map(address).collect();
        connection.sources = SOURCES[self.sources].iter().map(|net| net.parse::<IpNet>().unwrap()).collect();
        connection.local_auth.identity = identity(["b.example", "x.example"][self.local]);
        connection.remote_auth.identity = remote_identities().swap_remove(self.remote);
        connection.ike = ike_proposals(PROPOSALS[self.proposals]).unwrap();
        let key = SharedKey(b"another key".to_vec().into());
        connection.ppk = self.has_ppk.then(|| Ppk { identity: b"ppk".to_vec(), key, is_required: false });
        if !self.offers_full_transcript {
            connection.full_transcript = FullTranscript::Never;
        }
        if let Some(requested) = &self.requested {
            let requirements = PeerRequirements::default();
            let verifier = Verifier::new(Purpose::Any, None, requirements, SIGNATURE_ALGORITHMS);
            let requested = requested.iter().map(|byte| [*byte; 20]).collect();
            let accepted = PeerCertificates {
                verifier: Arc::new(verifier),
                known: Vec::new(),
                requested,
                sha1: Sha1::Refused,
            };
            connection.remote_auth.proof = RemoteProof::Certificate(accepted);
        }
        connection
    }
}

fn connections(all: &[Values]) -> Connections {
    let mut connections = Connections::default();
    // Of two with the same identities and addresses, the second one is refused.
    let numbers: Vec<Option<usize>> =
        all.iter().zip(0..).map(|(values, number)| connections.add(values.connection(number)).ok()).collect();
    for (values, number) in all.iter().zip(numbers) {
        number.filter(|_| values.is_removed).into_iter().for_each(|number| connections.remove(number));
    }
    connections
}

fn may_mean(connection: &Connection, address: IpAddr) -> bool {
    connection.is_at(address) || connection.may_come_from(address)
}

/// The connections in their order, those that initiate to the address first.
fn walk_for_proposal(connections: &Connections, address: IpAddr, offered: &[Proposal]) -> Option<String> {
    let all = || connections.iter().map(|(_, connection)| connection).filter(|it| may_mean(it, address));
    let mut in_order = all().filter(|it| it.is_at(address)).chain(all().filter(|it| !it.is_at(address)));
    let found = in_order.find(|it| choose(&it.ike, offered, Preference::Own).is_some());
    found.map(|connection| connection.name.clone())
}

fn walk_for_request(connections: &Connections, address: IpAddr) -> Option<Payload> {
    let all = connections.iter().filter(|(_, connection)| may_mean(connection, address));
    let mut digests: Vec<[u8; 20]> = Vec::new();
    for digest in all.flat_map(|(_, connection)| connection.remote_auth.requested()) {
        if !digests.contains(digest) && digests.len() < 16 {
            digests.push(*digest);
        }
    }
    request_certificates(&digests)
}

fn walk_for_identity(
    connections: &Connections,
    address: IpAddr,
    claim: &Claim<'_>,
    proposal: &Proposal,
) -> Option<usize> {
    let identity = claim.initiator?;
    let is_key = claim.proof.map(|proof| proof.method == AuthMethod::SHARED_KEY);
    let mut found: Vec<_> = connections
        .iter()
        .filter(|(_, it)| it.remote_auth.identity.accepts(identity) && may_mean(it, address))
        .filter(|(_, it)| claim.responder.is_none_or(|own| it.local_auth.is(own)))
        .filter(|(_, it)| choose(&it.ike, std::slice::from_ref(proposal), Preference::Own).is_some())
        .map(|(number, it)| {
            let has_method = is_key == Some(matches!(it.remote_auth.proof, RemoteProof::SharedKey(_)));
            ((it.remote_auth.identity.precision(), has_method, it.is_at(address)), number)
        })
        .collect();
    // The first one of the highest rank.
    found.sort_by_key(|(rank, number)| (std::cmp::Reverse(*rank), *number));
    found.first().map(|(_, number)| *number)
}

/// An IKE SA whose initiator has not authenticated.
fn half_open(path: Path) -> IkeSa {
    let new = NewSa {
        own_spi: Spi([1; 8]),
        peer_spi: Spi([2; 8]),
        is_initiator: false,
        connection: None,
        path,
        phase: Phase::Connecting,
        channel: None,
    };
    IkeSa::new(new, Instant::ORIGIN)
}

fn check_first_request(connections: &Connections, path: Path, offered: &[Proposal]) {
    let header = Header {
        initiator_spi: Spi([2; 8]),
        responder_spi: Spi::ZERO,
        minor_version: 0,
        exchange: ExchangeType::IKE_SA_INIT,
        flags: Flags::default(),
        message_id: 0,
    };
    let message = Message { header, payloads: Vec::new(), sealed: None };
    let request = FirstRequest { path, datagram: &[], message: &message };
    let address = path.remote().ip();
    let chosen = request.choose(connections, offered).map(|(connection, _)| connection.name.clone());
    assert_eq!(chosen, walk_for_proposal(connections, address, offered), "from {address}");
    assert_eq!(request.certificate_request(connections), walk_for_request(connections, address));
    let has_ppk = connections.iter().any(|(_, it)| it.ppk.is_some() && may_mean(it, address));
    assert_eq!(request.may_use_ppk(connections), has_ppk, "from {address}");
    let offers = connections.iter().any(|(_, it)| it.full_transcript.is_offered() && may_mean(it, address));
    assert_eq!(request.offers_full_transcript(connections), offers, "from {address}");
    let mut announced = AnnouncedMethods::default();
    let meant = connections.iter().filter(|(_, it)| may_mean(it, address));
    meant.for_each(|(_, it)| announced.add(&it.remote_auth.announced()));
    assert_eq!(connections.announced(address), announced, "from {address}");
}

fn check_identities(connections: &Connections, path: Path, proposal: &Proposal) {
    let proofs = [AuthMethod::SHARED_KEY, AuthMethod::DIGITAL_SIGNATURE]
        .map(|method| Some(Authentication { method, data: Vec::new() }));
    let others =
        [IdType::RFC822_ADDR, IdType::KEY_ID].map(|kind| Identification { kind, data: NAMES[1].into() });
    let claimed: Vec<Identification> = NAMES.map(identity).into_iter().chain(others).collect();
    let sa = half_open(path);
    for (identity_of_initiator, proof) in
        claimed.iter().flat_map(|one| proofs.iter().map(move |proof| (one, proof)))
    {
        for responder in [None, Some(identity("B.example")), Some(identity("x.example"))] {
            let claim = Claim {
                initiator: Some(identity_of_initiator),
                responder: responder.as_ref(),
                proof: proof.as_ref(),
                ..Claim::default()
            };
            let found = sa.find_connection(connections, &claim, proposal).map(|(number, _)| number);
            let expected = walk_for_identity(connections, path.remote().ip(), &claim, proposal);
            assert_eq!(found, expected, "{identity_of_initiator:?} to {responder:?} from {path}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_index_finds_the_connections_that_a_walk_finds(all in proptest::collection::vec(values(), 0..12)) {
        let connections = connections(&all);
        for address in ADDRESSES {
            let path = Path::Udp { socket: 0, remote: SocketAddr::new(address.parse().unwrap(), 4500) };
            for proposals in PROPOSALS.map(|text| ike_proposals(text).unwrap()) {
                let offered = offers(&proposals, &[]);
                check_first_request(&connections, path, &offered);
                check_identities(&connections, path, offered.last().expect("a proposal"));
            }
        }
    }
}

#[test]
fn of_many_connections_that_take_the_same_first_requests_one_is_looked_at() {
    let mut connections = Connections::default();
    for number in 0..1000 {
        let mut connection = connection(B);
        connection.name = number.to_string();
        connection.remote_auth.identity = PeerIdentity::Exactly(identity(&format!("{number}.example")));
        connections.add(connection).unwrap();
    }
    let address = ADDRESSES[0].parse().unwrap();
    assert_eq!(connections.candidates(address).iter().map(|it| &*it.name).collect::<Vec<_>>(), ["0"]);
    let named: Vec<usize> = connections.named(&identity("500.EXAMPLE")).map(|(number, _)| number).collect();
    assert_eq!(named, [500]);
    connections.remove(0);
    assert_eq!(connections.candidates(address).iter().map(|it| &*it.name).collect::<Vec<_>>(), ["1"]);
}
