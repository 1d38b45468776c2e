//! The client's end with a server of rustls, in memory.

use std::fs;

use adit_system::testing::Scratch;
use rustls::ServerConnection;

use super::testing::Authority;
use super::*;

const NAME: &str = "vpn.example";
const VALID: (i32, i32) = (2020, 2100);

/// A socket that has no more than these bytes now.
struct Socket<'a>(&'a [u8]);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { self.0.read(buffer) }
    }
}

struct Ends {
    client: TlsStream,
    server: ServerConnection,
    at_client: Vec<u8>,
    at_server: Vec<u8>,
    /// The server's error after an alert of the client.
    refusal: Option<rustls::Error>,
}

impl Ends {
    fn new(client: &TlsClient, mut server: ServerConnection) -> Self {
        server.set_buffer_limit(None);
        let client = client.begin().unwrap();
        Ends { client, server, at_client: Vec::new(), at_server: Vec::new(), refusal: None }
    }

    /// Both names and times are good.
    fn good() -> Self {
        let authority = Authority::new();
        Ends::new(&authority.client(NAME), authority.server(NAME, VALID))
    }

    /// Carries all that there is, in pieces of that size, until both ends wait. An error is the client's.
    fn exchange(&mut self, piece: usize) -> io::Result<()> {
        loop {
            let sealed = self.client.take_sealed().unwrap();
            sealed.chunks(piece).for_each(|bytes| self.pass_to_server(bytes));
            let answer = self.answer();
            for bytes in answer.chunks(piece) {
                self.pass_to_client(&mut Socket(bytes))?;
            }
            if sealed.is_empty() && answer.is_empty() {
                return Ok(());
            }
        }
    }

