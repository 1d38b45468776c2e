//! Ends of tunnels that speak OpenVPN's data channel, for the tests.

use adit_dataplane::testing::batches::Keys;
use std::sync::Arc;

use adit_core::{Cipher, DataEvent, Digest, Path, PeerId, ReplayWindow, SessionId};
use adit_dataplane::aead::{AeadError, aws_lc};
use adit_dataplane::codec::{
    CountingSealer, Demultiplexer, Opener, Sealer, SessionCodec, UsageLimits, WindowedOpener,
};
use adit_dataplane::testing::world::{End, inner, udp};
use adit_openvpn::codec::{
    Codec, Compression, DataFraming, DataHeader, DirectionKey, Framing, MacKey, Payloads, StaticFraming,
    session_id,
};

use crate::{Client, Server, StaticKey, aead, epoch, is_keepalive, session_with};

const CIPHER: Cipher = Cipher::Aes256Gcm;

/// Ends of OpenVPN's formats.
pub(crate) trait OpenVpnEnd: Sized {
    /// An end with one peer.
    fn client() -> Self;

    /// An end with many peers.
    fn server(client_to_client: bool) -> Self;

    /// Installs and activates. Seals with key `seal`, opens with key `open`.
    fn install(&mut self, peer: PeerId, session: SessionId, framing: Framing, cipher: Cipher, seeds: Keys);
}

impl OpenVpnEnd for End {
    fn client() -> Self {
        End::new(Arc::new(Client), false)
    }

    fn server(client_to_client: bool) -> Self {
        End::new(Arc::new(Server), client_to_client)
    }

    fn install(&mut self, peer: PeerId, session: SessionId, framing: Framing, cipher: Cipher, seeds: Keys) {
        if let Ok(codec) = made(framing, cipher, seeds) {
            self.install_codec(peer, session, codec);
        }
        self.apply(DataEvent::Activate { peer, session });
    }
}

/// A demultiplexer for which all is data of one session.
pub(crate) fn all_data() -> Arc<dyn Demultiplexer> {
    Arc::new(StaticKey)
}

/// A client that reaches its server by `path`, and which names itself `n` there.
pub(crate) fn client(n: u8, path: Path, cipher: Cipher) -> End {
    let mut end = End::client();
    end.add_peer(PeerId::SERVER, path, &["0.0.0.0/0", "::/0"], None);
    end.install(
        PeerId::SERVER,
        session_id(PeerId::SERVER, 0),
        v2(n.into(), 0),
        cipher,
        Keys { seal: n, open: n | 0x80 },
    );
    end
}

/// Adds that client to a server. Its inner address is 10.0.0.n.
pub(crate) fn admit(server: &mut End, n: u8, path: Path, cipher: Cipher) {
    let routes = inner(n);
    let peer = PeerId(n.into());
    server.add_peer(peer, path, &[&routes[0], &routes[1]], None);
    server.install(peer, session_id(peer, 0), v2(n.into(), 0), cipher, Keys { seal: n | 0x80, open: n });
}

/// A server with clients 1 and 2, which come by `udp(1)` and `udp(2)`.
pub(crate) fn three(client_to_client: bool) -> (End, End, End) {
    let mut server = End::server(client_to_client);
    admit(&mut server, 1, udp(1), CIPHER);
    admit(&mut server, 2, udp(2), CIPHER);
    (server, client(1, udp(9), CIPHER), client(2, udp(9), CIPHER))
}

/// A direction's key made of one byte. A cipher that is no AEAD gets HMAC-SHA256.
pub(crate) fn key(cipher: Cipher, seed: u8) -> DirectionKey {
    let digest = Digest::Sha256;
    let mac = MacKey { digest, key: vec![!seed; digest.output_len()].into(), iv_key: [seed; 16].into() };
    DirectionKey {
        mac: (!cipher.is_aead()).then_some(mac),
        ..DirectionKey::aead(vec![seed; cipher.key_len()].into(), [seed ^ 0x5a; 8])
    }
}

/// The header that names the peer.
pub(crate) fn v2(peer_id: u32, key_id: u8) -> Framing {
    framing(DataHeader::V2 { peer_id }, key_id, Compression::None)
}

pub(crate) fn framing(header: DataHeader, key_id: u8, compression: Compression) -> Framing {
    Framing::Data(DataFraming { header, key_id, compression })
}

/// The framing, with epochs.
pub(crate) fn with_epochs(framing: Framing) -> Framing {
    match framing {
        Framing::Data(framing) => Framing::Epoch(framing),
        other => other,
    }
}

pub(crate) fn static_key(began: u32) -> Framing {
    Framing::StaticKey(StaticFraming { began, compression: Compression::None })
}

/// The parameters of a session with these keys, without payloads of old peers.
pub(crate) fn codec(framing: Framing, cipher: Cipher, seal: DirectionKey, open: DirectionKey) -> Codec {
    let replay_window = ReplayWindow::default();
    Codec { framing, cipher, seal, open, replay_window, payloads: Payloads::default() }
}

/// The parameters of a session with keys made of one byte each.
pub(crate) fn parameters(framing: Framing, cipher: Cipher, seeds: Keys) -> Codec {
    let key = |seed| match framing {
        // A secret, of which the keys are made.
        Framing::Epoch(_) => DirectionKey::aead(vec![seed; 32].into(), [0; 8]),
        _ => key(cipher, seed),
    };
    codec(framing, cipher, key(seeds.seal), key(seeds.open))
}

fn made(framing: Framing, cipher: Cipher, seeds: Keys) -> Result<SessionCodec, AeadError> {
    session_with(aws_lc, &parameters(framing, cipher, seeds))
}

/// Seals [`v2`]`(1, 0)` with key 1, as if as many packets and blocks had been sealed. Opens with a fresh key 0x81.
pub(crate) fn worn(counter: u64, used: u64) -> SessionCodec {
    SessionCodec { is_keepalive, ..SessionCodec::new(worn_sealer(counter, used), opener(0x81)) }
}

/// The sealing half of [`worn`].
pub(crate) fn worn_sealer(counter: u64, used: u64) -> Box<dyn Sealer> {
    let key = key(CIPHER, 1);
    let cipher = aws_lc(CIPHER, &key.key).expect("the key fits");
    let limits = UsageLimits::of(CIPHER, 1, aead::COUNTER_WARN, aead::COUNTER_MAX);
    let mut sealer = CountingSealer::new(aead::Sealer::new(plain(), cipher, key.implicit_iv), limits);
    sealer.wear(counter, used);
    Box::new(sealer)
}

/// Seals in that epoch, with a secret of ones. Opens with a fresh key 0x81.
pub(crate) fn sealer_in_epoch(framing: Framing, epoch: u16) -> SessionCodec {
    let Framing::Epoch(data) = framing else { panic!("no epochs") };
    let secret = DirectionKey::aead(vec![1; 32].into(), [0; 8]);
    let mut sealer = epoch::Sealer::new(data, CIPHER, &secret).expect("the key fits");
    sealer.wear(epoch, 1, 0);
    SessionCodec { is_keepalive, ..SessionCodec::new(Box::new(sealer), opener(0x81)) }
}

fn plain() -> DataFraming {
    DataFraming { header: DataHeader::V2 { peer_id: 1 }, key_id: 0, compression: Compression::None }
}

fn opener(seed: u8) -> Box<dyn Opener> {
    let key = key(CIPHER, seed);
    let cipher = aws_lc(CIPHER, &key.key).expect("the key fits");
    Box::new(WindowedOpener::new(
        aead::Opener::new(plain(), cipher, key.implicit_iv),
        ReplayWindow::default(),
    ))
}
