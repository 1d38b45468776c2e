//! The data channel: forged datagrams yield nothing, and any payload that a peer with the key seals is
//! delivered unchanged or dropped.
#![no_main]

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use adit_core::{Cipher, DataEvent, Digest, Install, Path, PeerConfig, PeerId, PeerOrder, ReplayWindow};
use adit_dataplane::aead::aws_lc;
use adit_dataplane::{
    Config, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, VNET_HEADER_LEN, install,
    split,
};
use adit_openvpn::codec::{
    Codec, Compression, DataFraming, DataHeader, DirectionKey, Framing, MacKey, Payloads, StaticFraming,
    session_id,
};
use adit_openvpn_codec::{Client, Server, StaticKey, session_with};
use libfuzzer_sys::fuzz_target;

fn path() -> Path {
    Path::Udp { socket: 0, remote: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 1194)) }
}

/// Which end of the tunnel.
#[derive(Clone, Copy)]
enum Role {
    Client,
    Server,
}

struct End {
    egress: Egress,
    ingress: Ingress,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
    peer: PeerId,
}

impl End {
    fn new(role: Role, choice: u8) -> Self {
        let keys = match role {
            Role::Client => [1, 2],
            Role::Server => [2, 1],
        };
        let header = if choice & 1 == 0 { DataHeader::V2 { peer_id: 5 } } else { DataHeader::V1 };
        let compression = match (choice >> 1) & 3 {
            0 => Compression::None,
            1 => Compression::LzoNo,
            2 => Compression::Stub,
            _ => Compression::StubV2,
        };
        let cipher = match ((choice >> 3) & 3, choice & 0x40 != 0) {
            (0, false) => Cipher::Aes128Gcm,
            (1, false) => Cipher::Aes256Gcm,
            (_, false) => Cipher::ChaCha20Poly1305,
            (0, true) => Cipher::Aes192Gcm,
            (1, true) => Cipher::Aes128Cbc,
            (2, true) => Cipher::Aes192Cbc,
            (_, true) => Cipher::Aes256Cbc,
        };
        // With DATA_V2 and an AEAD, half of all choices; the bit serves client-to-client too.
        let epochs = cipher.is_aead() && choice & 0x81 == 0x80;
        let key_len = if epochs { 32 } else { cipher.key_len() };
        // With CBC and DATA_V2, half of all choices: a static key, where both ends are alike.
        let without_exchange = !cipher.is_aead() && choice & 0x81 == 0x80;
        let (config, peer, key_id) = match role {
            _ if without_exchange => (Config::new(StaticKey), PeerId::SERVER, 0),
            Role::Client => (Config::new(Client), PeerId::SERVER, 3),
            Role::Server => (Config::new(Server), PeerId(5), 3),
        };
        let client_to_client = choice & 0x80 != 0;
        let (egress, ingress, _) = adit_dataplane::new(Config { client_to_client, ..config });
        let digest = if choice & 1 == 0 { Digest::Sha256 } else { Digest::Sha1 };
        let [seal, open] = keys.map(|seed| DirectionKey {
            key: vec![seed; key_len].into(),
            implicit_iv: [seed; 8],
            mac: (!cipher.is_aead()).then(|| MacKey {
                digest,
                key: vec![seed; digest.output_len()].into(),
                iv_key: [keys[0]; 16].into(),
            }),
        });
        let framing = DataFraming { header, key_id, compression };
        let framing = match (epochs, without_exchange) {
            (true, _) => Framing::Epoch(framing),
            (_, true) => Framing::StaticKey(StaticFraming { began: 5, compression }),
            _ => Framing::Data(framing),
        };
        let session = session_id(peer, key_id);
        let routes = ["0.0.0.0/0", "::/0"].iter().filter_map(|net| net.parse().ok()).collect();
        let policy = if choice & 0x20 == 0 { MergePolicy::TcpAndUdp } else { MergePolicy::Off };
        let mut end = End {
            egress,
            ingress,
            transmit_batch: TransmitBatch::new(),
            receive_batch: ReceiveBatch::new(policy),
            peer,
        };
        end.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer,
            path: Some(path()),
            routes,
            selectors: Default::default(),
            max_mss: None,
            roams: false,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })));
        let (replay_window, payloads) = (ReplayWindow::default(), Payloads::default());
        let codec = Codec { framing, cipher, seal, open, replay_window, payloads };
        let codec = session_with(aws_lc, &codec).expect("the keys fit");
        let (egress, ingress) = install(Install::new(peer, session, codec));
        end.egress.apply(egress, &mut end.transmit_batch);
        end.ingress.apply(ingress);
        end.apply(DataEvent::Activate { peer, session });
        end
    }

    fn apply(&mut self, event: DataEvent<Infallible>) {
        let (egress, ingress) = split(event, |install| match install.codec {});
        if let Some(event) = egress {
            self.egress.apply(event, &mut self.transmit_batch);
        }
        if let Some(event) = ingress {
            self.ingress.apply(event);
        }
    }

    /// The GSO batches sealed since last time: segment length and bytes.
    fn sealed(&mut self) -> Vec<(usize, Vec<u8>)> {
        let gso_batches = self
            .transmit_batch
            .iter()
            .map(|gso_batch| (gso_batch.segment, gso_batch.bytes.to_vec()))
            .collect();
        self.transmit_batch.clear();
        gso_batches
    }

    /// The packets that come out of a received GSO batch.
    fn open(&mut self, segment: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut buffer = bytes.to_vec();
        self.ingress.open_datagrams(path(), &mut buffer, segment, &mut self.receive_batch);
        let packets = self.receive_batch.packets();
        let mut found: Vec<Vec<u8>> = packets
            .map(|packet| packet.pieces().flat_map(|range| buffer[range].to_vec()).collect())
            .collect();
        found.extend(self.receive_batch.relay().iter().map(|range| buffer[range.clone()].to_vec()));
        for (_, range) in self.receive_batch.control() {
            assert!(!buffer[range.clone()].is_empty());
        }
        self.receive_batch.clear();
        found
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, segment], rest)) = data.split_first_chunk() else { return };
    let (mut client, mut server) = (End::new(Role::Client, choice), End::new(Role::Server, choice));
    for end in [&mut client, &mut server] {
        assert!(end.open(usize::from(segment), rest).is_empty(), "a packet that was never sealed");
    }

    // Any payload at all from a peer that has the key.
    client.apply(DataEvent::Inject { peer: client.peer, payload: rest.to_vec() });
    for (segment, gso_batch) in client.sealed() {
        let mut forged = gso_batch.clone();
        forged[gso_batch.len() / 2] ^= 1;
        assert!(server.open(segment, &forged).is_empty(), "a changed datagram opened");
        for packet in server.open(segment, &gso_batch) {
            assert!(rest.starts_with(&packet));
        }
        assert!(server.open(segment, &gso_batch).is_empty(), "a replayed datagram opened");
    }

    // Any read at all from the TUN device.
    let Some((header, packet)) = rest.split_first_chunk::<VNET_HEADER_LEN>() else { return };
    let Some(offload) = Offload::from_vnet_header(header) else { return };
    server.egress.seal_packet(offload, &mut packet.to_vec(), &mut server.transmit_batch);
    for (segment, gso_batch) in server.sealed() {
        for opened in client.open(segment, &gso_batch) {
            assert!(offload != Offload::NONE || packet.starts_with(&opened));
        }
    }
});
