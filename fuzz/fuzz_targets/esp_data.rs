//! ESP: forged datagrams yield nothing, what is sealed opens once and unchanged, and any plaintext of a peer that has the keys,
//! whatever its trailer, is delivered, is a dummy packet, or is dropped.
#![no_main]

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use adit_core::{Cipher, DataEvent, Digest, Install, Path, PeerConfig, PeerId, PeerOrder, SessionId};
use adit_dataplane::aead::aws_lc;
use adit_dataplane::{Config, Egress, Ingress, MergePolicy, ReceiveBatch, TransmitBatch, install, split};
use adit_ike::crypto::DirectionKeys;
use adit_ike::machine::Codec;
use adit_ike_codec::{NatTraversalSocket, session_with};
use libfuzzer_sys::fuzz_target;

const PEER: PeerId = PeerId(1);
const SPI: u32 = 0xc0de_0001;
const KEY: u8 = 1;
const SALT: [u8; 4] = [9; 4];

struct End {
    egress: Egress,
    ingress: Ingress,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
}

fn path() -> Path {
    Path::Udp { socket: 0, remote: SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 4500)) }
}

/// The parameters of a child SA whose SPI and keys are the same in both directions.
fn parameters(choice: u8) -> Codec {
    let (cipher, integrity) = match choice & 3 {
        0 => (Cipher::Aes128Gcm, None),
        1 => (Cipher::ChaCha20Poly1305, None),
        2 => (Cipher::Aes128Cbc, Some(Digest::Sha256)),
        _ => (Cipher::Aes256Cbc, Some(Digest::Sha1)),
    };
    let keys = DirectionKeys {
        encryption: vec![KEY; cipher.key_len()].into(),
        salt: if cipher.is_aead() { SALT.to_vec().into() } else { Vec::new().into() },
        integrity: vec![KEY; integrity.map_or(0, Digest::output_len)].into(),
    };
    Codec {
        outbound_spi: SPI,
        cipher,
        integrity,
        has_extended_sequence_numbers: choice & 4 != 0,
        seal: keys.clone(),
        open: keys,
        selectors: Arc::new([]),
        is_encapsulated: true,
        limits: Default::default(),
        counters: Default::default(),
    }
}

impl End {
    fn new(codec: &Codec) -> Self {
        let (egress, ingress, _) = adit_dataplane::new(Config::new(NatTraversalSocket));
        let (transmit_batch, receive_batch) = (TransmitBatch::new(), ReceiveBatch::new(MergePolicy::Off));
        let mut end = End { egress, ingress, transmit_batch, receive_batch };
        let routes = ["0.0.0.0/0", "::/0"].iter().filter_map(|net| net.parse().ok()).collect();
        end.apply(DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer: PEER,
            path: Some(path()),
            routes,
            max_mss: None,
            roams: false,
            staging: false,
            device: Default::default(),
            by_path: false,
            identity: Default::default(),
            selectors: Default::default(),
        })));
        let session = SessionId(SPI.into());
        let codec = session_with(aws_lc, codec).expect("the keys fit");
        let (egress, ingress) = install(Install::new(PEER, session, codec));
        end.egress.apply(egress, &mut end.transmit_batch);
        end.ingress.apply(ingress);
        end.apply(DataEvent::Activate { peer: PEER, session });
        end
    }

    fn apply(&mut self, event: DataEvent<Infallible>) {
        let (egress, ingress) = split(event, |install| match install.codec {});
        egress.into_iter().for_each(|event| self.egress.apply(event, &mut self.transmit_batch));
        ingress.into_iter().for_each(|event| self.ingress.apply(event));
    }

    /// The packets that come out of a datagram.
    fn open(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut buffer = datagram.to_vec();
        self.ingress.open_datagrams(path(), &mut buffer, datagram.len(), &mut self.receive_batch);
        let packets = self.receive_batch.packets();
        let found = packets.map(|packet| packet.slices(&buffer).flatten().copied().collect()).collect();
        self.receive_batch.clear();
        found
    }
}

/// A datagram with that plaintext, sealed with AES-GCM under a sequence number of 32 bits.
fn authentic(plain: &[u8]) -> Vec<u8> {
    let header = [SPI.to_be_bytes(), 7u32.to_be_bytes()].concat();
    let nonce = [&SALT[..], &[0; 8]].concat().try_into().expect("12 bytes");
    let mut text = plain.to_vec();
    let aead = aws_lc(Cipher::Aes128Gcm, &[KEY; 16]).expect("the key fits");
    let tag = aead.seal(nonce, &header, &mut text).expect("it is short");
    [&header[..], &[0; 8], &text, &tag].concat()
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let codec = parameters(choice);
    let mut far = End::new(&codec);
    for bytes in [rest, &[&SPI.to_be_bytes()[..], rest].concat()] {
        assert!(far.open(bytes).is_empty(), "a packet that was never sealed");
    }

    let mut near = End::new(&codec);
    near.apply(DataEvent::Inject { peer: PEER, payload: rest.to_vec() });
    let sealed: Vec<Vec<u8>> = near.transmit_batch.iter().map(|batch| batch.bytes.to_vec()).collect();
    for datagram in sealed {
        let mut forged = datagram.clone();
        *forged.last_mut().expect("it is not empty") ^= 1;
        assert!(far.open(&forged).is_empty(), "a changed datagram opened");
        for packet in far.open(&datagram) {
            assert!(rest.starts_with(&packet), "what came out is not what went in");
        }
        assert!(far.open(&datagram).is_empty(), "replayed");
    }

    for packet in End::new(&parameters(0)).open(&authentic(rest)) {
        assert!(rest.starts_with(&packet));
    }
});
