//! Ends of tunnels with ESP.

mod sockets;
mod tunnel;
mod vectors;

use std::sync::Arc;

use adit_core::{Cipher, DataEvent, Digest, PeerId, SessionId};
use adit_dataplane::aead::{Provider, aws_lc};
use adit_dataplane::codec::SessionCodec;
use adit_dataplane::testing::batches::Keys;
use adit_dataplane::testing::world::{End, udp};
use adit_ike::crypto::DirectionKeys;
use adit_ike::machine::Codec;

use crate::{NatTraversalSocket, session_with};

const PEER: PeerId = PeerId::SERVER;
const SPI: u32 = 0xc0de_0001;

/// All ciphers, each with the digest beside it if it needs one.
const SUITES: [(Cipher, Option<Digest>); 7] = [
    (Cipher::Aes128Gcm, None),
    (Cipher::Aes256Gcm, None),
    (Cipher::ChaCha20Poly1305, None),
    (Cipher::Aes128Cbc, Some(Digest::Sha1)),
    (Cipher::Aes192Cbc, Some(Digest::Sha256)),
    (Cipher::Aes256Cbc, Some(Digest::Sha384)),
    (Cipher::Aes256Cbc, Some(Digest::Sha512)),
];

fn direction(cipher: Cipher, integrity: Option<Digest>, seed: u8) -> DirectionKeys {
    let salt = if cipher.is_aead() { 4 } else { 0 };
    DirectionKeys {
        encryption: vec![seed; cipher.key_len()].into(),
        salt: vec![!seed; salt].into(),
        integrity: vec![seed ^ 0x55; integrity.map_or(0, Digest::output_len)].into(),
    }
}

/// The parameters of a child SA whose SPI is [`SPI`] in both directions, with keys that are made of one byte each.
fn parameters(suite: (Cipher, Option<Digest>), is_extended: bool, keys: Keys) -> Codec {
    let (cipher, integrity) = suite;
    Codec {
        outbound_spi: SPI,
        cipher,
        integrity,
        has_extended_sequence_numbers: is_extended,
        seal: direction(cipher, integrity, keys.seal),
        open: direction(cipher, integrity, keys.open),
        selectors: Arc::new([]),
        is_encapsulated: true,
        limits: Default::default(),
        counters: Default::default(),
    }
}

fn made(codec: &Codec) -> SessionCodec {
    made_with(aws_lc, codec)
}

fn made_with(provider: Provider, codec: &Codec) -> SessionCodec {
    session_with(provider, codec).expect("the keys fit")
}

/// An end with one peer and that session.
fn end(codec: SessionCodec) -> End {
    let mut end = End::new(Arc::new(NatTraversalSocket), false);
    end.add_peer(PEER, udp(1), &["0.0.0.0/0", "::/0"], None);
    install(&mut end, codec);
    end
}

fn install(end: &mut End, codec: SessionCodec) {
    let session = SessionId(SPI.into());
    end.install_codec(PEER, session, codec);
    end.apply(DataEvent::Activate { peer: PEER, session });
}

/// Two ends: what the one seals, the other opens.
fn pair(suite: (Cipher, Option<Digest>), is_extended: bool) -> [End; 2] {
    let [near, far] = [Keys { seal: 1, open: 2 }, Keys { seal: 2, open: 1 }];
    [near, far].map(|keys| end(made(&parameters(suite, is_extended, keys))))
}
