//! Ends that speak [`super::format`].

use crate::testing::batches::Keys;
use adit_core::{Cipher, DataEvent, Path, PeerId, ReplayWindow, SessionId};

use super::format::{self, Header, named, session_id};
pub(crate) use crate::testing::world::{End, inner, tcp, udp};

impl End {
    /// An end with one peer.
    pub(crate) fn client() -> Self {
        End::new(format::client(), false)
    }

    /// An end with many peers.
    pub(crate) fn server(client_to_client: bool) -> Self {
        End::new(format::server(), client_to_client)
    }

    /// Installs and activates. Seals with key `seal`, opens with key `open`.
    pub(crate) fn install(
        &mut self,
        peer: PeerId,
        session: SessionId,
        header: Header,
        cipher: Cipher,
        keys: Keys,
    ) {
        let codec = format::session(header, cipher, keys, ReplayWindow::default());
        self.install_codec(peer, session, codec);
        self.apply(DataEvent::Activate { peer, session });
    }
}

/// A client that reaches its server by `path`, and which names itself `n` there.
pub(crate) fn client(n: u8, path: Path, cipher: Cipher) -> End {
    let mut end = End::client();
    end.add_peer(PeerId::SERVER, path, &["0.0.0.0/0", "::/0"], None);
    end.install(
        PeerId::SERVER,
        session_id(PeerId::SERVER, 0),
        named(n.into(), 0),
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
    server.install(peer, session_id(peer, 0), named(n.into(), 0), cipher, Keys { seal: n | 0x80, open: n });
}

/// A server with clients 1 and 2, which come by `udp(1)` and `udp(2)`.
pub(crate) fn three(client_to_client: bool) -> (End, End, End) {
    let cipher = Cipher::Aes256Gcm;
    let mut server = End::server(client_to_client);
    admit(&mut server, 1, udp(1), cipher);
    admit(&mut server, 2, udp(2), cipher);
    (server, client(1, udp(9), cipher), client(2, udp(9), cipher))
}
