//! Authentication of the initiator by EAP-TLS, after that of the responder by a certificate.

use std::sync::Arc;
use std::time::Duration;

use super::authority::{Authority, Validity, certified, key, key_of};
use super::eap::by_password;
use super::world::*;
use crate::eap::{
    Authenticator, Credentials, MAX_ROUNDS, Methods, NtHash, Peer, PeerTurn, Surroundings, TlsCredentials,
    TlsOffer, TlsVersions, Turn, Users,
};
use crate::machine::{
    Connection, EapUsers, LocalProof, OwnCertificate, PeerCertificates, PeerIdentity, RemoteProof,
};
use crate::wire::{Eap, EapCode, IdType, Identification};

const VERSIONS: [TlsVersions; 2] = [TlsVersions::Tls12, TlsVersions::Tls13];

/// The certificate of an end, and what it accepts.
pub(super) fn tls(own: &OwnCertificate, accepted: &PeerCertificates) -> Arc<TlsCredentials> {
    Arc::new(TlsCredentials {
        key: own.key.clone(),
        chain: own.chain.clone(),
        verifier: accepted.verifier.clone(),
        versions: TlsVersions::Both,
    })
}

pub(super) fn by_certificate(name: &str, tls: Arc<TlsCredentials>) -> LocalProof {
    LocalProof::Eap(Credentials { name: name.into(), password: None, tls: Some(tls), authenticator: None })
}

pub(super) fn accepts_certificates(names: Option<PeerIdentity>, tls: Arc<TlsCredentials>) -> RemoteProof {
    RemoteProof::Eap(EapUsers { names, users: None, tls: Some(tls) })
}

/// The certificates of both ends in EAP-TLS. The certificate by which end B proves itself in IKE is always good.
struct Ends {
    own: [OwnCertificate; 2],
    accepted: [PeerCertificates; 2],
    name: &'static str,
    names: Option<PeerIdentity>,
    versions: TlsVersions,
    root: Authority,
}

impl Ends {
    /// Good ones.
    fn new() -> Self {
        let root = Authority::root("Root");
        let own = ["a.example", "b.example"].map(|name| root.issue(name, &key(), Validity::Now));
        let accepted = [root.accepts(None), root.accepts(None)];
        Ends { own, accepted, name: "a.example", names: None, versions: TlsVersions::Both, root }
    }

    fn connections(&self) -> [Connection; 2] {
        let good = self.root.issue("b.example", &key(), Validity::Now);
        let [mut a, mut b] = [A, B].map(|end| certified(end, good.clone(), self.root.accepts(None)));
        let mut of_a = (*tls(&self.own[A], &self.accepted[A])).clone();
        of_a.versions = self.versions;
        a.local_auth.proof = by_certificate(self.name, Arc::new(of_a));
        b.remote_auth.identity = PeerIdentity::Any;
        let of_b = tls(&self.own[B], &self.accepted[B]);
        b.remote_auth.proof = accepts_certificates(self.names.clone(), of_b);
        [a, b]
    }

    fn world(&self) -> World {
        let [a, b] = self.connections();
        World::new(a, b)
    }

    fn run(&self) -> World {
        let mut world = self.world();
        world.run(seconds(3));
        world
    }
}

/// The identity of the initiator, as the responder has it.
fn peer_of(world: &World) -> Option<Identification> {
    world.ends[B].sas.values().find_map(|sa| sa.peer_identity.clone())
}

#[test]
fn certificates_authenticate_both_ends_in_tls_1_2_and_1_3() {
    for versions in VERSIONS {
        for algorithm in
            [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519]
        {
            let mut ends = Ends { versions, ..Ends::new() };
            ends.own = ["a.example", "b.example"]
                .map(|name| ends.root.issue(name, &key_of(algorithm), Validity::Now));
            let world = ends.run();
            world.assert_settled(&format!("{versions:?} {algorithm:?}"));
            assert_eq!(peer_of(&world), Some(identity("a.example")));
        }
    }
}

#[test]
fn the_eap_identity_is_the_name_of_the_certificate() {
    let mut ends = Ends { name: "carol.example", names: Some(PeerIdentity::Any), ..Ends::new() };
    ends.own[A] = ends.root.issue("carol.example", &key(), Validity::Now);
    let world = ends.run();
    world.assert_settled("a name of its own");
    assert_eq!(peer_of(&world), Some(identity("carol.example")));
}

