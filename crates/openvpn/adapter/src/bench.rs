//! OpenVPN's rows of `adit bench`.

use std::sync::Arc;

use adit_core::{Cipher, PeerId, ReplayWindow, Transport};
use adit_dataplane::aead::AeadError;
use adit_dataplane::codec::SessionCodec;
use adit_host::bench::{CIPHERS, CLIENT, DIGEST, End, Input, LENGTH, LENGTHS, Row};
use adit_openvpn::codec::{
    Codec, Compression, DataFraming, DataHeader, DirectionKey, Framing, MacKey, Payloads, session_id,
};

/// The rows, in the order in which they are shown.
pub(crate) fn rows() -> Vec<Row> {
    let packets = |cipher, bytes| Row { cipher, bytes, ..packets() };
    let all = CIPHERS.into_iter().flat_map(|cipher| LENGTHS.map(|bytes| packets(cipher, bytes)));
    let others = Cipher::ALL.into_iter().filter(|cipher| !CIPHERS.contains(cipher));
    let others = others.map(|cipher| packets(cipher, LENGTH));
    let epochs = CIPHERS.map(|cipher| Row {
        load: "epochs",
        label: "UDP packets, epoch format",
        codec: epochs,
        ..packets(cipher, LENGTH)
    });
    let flows = CIPHERS.map(|cipher| Row {
        load: "flow",
        label: "TCP flow, cut and merged",
        input: Input::Flow,
        ..packets(cipher, LENGTH)
    });
    // MirageVPN's own benchmark (its bench/bench_engine.ml): 1024 zero bytes, TCP framing, AES-128-GCM.
    let mirage = Row {
        load: "miragevpn",
        label: "MirageVPN's: zeros as messages, TCP",
        input: Input::Messages,
        transport: Transport::Tcp,
        ..packets(Cipher::Aes128Gcm, 1024)
    };
    all.chain(others).chain(epochs).chain(flows).chain([mirage]).collect()
}

/// A row of UDP packets.
fn packets() -> Row {
    let session = |peer| session_id(peer, 0);
    Row {
        load: "packets",
        label: "UDP packets, one by one",
        input: Input::Packets,
        cipher: Cipher::Aes256Gcm,
        bytes: LENGTH,
        transport: Transport::Udp,
        client: End {
            session: session(PeerId::SERVER),
            demultiplexer: || Arc::new(adit_openvpn_codec::Client),
        },
        server: End { session: session(CLIENT), demultiplexer: || Arc::new(adit_openvpn_codec::Server) },
        codec: data,
    }
}

/// The usual framing.
fn data(cipher: Cipher) -> Result<SessionCodec, AeadError> {
    session(cipher, Framing::Data(framing()), key(cipher))
}

/// OpenVPN 2.7's epoch format. The secret of the first epoch is as long for every cipher as the longest key.
fn epochs(cipher: Cipher) -> Result<SessionCodec, AeadError> {
    session(cipher, Framing::Epoch(framing()), key(Cipher::ChaCha20Poly1305))
}

fn framing() -> DataFraming {
    DataFraming { header: DataHeader::V2 { peer_id: CLIENT.0 }, key_id: 0, compression: Compression::None }
}

fn session(cipher: Cipher, framing: Framing, key: DirectionKey) -> Result<SessionCodec, AeadError> {
    let codec = Codec {
        framing,
        cipher,
        seal: key.clone(),
        open: key,
        replay_window: ReplayWindow::default(),
        payloads: Payloads::default(),
    };
    adit_openvpn_codec::session_with(adit_io::aead::provider, &codec)
}

/// A key for both directions. It protects nothing.
fn key(cipher: Cipher) -> DirectionKey {
    let mac =
        MacKey { digest: DIGEST, key: vec![0x3c; DIGEST.output_len()].into(), iv_key: [0xc3; 16].into() };
    DirectionKey {
        mac: (!cipher.is_aead()).then_some(mac),
        ..DirectionKey::aead(vec![0x5a; cipher.key_len()].into(), [0xa5; 8])
    }
}
