//! Messages of EAP to an authenticator and to a peer: without the password, none of them makes a success, and both ends stop.
#![no_main]

use adit_ike::eap::{Authenticator, Credentials, MAX_ROUNDS, NtHash, Peer, PeerTurn, Turn, Users};
use adit_ike::wire::{Eap, EapCode};
use libfuzzer_sys::fuzz_target;

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

fuzz_target!(|data: &[u8]| {
    let messages = messages(data);
    let hash = NtHash::of_password("a password that no input has");
    let mut users = Users::default();
    users.add("carol", hash.clone());
    let mut authenticator = Authenticator::new(1);
    authenticator.ask_for_name();
    let mut requests = 0;
    for message in &messages {
        match authenticator.handle(message, &mut fill) {
            Turn::Named(name) => {
                let user = users.find(&name);
                authenticator.authenticate(&name, user, &mut fill);
            }
            Turn::Request(_) | Turn::Wrong(_) => {}
            Turn::Success { .. } => panic!("a success without the password"),
            Turn::Failure { .. } => break,
        }
        requests += 1;
    }
    assert!(requests <= MAX_ROUNDS);
    let mut peer = Peer::new(Credentials { name: "carol".to_owned(), hash });
    let mut responses = 0;
    for message in &messages {
        match peer.handle(message, &mut fill) {
            Ok(PeerTurn::Response(_)) => responses += 1,
            Ok(PeerTurn::Success(_)) => panic!("a success without the password"),
            Err(_) => break,
        }
    }
    assert!(responses <= MAX_ROUNDS);
});
