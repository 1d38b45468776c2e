//! Local addresses: a datagram is answered from the address that it came to, as long as the system allows it.

use super::binding::{bind, port, run_bound};
use super::demultiplexers::{ControlOnly, DATAGRAM, is_datagram};
use super::*;

/// The machine's addresses: where clients are, and where they write to.
const ADDRESSES: [(&str, [&str; 2]); 2] =
    [("192.0.2.1", ["192.0.2.7", "192.0.2.8"]), ("2001:db8::1", ["2001:db8::7", "2001:db8::8"])];

fn add_addresses() {
    for (own, others) in ADDRESSES {
        [own].into_iter().chain(others).for_each(add_address);
    }
}

fn add_address(address: &str) {
    let (mut netlink, address): (Netlink, IpAddr) = (Netlink::open().unwrap(), address.parse().unwrap());
    let loopback = netlink.link("lo").unwrap().index;
    netlink.add_address(loopback, address.into(), None).unwrap();
    // The kernel adds the local route of an IPv6 address a moment later.
    while !netlink.next_hop(address).is_ok_and(|hop| hop.local) {
        thread::yield_now();
    }
}

fn remove_address(address: IpAddr) {
    let mut netlink = Netlink::open().unwrap();
    let loopback = netlink.link("lo").unwrap().index;
    netlink.remove_address(loopback, address.into(), None).unwrap();
}

/// A driver at work whose sockets learn where datagrams come to.
fn start_learning(workers: usize) -> (Running, UdpSockets) {
    let mut driver = Driver::new(DriverConfig { workers, ..config(Role::Server) }, make_codec).unwrap();
    driver.learn_local_addresses();
    let (running, sockets) = run_bound(driver, port(0), Duration::ZERO);
    running.wait_until_up();
    (running, sockets)
}

