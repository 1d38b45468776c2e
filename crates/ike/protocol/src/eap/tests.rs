//! Both sides of EAP against each other, and against messages that are not due.

use rustls_pki_types::UnixTime;

use super::message::{encode, encode_end};
use super::*;
use crate::wire::{Eap, EapCode, IdType, Identification};

fn fill() -> impl FnMut(&mut [u8]) {
    let mut number = 0;
    move |bytes: &mut [u8]| {
        number += 1;
        bytes.fill(number);
    }
}

fn users(all: &[(&str, &str)]) -> Users {
    let mut users = Users::default();
    all.iter().for_each(|(name, password)| users.add(name, NtHash::of_password(password)));
    users
}

fn peer(name: &str, password: &str) -> Peer {
    let password = Some(NtHash::of_password(password));
    Peer::new(Credentials { name: name.into(), password, tls: None, authenticator: None })
}

/// Gives a message to a peer of a password, which needs no certificate of the authenticator.
fn give(peer: &mut Peer, eap: &Eap, fill: &mut dyn FnMut(&mut [u8])) -> Result<PeerTurn, String> {
    let none = Identification { kind: IdType::NULL, data: Vec::new() };
    let wall = UnixTime::since_unix_epoch(std::time::Duration::ZERO);
    peer.handle(eap, Surroundings { fill, wall, authenticator: &none })
}

/// Begins EAP-MSCHAPv2.
fn ask(authenticator: &mut Authenticator, claimed: &str, user: User) -> Eap {
    let methods = Methods { claimed: claimed.to_owned(), user: Some(user), tls: None };
    let Turn::Request(request) = authenticator.authenticate(methods, &mut fill()) else {
        panic!("a request")
    };
    request
}

/// The outcome of a run: the keys of both sides and the user, or both reasons.
fn run(known: &Users, name: &str, password: &str) -> Result<(String, [Vec<u8>; 2]), [String; 2]> {
    let (mut fill, mut peer, mut authenticator) = (fill(), peer(name, password), Authenticator::new(7));
    let mut request = authenticator.ask_for_name();
    let (mut user, mut key) = (String::new(), None);
    loop {
        let response = match give(&mut peer, &request, &mut fill) {
            Ok(PeerTurn::Response(response)) => response,
            Ok(PeerTurn::Success(own)) => return Ok((user, [own.to_vec(), key.expect("a key")])),
            Err(reason) => return Err([reason, user]),
        };
        request = match authenticator.handle(&response, &mut fill) {
            Turn::Named(claimed) => {
                let claimed = String::from_utf8(claimed).unwrap();
                let found = known.find(&claimed);
                user.clone_from(&found.name);
                ask(&mut authenticator, &claimed, found)
            }
            Turn::Request(request) | Turn::Wrong(request) => request,
            Turn::Success { message, msk, .. } => {
                key = Some(msk.to_vec());
                message
            }
            Turn::Failure { message, reason } => {
                user = reason;
                message
            }
        };
    }
}

#[test]
fn both_sides_of_a_password_have_one_key_and_the_name_of_the_file() {
    let known = users(&[
        ("Alice", "secret"),
        ("bob@example.org", "pa\u{df}wort"),
        (r"CORP\carol", "a"),
        ("carol", "b"),
    ]);
    for (name, password, user) in [
        ("Alice", "secret", "Alice"),
        ("alice", "secret", "Alice"),
        (r"DOMAIN\alice", "secret", "Alice"),
        ("bob@example.org", "pa\u{df}wort", "bob@example.org"),
        (r"corp\carol", "a", r"CORP\carol"),
        (r"OTHER\carol", "b", "carol"),
    ] {
        let (found, [own, others]) = run(&known, name, password).expect(name);
        assert_eq!((found.as_str(), own.len()), (user, 64));
        assert_eq!(own, others, "{name}");
    }
}

#[test]
fn a_wrong_password_an_unknown_name_and_an_empty_password_are_refused_with_error_691() {
    let known = users(&[("alice", "secret")]);
    for (name, password) in
        [("alice", "Secret"), ("alice", ""), ("bob", "secret"), ("bob", ""), ("bob@alice", "secret")]
    {
        let [own, others] = run(&known, name, password).expect_err(name);
        assert!(own.contains("error 691"), "{name}: {own}");
        assert!(others.contains("the name or the password is wrong"), "{name}: {others}");
    }
    let mut all = users(&[("alice", "secret")]);
    all.add_for_all(NtHash::of_password("common"));
    assert!(run(&all, "bob", "common").is_ok() && run(&all, "alice", "common").is_err());
}

/// An authenticator that waits for the response to its challenge, and that response.
fn challenged(name: &str, password: &str) -> (Authenticator, Eap) {
    let mut authenticator = Authenticator::new(1);
    let user = users(&[("alice", "secret")]).find("alice");
    let request = ask(&mut authenticator, "alice", user);
    let response = match give(&mut peer(name, password), &request, &mut fill()) {
        Ok(PeerTurn::Response(response)) => response,
        _ => panic!("a response"),
    };
    (authenticator, response)
}

#[test]
fn the_name_within_the_method_is_that_of_the_eap_identity() {
    for (name, is_same) in [("alice", true), (r"CORP\ALICE", true), ("bob", false)] {
        let (mut authenticator, response) = challenged(name, "secret");
        let turn = authenticator.handle(&response, &mut fill());
        assert_eq!(matches!(turn, Turn::Request(_)), is_same, "{name}");
    }
}

