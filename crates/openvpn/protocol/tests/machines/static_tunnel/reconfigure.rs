//! Other settings for a tunnel with a static key that runs.

use std::time::Duration;

use adit_core::{Command, Notice, PeerId, Protocol, Transport};
use adit_openvpn::StaticTunnel;
use adit_openvpn::params::{Keepalive, LocalSettings, RemoteParams, StaticParams};
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::static_key::StaticKey;

use super::{End, at, connecting, installs, udp, waiting};

#[test]
fn other_settings_hold_at_once_or_when_the_peer_is_waited_for_anew() {
    let mut end = End::new(waiting(), at(0));
    end.notice(at(1), Notice::Moved { peer: PeerId::SERVER, path: udp(1) });
    let other = StaticParams {
        key: StaticKey::from_bytes(&[8; 256]),
        keepalive: Keepalive { timeout: Some(Duration::from_secs(20)), ..waiting().keepalive },
        local: LocalSettings { addresses: vec!["10.5.0.1/32".parse().unwrap()], ..LocalSettings::default() },
        ..waiting()
    };
    let events = end.after(|machine| machine.reconfigure(other.clone()));
    assert!(installs(&events).is_empty(), "the other end has the old key: {events:?}");
    assert!(!events.iter().any(|event| matches!(event, Event::Up(_))), "{events:?}");
    assert_eq!(end.machine.peers().len(), 1, "it stays");
    end.traffic(at(2), 1, 0);

    // The new timeout holds already, and the loss brings the rest.
    assert!(end.timeout(at(21)).iter().all(|event| !matches!(event, Event::PeerDown { .. })));
    let events = end.timeout(at(22));
    assert!(events.iter().any(|event| matches!(event, Event::PeerDown { .. })), "{events:?}");
    let [install] = installs(&events)[..] else { panic!("{events:?}") };
    let retired = |event: &Event| matches!(event, Event::Data(DataEvent::Retire { .. }));
    assert!(events.iter().any(retired), "{events:?}");
    let mut with_it = End { machine: StaticTunnel::new(other.clone(), at(0), [3; 32]), events: Vec::new() };
    with_it.drain();
    assert_eq!(install.codec.open.key, installs(&with_it.events)[0].codec.open.key, "the new key");
    let up = events.iter().find_map(|event| match event {
        Event::Up(settings) => Some(settings.addresses.clone()),
        _ => None,
    });
    assert_eq!(up, Some(other.local.addresses), "the new address");
}

#[test]
fn keys_that_stay_keep_what_was_taken_under_them() {
    let mut end = End::new(waiting(), at(0));
    end.notice(at(1), Notice::Moved { peer: PeerId::SERVER, path: udp(1) });
    let other = StaticParams { exit_notify: false, ..waiting() };
    end.after(|machine| machine.reconfigure(other));
    let events = end.command(at(2), Command::Restart);
    assert!(installs(&events).is_empty(), "a second session would take datagrams twice: {events:?}");
}

#[test]
fn a_way_to_a_remote_of_before_is_not_taken() {
    let mut end = End::new(connecting(Transport::Udp), at(0));
    let other = StaticParams {
        remotes: vec![RemoteParams::new("west".to_owned(), Transport::Udp)],
        ..connecting(Transport::Udp)
    };
    end.after(|machine| machine.reconfigure(other));
    let events = end.command(at(1), Command::Opened { path: udp(1) });
    assert!(events.iter().any(|event| matches!(event, Event::Close { .. })), "{events:?}");
    let events = end.timeout(at(2));
    let text = format!("{events:?}");
    assert!(text.contains("connecting to west") && text.contains("Open { remote: 0 }"), "{text}");
}
