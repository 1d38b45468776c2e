//! OpenVPN's records on a TCP stream: the same comes out however the stream is cut, and nothing forged.
#![no_main]

use std::net::{Ipv4Addr, SocketAddr};

use adit_core::{
    Cipher, ConnectionId, DataEvent, Install, Path, PeerConfig, PeerId, PeerOrder, ReplayWindow,
};
use adit_dataplane::{Config, Ingress, MergePolicy, ReceiveBatch, StreamError, TransmitBatch, split};
use adit_openvpn::codec::{
    Codec, Compression, DataFraming, DataHeader, DirectionKey, Framing, Payloads, session_id,
};
use adit_openvpn_codec::{Client, session};
use libfuzzer_sys::fuzz_target;

const PEER: PeerId = PeerId::SERVER;

fn path() -> Path {
    Path::Tcp { connection: ConnectionId(0), remote: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 1194)) }
}

fn client() -> Ingress {
    let (mut egress, mut ingress, _) = adit_dataplane::new(Config::new(Client));
    let key = DirectionKey::aead(vec![7; 16].into(), [7; 8]);
    let framing = Framing::Data(DataFraming {
        header: DataHeader::V2 { peer_id: 1 },
        key_id: 0,
        compression: Compression::None,
    });
    let codec = Codec {
        framing,
        cipher: Cipher::Aes128Gcm,
        seal: key.clone(),
        open: key,
        replay_window: ReplayWindow::default(),
        payloads: Payloads::default(),
    };
    let events = [
        DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PEER,
            path: Some(path()),
            routes: Vec::new(),
            selectors: Default::default(),
            max_mss: Some(1400),
            roams: false,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })),
        DataEvent::Install(Box::new(Install::new(PEER, session_id(PEER, 0), codec))),
    ];
    for event in events {
        let (out, inward) = split(event, session);
        out.into_iter().for_each(|event| egress.apply(event, &mut TransmitBatch::new()));
        inward.into_iter().for_each(|event| ingress.apply(event));
    }
    ingress
}

/// The control datagrams on a stream that arrives in pieces of that size, and how it ended.
fn receive(stream: &[u8], piece: usize) -> (Vec<Vec<u8>>, Result<usize, StreamError>) {
    let mut ingress = client();
    let mut receive_batch = ReceiveBatch::new(MergePolicy::TcpAndUdp);
    let mut control = Vec::new();
    let mut buffer = Vec::new();
    for bytes in stream.chunks(piece.max(1)) {
        buffer.extend_from_slice(bytes);
        let outcome = ingress.open_stream(path(), &mut buffer, &mut receive_batch);
        control.extend(receive_batch.control().iter().map(|(_, range)| buffer[range.clone()].to_vec()));
        assert_eq!(
            receive_batch.packets().count() + receive_batch.relay().len(),
            0,
            "a packet that was not sealed"
        );
        receive_batch.clear();
        match outcome {
            Ok(used) => drop(buffer.drain(..used)),
            Err(error) => return (control, Err(error)),
        }
    }
    (control, Ok(buffer.len()))
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, stream)) = data.split_first() else { return };
    assert_eq!(receive(stream, usize::from(piece)), receive(stream, stream.len()));
});
