use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use adit_system::testing::Scratch;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A listener, and a way to it by a forwarder that keeps a journal there.
fn forwarder(journal: Option<&Path>) -> (TcpListener, Forwarder) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let share = PortShare { host: "127.0.0.1".to_owned(), port, journal: journal.map(Path::to_owned) };
    (listener, Forwarder::start(&share).unwrap())
}

/// Both ends of a connection.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    ours.set_read_timeout(Some(TIMEOUT)).unwrap();
    (ours, theirs)
}

/// Whether the other end closes it. One that stays open is not closed.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

fn wait(what: &str, done: impl Fn() -> bool) {
    let until = std::time::Instant::now() + TIMEOUT;
    while !done() {
        assert!(std::time::Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn entries(directory: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap_or_default())
    });
    entries.collect()
}

#[test]
fn what_one_end_sends_the_other_gets_and_each_may_end_first() {
    let scratch = Scratch::new("journal");
    let (listener, forwarder) = forwarder(Some(scratch.path()));
    let (mut client, theirs) = connection();
    let source = client.local_addr().unwrap();
    // It sends before the other server has accepted.
    client.write_all(b"question").unwrap();
    forwarder.take(theirs, source).unwrap();
    let (mut server, seen) = listener.accept().unwrap();
    server.set_read_timeout(Some(TIMEOUT)).unwrap();
    let expected = [(format!("[AF_INET]{seen}"), format!("[AF_INET]{source}"))];
    wait("its file", || entries(scratch.path()) == expected);
    let file = scratch.path().join(format!("[AF_INET]{seen}"));
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o137, 0, "others cannot read it");
    let mut found = [0; 8];
    server.read_exact(&mut found).unwrap();
    assert_eq!(&found, b"question");
    // More than all buffers hold, both ways at once, while the client's direction ends.
    let long: Vec<u8> = (0..3_000_000_u32).map(|number| (number / 5).to_le_bytes()[0]).collect();
    let expected = long.clone();
    let writer = thread::spawn(move || {
        server.write_all(&long).unwrap();
        let mut rest = Vec::new();
        server.read_to_end(&mut rest).unwrap();
        rest
    });
    client.write_all(b"and more").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer == expected, "{} of {}", answer.len(), expected.len());
    assert_eq!(writer.join().unwrap(), b"and more");
    wait("the journal's entry goes", || entries(scratch.path()).is_empty());
}

#[test]
fn a_connection_that_cannot_be_forwarded_is_closed() {
    let (listener, forwarder) = forwarder(None);
    drop(listener);
    let (mut client, theirs) = connection();
    forwarder.take(theirs, client.local_addr().unwrap()).unwrap();
    assert!(is_closed(&mut client));
    // And it goes on.
    let (mut client, theirs) = connection();
    forwarder.take(theirs, client.local_addr().unwrap()).unwrap();
    assert!(is_closed(&mut client));
}

#[test]
fn a_forwarder_that_has_ended_says_so() {
    let (_listener, forwarder) = forwarder(None);
    forwarder.mail.post(Order::End);
    forwarder.mail.wake();
    wait("its end", || forwarder.has_ended());
    let (mut client, theirs) = connection();
    let error = forwarder.take(theirs, client.local_addr().unwrap()).unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    assert!(is_closed(&mut client));
}

/// The file has the name of the forwarder's own address, which another user of the directory may guess.
#[test]
fn a_fifo_in_the_place_of_a_journals_file_does_not_block() {
    let scratch = Scratch::new("fifo");
    let (server, _other) = connection();
    let path = scratch.path().join(format!("[AF_INET]{}", server.local_addr().unwrap()));
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let source = SocketAddr::from(([192, 0, 2, 1], 9));
    let directory = scratch.path().to_owned();
    let refused = thread::spawn(move || Entry::write(Some(directory.as_path()), &server, source).is_none());
    wait("no file is written", || refused.is_finished());
    assert!(refused.join().unwrap());
    assert!(path.exists(), "it is not ours");
}

/// The server answers and closes without having read all that the client sends, so that to write to it fails.
#[test]
fn what_the_server_sent_before_it_closed_arrives() {
    let (listener, forwarder) = forwarder(None);
    let (mut client, theirs) = connection();
    let mut sends = client.try_clone().unwrap();
    // It fails when the server has closed.
    let writer = thread::spawn(move || drop(sends.write_all(&vec![7; 16 << 20])));
    forwarder.take(theirs, client.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.read_exact(&mut [0; 1000]).unwrap();
    server.write_all(b"answer").unwrap();
    drop(server);
    let mut answer = [0; 6];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"answer");
    writer.join().unwrap();
}

#[test]
fn one_source_does_not_take_the_room_of_others() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let targets = vec![listener.local_addr().unwrap()];
    let forwarder = Forwarder::to(targets, None, PrefixShares::new(4, 6)).unwrap();
    let forwarded = |last: u8| {
        let (client, theirs) = connection();
        forwarder.take(theirs, SocketAddr::from(([192, 0, 2, last], 9))).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let mut first = forwarded(1);
    let mut of_one: Vec<(TcpStream, TcpStream)> = (0..5).map(|_| forwarded(2)).collect();
    assert!(is_closed(&mut of_one[0].0), "its oldest made room");
    let [mut third, mut fourth] = [3, 4].map(forwarded);
    assert!(is_closed(&mut of_one[1].0), "of all the sources, that with the most makes room");
    for (client, server) in of_one[2..].iter_mut().chain([&mut first, &mut third, &mut fourth]) {
        server.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }
}

/// A name such as `localhost` has addresses that the other server does not listen at.
#[test]
fn the_next_address_is_tried() {
    let scratch = Scratch::new("next");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let targets = vec![closed, listener.local_addr().unwrap()];
    let forwarder = Forwarder::to(targets, Some(scratch.path().to_owned()), SHARES).unwrap();
    let (mut client, theirs) = connection();
    forwarder.take(theirs, client.local_addr().unwrap()).unwrap();
    let (mut server, seen) = listener.accept().unwrap();
    server.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
    let names: Vec<String> = entries(scratch.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [format!("[AF_INET]{seen}")]);
    drop(forwarder);
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "its end closes what it forwards");
    assert!(entries(scratch.path()).is_empty());
}

#[test]
fn a_journal_that_cannot_be_written_is_an_error_at_the_start() {
    let scratch = Scratch::new("none");
    let journal = Some(scratch.path().join("missing"));
    let share = PortShare { host: "127.0.0.1".to_owned(), port: 443, journal };
    let error = Forwarder::start(&share).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("port-share: no file can be made in") && error.contains("missing"), "{error}");
}
