//! Batches of an AEAD give the results that single calls give.

use std::sync::Arc;

use adit_core::{Cipher, PeerId};
use adit_dataplane::aead::Provider;
use adit_dataplane::codec::SessionCodec;
use adit_dataplane::testing::batches::{Format, Keys, open_as_single_packets, seal_as_single_packets};
use adit_openvpn::codec::{Compression, DataHeader, session_id};

use crate::session_with;
use crate::testing::{framing, parameters};

fn with(header: DataHeader, provider: Provider, keys: Keys) -> SessionCodec {
    let framing = framing(header, 0, Compression::None);
    let parameters = parameters(framing, Cipher::ChaCha20Poly1305, keys);
    session_with(provider, &parameters).expect("the keys fit")
}

fn formats() -> [Format; 2] {
    let format = |make| {
        let session = session_id(PeerId::SERVER, 0);
        Format { demultiplexer: || Arc::new(crate::Client), session, make, number: 4..8 }
    };
    [
        format(|provider, keys| with(DataHeader::V1, provider, keys)),
        format(|provider, keys| with(DataHeader::V2 { peer_id: 0 }, provider, keys)),
    ]
}

#[test]
fn batches_seal_what_single_packets_are_sealed_to() {
    formats().iter().for_each(seal_as_single_packets);
}

#[test]
fn batches_open_what_single_packets_are_opened_to() {
    formats().iter().for_each(open_as_single_packets);
}
