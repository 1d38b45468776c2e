//! Many control datagrams of one address, or first packets, do not make others wait; and the answers to many leave.

use std::net::Shutdown;

use socket2::{Domain, Socket, Type};

use super::*;

/// Datagrams that wait before another comes.
const CLIENTS: u8 = 200;
/// The time that the protocol takes for each: for half of them more than a slow machine takes to send them
/// all.
const SLOW: Duration = Duration::from_millis(6);

fn number_of(heard: &Heard) -> Option<u8> {
    match heard {
        Heard::Datagram(_, bytes) => bytes.last().copied(),
        _ => None,
    }
}

#[test]
fn each_address_has_its_turn() {
    in_fresh_network(|| {
        let config = server_config(Transport::Udp, "127.0.0.1:0");
        let (mut toy, heard) = Toy::new(Role::Server, "10.9.0.1/24");
        toy.slow = SLOW;
        let server = start_toy(config, toy, heard);
        server.wait_until_up();
        let [many, other] =
            ["127.0.0.2:0", "127.0.0.3:0"].map(|address: &str| UdpSocket::bind(address).unwrap());
        for number in 0..CLIENTS {
            many.send_to(&[CONTROL, number], server.addresses[0]).unwrap();
        }
        other.send_to(&[CONTROL, CLIENTS], server.addresses[0]).unwrap();
        let mut order: Vec<u8> = Vec::new();
        while order.len() <= usize::from(CLIENTS) {
            order.extend(number_of(&server.wait_for(|heard| number_of(heard).is_some())));
        }
        let at = order.iter().position(|number| *number == CLIENTS).unwrap();
        // Before it came, some were handled already; and some more are taken at once.
        assert!(at < 120, "it was number {at}");
        let of_crowd: Vec<u8> = order.into_iter().filter(|number| *number != CLIENTS).collect();
        assert_eq!(of_crowd, (0..CLIENTS).collect::<Vec<u8>>(), "in their own order");
        server.stop();
    });
}

/// A connection from that address.
fn connect_from(own: [u8; 4], server: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((own, 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    socket.into()
}

#[test]
fn connections_have_their_turns_and_end_behind_what_came_by_them() {
    in_fresh_network(|| {
        let (mut toy, heard) = Toy::new(Role::Server, "10.9.0.1/24");
        toy.slow = SLOW;
        let server = start_toy(server_config(Transport::Tcp, "127.0.0.1:0"), toy, heard);
        server.wait_until_up();
        let [mut many, mut other] =
            [[127, 0, 0, 2], [127, 0, 0, 3]].map(|own| connect_from(own, server.addresses[0]));
        // Both are accepted before the rest comes.
        for client in [&mut many, &mut other] {
            client.write_all(&[0, 2, CONTROL, u8::MAX]).unwrap();
            server.wait_for(|heard| number_of(heard) == Some(u8::MAX));
        }
        let records: Vec<u8> = (0..CLIENTS).flat_map(|number| [0, 2, CONTROL, number]).collect();
        many.write_all(&records).unwrap();
        other.write_all(&[0, 2, CONTROL, CLIENTS]).unwrap();
        many.shutdown(Shutdown::Write).unwrap();
        let of_interest = |heard: &Heard| number_of(heard).is_some() || matches!(heard, Heard::Closed(_));
        let mut order: Vec<u8> = Vec::new();
        while let Some(number) = number_of(&server.wait_for(of_interest)) {
            order.push(number);
        }
        let at = order.iter().position(|number| *number == CLIENTS).unwrap();
        assert!(at < 120, "it was number {at}");
        let of_crowd: Vec<u8> = order.into_iter().filter(|number| *number != CLIENTS).collect();
        assert_eq!(of_crowd, (0..CLIENTS).collect::<Vec<u8>>(), "all, before their connection ends");
        server.stop();
    });
}

/// First packets from addresses of their own, and then one of a peer that is known.
#[test]
fn a_known_peer_does_not_wait_for_first_packets() {
    in_fresh_network(|| {
        let config = server_config(Transport::Udp, "127.0.0.1:0");
        let (mut toy, heard) = Toy::new(Role::Server, "10.9.0.1/24");
        toy.slow = SLOW;
        let server = start_toy(config, toy, heard);
        server.wait_until_up();
        let at = |number: u8| UdpSocket::bind((format!("127.0.1.{number}"), 0)).unwrap();
        for number in 0..CLIENTS {
            at(number).send_to(&[CONTROL, FIRST, number], server.addresses[0]).unwrap();
        }
        let known = at(CLIENTS);
        for number in CLIENTS..CLIENTS + 3 {
            known.send_to(&[CONTROL, number], server.addresses[0]).unwrap();
        }
        let mut order: Vec<u8> = Vec::new();
        while order.len() < usize::from(CLIENTS) + 3 {
            order.extend(number_of(&server.wait_for(|heard| number_of(heard).is_some())));
        }
        let at = |wanted: u8| order.iter().position(|number| *number == wanted).unwrap();
        assert!(at(CLIENTS + 2) < 120, "it was number {}", at(CLIENTS + 2));
        // Of the others the newest came before those that waited longest.
        assert!(at(CLIENTS - 1) < 120, "it was number {}", at(CLIENTS - 1));
        let (tell, told) = channel();
        server.handle.inspect(Box::new(move |_, _, status| {
            let _ = tell.send(status.tables.clone());
        }));
        let tables = told.recv_timeout(TIMEOUT).unwrap();
        let names: Vec<(&str, usize)> = tables.iter().map(|table| (table.name, table.limit)).collect();
        let limits = [
            ("messages to the control thread", 8192),
            ("control datagrams of known peers", 8192),
            ("control datagrams with cookies", 4096),
            ("first packets", 4096),
        ];
        assert_eq!(names, limits);
        assert!(tables.iter().all(|table| table.evicted == 0 && table.refused == 0));
        server.stop();
    });
}

/// Enough of them within a moment that answers are gathered.
#[test]
fn the_answers_to_many_first_packets_leave() {
    in_fresh_network(|| {
        let server = start(server_config(Transport::Udp, "127.0.0.1:0"), "10.9.0.1/24");
        server.wait_until_up();
        let clients = ["127.0.0.2:0", "127.0.0.3:0"].map(|address: &str| UdpSocket::bind(address).unwrap());
        for number in 0..400_u16 {
            let [high, low] = number.to_be_bytes();
            let client = &clients[usize::from(number % 2)];
            client.send_to(&[CONTROL, FIRST, high, low], server.addresses[0]).unwrap();
        }
        for (first, client) in (0..).zip(&clients) {
            client.set_read_timeout(Some(TIMEOUT)).unwrap();
            let mut answers = Vec::new();
            let mut buffer = [0; 16];
            while answers.len() < 200 {
                let length = client.recv(&mut buffer).unwrap();
                assert_eq!((length, buffer[1]), (4, FIRST));
                answers.push(u16::from_be_bytes([buffer[2], buffer[3]]));
            }
            assert_eq!(answers, (0..200).map(|number| 2 * number + first).collect::<Vec<u16>>());
        }
        server.stop();
    });
}
