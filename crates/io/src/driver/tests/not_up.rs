//! A tunnel that lacks a setting that it needs is not reported as up.

use super::*;

/// A tunnel whose datagrams cannot be routed is not up, and nothing reports that it is.
#[test]
fn a_tunnel_that_cannot_mark_its_datagrams_is_not_up() {
    for in_stages in [false, true] {
        in_fresh_network(move || is_not_up_without_marks(in_stages));
    }
}

fn is_not_up_without_marks(in_stages: bool) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut config = client_config(Transport::Udp, server.local_addr().unwrap());
    config.execution.in_stages = in_stages;
    let (mut toy, heard) = Toy::new(Role::Client, "10.9.0.1/24");
    toy.redirect = Some(Redirect { ipv4: true, ..Redirect::default() });
    let driver = Driver::new(config, make_codec).unwrap();
    let (handle, addresses) = (driver.handle(), driver.local_addresses());
    let mut log = Log(toy.heard.clone());
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    let thread = thread::spawn(move || {
        set_capabilities(None, none).unwrap();
        driver.run(toy, &mut log)
    });
    let running = Running { handle, heard, addresses, thread };
    let is_up = |heard: &Heard| matches!(heard, Heard::Event(word) if word.starts_with("up"));
    let heard = running.wait_for(|heard| matches!(heard, Heard::Closed(_)) || is_up(heard));
    let Heard::Closed(why) = heard else { panic!("not {heard:?}") };
    assert!(why.contains("SO_MARK") && why.contains("CAP_NET_ADMIN"), "{why}");
    running.stop();
}
