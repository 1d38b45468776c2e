//! Flows of TCP through a tunnel between two drivers.

use super::*;

/// Sends `total` bytes through the tunnel by TCP, both ways at once, between two drivers in namespaces of
/// their own that a veth pair connects.
fn transfer(transport: Transport, offloads: OffloadSwitches, total: usize) {
    in_fresh_network(move || {
        let (give_tid, tid) = channel();
        let (go, wait) = channel();
        let far = thread::spawn(move || {
            adit_sys::enter_fresh_network_namespace().unwrap();
            give_tid.send(rustix::thread::gettid()).unwrap();
            wait.recv().unwrap();
            ip("addr add 192.0.2.2/24 dev v1");
            ip("link set v1 up");
            let mut config = client_config(transport, "192.0.2.1:1194".parse().unwrap());
            config.tun.offloads = offloads;
            let running = start(config, "10.9.0.2/24");
            running.wait_until_up();
            running.wait_for(|heard| matches!(heard, Heard::Datagram(..)));
            let stream = TcpStream::connect("10.9.0.1:5000").unwrap();
            exchange(stream, total);
            // Sent data may still be on its way.
            wait.recv().unwrap();
            running.stop();
        });
        let tid = tid.recv().unwrap().as_raw_nonzero();
        ip(&format!("link add v0 type veth peer name v1 netns {tid}"));
        ip("addr add 192.0.2.1/24 dev v0");
        ip("link set v0 up");
        let mut config = server_config(transport, "0.0.0.0:1194");
        config.tun.offloads = offloads;
        let running = start(config, "10.9.0.1/24");
        running.wait_until_up();
        let listener = TcpListener::bind("10.9.0.1:5000").unwrap();
        go.send(()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        exchange(stream, total);
        go.send(()).unwrap();
        far.join().unwrap();
        running.stop();
    });
}

/// Byte number `index` of the stream that both ends send.
fn pattern(index: usize) -> u8 {
    (index.wrapping_mul(0x9E37_79B9) >> 16).to_le_bytes()[0]
}

fn exchange(stream: TcpStream, total: usize) {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sending = thread::spawn(move || {
        let bytes: Vec<u8> = (0..total).map(pattern).collect();
        writer.write_all(&bytes).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut reader = stream;
    let mut received = Vec::new();
    reader.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), total);
    assert!(received.iter().enumerate().all(|(index, byte)| *byte == pattern(index)));
    sending.join().unwrap();
}

#[test]
fn a_transfer_over_udp() {
    transfer(Transport::Udp, OffloadSwitches::default(), 8 << 20);
}

#[test]
fn a_transfer_over_udp_without_offloads() {
    let off = OffloadSwitches { tun_tcp: false, tun_udp: false, udp_send: false, udp_receive: false };
    transfer(Transport::Udp, off, 2 << 20);
}

#[test]
fn a_transfer_over_tcp() {
    transfer(Transport::Tcp, OffloadSwitches::default(), 8 << 20);
}