/// strongSwan sends the subject in DER where the identity is a distinguished name.
#[test]
fn the_subject_of_a_certificate_may_be_the_eap_identity() {
    let ends = Ends { names: Some(PeerIdentity::Any), ..Ends::new() };
    let [mut a, b] = ends.connections();
    // The common name a.example in UTF-8.
    let subject = [&[0x30, 20, 0x31, 18, 0x30, 16, 6, 3, 0x55, 4, 3, 12, 9][..], b"a.example"].concat();
    if let LocalProof::Eap(own) = &mut a.local_auth.proof {
        own.name.clone_from(&subject);
    }
    let mut world = World::new(a, b);
    world.run(seconds(3));
    world.assert_settled("a subject");
    assert_eq!(peer_of(&world), Some(Identification { kind: IdType::DER_ASN1_DN, data: subject }));
}

/// A change of good ends, with the reasons that the ends log.
struct Fault {
    name: &'static str,
    change: fn(&mut Ends),
    /// The end that refuses the other one, and its reason.
    refuses: usize,
    reason: &'static str,
}

const FAULTS: [Fault; 10] = [
    Fault {
        // CVE-2022-4967: a good certificate of another name than the identity.
        name: "another name of the initiator",
        change: |ends| ends.own[A] = ends.root.issue("c.example", &key(), Validity::Now),
        refuses: B,
        reason: "its certificate does not have that name",
    },
    Fault {
        name: "an EAP identity that is not the certificate's",
        change: |ends| (ends.name, ends.names) = ("carol.example", Some(PeerIdentity::Any)),
        refuses: B,
        reason: "its certificate does not have that name",
    },
    Fault {
        name: "another authority of the initiator",
        change: |ends| ends.own[A] = Authority::root("Other").issue("a.example", &key(), Validity::Now),
        refuses: B,
        reason: "not signed by a CA that is trusted",
    },
    Fault {
        name: "an expired certificate of the initiator",
        change: |ends| ends.own[A] = ends.root.issue("a.example", &key(), Validity::Over),
        refuses: B,
        reason: "expired",
    },
    Fault {
        name: "a certificate of the initiator that is not valid yet",
        change: |ends| ends.own[A] = ends.root.issue("a.example", &key(), Validity::Later),
        refuses: B,
        reason: "not valid",
    },
    Fault {
        name: "a revoked certificate of the initiator",
        change: |ends| ends.accepted[B] = ends.root.accepts(Some(ends.root.revokes_all())),
        refuses: B,
        reason: "revoked",
    },
    Fault {
        name: "another name of the responder",
        change: |ends| ends.own[B] = ends.root.issue("c.example", &key(), Validity::Now),
        refuses: A,
        reason: "its certificate does not have that name",
    },
    Fault {
        name: "another authority of the responder",
        change: |ends| ends.own[B] = Authority::root("Other").issue("b.example", &key(), Validity::Now),
        refuses: A,
        reason: "not signed by a CA that is trusted",
    },
    Fault {
        name: "an expired certificate of the responder",
        change: |ends| ends.own[B] = ends.root.issue("b.example", &key(), Validity::Over),
        refuses: A,
        reason: "expired",
    },
    Fault {
        name: "a revoked certificate of the responder",
        change: |ends| ends.accepted[A] = ends.root.accepts(Some(ends.root.revokes_all())),
        refuses: A,
        reason: "revoked",
    },
];

#[test]
fn certificates_that_are_not_good_are_refused_in_both_versions() {
    for versions in VERSIONS {
        for Fault { name, change, refuses, reason } in FAULTS {
            let mut ends = Ends { versions, ..Ends::new() };
            change(&mut ends);
            let world = ends.run();
            assert_eq!((world.planes[A].ups, world.planes[B].ups), (0, 0), "{name}");
            let [own, others] = [refuses, 1 - refuses].map(|end| world.planes[end].reports.join("\n"));
            assert!(own.contains(reason), "{versions:?}, {name}: {own}");
            assert!(others.contains("it sends the TLS alert"), "{versions:?}, {name}: {others}");
        }
    }
}

