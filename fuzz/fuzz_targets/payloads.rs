//! Payloads of old peers, compressed or in parts: whatever a peer that has the key sends, what comes out is bounded, and what
//! one end cuts the other puts together.
#![no_main]

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use adit_core::{Cipher, DataEvent, Install, Instant, Path, PeerConfig, PeerId, PeerOrder, ReplayWindow};
use adit_dataplane::aead::aws_lc;
use adit_dataplane::{
    Config, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, install, split,
};
use adit_openvpn::codec::{
    Codec, Compression, DataFraming, DataHeader, DirectionKey, Framing, Payloads, session_id,
};
use adit_openvpn_codec::{Client, session_with};
use libfuzzer_sys::fuzz_target;

/// The longest packet that is put together or decompressed.
const LONGEST: u16 = 1200;
/// The longest payload that is sent as it is.
const LONGEST_SENT: usize = 2047;

fn path() -> Path {
    Path::Udp { socket: 0, remote: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 1194)) }
}

struct End {
    egress: Egress,
    ingress: Ingress,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
}

impl End {
    /// Seals and opens with these keys. Its peer may have any inner address.
    fn new(compression: Compression, payloads: Payloads, keys: [u8; 2]) -> Self {
        let (egress, ingress, _) = adit_dataplane::new(Config::new(Client));
        let (transmit_batch, receive_batch) =
            (TransmitBatch::new(), ReceiveBatch::new(MergePolicy::TcpAndUdp));
        let mut end = End { egress, ingress, transmit_batch, receive_batch };
        let routes = ["0.0.0.0/0", "::/0"].iter().filter_map(|net| net.parse().ok()).collect();
        end.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PeerId::SERVER,
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
        let header = DataHeader::V2 { peer_id: 0 };
        let framing = Framing::Data(DataFraming { header, key_id: 0, compression });
        let [seal, open] = keys.map(|seed| DirectionKey::aead(vec![seed; 32].into(), [seed; 8]));
        let (cipher, replay_window) = (Cipher::Aes256Gcm, ReplayWindow::default());
        let codec = Codec { framing, cipher, seal, open, replay_window, payloads };
        let codec = session_with(aws_lc, &codec).expect("the keys fit");
        let session = session_id(PeerId::SERVER, 0);
        let (egress, ingress) = install(Install::new(PeerId::SERVER, session, codec));
        end.egress.apply(egress, &mut end.transmit_batch);
        end.ingress.apply(ingress);
        end.apply(DataEvent::Activate { peer: PeerId::SERVER, session });
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
        let gso_batches = self.transmit_batch.iter();
        let gso_batches = gso_batches.map(|batch| (batch.segment, batch.bytes.to_vec())).collect();
        self.transmit_batch.clear();
        gso_batches
    }

    /// The packets that come out of received GSO batches.
    fn open(&mut self, gso_batches: &[(usize, Vec<u8>)]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        for (segment, bytes) in gso_batches {
            let mut buffer = bytes.clone();
            self.ingress.open_datagrams(path(), &mut buffer, *segment, &mut self.receive_batch);
            let packets = self.receive_batch.packets();
            found
                .extend(packets.map(|packet| packet.slices(&buffer).flatten().copied().collect::<Vec<u8>>()));
            self.receive_batch.clear();
        }
        found
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, most, ticks], mut rest)) = data.split_first_chunk() else { return };
    let compression = match choice & 3 {
        0 => Compression::None,
        1 => Compression::LzoNo,
        2 => Compression::Stub,
        _ => Compression::StubV2,
    };
    let payloads = Payloads {
        decompress: choice & 4 == 0,
        fragment: (choice & 8 == 0).then_some(u16::from(most) * 4),
        longest: LONGEST,
    };
    let whole = rest;

    // Any payloads from a peer that has the key, with time between them.
    let mut raw = End::new(Compression::None, Payloads::default(), [1, 2]);
    let mut receiver = End::new(compression, payloads, [2, 1]);
    let mut now = Instant::ORIGIN;
    while let Some((len, more)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes(*len)) & LONGEST_SENT;
        let (payload, more) = more.split_at(len.min(more.len()));
        rest = more;
        raw.apply(DataEvent::Inject { peer: PeerId::SERVER, payload: payload.to_vec() });
        for packet in receiver.open(&raw.sealed()) {
            let is_bounded = packet.len() <= usize::from(LONGEST);
            // A packet that lies in the payload unchanged is a run of its bytes.
            let mut runs = payload.windows(packet.len() - 1);
            assert!(is_bounded || runs.any(|run| *run == packet[1..]));
        }
        now += Duration::from_secs(u64::from(ticks & 7));
        receiver.ingress.tick(now);
    }

    // Any packet from the device, in any order of its parts.
    let mut sender = End::new(compression, payloads, [3, 4]);
    let mut receiver = End::new(compression, payloads, [4, 3]);
    sender.egress.seal_packet(Offload::NONE, &mut whole.to_vec(), &mut sender.transmit_batch);
    let sealed = sender.sealed();
    let mut datagrams: Vec<(usize, Vec<u8>)> = sealed
        .iter()
        .flat_map(|(segment, bytes)| bytes.chunks(*segment))
        .map(|datagram| (datagram.len(), datagram.to_vec()))
        .collect();
    let turn = usize::from(ticks) % datagrams.len().max(1);
    datagrams.rotate_left(turn);
    let found = receiver.open(&datagrams);
    assert_eq!(found.len(), usize::from(!datagrams.is_empty()));
    assert!(found.iter().all(|packet| whole.starts_with(packet)));
});
