//! A codec and a demultiplexer of one's own: nothing in the data plane knows them. Their counters have 64 bits, of
//! which the lowest 32 are on the wire.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use adit_core::{Cipher, DataEvent, Install, Path, PeerConfig, PeerId, PeerOrder, ReplayWindow, SessionId};
use adit_dataplane::aead::{Aead, NONCE_LEN, TAG_LEN, aws_lc};
use adit_dataplane::codec::{
    Class, CountingSealer, Decode, Demultiplexer, Encode, Layout, Plain, SessionCodec, UsageLimits, Window,
    WindowedOpener,
};
use adit_dataplane::{
    Config, DropReason, Egress, Ingress, MergePolicy, Offload, ReceiveBatch, TransmitBatch, install, split,
};

const CIPHER: Cipher = Cipher::ChaCha20Poly1305;
/// Session (4), counter (4), ciphertext, tag (16).
const HEADER: usize = 8;
const PEER: PeerId = PeerId(3);
const SESSION: SessionId = SessionId(0xfeed_0001);

fn nonce(counter: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    nonce
}

struct Sealer(Box<dyn Aead>);

impl Encode for Sealer {
    fn layout(&self, _first: Option<u8>, payload_len: usize) -> Layout {
        Layout { payload: HEADER, datagram: HEADER + payload_len + TAG_LEN }
    }

    fn encode(&self, counter: u64, payload: &[u8], datagram: &mut [u8], _layout: Layout) -> Option<()> {
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>()?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>()?;
        header[..4].copy_from_slice(&(SESSION.0 as u32).to_be_bytes());
        header[4..].copy_from_slice(&(counter as u32).to_be_bytes());
        self.0.seal_from(nonce(counter), header, payload, body, tag).ok()
    }
}

struct Opener(Box<dyn Aead>);

impl Decode for Opener {
    fn decode(&self, datagram: &mut [u8], seen: &Window) -> Result<Plain, DropReason> {
        let payload = HEADER..datagram.len().saturating_sub(TAG_LEN);
        let (header, rest) = datagram.split_first_chunk_mut::<HEADER>().ok_or(DropReason::Malformed)?;
        let (body, tag) = rest.split_last_chunk_mut::<TAG_LEN>().ok_or(DropReason::Malformed)?;
        let counter = seen.infer(u32::from_be_bytes([header[4], header[5], header[6], header[7]]));
        self.0.open(nonce(counter), header, tag, body).map_err(|_| DropReason::BadTag)?;
        Ok(Plain { counter, payload })
    }
}

/// The demultiplexer of datagrams that are control if they begin with zero.
#[derive(Debug)]
struct Sockets;

impl Demultiplexer for Sockets {
    fn classify(&self, datagram: &[u8]) -> Class {
        match datagram {
            [0, ..] => Class::Control,
            [a, b, c, d, ..] => Class::Session(SessionId(u32::from_be_bytes([*a, *b, *c, *d]).into())),
            _ => Class::Malformed,
        }
    }
}

/// Another socket's: all is control.
#[derive(Debug)]
struct ControlOnly;

impl Demultiplexer for ControlOnly {
    fn classify(&self, _datagram: &[u8]) -> Class {
        Class::Control
    }
}

fn path(socket: u32) -> Path {
    Path::Udp { socket, remote: SocketAddr::from(([192, 0, 2, 1], 5000)) }
}

/// A session whose first counter is `first`.
fn codec(first: u64) -> SessionCodec {
    let key = || aws_lc(CIPHER, &[7; 32]).expect("the key fits");
    let limits = UsageLimits::of(CIPHER, first, u64::MAX, u64::MAX);
    let sealer = CountingSealer::new(Sealer(key()), limits);
    let opener = WindowedOpener::new(Opener(key()), ReplayWindow::default());
    SessionCodec::new(Box::new(sealer), Box::new(opener))
}

struct End {
    egress: Egress,
    ingress: Ingress,
    transmit_batch: TransmitBatch,
    receive_batch: ReceiveBatch,
}

