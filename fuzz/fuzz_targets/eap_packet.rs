//! Messages of EAP to an authenticator and to a peer, with EAP-MSCHAPv2 and EAP-TLS: without the password and without a key, none of
//! them makes a success, and both ends stop.
#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use adit_ike::eap::{
    Authenticator, Credentials, MAX_ROUNDS, Methods, NtHash, Peer, PeerTurn, Surroundings, TlsCredentials,
    TlsOffer, TlsVersions, Turn, Users,
};
use adit_ike::wire::{Eap, EapCode, IdType, Identification};
use adit_pki::signature::{CertificateKey, OwnKey};
use adit_pki::{Authorities, PeerRequirements, PrivateKey, Purpose, SIGNATURE_ALGORITHMS, Verifier};
use libfuzzer_sys::fuzz_target;
use rustls_pki_types::UnixTime;

fn messages(mut data: &[u8]) -> Vec<Eap> {
    let mut messages = Vec::new();
    while let Some(([code, identifier, length], rest)) = data.split_first_chunk::<3>() {
        let (body, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        messages.push(Eap { code: EapCode(*code), identifier: *identifier, data: body.to_vec() });
        data = rest;
    }
    messages
}

fn fill(bytes: &mut [u8]) {
    bytes.fill(0x5a);
}

/// A certificate that trusts itself alone.
static TLS: LazyLock<Arc<TlsCredentials>> = LazyLock::new(|| {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["carol".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate").der().clone();
    let private = PrivateKey::read(key.serialize_pem().as_bytes()).expect("a private key");
    let holder = Arc::new(OwnKey::new(&private).expect("a good key"));
    let authorities = Authorities::new(vec![certificate.clone()]).expect("an authority");
    let requirements = PeerRequirements::default();
    let verifier = Verifier::new(Purpose::Any, Some(authorities), requirements, SIGNATURE_ALGORITHMS);
    Arc::new(TlsCredentials {
        key: CertificateKey::new(certificate, holder).expect("its key"),
        chain: Vec::new(),
        verifier: Arc::new(verifier),
        versions: TlsVersions::Both,
    })
});

fuzz_target!(|data: &[u8]| {
    let messages = messages(data);
    let wall = UnixTime::since_unix_epoch(Duration::from_secs(1_700_000_000));
    let identity = Identification { kind: IdType::FQDN, data: b"carol".to_vec() };
    let hash = NtHash::of_password("a password that no input has");
    let mut users = Users::default();
    users.add("carol", hash.clone());
    let mut authenticator = Authenticator::new(1);
    authenticator.ask_for_name();
    let mut requests = 0;
    for message in &messages {
        match authenticator.handle(message, &mut fill) {
            Turn::Named(name) => {
                let claimed = String::from_utf8_lossy(&name).into_owned();
                let user = Some(users.find(&claimed));
                let tls = Some(TlsOffer { credentials: TLS.clone(), peer: identity.clone(), wall });
                authenticator.authenticate(Methods { claimed, user, tls }, &mut fill);
            }
            Turn::Request(_) | Turn::Wrong(_) => {}
            Turn::Success { .. } => panic!("a success without a proof"),
            Turn::Failure { .. } => break,
        }
        requests += 1;
    }
    assert!(requests <= MAX_ROUNDS);
    let mut peer = Peer::new(Credentials {
        name: b"carol".to_vec(),
        password: Some(hash),
        tls: Some(TLS.clone()),
        authenticator: None,
    });
    let mut responses = 0;
    for message in &messages {
        let surroundings = Surroundings { fill: &mut fill, wall, authenticator: &identity };
        match peer.handle(message, surroundings) {
            Ok(PeerTurn::Response(_)) => responses += 1,
            Ok(PeerTurn::Success(_)) => panic!("a success without a proof"),
            Err(_) => break,
        }
    }
    assert!(responses <= MAX_ROUNDS);
});
