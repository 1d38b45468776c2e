//! `port-share`: a TCP port that a server shares with another one.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run, wait_until, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, Transport};

const WAIT: Duration = MAX_WAIT;

#[test]
fn other_connections_reach_the_other_server_and_clients_the_tunnel() {
    if !can_run("port-share", &PROGRAMS) {
        return;
    }
    let journal = Scratch::create("journal").unwrap();
    let options = Options { transport: Transport::Tcp4, ..Options::BASE };
    let mut bed = Bed::build_with(&options, Program::Adit, &[Program::OpenVpn], |_, [server, _]| {
        server.push_str(&format!("port-share 127.0.0.1 8443 {}\n", journal.path().display()));
    })
    .unwrap();
    // The other server answers each connection with the text that it sent, in small letters.
    let other = bed.server.namespace.enter(|| TcpListener::bind("127.0.0.1:8443").unwrap()).unwrap();
    let server = thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = other.accept().unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            stream.write_all(text.to_lowercase().as_bytes()).unwrap();
        }
    });
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let ask = |text: &str| -> String {
        let client = &bed.clients[0].namespace;
        let mut stream = client.enter(|| TcpStream::connect("10.9.1.1:1194").unwrap()).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let entries = || -> Vec<String> {
            let files = std::fs::read_dir(journal.path()).unwrap();
            files.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect()
        };
        let source = [format!("[AF_INET]{}", stream.local_addr().unwrap())];
        wait_until("its file in the journal", WAIT, || entries() == source).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        wait_until("its file to go", WAIT, || entries().is_empty()).unwrap();
        answer
    };
    assert_eq!(ask("GET / HTTP/1.0\r\n\r\n"), "get / http/1.0\r\n\r\n");
    // The length of a control packet, and the first byte of none.
    assert_eq!(ask("\0\x20XYZ"), "\0\x20xyz");
    server.join().unwrap();
    wait_until_reachable(&bed.clients[0].namespace, "10.8.0.1".parse().unwrap(), WAIT)
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
    bed.clients[0].stop().unwrap();
    bed.server.stop().unwrap();
}
