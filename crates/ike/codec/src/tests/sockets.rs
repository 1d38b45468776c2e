//! The demultiplexers.

use adit_core::SessionId;
use adit_dataplane::codec::{Class, Demultiplexer};

use crate::{EspSocket, IkeSocket, NatTraversalSocket};

#[test]
fn port_4500_has_esp_keepalives_and_ike_behind_a_marker() {
    let classify = |datagram: &[u8]| NatTraversalSocket.classify(datagram);
    let ike = [&[0; 4][..], &[7; 28]].concat();
    assert_eq!(classify(&ike), Class::Control);
    assert_eq!(classify(&ike[..31]), Class::Malformed, "no whole header");
    assert_eq!(classify(&[0xff]), Class::Ignored);
    assert_eq!(classify(&[0xff; 2]), Class::Malformed);
    assert_eq!(classify(&[0xff, 0, 0, 0, 0, 0, 0, 1]), Class::Session(SessionId(0xff00_0000)));
    assert_eq!(classify(&[0, 0, 1, 0, 9]), Class::Session(SessionId(256)));
    for reserved in [&[0, 0, 0, 1, 9][..], &[0, 0, 0, 255, 9], &[0, 0, 0], &[]] {
        assert_eq!(classify(reserved), Class::Malformed, "{reserved:?}");
    }
}

#[test]
fn port_500_has_ike_alone_and_ip_has_esp_alone() {
    let ike = [7; 28];
    assert_eq!(IkeSocket.classify(&ike), Class::Control);
    assert_eq!(IkeSocket.classify(&ike[..27]), Class::Malformed);
    assert_eq!(EspSocket.classify(&[0xc0, 0, 0, 1, 0, 0, 0, 1]), Class::Session(SessionId(0xc000_0001)));
    assert_eq!(EspSocket.classify(&[0; 40]), Class::Malformed);
}