#[test]
fn a_peer_may_try_three_passwords_and_no_more() {
    let (mut authenticator, mut response) = challenged("alice", "guess");
    for number in 0..3 {
        let Turn::Wrong(request) = authenticator.handle(&response, &mut fill()) else { panic!("wrong") };
        let text = String::from_utf8_lossy(&request.data).into_owned();
        assert!(text.contains(&format!("E=691 R={} C=", u8::from(number < 2))), "{text}");
        response.identifier = request.identifier;
    }
    // The right password comes too late, whatever challenge it answers.
    let (_, mut right) = challenged("alice", "secret");
    right.identifier = response.identifier;
    assert!(!matches!(authenticator.handle(&right, &mut fill()), Turn::Request(_) | Turn::Success { .. }));
}

/// CVE-2021-45079: a success before the authenticator has proved anything. CVE-2015-8023: an acknowledgement without a response.
#[test]
fn a_success_without_a_proof_is_refused_by_both_sides() {
    let success = encode_end(EapCode::SUCCESS, 1);
    assert!(give(&mut peer("alice", "secret"), &success, &mut fill()).is_err());
    let (mut authenticator, response) = challenged("alice", "secret");
    let acknowledgement = Eap { data: vec![EapType::MS_CHAP_V2.0, 3], ..response };
    assert!(matches!(authenticator.handle(&acknowledgement, &mut fill()), Turn::Failure { .. }));
    // The authenticator of another password: its success is not believed.
    let mut own = peer("alice", "secret");
    let mut other = Authenticator::new(1);
    let user = User { name: "alice".to_owned(), hash: Some(NtHash::of_password("other")) };
    let request = ask(&mut other, "alice", user);
    assert!(matches!(give(&mut own, &request, &mut fill()), Ok(PeerTurn::Response(_))));
    let text = b"S=0000000000000000000000000000000000000000 M=Welcome";
    let forged = [&[3, request.identifier, 0, 4 + text.len() as u8], text.as_slice()].concat();
    let forged = encode(EapCode::REQUEST, 3, EapType::MS_CHAP_V2, &forged);
    assert!(give(&mut own, &forged, &mut fill()).is_err_and(|why| why.contains("does not prove")));
    assert!(give(&mut own, &success, &mut fill()).is_err());
}

#[test]
fn a_peer_answers_notifications_and_names_its_method() {
    let mut own = peer("alice", "secret");
    let mut answer =
        |kind, data: &[u8]| match give(&mut own, &encode(EapCode::REQUEST, 9, kind, data), &mut fill()) {
            Ok(PeerTurn::Response(response)) => Some((response.identifier, response.data)),
            _ => None,
        };
    assert_eq!(answer(EapType::NOTIFICATION, b"hello"), Some((9, vec![2])));
    assert_eq!(answer(EapType(13), &[0x20]), Some((9, vec![3, 26])));
    assert_eq!(answer(EapType::IDENTITY, &[]), Some((9, b"\x01alice".to_vec())));
    assert_eq!(answer(EapType::NAK, &[]), None);
}

#[test]
fn an_authenticator_names_the_methods_that_a_peer_wants() {
    let (mut authenticator, response) = challenged("alice", "secret");
    let nak = Eap { data: vec![3, 13, 25], ..response };
    let Turn::Failure { reason, message } = authenticator.handle(&nak, &mut fill()) else {
        panic!("a failure")
    };
    assert!(reason.contains("asks for EAP-TLS, PEAP"), "{reason}");
    assert_eq!(message.code, EapCode::FAILURE);
}

#[test]
fn messages_are_bounded_in_number_and_length() {
    let mut own = peer("alice", "secret");
    let request = encode(EapCode::REQUEST, 1, EapType::IDENTITY, &[]);
    for _ in 0..MAX_ROUNDS {
        assert!(give(&mut own, &request, &mut fill()).is_ok());
    }
    assert!(give(&mut own, &request, &mut fill()).is_err());
    let long = encode(EapCode::REQUEST, 1, EapType::IDENTITY, &vec![0; MAX_DATA]);
    assert!(give(&mut peer("alice", "secret"), &long, &mut fill()).is_err());
    for name in [vec![], vec![b'a'; MAX_NAME + 1], vec![0xff]] {
        let mut authenticator = Authenticator::new(4);
        authenticator.ask_for_name();
        let response = encode(EapCode::RESPONSE, 4, EapType::IDENTITY, &name);
        assert!(matches!(authenticator.handle(&response, &mut fill()), Turn::Failure { .. }));
    }
}

/// CVE-2025-62291: lengths that are not those of the content.
#[test]
fn lengths_of_the_method_are_those_of_the_content() {
    let (_, response) = challenged("alice", "secret");
    for at in [3, 4, 5] {
        for value in [0, 1, 255] {
            let (mut authenticator, _) = challenged("alice", "secret");
            let mut changed = response.clone();
            if changed.data[at] == value {
                continue;
            }
            changed.data[at] = value;
            assert!(
                matches!(authenticator.handle(&changed, &mut fill()), Turn::Failure { .. }),
                "{at} {value}"
            );
        }
    }
    for length in 0..response.data.len() - 5 {
        let (mut authenticator, _) = challenged("alice", "secret");
        let short = Eap { data: response.data[..length].to_vec(), ..response.clone() };
        assert!(matches!(authenticator.handle(&short, &mut fill()), Turn::Failure { .. }), "{length}");
    }
}