#[test]
fn chains_of_certificates_go_in_fragments() {
    for versions in VERSIONS {
        let mut ends = Ends { versions, ..Ends::new() };
        let mut authorities = vec![Authority::root("Root")];
        for depth in 0..5 {
            let below = authorities[depth].below(&format!("Authority {depth} {}", "long ".repeat(40)));
            authorities.push(below);
        }
        let (root, last) = (&authorities[0], &authorities[5]);
        ends.accepted = [root.accepts(None), root.accepts(None)];
        for (own, name) in ends.own.iter_mut().zip(["a.example", "b.example"]) {
            *own = last.issue(name, &key(), Validity::Now);
            own.chain = authorities[1..].iter().rev().map(|it| it.certificate.clone()).collect();
        }
        let world = ends.run();
        world.assert_settled(&format!("{versions:?}"));
        assert!(world.log.len() > 20, "{} datagrams", world.log.len());
    }
}

#[test]
fn each_lost_message_is_sent_again() {
    let ends = Ends::new();
    let whole = ends.run().log.len();
    for lost in 0..whole {
        let mut world = ends.world();
        world.network =
            Box::new(move |number, _| if number == lost { vec![] } else { vec![Duration::from_millis(5)] });
        world.run(seconds(10));
        world.assert_settled(&format!("message {lost} of {whole} is lost"));
    }
}

/// End B has passwords and certificates, end A one of both.
#[test]
fn a_peer_asks_for_a_password_in_the_place_of_a_certificate() {
    let ends = Ends { names: Some(PeerIdentity::Any), ..Ends::new() };
    let with = |proof: Option<LocalProof>| {
        let [mut a, mut b] = ends.connections();
        let mut users = Users::default();
        users.add("alice", NtHash::of_password("secret"));
        if let RemoteProof::Eap(accepted) = &mut b.remote_auth.proof {
            accepted.users = Some(Arc::new(users));
        }
        a.local_auth.proof = proof.unwrap_or(a.local_auth.proof);
        let mut world = World::new(a, b);
        world.run(seconds(3));
        world
    };
    for (proof, name) in [(None, "a.example"), (Some(by_password("alice", "secret")), "alice")] {
        let world = with(proof);
        world.assert_settled(name);
        assert_eq!(peer_of(&world), Some(identity(name)));
    }
    assert_eq!(with(Some(by_password("alice", "guess"))).planes[B].ups, 0);
    // A certificate proves no name of the passwords.
    let mut ends = Ends { name: "alice", ..Ends::new() };
    ends.names = Some(PeerIdentity::Any);
    assert_eq!(ends.run().planes[B].ups, 0);
}

#[test]
fn a_peer_that_takes_no_method_of_the_other_end_is_refused() {
    let [mut a, b] = Ends::new().connections();
    a.local_auth.proof = by_password("a.example", "secret");
    let mut world = World::new(a, b);
    world.run(seconds(3));
    let text = world.planes[B].reports.join("\n");
    assert!(text.contains("it does not take EAP-TLS, and asks for EAP-MSCHAPv2"), "{text}");
}

/// Both sides of EAP-TLS without IKE.
struct Sides {
    authenticator: Authenticator,
    peer: Peer,
}

const START: [u8; 2] = [13, 0x20];

impl Sides {
    fn new(versions: TlsVersions) -> (Self, Eap) {
        let ends = Ends::new();
        let [of_a, of_b] = [A, B].map(|end| tls(&ends.own[end], &ends.accepted[end]));
        let of_a = Arc::new(TlsCredentials { versions, ..(*of_a).clone() });
        let LocalProof::Eap(credentials) = by_certificate("a.example", of_a) else { unreachable!() };
        let mut authenticator = Authenticator::new(1);
        let wall = rustls_pki_types::UnixTime::since_unix_epoch(seconds(WALL));
        let offer = TlsOffer { credentials: of_b, peer: identity("a.example"), wall };
        let methods = Methods { claimed: "a.example".to_owned(), user: None, tls: Some(offer) };
        let Turn::Request(start) = authenticator.authenticate(methods, &mut |_| {}) else {
            panic!("a start")
        };
        assert_eq!(start.data, START);
        (Sides { authenticator, peer: Peer::new(credentials) }, start)
    }

    fn give_peer(&mut self, request: &Eap) -> Result<PeerTurn, String> {
        let wall = rustls_pki_types::UnixTime::since_unix_epoch(seconds(WALL));
        let authenticator = &identity("b.example");
        self.peer.handle(request, Surroundings { fill: &mut |_| {}, wall, authenticator })
    }

    fn give_authenticator(&mut self, response: &Eap) -> Turn {
        self.authenticator.handle(response, &mut |_| {})
    }
}

fn response(identifier: u8, data: &[u8]) -> Eap {
    Eap { code: EapCode::RESPONSE, identifier, data: data.to_vec() }
}

