//! Packets of strongSwan 5.9.8: `swanctl --load-conns`, and the answer of `charon` to `swanctl --list-sas`.

use adit_ike_vici::{Message, Packet, Value};

const LOAD_CONN: &[u8] = include_bytes!("strongswan/load-conn");
const LIST_SA: &[u8] = include_bytes!("strongswan/list-sa");

fn list(message: &Message, name: &str) -> Option<Vec<String>> {
    let Value::List(items) = message.get(name)? else { return None };
    Some(items.iter().map(|item| String::from_utf8_lossy(item).into_owned()).collect())
}

#[test]
fn a_connection_that_swanctl_loads() {
    let packet = Packet::decode(LOAD_CONN).unwrap();
    let Packet::Request { name, message } = &packet else { panic!("{packet:?}") };
    assert_eq!(name, "load-conn");
    let connection = message.section("c").unwrap();
    assert_eq!(list(connection, "remote_addrs").unwrap(), ["10.9.0.2"]);
    assert_eq!(connection.section("remote").unwrap().text("id"), Some("b.example"));
    let child = connection.section("children").and_then(|children| children.section("c")).unwrap();
    assert_eq!(list(child, "local_ts").unwrap(), ["10.77.1.0/24"]);
    assert_eq!(packet.encode().unwrap()[4..], *LOAD_CONN);
}

#[test]
fn an_ike_sa_that_charon_lists() {
    let packet = Packet::decode(LIST_SA).unwrap();
    let Packet::Event { name, message } = &packet else { panic!("{packet:?}") };
    assert_eq!(name, "list-sa");
    let sa = message.section("c").unwrap();
    assert_eq!((sa.text("state"), sa.text("encr-alg")), (Some("ESTABLISHED"), Some("AES_CBC")));
    let child = sa.section("child-sas").and_then(|children| children.section("c-1")).unwrap();
    assert_eq!(child.text("spi-in"), Some("06e2625a"));
    assert_eq!(packet.encode().unwrap()[4..], *LIST_SA);
}