impl End {
    fn new(first: u64) -> Self {
        let (egress, ingress, _) = adit_dataplane::new(Config::new(Sockets));
        let receive_batch = ReceiveBatch::new(MergePolicy::Off);
        let mut end = End { egress, ingress, transmit_batch: TransmitBatch::new(), receive_batch };
        let routes = vec!["0.0.0.0/0".parse().expect("a network")];
        let config = PeerConfig {
            peer: PEER,
            path: Some(path(0)),
            routes,
            selectors: Default::default(),
            max_mss: None,
            roams: true,
            staging: true,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        };
        end.apply(DataEvent::Peer(PeerOrder::Add(config)));
        let (egress, ingress) = install(Install::new(PEER, SESSION, codec(first)));
        end.egress.apply(egress, &mut end.transmit_batch);
        end.ingress.apply(ingress);
        end.apply(DataEvent::Activate { peer: PEER, session: SESSION });
        end
    }

    fn apply(&mut self, event: DataEvent<Infallible>) {
        let (egress, ingress) = split(event, |install| match install.codec {});
        egress.into_iter().for_each(|event| self.egress.apply(event, &mut self.transmit_batch));
        ingress.into_iter().for_each(|event| self.ingress.apply(event));
    }

    fn seal(&mut self, packet: &[u8]) -> Vec<u8> {
        self.egress.seal_packet(Offload::NONE, &mut packet.to_vec(), &mut self.transmit_batch);
        let sealed = self.transmit_batch.iter().next().expect("one").bytes.to_vec();
        self.transmit_batch.clear();
        sealed
    }

    /// How many packets and how many control datagrams came out.
    fn open(&mut self, socket: u32, datagram: &[u8]) -> (usize, usize) {
        let mut bytes = datagram.to_vec();
        self.ingress.open_datagrams(path(socket), &mut bytes, 0, &mut self.receive_batch);
        let packets: Vec<Range<usize>> =
            self.receive_batch.packets().flat_map(|packet| packet.pieces()).collect();
        let counted = (packets.len(), self.receive_batch.control().len());
        self.receive_batch.clear();
        counted
    }
}

/// An IPv4 header that names 20 bytes.
fn packet() -> Vec<u8> {
    let mut packet = vec![0; 20];
    (packet[0], packet[3], packet[9]) = (0x45, 20, 17);
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    packet
}

#[test]
fn what_is_sealed_is_opened_once() {
    let (mut one, mut two) = (End::new(1), End::new(1));
    let sealed = one.seal(&packet());
    assert_eq!(sealed[..8], [0xfe, 0xed, 0, 1, 0, 0, 0, 1]);
    assert_eq!(two.open(0, &sealed), (1, 0));
    assert_eq!(two.open(0, &sealed), (0, 0), "replayed");
    assert_eq!(two.open(0, &[0, 1, 2]), (0, 1));
}

#[test]
fn counters_go_on_beyond_what_the_wire_has() {
    let start = 0xffff_fffe;
    let (mut one, mut two) = (End::new(start), End::new(1));
    let sealed: Vec<Vec<u8>> = (0..6).map(|_| one.seal(&packet())).collect();
    let low: Vec<u8> = sealed.iter().map(|datagram| datagram[7]).collect();
    assert_eq!(low, [0xfe, 0xff, 0, 1, 2, 3]);
    for index in [0, 2, 1, 5, 3, 4] {
        assert_eq!(two.open(0, &sealed[index]), (1, 0), "number {index}");
    }
    for datagram in &sealed {
        assert_eq!(two.open(0, datagram), (0, 0), "replayed");
    }
}

#[test]
fn each_socket_has_its_demultiplexer() {
    let (mut one, mut two) = (End::new(1), End::new(1));
    two.ingress.set_demultiplexer(&path(5), Arc::new(ControlOnly));
    let sealed = one.seal(&packet());
    assert_eq!((two.open(5, &sealed), two.open(0, &sealed)), ((0, 1), (1, 0)));
    two.ingress.forget_demultiplexer(&path(5));
    assert_eq!(two.open(5, &one.seal(&packet())), (1, 0));
}
