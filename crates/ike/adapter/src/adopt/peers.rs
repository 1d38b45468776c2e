//! The peers that are connected to a daemon, by VICI (`list-sas`).

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use adit_ike_vici::{Message, Packet, Reader, Value};

/// The event with an IKE SA.
const EVENT: &str = "list-sa";
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How much is read at once.
const BUFFER: usize = 16 << 10;

/// The peers of a connection that are known by an identity.
type Peer = (String, String);

/// The number of peers that are connected to the daemon with that socket. Several IKE SAs of one connection with one identity are one
/// peer.
///
/// # Errors
/// The daemon does not answer.
pub(super) fn count(socket: &Path) -> Result<usize, String> {
    let failed = |error: io::Error| {
        let socket = socket.display();
        format!(
            "the peers that are connected cannot be counted: {socket}: {error}; with `--within 0` none is waited for"
        )
    };
    let stream = UnixStream::connect(socket).map_err(failed)?;
    list(&stream).map(|peers| peers.len()).map_err(failed)
}

fn list(mut stream: &UnixStream) -> io::Result<BTreeSet<Peer>> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    for packet in [
        Packet::Register(EVENT.to_owned()),
        Packet::Request { name: "list-sas".to_owned(), message: Message::new() },
    ] {
        stream.write_all(&packet.encode().map_err(io::Error::other)?)?;
    }
    let (mut reader, mut buffer, mut peers) = (Reader::default(), [0; BUFFER], BTreeSet::new());
    loop {
        match reader.next_packet().map_err(io::Error::other)? {
            Some(Packet::Event { name, message }) if name == EVENT => peers.extend(established(&message)),
            Some(Packet::Confirm | Packet::Event { .. }) => {}
            Some(Packet::Response(_)) => return Ok(peers),
            Some(_) => return Err(io::Error::other("it does not know the command list-sas")),
            None => {
                let len = stream.read(&mut buffer)?;
                if len == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                reader.push(buffer.get(..len).unwrap_or_default());
            }
        }
    }
}

/// The peers of the IKE SAs in a message that are established.
fn established(message: &Message) -> Vec<Peer> {
    let peer = |(connection, value): (&str, &Value)| {
        let Value::Section(sa) = value else { return None };
        let identity =
            ["remote-eap-id", "remote-xauth-id", "remote-id"].iter().find_map(|name| sa.text(name));
        (sa.text("state") == Some("ESTABLISHED"))
            .then(|| (connection.to_owned(), identity.unwrap_or_default().to_owned()))
    };
    message.elements().filter_map(peer).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use adit_testbed::Scratch;

    use super::*;

    fn sa(connection: &str, state: &str, identity: [&str; 2]) -> Packet {
        let section = Message::new().with("state", state).with(identity[0], identity[1]);
        Packet::Event { name: EVENT.to_owned(), message: Message::new().with_section(connection, section) }
    }

    /// A daemon that answers each conversation with these packets.
    fn answers(packets: &[Packet]) -> Result<usize, String> {
        let scratch = Scratch::create("adopt-peers").expect("a directory");
        let path = scratch.path().join("vici");
        let listener = UnixListener::bind(&path).expect("a socket");
        let bytes: Vec<u8> = packets.iter().flat_map(|it| it.encode().expect("short").to_vec()).collect();
        thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().expect("a connection");
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(&bytes);
            });
            count(&path)
        })
    }

    #[test]
    fn established_peers_are_counted_once_each() {
        let all = [
            Packet::Confirm,
            sa("site", "ESTABLISHED", ["remote-id", "b.example"]),
            sa("site", "ESTABLISHED", ["remote-id", "b.example"]),
            sa("site", "CONNECTING", ["remote-id", "c.example"]),
            sa("staff", "ESTABLISHED", ["remote-eap-id", "carol"]),
            sa("staff", "ESTABLISHED", ["remote-eap-id", "dave"]),
            Packet::Response(Message::new()),
        ];
        assert_eq!(answers(&all), Ok(3));
        assert_eq!(answers(&[Packet::Confirm, Packet::Response(Message::new())]), Ok(0));
        for wrong in
            [&[Packet::Confirm][..], &[Packet::UnknownEvent], &[Packet::Confirm, Packet::UnknownCommand]]
        {
            assert!(answers(wrong).is_err_and(|why| why.contains("--within 0")));
        }
        assert!(count(Path::new("/nonexistent")).is_err());
    }
}
