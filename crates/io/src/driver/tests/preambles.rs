//! Streams that begin with words before their records.

use adit_core::{Preamble, PreambleVerdict};

use super::*;

/// One end says `hello` and a line end, the other answers with a number of its own.
#[derive(Debug)]
struct Words {
    opening: &'static [u8],
    expected: &'static [u8],
    answer: &'static [u8],
}

const CLIENT: Words = Words { opening: b"hello\n", expected: b"welcome\n", answer: b"" };
const SERVER: Words = Words { opening: b"", expected: b"hello\n", answer: b"welcome\n" };

impl Preamble for Words {
    fn opening(&self) -> Vec<u8> {
        self.opening.to_vec()
    }

    fn judge(&self, received: &[u8], answer: &mut Vec<u8>) -> PreambleVerdict {
        match received.strip_prefix(self.expected) {
            Some(_) => {
                answer.extend_from_slice(self.answer);
                PreambleVerdict::Complete { taken: self.expected.len() }
            }
            None if self.expected.starts_with(received) => PreambleVerdict::Incomplete,
            None => {
                answer.extend_from_slice(b"go away\n");
                PreambleVerdict::Refused("it does not greet".to_owned())
            }
        }
    }
}

fn start_server() -> Running {
    let mut config = server_config(Transport::Tcp, "127.0.0.1:0");
    config.streams.accepted = Some(Arc::new(SERVER));
    let running = start(config, "10.9.0.1/24");
    running.wait_until_up();
    running
}

fn connect(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.addresses[0]).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn start_client(server: &TcpListener) -> (Running, TcpStream) {
    let mut config = client_config(Transport::Tcp, server.local_addr().unwrap());
    config.streams.remotes.insert(0, Arc::new(CLIENT));
    let running = start(config, "10.9.0.1/24");
    let (stream, _) = server.accept().unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    (running, stream)
}

fn read(stream: &mut TcpStream, expected: &[u8]) {
    let mut answer = vec![0; expected.len()];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, expected);
}

#[test]
fn records_follow_the_preamble_in_any_pieces() {
    in_fresh_network(|| {
        let running = start_server();
        let all = [SERVER.expected, &[0, 2, CONTROL, 7]].concat();
        // Whole, and byte by byte.
        let mut whole = connect(&running);
        whole.write_all(&all).unwrap();
        let mut pieces = connect(&running);
        for byte in all {
            pieces.write_all(&[byte]).unwrap();
            thread::sleep(Duration::from_millis(2));
        }
        for mut stream in [whole, pieces] {
            running.wait_for(|heard| matches!(heard, Heard::Prepared(_, None)));
            running.wait_for(|heard| matches!(heard, Heard::Datagram(_, bytes) if *bytes == [CONTROL, 7]));
            read(&mut stream, b"welcome\n");
            read(&mut stream, &[0, 2, CONTROL, b'!']);
        }
        running.stop();
    });
}

#[test]
fn another_preamble_is_answered_and_the_connection_closed() {
    in_fresh_network(|| {
        let running = start_server();
        let mut stream = connect(&running);
        stream.write_all(b"GET").unwrap();
        running.wait_for(|heard| matches!(heard, Heard::Closed(why) if why == "it does not greet"));
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"go away\n");
        running.stop();
    });
}

#[test]
fn a_remote_is_there_when_its_preamble_is_complete() {
    in_fresh_network(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (running, mut stream) = start_client(&listener);
        read(&mut stream, CLIENT.opening);
        stream.write_all(b"welcome\n\0\x02").unwrap();
        running.wait_for(|heard| matches!(heard, Heard::Prepared(_, Some(0))));
        stream.write_all(&[CONTROL, 9]).unwrap();
        running.wait_for(|heard| matches!(heard, Heard::Datagram(_, bytes) if *bytes == [CONTROL, 9]));
        running.stop();
    });
}

#[test]
fn a_remote_that_answers_otherwise_or_ends_could_not_be_opened() {
    in_fresh_network(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for answer in [&b"what?"[..], b""] {
            let (running, mut stream) = start_client(&listener);
            read(&mut stream, CLIENT.opening);
            stream.write_all(answer).unwrap();
            drop(stream);
            let why = if answer.is_empty() { "closed the connection" } else { "it does not greet" };
            running.wait_for(|heard| matches!(heard, Heard::Closed(text) if text.contains("Unreachable") && text.contains(why)));
            running.stop();
        }
    });
}
