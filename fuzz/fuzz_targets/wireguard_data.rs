//! WireGuard's data messages: forged ones yield nothing, and what is sealed opens once and unchanged.
#![no_main]

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use adit_core::{DataEvent, Install, Instant, Path, PeerConfig, PeerId, PeerOrder, SessionId};
use adit_dataplane::aead::aws_lc;
use adit_dataplane::{
    Config, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, VNET_HEADER_LEN, install,
    split,
};
use adit_wireguard::Codec;
use adit_wireguard_codec::{Sockets, session_with};
use libfuzzer_sys::fuzz_target;

const PEER: PeerId = PeerId(1);

struct End {
    egress: Egress,
    ingress: Ingress,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
}

fn path() -> Path {
    Path::Udp { socket: 0, remote: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 51_820)) }
}

impl End {
    /// The index by which this end names its session, the other end's, and the bytes of both keys.
    fn new((own, other): (u32, u32), [seal, open]: [u8; 2]) -> Self {
        let (egress, ingress, _) = adit_dataplane::new(Config::new(Sockets));
        let mut end = End {
            egress,
            ingress,
            transmit_batch: TransmitBatch::new(),
            receive_batch: ReceiveBatch::new(MergePolicy::Off),
        };
        let routes = ["0.0.0.0/0", "::/0"].iter().filter_map(|net| net.parse().ok()).collect();
        let session = SessionId(u64::from(own));
        end.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PEER,
            path: Some(path()),
            routes,
            selectors: Default::default(),
            max_mss: None,
            roams: false,
            staging: false,
            device: Default::default(),
            by_path: false,
            identity: Default::default(),
        })));
        let (seal, open) = ([seal; 32].into(), [open; 32].into());
        let expires = Instant::from_nanos(u64::MAX);
        let codec = Codec { remote_index: other, mtu: 1420, seal, open, expires };
        let codec = session_with(aws_lc, &codec).expect("the keys fit");
        let (egress, ingress) = install(Install::new(PEER, session, codec));
        end.egress.apply(egress, &mut end.transmit_batch);
        end.ingress.apply(ingress);
        end.apply(DataEvent::Activate { peer: PEER, session });
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

    fn sealed(&mut self) -> Vec<(usize, Vec<u8>)> {
        let gso_batches = self
            .transmit_batch
            .iter()
            .map(|gso_batch| (gso_batch.segment, gso_batch.bytes.to_vec()))
            .collect();
        self.transmit_batch.clear();
        gso_batches
    }

    fn open(&mut self, segment: usize, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut buffer = bytes.to_vec();
        self.ingress.open_datagrams(path(), &mut buffer, segment, &mut self.receive_batch);
        let packets = self.receive_batch.packets();
        let found = packets
            .map(|packet| packet.pieces().flat_map(|range| buffer[range].to_vec()).collect())
            .collect();
        self.receive_batch.clear();
        found
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&segment, rest)) = data.split_first() else { return };
    let (mut one, mut two) = (End::new((7, 8), [1, 2]), End::new((8, 7), [2, 1]));
    // With a header that names the session, and without.
    let named = [&[4, 0, 0, 0, 8, 0, 0, 0], rest].concat();
    for bytes in [rest, &named] {
        assert!(two.open(usize::from(segment), bytes).is_empty(), "a packet that was never sealed");
    }

    one.apply(DataEvent::Inject { peer: PEER, payload: rest.to_vec() });
    if let Some((header, packet)) = rest.split_first_chunk::<VNET_HEADER_LEN>()
        && let Some(offload) = Offload::from_vnet_header(header)
    {
        one.egress.seal_packet(offload, &mut packet.to_vec(), &mut one.transmit_batch);
    }
    for (segment, gso_batch) in one.sealed() {
        let mut forged = gso_batch.clone();
        let last = forged.len() - 1;
        forged[last] ^= 1;
        let honest = two.open(segment, &forged).len();
        assert!(honest < gso_batch.chunks(segment.max(1)).count(), "a changed datagram opened");
        two.open(segment, &gso_batch);
        assert!(two.open(segment, &gso_batch).is_empty(), "a replayed datagram opened");
    }
});
