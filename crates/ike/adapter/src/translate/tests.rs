use adit_ike::machine::{
    Addresses, EndAction, FullTranscript, PeerIdentity, RemoteProof, StartAction, Unique,
};

use super::*;
use crate::testing::{config, planned, text};

#[test]
fn a_connection_has_the_settings_of_its_section() {
    let connection = "remote_port = 4500\n encap = yes\n mobike = no\n unique = replace\n fragmentation = no\n rekey_time = 0\n \
                      dpd_delay = 7s";
    let child = "start_action = trap|start\n close_action = start\n dpd_action = trap\n rekey_time = 9m\n life_time = 10m";
    let [planned] = &planned(connection, child)[..] else { panic!("one connection") };
    let of = &planned.connection;
    assert_eq!((of.name.as_str(), of.forces_encapsulation, of.mobike), ("office", true, false));
    assert_eq!((of.unique, of.longest_datagram, of.times.ike_rekey), (Unique::Replace, None, None));
    assert_eq!(of.times.dead_peer_detection, Some(Duration::from_secs(7)));
    assert!(
        matches!(&of.remote_auth.identity, PeerIdentity::Exactly(identity) if identity.data == b"b.example")
    );
    assert!(matches!(&of.remote_auth.proof, RemoteProof::SharedKey(key) if **key.0 == *b"a secret"));
    assert_eq!(
        (&planned.targets[..], planned.port),
        (&[Target::Address("192.0.2.1".parse().unwrap())][..], 4500)
    );
    assert_eq!(of.sources, ["192.0.2.1/32".parse().unwrap()]);
    let [child] = &of.children[..] else { panic!("one child") };
    assert_eq!(
        (child.start, child.on_close, child.on_dead_peer),
        (StartAction::TrapAndStart, EndAction::Start, EndAction::Trap)
    );
    assert_eq!(
        (child.rekey, child.lifetime),
        (Some(Duration::from_secs(540)), Some(Duration::from_secs(600)))
    );
    let networks: Vec<String> = planned.remote_networks().map(|network| network.to_string()).collect();
    assert_eq!(networks, ["10.2.0.0/16"]);
}

#[test]
fn a_connection_proves_both_first_messages_as_its_line_says() {
    let of = |line: &str| {
        let planned = connections(&config(&format!("{line}{}", text("", ""))));
        planned.map_err(drop).expect("connections").remove(0)
    };
    let [usual, required] = ["", "#adit: office.full_transcript_auth = require\n"].map(of);
    let kinds = [&usual, &required].map(|planned| planned.connection.full_transcript);
    assert_eq!(kinds, [FullTranscript::Offer, FullTranscript::Require]);
    assert!(usual.is_same_as(&of("#adit: office.full_transcript_auth = yes\n")));
    assert!(!usual.is_same_as(&required), "SIGHUP makes the connection anew");
}

#[test]
fn traffic_of_this_end_may_be_its_outer_address() {
    let text = text("", "start_action = start").replace(" local_ts = 10.1.0.0/16\n", "");
    let planned = connections(&config(&text)).map_err(drop).expect("connections");
    assert_eq!(planned[0].connection.children[0].local[0].addresses, Addresses::Dynamic);
    assert_eq!(planned[0].local_networks().count(), 0);
}

