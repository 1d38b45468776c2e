//! A session that a protocol expects, whose datagrams come before it.

use super::*;

/// A packet of UDP from 10.9.0.2 to 10.9.0.1, without a checksum of UDP.
fn packet(to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let length = |of: usize| u16::try_from(of).unwrap().to_be_bytes();
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1];
    ip[2..4].copy_from_slice(&length(28 + payload.len()));
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!u16::try_from(folded).unwrap()).to_be_bytes());
    let ports = [7_u16.to_be_bytes(), to.port().to_be_bytes(), length(8 + payload.len()), [0, 0]].concat();
    [&ip, &ports[..], payload].concat()
}

/// The data thread opens them when the session comes, and waits for nothing else.
#[test]
fn datagrams_before_their_session_are_opened_as_soon_as_it_comes() {
    in_fresh_network(|| {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let config = client_config(Transport::Udp, server.local_addr().unwrap());
        let (mut toy, heard) = Toy::new(Role::Client, "10.9.0.1/24");
        toy.expects = true;
        let running = start_toy(config, toy, heard);
        running.wait_until_up();
        let mut buffer = [0; 2000];
        let (_, client) = server.recv_from(&mut buffer).unwrap();
        let application = UdpSocket::bind("10.9.0.1:0").unwrap();
        application.set_read_timeout(Some(TIMEOUT)).unwrap();

        let control = |bytes: &[u8]| {
            server.send_to(bytes, client).unwrap();
            let is_it = |heard: &Heard| matches!(heard, Heard::Datagram(_, datagram) if datagram == bytes);
            running.wait_for(is_it);
        };
        control(&[CONTROL, b'x']);
        let mut peer = Peer::new(Role::Server, Path::Udp { socket: 0, remote: client });
        let sealed = peer.seal(&packet(application.local_addr().unwrap(), b"before its session"));
        server.send_to(&sealed, client).unwrap();
        control(&INSTALL);
        let length = application.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"before its session");
        running.stop();
    });
}
