//! A client over UDP.

use super::*;

#[test]
fn a_udp_client_carries_control_and_data() {
    in_fresh_network(|| {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let running = start(client_config(Transport::Udp, server.local_addr().unwrap()), "10.9.0.1/24");
        let bound = running.wait_for(|heard| matches!(heard, Heard::Bound(..)));
        let Heard::Bound(own_socket, own_address) = bound else { unreachable!() };
        let mut buffer = [0; 2000];
        // The kernel may speak into the tunnel at once (IPv6 router solicitations): that is data.
        let client = loop {
            let (length, client) = server.recv_from(&mut buffer).unwrap();
            if buffer[..length] == [CONTROL, b'?'] {
                break client;
            }
        };
        server.send_to(&[CONTROL, 1, 2, 3], client).unwrap();
        let heard = running.wait_for(|heard| matches!(heard, Heard::Datagram(..)));
        let Heard::Datagram(path, bytes) = heard else { unreachable!() };
        assert_eq!((path.remote(), bytes), (server.local_addr().unwrap(), vec![CONTROL, 1, 2, 3]));
        assert!(matches!(path, Path::Udp { socket, .. } if socket == own_socket));
        assert_eq!(own_address.port(), client.port());

        running_echo(&server, client);

        running.wait_for(|heard| matches!(heard, Heard::Notice(Notice::FirstOpened { .. })));
        let traffic = |heard: &Heard| matches!(heard, Heard::Notice(Notice::Traffic { received, sent, .. }) if *received >= 1 && *sent >= 1);
        running.wait_for(traffic);
        let (tell, told) = channel();
        running.handle.inspect(Box::new(move |toy, counters, status| {
            let _ = tell.send((toy.address, counters.ingress.packets, status.clone()));
        }));
        let (address, opened, status) = told.recv_timeout(TIMEOUT).unwrap();
        assert_eq!((address, opened), ("10.9.0.1/24".parse().unwrap(), 1));
        assert_eq!(status.tun_name, "tun0");
        let on = OffloadState::On;
        let all =
            OffloadStatus { tun_tcp: on.clone(), tun_udp: on.clone(), udp_send: on.clone(), udp_receive: on };
        assert_eq!(status.offloads, all);
        assert_eq!(status.losses, Losses::default());

        let handle = running.handle.clone();
        running.stop();
        while server.recv_from(&mut buffer).unwrap().0 != 2 || buffer[1] != b'.' {}
        assert!(!handle.command(Command::Shutdown), "the driver has ended");
        assert_no_device();
    });
}

/// An application behind the tunnel sends a packet; `server` opens it and sends it back.
fn running_echo(server: &UdpSocket, client: SocketAddr) {
    let path = Path::Udp { socket: 0, remote: client };
    let mut peer = Peer::new(Role::Server, path);
    let application = UdpSocket::bind("10.9.0.1:0").unwrap();
    application.set_read_timeout(Some(TIMEOUT)).unwrap();
    application.send_to(b"through the tunnel", "10.9.0.2:7").unwrap();
    let mut buffer = [0; 2000];
    let packet = loop {
        let (length, _) = server.recv_from(&mut buffer).unwrap();
        if let Some(packet) = peer.open(path, &mut buffer[..length]) {
            break packet;
        }
    };
    assert!(packet.ends_with(b"through the tunnel"));
    server.send_to(&peer.seal(&turned_around(packet)), client).unwrap();
    let (length, from) = application.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&b"through the tunnel"[..], "10.9.0.2:7".parse().unwrap()));
}
