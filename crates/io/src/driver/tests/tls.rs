//! A remote whose connection is within TLS.

use adit_core::{Preamble, PreambleVerdict};
use rustls::{ServerConnection, StreamOwned};

use super::*;
use crate::tls::testing::Authority;

const VALID: (i32, i32) = (2020, 2100);

/// The client says a word, and waits for another.
#[derive(Debug)]
struct Greeting;

impl Preamble for Greeting {
    fn opening(&self) -> Vec<u8> {
        b"hello\n".to_vec()
    }

    fn judge(&self, received: &[u8], _: &mut Vec<u8>) -> PreambleVerdict {
        match received.starts_with(b"welcome\n") {
            true => PreambleVerdict::Complete { taken: 8 },
            false => PreambleVerdict::Incomplete,
        }
    }
}

/// A driver that connects with TLS, and the server's end of its connection.
fn start_client(authority: &Authority, connection: ServerConnection) -> (Running, Secured) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = client_config(Transport::Tcp, listener.local_addr().unwrap());
    config.streams.remotes.insert(0, Arc::new(Greeting));
    config.streams.tls.insert(0, authority.client("127.0.0.1"));
    let running = start(config, "10.9.0.1/24");
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    (running, StreamOwned::new(connection, stream))
}

type Secured = StreamOwned<ServerConnection, TcpStream>;

#[test]
fn records_pass_within_tls_behind_the_preamble() {
    in_fresh_network(|| {
        let authority = Authority::new();
        let (running, mut server) = start_client(&authority, authority.server("127.0.0.1", VALID));
        let mut opening = [0; 6];
        server.read_exact(&mut opening).unwrap();
        assert_eq!(&opening, b"hello\n");
        server.write_all(b"welcome\n\0\x02").unwrap();
        running.wait_for(|heard| matches!(heard, Heard::Prepared(_, Some(0))));
        server.write_all(&[CONTROL, 9]).unwrap();
        running.wait_for(|heard| matches!(heard, Heard::Datagram(_, bytes) if *bytes == [CONTROL, 9]));
        running.stop();
        // The bytes that were written last arrive, and then the end of the stream.
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).unwrap();
    });
}

#[test]
fn a_server_without_a_right_certificate_cannot_be_opened() {
    in_fresh_network(|| {
        let authority = Authority::new();
        let (running, mut server) = start_client(&authority, authority.server("127.0.0.2", VALID));
        assert!(server.read_exact(&mut [0]).is_err(), "nothing is said to it");
        running.wait_for(|heard| {
            matches!(heard, Heard::Closed(text)
                if text.contains("Unreachable") && text.contains("its certificate is not for that name"))
        });
        running.stop();
    });
}
