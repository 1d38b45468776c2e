//! Against snow, an implementation of the Noise framework by others: `Noise_IKpsk2` with WireGuard's prologue.

use snow::{Builder, HandshakeState, StatelessTransportState};

use super::*;
use crate::wire::Message;

const INITIATOR: [u8; 32] = [0x11; 32];
const RESPONDER: [u8; 32] = [0x22; 32];
const PRESHARED: [u8; 32] = [0x33; 32];
const TIMESTAMP: Tai64n = Tai64n([0x40, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0]);

fn pair(private: [u8; 32]) -> KeyPair {
    KeyPair::new(&private).expect("a key")
}

fn snow(own: &[u8; 32]) -> Builder<'_> {
    let params = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s".parse().expect("a pattern that snow knows");
    let builder = Builder::new(params).prologue(IDENTIFIER).expect("a prologue");
    builder.local_private_key(own).expect("a key").psk(2, &PRESHARED).expect("a preshared key")
}

fn snow_initiator() -> HandshakeState {
    let responder = pair(RESPONDER).public.0;
    let builder = snow(&INITIATOR).remote_public_key(&responder).expect("a key");
    builder.fixed_ephemeral_key_for_testing_only(&[0x44; 32]).build_initiator().expect("an initiator")
}

fn snow_responder() -> HandshakeState {
    let builder = snow(&RESPONDER).fixed_ephemeral_key_for_testing_only(&[0x55; 32]);
    builder.build_responder().expect("a responder")
}

/// One end opens the packets that the other end seals, with the counter as nonce.
fn same_keys(keys: &SessionKeys, other: &StatelessTransportState) {
    let mut buffer = [0; 64];
    let length = other.write_message(0, b"from snow", &mut buffer).expect("seals");
    let mut plain = [0; 9];
    crypto::open(&keys.open, &[], &buffer[..length], &mut plain).expect("opens");
    assert_eq!(&plain, b"from snow");
    let mut sealed = [0; 7 + TAG_LEN];
    crypto::seal(&keys.seal, &[], b"to snow", &mut sealed).expect("seals");
    let length = other.read_message(0, &sealed, &mut buffer).expect("opens");
    assert_eq!(&buffer[..length], b"to snow");
}

fn initiated() -> (Initiated, [u8; INITIATION_LEN]) {
    let responder = pair(RESPONDER).public;
    let shared = pair(INITIATOR).agree(&responder).expect("agrees");
    let own = pair(INITIATOR).public;
    initiate(&own, &responder, &shared, pair([0x44; 32]), TIMESTAMP, 0x0102_0304).expect("an initiation")
}

fn initiation(bytes: &[u8]) -> Initiation<'_> {
    match Message::parse(bytes) {
        Ok(Message::Initiation(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn response(bytes: &[u8]) -> Response<'_> {
    match Message::parse(bytes) {
        Ok(Message::Response(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn proved(message: &Initiation<'_>) -> Result<Proved, Refused> {
    let own = pair(RESPONDER);
    let named = name(&own, message)?;
    let shared = own.agree(&named.initiator)?;
    named.prove(&shared, message)
}

/// The bytes are those that snow makes of the same keys, so they are fixed, too.
#[test]
fn our_initiation_is_what_snow_would_send() {
    let (_, ours) = initiated();
    let mut theirs = [0; 128];
    let length = snow_initiator().write_message(&TIMESTAMP.0, &mut theirs).expect("an initiation");
    assert_eq!(ours[8..116], theirs[..length]);
    assert_eq!((&ours[..8], &ours[116..]), (&[1, 0, 0, 0, 4, 3, 2, 1][..], &[0; 32][..]));
}

#[test]
fn snow_responds_to_us() {
    let (noise, message) = initiated();
    let (mut responder, mut buffer) = (snow_responder(), [0; 128]);
    let length = responder.read_message(&message[8..116], &mut buffer).expect("reads ours");
    assert_eq!(buffer[..length], TIMESTAMP.0);
    let length = responder.write_message(&[], &mut buffer).expect("a response");
    let message = [&[2, 0, 0, 0, 9, 0, 0, 0, 4, 3, 2, 1][..], &buffer[..length], &[0; 32]].concat();
    let preshared = PresharedKey::new(PRESHARED);
    let keys = noise.finish(&pair(INITIATOR), &preshared, &response(&message)).expect("verifies");
    same_keys(&keys, &responder.into_stateless_transport_mode().expect("done"));

    let other = PresharedKey::new([0x34; 32]);
    assert!(noise.finish(&pair(INITIATOR), &other, &response(&message)).is_err(), "another preshared key");
    for at in 12..60 {
        let mut changed = message.clone();
        changed[at] ^= 1;
        let keys = noise.finish(&pair(INITIATOR), &preshared, &response(&changed));
        assert!(keys.is_err(), "byte {at} was changed");
    }
}

#[test]
fn we_respond_to_snow() {
    let (mut initiator, mut buffer) = (snow_initiator(), [0; 128]);
    let length = initiator.write_message(&TIMESTAMP.0, &mut buffer).expect("an initiation");
    let message = [&[1, 0, 0, 0, 7, 0, 0, 0][..], &buffer[..length], &[0; 32]].concat();
    let found = proved(&initiation(&message)).expect("verifies");
    assert_eq!((found.initiator, found.timestamp), (pair(INITIATOR).public, TIMESTAMP));
    let preshared = PresharedKey::new(PRESHARED);
    let (keys, answer) = found.respond(&pair([0x55; 32]), &preshared, (9, 7)).expect("a response");
    assert_eq!((response(&answer).receiver(), Response::sender(&response(&answer))), (7, 9));
    initiator.read_message(&answer[12..60], &mut buffer).expect("reads ours");
    same_keys(&keys, &initiator.into_stateless_transport_mode().expect("done"));

    for at in 8..116 {
        let mut changed = message.clone();
        changed[at] ^= 1;
        assert!(proved(&initiation(&changed)).is_err(), "byte {at} was changed");
    }
}

/// An initiation that was replayed to another responder, or whose ephemeral key is of low order.
#[test]
fn what_is_for_others_names_nobody() {
    let (_, message) = initiated();
    assert!(name(&pair([0x66; 32]), &initiation(&message)).is_err());
    let mut zero = message;
    zero[8..40].fill(0);
    assert!(name(&pair(RESPONDER), &initiation(&zero)).is_err());
}