    fn pass_to_server(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            self.server.read_tls(&mut bytes).unwrap();
            if let Err(error) = self.server.process_new_packets() {
                self.refusal = Some(error);
                return;
            }
            // It ends with "nothing yet", and keeps the bytes that came before.
            let _ = self.server.reader().read_to_end(&mut self.at_server);
        }
    }

    fn answer(&mut self) -> Vec<u8> {
        let mut answer = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut answer).unwrap();
        }
        answer
    }

    fn pass_to_client(&mut self, socket: &mut Socket<'_>) -> io::Result<()> {
        let mut room = vec![0; 2 * MOST_OF_A_READ];
        while !socket.0.is_empty() {
            match self.client.read(socket, &mut room) {
                Ok(count) => self.at_client.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The client's error in a handshake that fails; the server receives the alert.
    fn failure(&mut self) -> String {
        let error = self.exchange(usize::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let alert = self.client.take_sealed().unwrap();
        self.pass_to_server(&alert);
        assert!(matches!(self.refusal, Some(rustls::Error::AlertReceived(_))), "{:?}", self.refusal);
        error.to_string()
    }
}

#[test]
fn data_of_odd_sizes_passes_both_ways() {
    let mut ends = Ends::good();
    // It waits for the handshake.
    ends.client.seal(b"first").unwrap();
    ends.exchange(usize::MAX).unwrap();
    assert_eq!(ends.at_server, b"first");
    assert_eq!(ends.server.server_name(), Some(NAME));
    assert_eq!(ends.server.alpn_protocol(), Some(ALPN));
    for (size, piece) in [(1, 1), (16_383, 7), (16_384, 1400), (16_385, 4097), (100_000, usize::MAX)] {
        let bytes: Vec<u8> = (0..size).map(|number: usize| number.to_le_bytes()[0]).collect();
        (ends.at_client, ends.at_server) = (Vec::new(), Vec::new());
        ends.client.seal(&bytes).unwrap();
        ends.server.writer().write_all(&bytes).unwrap();
        ends.exchange(piece).unwrap();
        assert!(ends.at_client == bytes && ends.at_server == bytes, "{size} in pieces of {piece}");
    }
}

#[test]
fn a_handshake_in_single_bytes_is_one() {
    let mut ends = Ends::good();
    ends.client.seal(b"hello").unwrap();
    ends.exchange(1).unwrap();
    assert_eq!(ends.at_server, b"hello");
}

#[test]
fn a_server_may_be_known_by_its_address() {
    for address in ["192.0.2.1", "2001:db8::1"] {
        let authority = Authority::new();
        let mut ends = Ends::new(&authority.client(address), authority.server(address, VALID));
        ends.client.seal(b"hello").unwrap();
        ends.exchange(usize::MAX).unwrap();
        assert_eq!(ends.at_server, b"hello");
        assert_eq!(ends.server.server_name(), None, "addresses are not sent (RFC 6066 §3)");
    }
}

#[test]
fn a_certificate_of_another_name_is_refused() {
    let authority = Authority::new();
    let mut ends = Ends::new(&authority.client(NAME), authority.server("other.example", VALID));
    ends.client.seal(b"secret").unwrap();
    assert_eq!(ends.failure(), "TLS with `vpn.example`: its certificate is not for that name");
    assert_eq!(ends.at_server, b"");
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let (ours, other) = (Authority::new(), Authority::new());
    let mut ends = Ends::new(&ours.client(NAME), other.server(NAME, VALID));
    let file = ours.file();
    let expected =
        format!("TLS with `vpn.example`: its certificate is of no authority in {}", file.display());
    assert_eq!(ends.failure(), expected);
}

#[test]
fn a_certificate_outside_its_time_is_refused() {
    let authority = Authority::new();
    for (years, expected) in [((2020, 2021), "has expired"), ((2098, 2100), "is not valid yet")] {
        let failure = Ends::new(&authority.client(NAME), authority.server(NAME, years)).failure();
        assert!(failure.starts_with("TLS with `vpn.example`: its certificate "), "{failure}");
        assert!(failure.contains(expected), "{failure}");
    }
}

#[test]
fn an_end_that_is_said_differs_from_one_that_is_not() {
    let mut room = vec![0; MOST_OF_A_READ];
    let mut said = Ends::good();
    said.exchange(usize::MAX).unwrap();
    said.server.writer().write_all(b"last").unwrap();
    said.server.send_close_notify();
    let bytes = said.answer();
    let mut socket = Socket(&bytes);
    assert_eq!(said.client.read(&mut socket, &mut room).unwrap(), 4);
    assert_eq!(said.client.read(&mut socket, &mut room).unwrap(), 0);

    let mut cut = Ends::good();
    cut.exchange(usize::MAX).unwrap();
    cut.server.writer().write_all(b"last").unwrap();
    let bytes = cut.answer();
    // A slice without bytes is a socket whose other end has closed.
    let mut socket = &bytes[..];
    assert_eq!(cut.client.read(&mut socket, &mut room).unwrap(), 4);
    let error = cut.client.read(&mut socket, &mut room).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(error.to_string(), "TLS with `vpn.example`: the connection ended without close_notify");

    let mut early = Ends::good();
    let error = early.client.read(&mut io::empty(), &mut room).unwrap_err();
    assert!(error.to_string().contains("ended during the handshake without close_notify"), "{error}");
}

#[test]
fn the_server_hears_that_we_close() {
    let mut ends = Ends::good();
    ends.exchange(usize::MAX).unwrap();
    ends.client.close();
    ends.exchange(usize::MAX).unwrap();
    let state = ends.server.process_new_packets().unwrap();
    assert!(state.peer_has_closed());
}

#[test]
fn what_is_no_tls_is_told() {
    let mut ends = Ends::good();
    let mut socket = Socket(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    let error = ends.pass_to_client(&mut socket).unwrap_err().to_string();
    assert!(error.starts_with("TLS with `vpn.example`: it does not answer as TLS "), "{error}");
}

#[test]
fn names_and_files_that_cannot_be_used_are_told() {
    let authority = Authority::new();
    let failure = |host, file: &Path| TlsClient::new(host, Some(file)).unwrap_err();
    assert!(failure("a b", &authority.file()).starts_with("`a b` is neither an address nor a name"));
    let scratch = Scratch::new("tls-files");
    let missing = scratch.path().join("missing");
    assert!(failure(NAME, &missing).starts_with(&format!("{}: ", missing.display())));
    let empty = scratch.path().join("empty");
    fs::write(&empty, "no certificate\n").unwrap();
    let expected = format!("{}: there is no certificate of an authority in it", empty.display());
    assert_eq!(failure(NAME, &empty), expected);
}
