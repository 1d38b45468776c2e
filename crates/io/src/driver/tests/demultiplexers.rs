//! UDP sockets that tell datagrams apart in ways of their own.

use adit_dataplane::codec::{Class, Demultiplexer};

use super::*;
use crate::config::UdpSource;

/// All is control.
#[derive(Debug)]
pub(super) struct ControlOnly;

impl Demultiplexer for ControlOnly {
    fn classify(&self, _datagram: &[u8]) -> Class {
        Class::Control
    }
}

/// Data of peer 9, at the other sockets.
pub(super) const DATAGRAM: [u8; 5] = [1, 0, 0, 0, 9];

pub(super) fn is_datagram(heard: &Heard) -> bool {
    matches!(heard, Heard::Datagram(_, bytes) if *bytes == DATAGRAM)
}

#[test]
fn sockets_that_listen() {
    in_fresh_network(|| {
        let mut config = server_config(Transport::Udp, "127.0.0.1:0");
        config.listen.push(config.listen[0]);
        config.demultiplexers.insert(UdpSource::Listen(1), Arc::new(ControlOnly));
        let running = start(config, "10.9.0.1/24");
        running.wait_until_up();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for address in &running.addresses {
            client.send_to(&DATAGRAM, address).unwrap();
        }
        let heard = running.wait_for(is_datagram);
        assert!(matches!(heard, Heard::Datagram(Path::Udp { socket: 1, .. }, _)), "{heard:?}");
        // The other one is behind by no more than a turn of the data thread.
        thread::sleep(Duration::from_millis(100));
        assert!(!running.heard.try_iter().any(|heard| is_datagram(&heard)));
        running.stop();
    });
}

#[test]
fn a_socket_for_a_remote() {
    in_fresh_network(|| {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut config = client_config(Transport::Udp, server.local_addr().unwrap());
        config.demultiplexers.insert(UdpSource::Remote(0), Arc::new(ControlOnly));
        let running = start(config, "10.9.0.2/24");
        let (_, client) = server.recv_from(&mut [0; 2000]).unwrap();
        server.send_to(&DATAGRAM, client).unwrap();
        running.wait_for(is_datagram);
        running.stop();
    });
}