fn client(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// Writes to that address, and gives the number that the datagram's path had, and where the answer came from.
fn ask(running: &Running, client: &UdpSocket, to: SocketAddr, word: u8) -> (u32, SocketAddr) {
    client.send_to(&[CONTROL, word], to).unwrap();
    let heard = running.wait_for(|heard| matches!(heard, Heard::Datagram(_, bytes) if bytes[1] == word));
    let Heard::Datagram(Path::Udp { socket, .. }, _) = heard else { panic!("{heard:?}") };
    (socket, answer_source(client))
}

/// Where the next such datagram comes from, if one comes in time.
fn source_of(client: &UdpSocket, wanted: impl Fn(&[u8]) -> bool) -> Option<SocketAddr> {
    let mut buffer = [0; 2000];
    loop {
        let (length, from) = client.recv_from(&mut buffer).ok()?;
        if wanted(&buffer[..length]) {
            return Some(from);
        }
    }
}

fn answer_source(client: &UdpSocket) -> SocketAddr {
    source_of(client, |datagram| *datagram == [CONTROL, b'!']).unwrap()
}

/// Where a packet that an application sends now comes from. (The kernel's own packets are shorter.)
fn data_source(client: &UdpSocket) -> Option<SocketAddr> {
    UdpSocket::bind("10.9.0.1:0").unwrap().send_to(&[7; 900], "10.9.0.2:9").unwrap();
    source_of(client, |datagram| datagram.len() > 900)
}

/// The data thread may learn of the path a moment after the client has its answer.
fn wait_for_data_from(client: &UdpSocket, address: SocketAddr) {
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!((0..100).any(|_| data_source(client) == Some(address)), "no data from {address}");
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
}

#[test]
fn answers_and_data_leave_from_the_address_that_was_written_to() {
    in_fresh_network(|| {
        add_addresses();
        for workers in [1, 2] {
            let (running, sockets) = start_learning(workers);
            for (own, others) in ADDRESSES {
                let client = client(own);
                let mut numbers = Vec::new();
                for (word, other) in (1..).zip(others) {
                    let to = SocketAddr::new(other.parse().unwrap(), sockets.port);
                    let base = sockets.for_address(to.ip());
                    client.send_to(&[CONTROL, word], to).unwrap();
                    let bound =
                        running.wait_for(|heard| matches!(heard, Heard::Bound(_, local) if *local == to));
                    let Heard::Bound(announced, _) = bound else { unreachable!() };
                    let first = running.wait_for(|heard| matches!(heard, Heard::Datagram(..)));
                    assert!(
                        matches!(first, Heard::Datagram(Path::Udp { socket, .. }, _) if socket == announced)
                    );
                    assert_eq!(answer_source(&client), to);
                    // Once more: the same number, which is not announced again. There is no answer, as the path is known.
                    client.send_to(&[CONTROL, word], to).unwrap();
                    let next =
                        running.wait_for(|heard| matches!(heard, Heard::Datagram(..) | Heard::Bound(..)));
                    assert!(
                        matches!(next, Heard::Datagram(Path::Udp { socket, .. }, _) if socket == announced)
                    );
                    assert!(Some(announced) != base && !numbers.contains(&announced));
                    numbers.push(announced);
                    // The peer is there now: its data has this source, too.
                    wait_for_data_from(&client, to);
                }
            }
            running.stop();
        }
    });
}

#[test]
fn an_address_that_is_gone_is_done_without_until_it_is_back() {
    in_fresh_network(|| {
        add_addresses();
        let (running, sockets) = start_learning(1);
        for (own, [other, _]) in ADDRESSES {
            let client = client(own);
            let to = SocketAddr::new(other.parse().unwrap(), sockets.port);
            let (number, from) = ask(&running, &client, to, 1);
            assert_eq!(from, to);
            remove_address(to.ip());
            wait_for_data_from(&client, SocketAddr::new(own.parse().unwrap(), sockets.port));
            assert_ne!(data_source(&client).unwrap(), to, "the system chooses another one");
            add_address(other);
            client.send_to(&[CONTROL, 2], to).unwrap();
            let again = running.wait_for(|heard| matches!(heard, Heard::Datagram(_, bytes) if bytes[1] == 2));
            assert!(matches!(again, Heard::Datagram(Path::Udp { socket, .. }, _) if socket == number));
            wait_for_data_from(&client, to);
        }
        running.stop();
    });
}

#[test]
fn numbers_of_addresses_go_with_the_sockets() {
    in_fresh_network(|| {
        add_addresses();
        let (running, first) = start_learning(1);
        let (own, [other, _]) = ADDRESSES[0];
        let client = client(own);
        let at = |sockets: UdpSockets| SocketAddr::new(other.parse().unwrap(), sockets.port);
        let (before, _) = ask(&running, &client, at(first), 1);
        let second = bind(&running, port(0)).unwrap();
        let (after, from) = ask(&running, &client, at(second), 2);
        assert_eq!(from, at(second));
        assert!(after != before && Some(after) != second.ipv4);
        running.stop();
    });
}

/// The socket's rules hold for datagrams whose path has the number of an address.
#[test]
fn datagrams_are_told_apart_by_the_rules_of_their_endpoint() {
    in_fresh_network(|| {
        add_addresses();
        let device = SharedDevice::default();
        let first = Driver::<Toy>::join(config(Role::Server), make_codec, &device).unwrap();
        let (first, _) = run_bound(first, port(0), Duration::ZERO);
        first.wait_until_up();
        let config = DriverConfig { dataplane: Config::new(ControlOnly), ..config(Role::Server) };
        let mut second = Driver::join(config, make_codec, &device).unwrap();
        second.learn_local_addresses();
        let (second, sockets) = run_bound(second, port(0), Duration::ZERO);
        second.wait_until_up();
        let client = client("192.0.2.1");
        client.send_to(&DATAGRAM, ("192.0.2.7", sockets.port)).unwrap();
        let heard = second.wait_for(is_datagram);
        assert!(
            matches!(heard, Heard::Datagram(Path::Udp { socket, .. }, _) if Some(socket) != sockets.ipv4)
        );
        second.stop();
        first.stop();
    });
}