#[test]
fn a_peer_may_initiate_from_the_addresses_of_the_file_and_from_any_without() {
    let sources_of = |hosts: &str| {
        let text = text("", "").replace("192.0.2.1", hosts);
        let planned = connections(&config(&text)).map_err(drop).expect("connections");
        planned[0].connection.sources.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(sources_of("192.0.2.0/24, 2001:db8::1"), ["192.0.2.0/24", "2001:db8::1/128"]);
    assert_eq!(sources_of("192.0.2.1-192.0.2.2"), ["192.0.2.1/32", "192.0.2.2/32"]);
    for any in ["%any", "vpn.example.org", "192.0.2.1, %any"] {
        assert_eq!(sources_of(any), [""; 0], "{any}");
    }
}

#[test]
fn a_setting_that_is_not_carried_out_is_refused_with_its_line() {
    let first = |text: &str| {
        let problems = connections(&config(text)).err().unwrap_or_default();
        problems.first().map(ToString::to_string).unwrap_or_default()
    };
    for (connection, child, start) in [
        ("local_port = 4501", "", "a.conf:4: `local_port`: the ports are 500 and 4500"),
        ("", "tfc_padding = mtu", "a.conf:17: `tfc_padding`: packets are not padded"),
        ("", "replay_window = 0", "a.conf:17: `replay_window`: replayed packets are always refused"),
        ("", "replay_window = 100000", "a.conf:17: `replay_window`: 65536 packets are the most"),
    ] {
        let problem = first(&text(connection, child));
        assert!(problem.starts_with(start), "{problem}");
    }
    let without = first(&text("", "start_action = start").replace("192.0.2.1", "%any"));
    assert!(without.contains("a.conf:17: `start_action`: there is no address to initiate to"), "{without}");
    let secret = first(&text("", "").replace("ike-1 {\n", "ike-1 {\n id = c.example\n"));
    assert!(secret.contains("a.conf:2: there is no pre-shared key for these identities"), "{secret}");
}

#[test]
fn a_connection_is_known_again_unless_it_or_its_key_has_changed() {
    let before = planned("", "");
    let is_same = |text: &str| {
        let after = connections(&config(text)).map_err(drop).expect("connections");
        before[0].is_same_as(&after[0])
    };
    assert!(is_same(&format!("# a comment\n\n{}", text("", ""))));
    assert!(!is_same(&text("", "rekey_time = 7m")));
    assert!(!is_same(&text("", "").replace("a secret", "another secret")));
}

#[test]
fn a_setting_without_effect_gives_a_warning_with_its_line() {
    let set = config(&text("", "copy_dscp = no\n copy_df = no\n icmp = yes"));
    let warnings: Vec<String> = without_effect(&set).iter().map(ToString::to_string).collect();
    assert!(warnings[0].starts_with("a.conf:18: `copy_df` has no effect"), "{warnings:?}");
    assert!(warnings[1].starts_with("a.conf:19: `icmp` has no effect so far") && warnings.len() == 2);
    for dscp in ["in", "yes"] {
        let warnings = without_effect(&config(&text("", &format!("copy_dscp = {dscp}"))));
        assert!(warnings[0].to_string().contains("the DSCP of received packets stays"), "{warnings:?}");
    }
    assert_eq!(without_effect(&config(&text("", ""))), []);
}

#[test]
fn limits_of_the_use_of_a_child_are_those_of_the_file() {
    let limits_of = |child: &str| planned("", child)[0].connection.children[0].limits;
    assert_eq!(limits_of(""), EspLimits { copies_dscp: true, ..EspLimits::default() });
    assert_eq!(limits_of("copy_dscp = no"), EspLimits::default());
    assert!(limits_of("copy_dscp = yes").copies_dscp && !limits_of("copy_dscp = in").copies_dscp);
    let limits =
        limits_of("rekey_bytes = 1000000\n life_packets = 1100\n replay_window = 64\n copy_ecn = no");
    assert_eq!((limits.rekey_bytes, limits.most_bytes), (Some(1_000_000), Some(1_100_000)));
    assert_eq!((limits.rekey_packets, limits.most_packets), (Some(1000), Some(1100)));
    assert_eq!((limits.replay_window, limits.ignores_ecn), (Some(64), true));
}

#[test]
fn inactivity_is_that_of_the_only_child() {
    let one = text("", "inactivity = 9s");
    let planned = connections(&config(&one)).map_err(drop).expect("connections");
    assert_eq!(planned[0].connection.children[0].inactivity, Some(Duration::from_secs(9)));
    assert_eq!(without_effect(&config(&one)), []);
    let two = one.replace("children {", "children {\n other {\n remote_ts = 10.3.0.0/16\n }");
    let warning = without_effect(&config(&two)).remove(0).to_string();
    assert!(warning.contains("`inactivity` has no effect, as traffic is counted by peer"), "{warning}");
}

#[test]
fn connections_have_one_dscp_of_ike_messages() {
    let one = text("dscp = 101110", "");
    assert_eq!((dscp(&config(&one)), without_effect(&config(&one)).len()), (Some(46), 0));
    let other =
        text("", "").replace("office {", "cloud {").split("secrets").next().unwrap_or_default().to_owned();
    let both = config(&format!("{one}{other}"));
    assert_eq!(dscp(&both), None);
    let warning = without_effect(&both).remove(0).to_string();
    assert!(
        warning.starts_with("a.conf:4: `dscp` has no effect, as the connections of the file differ"),
        "{warning}"
    );
}
