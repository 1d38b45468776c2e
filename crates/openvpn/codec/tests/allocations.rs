//! The packet path allocates nothing once its buffers have grown.

use std::net::SocketAddr;

use adit_core::{
    Cipher, DataEvent, Digest, Install, IpNet, Path, PeerConfig, PeerId, PeerOrder, ReplayWindow, Selector,
};
use adit_dataplane::aead::{Aead, AeadError, NONCE_LEN, Provider, TAG_LEN, aws_lc};
use adit_dataplane::{
    Config, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, Segmentation, TransmitBatch, split,
};
use adit_openvpn::codec::{
    Codec, Compression, DataFraming, DataHeader, DirectionKey, Framing, MacKey, Payloads, session_id,
};
use adit_openvpn_codec::{Client, Server, session_with};

fn path() -> Path {
    Path::Udp { socket: 0, remote: SocketAddr::from(([192, 0, 2, 1], 1194)) }
}

/// The kind of data channel.
type Form = fn(DataFraming) -> Framing;

/// AWS-LC, as if it gained from batches.
struct Batching(Box<dyn Aead>);

impl Aead for Batching {
    fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        in_out: &mut [u8],
    ) -> Result<[u8; TAG_LEN], AeadError> {
        self.0.seal(nonce, aad, in_out)
    }

    fn seal_from(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        plain: &[u8],
        sealed: &mut [u8],
        tag: &mut [u8; TAG_LEN],
    ) -> Result<(), AeadError> {
        self.0.seal_from(nonce, aad, plain, sealed, tag)
    }

    fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        tag: &[u8; TAG_LEN],
        in_out: &mut [u8],
    ) -> Result<(), AeadError> {
        self.0.open(nonce, aad, tag, in_out)
    }

    fn gains_from_batches(&self) -> bool {
        true
    }
}

fn batching(cipher: Cipher, key: &[u8]) -> Result<Box<dyn Aead>, AeadError> {
    Ok(Box::new(Batching(aws_lc(cipher, key)?)))
}

/// An end with one peer, which has the inner addresses 10.0.0.0/8. All keys are the same: each end opens the
/// packets that the other seals.
fn end(
    config: Config,
    cipher: Cipher,
    form: Form,
    provider: Provider,
    payloads: Payloads,
    selects: bool,
) -> (Egress, Ingress) {
    let (mut egress, mut ingress, _) = adit_dataplane::new(config);
    let (peer, session) = (PeerId::SERVER, session_id(PeerId::SERVER, 0));
    let mac = MacKey { digest: Digest::Sha256, key: vec![7; 32].into(), iv_key: [7; 16].into() };
    let key = DirectionKey { key: vec![7; 32].into(), implicit_iv: [7; 8], mac: Some(mac) };
    let header = DataHeader::V2 { peer_id: 0 };
    let framing = DataFraming { header, key_id: 0, compression: Compression::None };
    let codec = Codec {
        framing: form(framing),
        cipher,
        seal: key.clone(),
        open: key,
        replay_window: ReplayWindow::default(),
        payloads,
    };
    let events = [
        DataEvent::Peer(PeerOrder::Add(PeerConfig {
            peer,
            path: Some(path()),
            routes: vec!["10.0.0.0/8".parse().expect("a network")],
            selectors: Default::default(),
            max_mss: Some(1400),
            roams: true,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        })),
        DataEvent::Install(Box::new(Install::new(peer, session, codec))),
        DataEvent::Activate { peer, session },
    ];
    let mut out = TransmitBatch::new();
    for event in events {
        let (for_egress, for_ingress) = split(event, |install| {
            let codec = session_with(provider, &install.codec)?;
            Ok(if selects { codec.with_selectors(selectors()) } else { codec })
        });
        for_egress.into_iter().for_each(|event| egress.apply(event, &mut out));
        for_ingress.into_iter().for_each(|event| ingress.apply(event));
    }
    (egress, ingress)
}

