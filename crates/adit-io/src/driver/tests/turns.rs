//! Many control datagrams of one address do not make another's wait.

use super::*;

/// Datagrams that wait before another comes.
const CROWD: u8 = 200;
/// What the protocol takes for each.
const SLOW: Duration = Duration::from_millis(2);

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
        let [crowd, other] =
            ["127.0.0.2:0", "127.0.0.3:0"].map(|address: &str| UdpSocket::bind(address).unwrap());
        for number in 0..CROWD {
            crowd.send_to(&[CONTROL, number], server.addresses[0]).unwrap();
        }
        other.send_to(&[CONTROL, CROWD], server.addresses[0]).unwrap();
        let mut order: Vec<u8> = Vec::new();
        while order.len() <= usize::from(CROWD) {
            order.extend(number_of(&server.wait_for(|heard| number_of(heard).is_some())));
        }
        let at = order.iter().position(|number| *number == CROWD).unwrap();
        // Before it came, some were handled already; and some more are taken at once.
        assert!(at < 120, "it was number {at}");
        let of_crowd: Vec<u8> = order.into_iter().filter(|number| *number != CROWD).collect();
        assert_eq!(of_crowd, (0..CROWD).collect::<Vec<u8>>(), "in their own order");
        server.stop();
    });
}