/// CVE-2021-45079 for EAP-TLS: a success counts after the last message of the handshake alone.
#[test]
fn both_sides_have_one_key_and_a_success_before_the_end_is_refused() {
    for versions in VERSIONS {
        let mut steps = 0;
        let mut stop = usize::MAX;
        loop {
            let (mut sides, mut request) = Sides::new(versions);
            let mut taken = 0;
            let (key, others) = loop {
                if taken == stop {
                    let early =
                        Eap { code: EapCode::SUCCESS, identifier: request.identifier, data: Vec::new() };
                    assert!(sides.give_peer(&early).is_err(), "{versions:?}: a success as message {taken}");
                    break (None, None);
                }
                let Ok(PeerTurn::Response(response)) = sides.give_peer(&request) else {
                    panic!("a response")
                };
                taken += 1;
                match sides.give_authenticator(&response) {
                    Turn::Request(next) => request = next,
                    Turn::Success { message, msk, .. } => {
                        let Ok(PeerTurn::Success(own)) = sides.give_peer(&message) else {
                            panic!("a success")
                        };
                        break (Some(msk), Some(own));
                    }
                    _ => panic!("no failure"),
                }
            };
            assert_eq!(key, others);
            if stop == usize::MAX {
                assert_eq!(key.map(|key| key.len()), Some(64));
                (steps, stop) = (taken, 0);
            } else {
                stop += 1;
            }
            if stop == steps {
                break;
            }
        }
        assert_eq!(steps, 3, "{versions:?}");
    }
}

#[test]
fn fragments_for_ever_end_both_sides() {
    let fragment = [&[13, 0xc0, 0, 0, 0x80, 0][..], &[22]].concat();
    let (mut sides, mut request) = Sides::new(TlsVersions::Both);
    let mut count = 0;
    let reason = loop {
        match sides.give_authenticator(&response(request.identifier, &fragment)) {
            Turn::Request(next) => {
                assert_eq!(next.data, [13, 0], "an acknowledgement");
                request = next;
            }
            Turn::Failure { reason, .. } => break reason,
            _ => panic!("fragments"),
        }
        count += 1;
    };
    assert!(count == MAX_ROUNDS && reason.contains("messages of EAP"), "{count}: {reason}");
    let (mut sides, start) = Sides::new(TlsVersions::Tls12);
    let Ok(PeerTurn::Response(hello)) = sides.give_peer(&start) else { panic!("a response") };
    assert_eq!(hello.data[..2], [13, 0], "TLS in one packet");
    for _ in 1..MAX_ROUNDS {
        let request = Eap { code: EapCode::REQUEST, identifier: 3, data: fragment.clone() };
        assert!(matches!(sides.give_peer(&request), Ok(PeerTurn::Response(_))));
    }
    let request = Eap { code: EapCode::REQUEST, identifier: 3, data: fragment };
    assert!(sides.give_peer(&request).is_err());
}

#[test]
fn messages_that_are_not_due_are_refused() {
    for data in
        [&[13, 0][..], &[13], &[13, 0, 1, 2, 3, 4, 5, 6], &[13, 0x80, 0xff, 0xff, 0xff, 0xff, 22], &[26, 1]]
    {
        let (mut sides, start) = Sides::new(TlsVersions::Both);
        let turn = sides.give_authenticator(&response(start.identifier, data));
        let is_alert = matches!(&turn, Turn::Request(alert) if alert.data[2] == 21);
        assert!(is_alert || matches!(turn, Turn::Failure { .. }), "{data:?}");
    }
    let request = |data: &[u8]| Eap { code: EapCode::REQUEST, identifier: 3, data: data.to_vec() };
    for data in [&[13, 0][..], &[13], &[13, 0, 22, 3, 3]] {
        let (mut sides, _) = Sides::new(TlsVersions::Both);
        assert!(sides.give_peer(&request(data)).is_err(), "{data:?} before the start");
    }
    for data in [&[13, 0][..], &[13], &START, &[26, 1, 1, 0, 5], &[13, 0x80, 0xff, 0xff, 0xff, 0xff, 22]] {
        let (mut sides, start) = Sides::new(TlsVersions::Both);
        assert!(sides.give_peer(&start).is_ok());
        let refused = match sides.give_peer(&request(data)) {
            Ok(_) => sides.give_peer(&request(&[13, 0])).is_err(),
            Err(_) => true,
        };
        assert!(refused, "{data:?} after the start");
    }
}
