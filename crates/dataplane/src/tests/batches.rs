//! Batches of an AEAD give the results that single calls give.

use adit_core::PeerId;

use super::format::{self, by_path, named, session_id};
use crate::testing::batches::{Format, open_as_single_packets, seal_as_single_packets};

fn formats() -> [Format; 2] {
    let base = |make| {
        let session = session_id(PeerId::SERVER, 0);
        Format { demultiplexer: format::client, session, make, number: 4..8 }
    };
    [
        base(|provider, keys| format::session_with(provider, named(0, 0), keys)),
        base(|provider, keys| format::session_with(provider, by_path(0), keys)),
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
