//! Connections, accepted and opened.

use super::*;

#[test]
fn a_tcp_server_takes_records_in_any_pieces() {
    in_fresh_network(|| {
        let running = start(server_config(Transport::Tcp, "[::]:0"), "10.9.0.1/24");
        running.wait_until_up();
        let mut client = TcpStream::connect(("127.0.0.1", running.addresses[0].port())).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        for byte in [0, 3, CONTROL, 7, 8, 0, 2, CONTROL] {
            client.write_all(&[byte]).unwrap();
            thread::sleep(Duration::from_millis(3));
        }
        client.write_all(&[9]).unwrap();
        for expected in [vec![CONTROL, 7, 8], vec![CONTROL, 9]] {
            running.wait_for(|heard| matches!(heard, Heard::Datagram(_, bytes) if *bytes == expected));
        }
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0, 2, CONTROL, b'!']);

        // A record of length 0 kills the connection, and only that.
        client.write_all(&[0, 0]).unwrap();
        running.wait_for(|heard| matches!(heard, Heard::Closed(why) if why.contains("length 0")));
        assert!(client.read_to_end(&mut Vec::new()).is_ok_and(|rest| rest < 1000));
        let mut second = TcpStream::connect(("127.0.0.1", running.addresses[0].port())).unwrap();
        second.write_all(&[0, 2, CONTROL, 1]).unwrap();
        running.wait_for(|heard| matches!(heard, Heard::Datagram(..)));
        second.read_exact(&mut answer).unwrap();
        drop(second);
        running.wait_for(|heard| matches!(heard, Heard::Closed(why) if why.contains("other end closed")));
        running.stop();
    });
}

#[test]
fn a_tcp_client_that_sends_no_lengths_is_sent_away_at_once() {
    in_fresh_network(|| {
        let running = start(server_config(Transport::Tcp, "127.0.0.1:0"), "10.9.0.1/24");
        running.wait_until_up();
        let mut client = TcpStream::connect(running.addresses[0]).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        // The first datagram of a client, as over UDP: its first two bytes are taken for a length.
        client.write_all(&[0x38, 0xd6, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0]).unwrap();
        let from = client.local_addr().unwrap().to_string();
        let said = |word: &str| {
            ["closed a connection", "14550", "4096", "leaves out the lengths"].map(|part| word.contains(part))
        };
        running.wait_for(
            |heard| matches!(heard, Heard::Event(word) if word.contains(&from) && said(word) == [true; 4]),
        );
        running.wait_for(|heard| matches!(heard, Heard::Closed(why) if why.contains("14550")));
        assert!(client.read_to_end(&mut Vec::new()).is_ok_and(|rest| rest == 0));
        // The log has the next one after a while.
        let mut next = TcpStream::connect(running.addresses[0]).unwrap();
        next.write_all(&[0x38, 0xd7, 1, 2]).unwrap();
        let word = running.wait_for(|heard| matches!(heard, Heard::Closed(_) | Heard::Event(_)));
        assert!(matches!(word, Heard::Closed(why) if why.contains("14551")));
        running.stop();
    });
}

#[test]
fn goodbyes_leave_before_a_tcp_connection_closes() {
    in_fresh_network(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let running = start(client_config(Transport::Tcp, listener.local_addr().unwrap()), "10.9.0.1/24");
        let (mut server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        running.wait_until_up();
        running.stop();
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        // The kernel may have sent something through the tunnel before, after and in between.
        let place = |word| all.windows(4).position(|record| record == [0, 2, CONTROL, word]);
        assert!(place(b'?').is_some() && place(b'?') < place(b'.'), "{all:?}");
    });
}

#[test]
fn a_failure_to_open_is_told() {
    in_fresh_network(|| {
        let running = start(client_config(Transport::Tcp, "127.0.0.1:9".parse().unwrap()), "10.9.0.1/24");
        running.wait_for(|heard| matches!(heard, Heard::Closed(why) if why.contains("127.0.0.1:9")));
        running.stop();
    });
}
