//! A client whose private key is held elsewhere: its TLS is made in steps, outside of the machine, which never waits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use adit_core::{Command, PeerId, Protocol, Transport};
use adit_openvpn::TlsConfig;
use adit_openvpn::credentials::{Credentials, TlsEnvironment, client_tls_with_external_key};
use adit_openvpn::params::ClientParams;
use adit_openvpn::request::{Event, Reply, Request, TlsStep};
use adit_openvpn::testing::{Authority, Pair, client_params, environment, requirements, server_params};
use adit_openvpn::wrap::WrapConfig;
use adit_pki::signature::{KeyHolder, OwnKey, Scheme};
use adit_pki::{KeyKind, PrivateKey};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

/// Holds a key in memory.
#[derive(Debug)]
struct Held {
    key: OwnKey,
    /// Why it does not sign.
    refusal: Mutex<Option<&'static str>>,
    /// How often it has signed.
    signed: Mutex<u32>,
}

impl Held {
    fn new(credentials: &Credentials) -> Arc<Self> {
        let key = OwnKey::new(&PrivateKey::read(&credentials.private_key).unwrap()).unwrap();
        Arc::new(Held { key, refusal: Mutex::new(None), signed: Mutex::new(0) })
    }

    fn signed(&self) -> u32 {
        *self.signed.lock().unwrap()
    }
}

impl KeyHolder for Held {
    fn signs_by(&self, scheme: Scheme) -> bool {
        self.key.signs_by(scheme)
    }

    fn sign(&self, kind: KeyKind, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, String> {
        assert_eq!(kind, KeyKind::EcdsaP256);
        if let Some(why) = *self.refusal.lock().unwrap() {
            return Err(why.to_owned());
        }
        *self.signed.lock().unwrap() += 1;
        self.key.sign(kind, scheme, message)
    }
}

/// A client with that holder in place of its key, and its server.
fn pair_with(holder: impl FnOnce(&Credentials, &Authority) -> Arc<Held>, tls13: bool) -> (Pair, Arc<Held>) {
    let authority = Authority::new();
    let credentials = authority.issue("alice", ClientAuth);
    let held = holder(&credentials, &authority);
    let client = params(&credentials, Arc::clone(&held), tls13);
    let server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    (Pair::new(client, server), held)
}

fn params(credentials: &Credentials, holder: Arc<Held>, tls13: bool) -> ClientParams {
    let mut client = client_params(credentials, WrapConfig::Plain, Transport::Udp);
    let mut environment: TlsEnvironment = environment();
    if !tls13 {
        environment.versions = vec![&rustls::version::TLS12];
    }
    let without_key = Credentials { private_key: Vec::<u8>::new().into(), ..credentials.clone() };
    let tls = client_tls_with_external_key(&without_key, holder, requirements(), &environment).unwrap();
    client.control.tls = TlsConfig::Client(tls);
    client.control.signs_outside = true;
    client.control.rekey.after = None;
    client
}

/// The steps that the client asked for and still wants.
fn wanted(pair: &Pair) -> Vec<TlsStep> {
    let step = |event: &Event| match event {
        Event::Request(Request::TlsStep(step)) if step.is_wanted() => Some(step.clone()),
        _ => None,
    };
    pair.client_events.iter().filter_map(step).collect()
}

fn make(pair: &mut Pair, step: TlsStep) {
    step.run();
    pair.client.handle_reply(pair.now, Reply::TlsStepDone(step));
    pair.exchange();
}

/// Makes all steps until none is asked for.
fn make_all(pair: &mut Pair) {
    while let Some(step) = wanted(pair).pop() {
        make(pair, step);
    }
}

fn says(pair: &Pair, words: &str) -> bool {
    let says = |event: &Event| matches!(event, Event::Report(report) if report.text.contains(words));
    pair.client_events.iter().any(says)
}

#[test]
fn a_client_connects_and_renegotiates_by_steps() {
    for tls13 in [true, false] {
        let (mut pair, held) = pair_with(|credentials, _| Held::new(credentials), tls13);
        assert!(!pair.is_up() && held.signed() == 0 && wanted(&pair).len() == 1, "nothing signs by itself");
        make_all(&mut pair);
        assert!(pair.is_up(), "TLS 1.3: {tls13}");
        assert_eq!(held.signed(), 1);
        let (_, info) = pair.server.peers().remove(0);
        assert_eq!(info.name, "alice");
        assert_eq!(info.detail.tls.starts_with("TLSv1.3"), tls13);
        pair.client.handle_command(pair.now, Command::Rekey { peer: PeerId::SERVER });
        pair.exchange();
        make_all(&mut pair);
        pair.advance_busy(Duration::from_secs(1));
        assert_eq!((held.signed(), pair.client.peers()[0].1.rekeys), (2, 1), "TLS 1.3: {tls13}");
    }
}

/// The signature takes a while: the server repeats its packets, which are acknowledged and kept.
#[test]
fn packets_that_arrive_during_a_step_change_nothing() {
    let (mut pair, _) = pair_with(|credentials, _| Held::new(credentials), true);
    pair.advance(Duration::from_secs(30));
    assert!(!pair.is_up() && wanted(&pair).len() == 1);
    let step = wanted(&pair).remove(0);
    // Not run yet, and already said to be done.
    pair.client.handle_reply(pair.now, Reply::TlsStepDone(step.clone()));
    pair.exchange();
    assert!(!pair.is_up() && step.is_wanted());
    make_all(&mut pair);
    assert!(pair.is_up());
}

#[test]
fn without_a_signature_the_client_tries_again() {
    let (mut pair, held) = pair_with(|credentials, _| Held::new(credentials), true);
    *held.refusal.lock().unwrap() = Some("the card was taken out");
    make_all(&mut pair);
    assert!(!pair.is_up() && says(&pair, "the card was taken out; next attempt in 1 s"));
    *held.refusal.lock().unwrap() = None;
    pair.advance(Duration::from_secs(2));
    make_all(&mut pair);
    assert!(pair.is_up());
}

#[test]
fn a_signature_of_another_key_is_not_sent() {
    let (mut pair, held) = pair_with(|_, authority| Held::new(&authority.issue("bob", ClientAuth)), true);
    make_all(&mut pair);
    assert!(!pair.is_up() && held.signed() == 1);
    assert!(says(&pair, "is not of the certificate's key"));
}

#[test]
fn a_step_of_a_connection_that_is_gone_is_not_wanted() {
    let (mut pair, _) = pair_with(|credentials, _| Held::new(credentials), true);
    let late = wanted(&pair).remove(0);
    pair.client.handle_command(pair.now, Command::Restart);
    pair.exchange();
    assert!(!late.is_wanted() && wanted(&pair).is_empty());
    make(&mut pair, late);
    assert!(!pair.is_up());
    pair.advance(Duration::from_secs(2));
    make_all(&mut pair);
    assert!(pair.is_up());
}

#[test]
fn a_holder_that_cannot_sign_for_the_certificate_is_refused() {
    #[derive(Debug)]
    struct Nothing;
    impl KeyHolder for Nothing {
        fn signs_by(&self, _: Scheme) -> bool {
            false
        }

        fn sign(&self, _: KeyKind, _: Scheme, _: &[u8]) -> Result<Vec<u8>, String> {
            Err("never".to_owned())
        }
    }
    let credentials = Authority::new().issue("alice", ClientAuth);
    let refused =
        client_tls_with_external_key(&credentials, Arc::new(Nothing), requirements(), &environment());
    assert!(refused.unwrap_err().to_string().contains("makes no signatures"));
}
