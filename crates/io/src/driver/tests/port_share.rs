//! A TCP port that is shared with another server.

use std::net::Shutdown;
use std::os::fd::BorrowedFd;

use super::*;
use crate::PortShare;
use crate::helper::{Attempt, OpenOutcome};
use crate::helper_channels::{ForwardChannel, NetworkChannel, SocketChannel};

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

/// A connection that has not sent enough is in the status.
#[test]
fn undecided_connections_are_counted() {
    in_fresh_network(|| {
        let share = PortShare { host: "127.0.0.1".to_owned(), port: 9, journal: None };
        let config = DriverConfig { port_share: Some(share), ..server_config(Transport::Tcp, "127.0.0.1:0") };
        let running = start(config, "10.9.0.1/24");
        running.wait_until_up();
        let usage = || {
            let (tell, told) = channel();
            running.handle.inspect(Box::new(move |_, _, status| {
                let _ = tell.send(status.tables.clone());
            }));
            let tables = told.recv_timeout(TIMEOUT).unwrap();
            tables.into_iter().find(|table| table.name == "undecided connections").unwrap()
        };
        assert_eq!((usage().entries, usage().limit), (0, 1024));
        let _client = TcpStream::connect(running.addresses[0]).unwrap();
        let until = std::time::Instant::now() + TIMEOUT;
        while usage().entries == 0 {
            assert!(std::time::Instant::now() < until);
            thread::sleep(Duration::from_millis(2));
        }
        assert_eq!((usage().entries, usage().refused), (1, 0));
        running.stop();
    });
}

/// A helper that forwards no connection.
#[derive(Clone, Copy, Debug)]
struct NoForwarding;

impl DriverHelper for NoForwarding {
    fn network(&self) -> io::Result<Box<dyn NetworkChannel>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sockets(&self) -> io::Result<Box<dyn SocketChannel>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn forwarding(&self) -> io::Result<Box<dyn ForwardChannel>> {
        Ok(Box::new(NoForwarding))
    }

    fn open(&self, _: Attempt, _: &UdpOptions, _: &mut dyn FnMut(Vec<IpAddr>)) -> io::Result<OpenOutcome> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl ForwardChannel for NoForwarding {
    fn forward(&self, _: BorrowedFd<'_>, _: SocketAddr) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Any sender can open connections that are to be forwarded.
#[test]
fn the_log_hears_once_a_minute_that_connections_cannot_be_forwarded() {
    in_fresh_network(|| {
        let share = PortShare { host: "127.0.0.1".to_owned(), port: 9, journal: None };
        let config = DriverConfig { port_share: Some(share), ..server_config(Transport::Tcp, "127.0.0.1:0") };
        let (toy, heard) = Toy::new(Role::Server, "10.9.0.1/24");
        let mut driver = Driver::<Toy>::new(config, make_codec).unwrap();
        driver.use_helper(NoForwarding, false).unwrap();
        let running = run_driver(driver, toy, heard);
        running.wait_until_up();
        for _ in 0..10 {
            let mut client = TcpStream::connect(running.addresses[0]).unwrap();
            client.set_read_timeout(Some(TIMEOUT)).unwrap();
            client.write_all(b"GET / HTTP/1.0").unwrap();
            // It is closed with bytes that were not read.
            let closed = client.read(&mut [0]).map_err(|error| error.kind());
            assert!(matches!(closed, Ok(0) | Err(io::ErrorKind::ConnectionReset)), "{closed:?}");
            thread::sleep(Duration::from_millis(2));
        }
        let (tell, told) = channel();
        running.handle.inspect(Box::new(move |_, _, status| {
            let _ = tell.send(status.losses.connections_refused);
        }));
        let refused = told.recv_timeout(TIMEOUT).unwrap();
        assert!(refused > 1, "{refused}");
        let is_said =
            |heard: &Heard| matches!(heard, Heard::Event(word) if word.starts_with("cannot forward"));
        assert_eq!(running.heard.try_iter().filter(is_said).count(), 1);
        running.stop();
    });
}
