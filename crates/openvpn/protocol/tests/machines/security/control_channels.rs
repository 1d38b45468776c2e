//! A control channel that has ended sends nothing of what it still had to send.

use adit_core::{Activity, Command, Notice, PeerActivity, PeerId, Protocol, Transport};
use adit_openvpn::Client;
use adit_openvpn::wire::{Header, Opcode};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

use super::{Ends, seconds, sid_of};
use adit_openvpn::testing::{Authority, client_params, server_params};

#[test]
fn cve_2023_46850_and_2026_40215_a_control_channel_that_was_replaced_sends_nothing_more() {
    let mut ends = Ends::plain();
    ends.run();
    assert!(ends.is_up());
    // The server starts new keys and gets no answer.
    ends.server.handle_command(ends.now, Command::Rekey { peer: PeerId(0) });
    let unanswered = ends.server_says();
    assert_eq!(unanswered[0][0], Header { opcode: Opcode::SoftReset, key_id: 1 }.to_byte());
    let old = sid_of(&unanswered[0]);
    // The client again, on the same port, with no state.
    ends.client = Client::new(ends.params.clone(), ends.now, [3; 32]);
    for _ in 0..40 {
        // Whenever the client says something, the old control channel would repeat itself.
        ends.now += seconds(1);
        ends.client.handle_timeout(ends.now);
        for datagram in ends.client_says() {
            let _ = ends.tell_server(&datagram);
        }
        for datagram in ends.server_says() {
            assert!(ends.downs == 0 || sid_of(&datagram) != old, "the old control channel sends");
            let _ = ends.tell_client(&datagram);
        }
    }
    assert!(ends.downs == 1 && ends.is_up());
}

#[test]
fn cve_2026_12996_a_handshake_that_expired_says_nothing_more() {
    let mut ends = Ends::plain();
    let third = ends.until_third();
    ends.tell_server(&third).unwrap();
    // The rest of what it says to begin TLS comes later.
    ends.now += seconds(3);
    ends.client.handle_timeout(ends.now);
    for datagram in ends.client_says() {
        let _ = ends.tell_server(&datagram);
    }
    let control = Header { opcode: Opcode::Control, key_id: 0 }.to_byte();
    let waits = ends.server_says().iter().any(|datagram| datagram[0] == control);
    assert!(waits && ends.server.half_open() == 1, "something waits for its acknowledgement");
    ends.wait(seconds(60));
    assert_eq!((ends.server.half_open(), ends.server_says().len()), (0, 0));
}

#[test]
fn cve_2026_13117_a_client_that_is_gone_is_told_nothing_more() {
    let mut ends = Ends::plain();
    ends.until_server_is_up();
    assert!(!ends.server_says().is_empty(), "something waits for its acknowledgement");
    ends.wait(seconds(121));
    assert_eq!((ends.server.peers().len(), ends.server_says().len(), ends.downs), (0, 0, 1));
}

#[test]
fn cve_2026_84471_keys_that_were_retired_say_nothing_more() {
    let authority = Authority::new();
    let client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    server.control.rekey.transition = seconds(30);
    let mut ends = Ends::new(client, server);
    ends.until_server_is_up();
    let first = |datagram: &[u8]| datagram[0] & 7 == 0;
    for datagram in ends.server_says() {
        ends.tell_client(&datagram).unwrap();
    }
    // Both are up, but the server gets no message of that, nor any other message under the first key.
    ends.server.handle_command(ends.now, Command::Rekey { peer: PeerId(0) });
    let mut repeated = 0;
    for second in 0..90 {
        ends.now += seconds(1);
        for datagram in ends.client_says().iter().filter(|datagram| !first(datagram)) {
            let _ = ends.tell_server(datagram);
        }
        let heard = Notice::Traffic {
            peer: PeerId(0),
            received: second,
            sent: 0,
            received_bytes: second,
            sent_bytes: 0,
            message_bytes: 0,
            activity: PeerActivity {
                received: Activity { last_data: Some(ends.now), ..Activity::default() },
                sent: Activity::default(),
            },
        };
        ends.server.handle_notice(ends.now, heard);
        ends.server.handle_timeout(ends.now);
        for datagram in ends.server_says() {
            repeated += usize::from(first(&datagram));
            assert!(second < 45 || !first(&datagram), "after {second} s the first key speaks");
            let _ = ends.tell_client(&datagram);
        }
    }
    assert!(repeated > 0 && ends.server.peers()[0].1.rekeys == 1 && ends.downs == 0);
}
