//! A TCP port that is shared with another server.

use std::net::Shutdown;

use super::*;
use crate::PortShare;

#[test]
fn connections_go_by_their_first_bytes() {
    in_fresh_network(|| {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = other.local_addr().unwrap().port();
        let share = PortShare { host: "127.0.0.1".to_owned(), port, journal: None };
        let config = DriverConfig { port_share: Some(share), ..server_config(Transport::Tcp, "127.0.0.1:0") };
        let running = start(config, "10.9.0.1/24");
        running.wait_until_up();
        let connect = || {
            let client = TcpStream::connect(running.addresses[0]).unwrap();
            client.set_read_timeout(Some(TIMEOUT)).unwrap();
            client
        };
        // Another protocol; fewer bytes than decide, as no more come.
        for sent in [&b"GET / HTTP/1.0"[..], b"G", &[0, 2]] {
            let mut client = connect();
            client.write_all(sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let (mut server, _) = other.accept().unwrap();
            let mut found = Vec::new();
            server.read_to_end(&mut found).unwrap();
            assert_eq!(found, sent);
            server.write_all(b"answer").unwrap();
            drop(server);
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, b"answer");
        }
        let mut client = connect();
        for byte in [0, 3, CONTROL, 7, 8] {
            client.write_all(&[byte]).unwrap();
            thread::sleep(Duration::from_millis(3));
        }
        running.wait_for(|heard| matches!(heard, Heard::Datagram(_, bytes) if *bytes == [CONTROL, 7, 8]));
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0, 2, CONTROL, b'!']);
        running.stop();
    });
}