/// Selectors of which the last matches.
fn selectors() -> [Selector; 2] {
    let network: IpNet = "10.0.0.0/8".parse().expect("a network");
    let all = Selector::between(network, network);
    [Selector { protocol: Some(17), ..all.clone() }, Selector { protocol: Some(6), ..all }]
}

/// A TCP super-packet of `payload` bytes. Its checksums are for the data plane to finish.
fn super_packet(payload: usize) -> (Offload, Vec<u8>) {
    let mut packet = vec![0; 40 + payload];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
    packet[6] = 0x40;
    packet[8] = 64;
    packet[9] = 6;
    packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
    packet[16..20].copy_from_slice(&[10, 0, 0, 2]);
    packet[32] = 5 << 4;
    packet[33] = 0x10;
    let offload = Offload {
        needs_checksum: true,
        segmentation: Segmentation::TcpV4,
        ecn: false,
        header_len: 40,
        segment_size: 1400,
        checksum_start: 20,
        checksum_offset: 16,
    };
    (offload, packet)
}

#[test]
fn sealing_and_opening_allocate_nothing() {
    let plain = Payloads::default();
    sealing_and_opening(Cipher::Aes256Gcm, Framing::Data, aws_lc, plain, 1);
    sealing_and_opening(Cipher::Aes256Gcm, Framing::Epoch, aws_lc, plain, 1);
    sealing_and_opening(Cipher::Aes256Cbc, Framing::Data, aws_lc, plain, 1);
    sealing_and_opening(Cipher::ChaCha20Poly1305, Framing::Data, batching, plain, 1);
    // In two parts each; packets that were put together are not merged.
    let in_parts = Payloads { fragment: Some(800), ..plain };
    sealing_and_opening(Cipher::Aes256Gcm, Framing::Data, aws_lc, in_parts, 40);
}

/// A super-packet of 40 packets is sealed, and comes out as so many writes for the device, also of a session with selectors.
fn sealing_and_opening(cipher: Cipher, form: Form, provider: Provider, payloads: Payloads, writes: usize) {
    for selects in [false, true] {
        let (egress, _) = end(Config::new(Client), cipher, form, provider, payloads, selects);
        let (_, ingress) = end(Config::new(Server), cipher, form, provider, payloads, selects);
        pass_rounds(egress, ingress, cipher, writes);
    }
}

fn pass_rounds(mut egress: Egress, mut ingress: Ingress, cipher: Cipher, writes: usize) {
    let (mut transmit_batch, mut receive_batch) =
        (TransmitBatch::new(), ReceiveBatch::new(MergePolicy::TcpAndUdp));
    let (offload, original) = super_packet(1400 * 40);
    let mut packet = original.clone();
    let mut buffer = vec![0; 65_536];
    let (mut written, mut pieces) = (0, 0);
    let mut round = || {
        packet.copy_from_slice(&original);
        egress.seal_packet(offload, &mut packet, &mut transmit_batch);
        for gso_batch in transmit_batch.iter() {
            let bytes = &mut buffer[..gso_batch.bytes.len()];
            bytes.copy_from_slice(gso_batch.bytes);
            ingress.open_datagrams(path(), bytes, gso_batch.segment, &mut receive_batch);
            written += receive_batch.packets().count();
            pieces += receive_batch.packets().flat_map(|packet| packet.pieces()).count();
            receive_batch.notices().clear();
            receive_batch.clear();
        }
        transmit_batch.clear();
        drop(egress.take_notices());
    };
    // The first round grows the buffers.
    round();
    let counted = allocation_counter::measure(|| (0..10).for_each(|_| round()));
    assert_eq!(counted.count_total, 0, "{cipher}: {counted:?}");
    assert_eq!((written, pieces), (11 * writes, 11 * 40), "{cipher}");
    let counted = allocation_counter::measure(|| drop(vec![0u8; 100]));
    assert_eq!(counted.count_total, 1, "the counter counts");
}
