//! `learn-address`: the script runs for each address, before anything is sent there.
use std::time::Duration;

use adit_core::{Command, IpNet, PeerId, PeerOrder, Protocol, Transport};
use adit_openvpn::params::PerClientParams;
use adit_openvpn::request::{DataEvent, Event, PeerSettings, Reply, Script, ScriptOutcome};
use adit_openvpn::testing::judged::{asked, variable};
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

/// A pair whose server has asked for the client's settings and got a network behind it.
fn pair() -> Pair {
    let authority = Authority::new();
    let client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    server.access.learn_address = Some(vec!["/learn".to_owned(), "word".to_owned()]);
    server.per_client = PerClientParams { ask: true, ..PerClientParams::default() };
    let mut pair = Pair::new(client, server);
    tell_settings(&mut pair, PeerId(0));
    pair
}

fn tell_settings(pair: &mut Pair, peer: PeerId) {
    let settings = PeerSettings { routes: vec!["10.66.0.0/16".parse().unwrap()], ..PeerSettings::default() };
    let settings = Ok(Box::new(settings));
    pair.server.handle_reply(pair.now, Reply::PeerSettings { peer, name: "alice".to_owned(), settings });
    pair.exchange();
}

/// The client loses its connection, which the server does not notice, and comes in again.
fn come_again(pair: &mut Pair) {
    pair.cut = true;
    pair.client.handle_command(pair.now, Command::Restart);
    pair.exchange();
    pair.cut = false;
    pair.advance(Duration::from_secs(3));
    tell_settings(pair, PeerId(1));
}

/// The lines for all of the client's addresses: what becomes of them, and the name that follows.
fn each(what: &str, name: &str) -> Vec<String> {
    ["10.8.0.2", "fd00:8::1000", "10.66.0.0/16"].map(|net| format!("/learn word {what} {net}{name}")).to_vec()
}

fn learned(pair: &Pair) -> Vec<&Script> {
    asked(pair, "learn-address")
}

fn words(scripts: &[&Script]) -> Vec<String> {
    scripts.iter().map(|script| script.argv.join(" ")).collect()
}

/// All scripts asked for from the one of that number on end well, but those about `refused`.
fn answer(pair: &mut Pair, from: usize, refused: &str) {
    let ids: Vec<_> = learned(pair)[from..]
        .iter()
        .map(|script| (script.id, script.argv.contains(&refused.to_owned())))
        .collect();
    for (id, refuses) in ids {
        let outcome = ScriptOutcome { exit: Ok(i32::from(refuses)), files: Vec::new(), settings: None };
        pair.server.handle_reply(pair.now, Reply::ScriptDone { id, outcome });
        pair.exchange();
    }
}

fn routes(pair: &Pair) -> Vec<IpNet> {
    let added = |event: &Event| match event {
        Event::Data(DataEvent::Peer(PeerOrder::Add(config))) => Some(config.routes.clone()),
        _ => None,
    };
    pair.server_events.iter().rev().find_map(added).unwrap()
}

#[test]
fn each_address_is_told_and_later_taken_back() {
    let mut pair = pair();
    assert!(!pair.is_up(), "not before the script has answered");
    assert_eq!(words(&learned(&pair)), each("add", " alice"));
    assert!(learned(&pair).iter().all(|script| script.in_order.is_some()));
    assert_eq!(variable(learned(&pair)[0], "common_name"), Some("alice"));
    answer(&mut pair, 0, "");
    assert!(pair.is_up());
    assert_eq!(routes(&pair).len(), 3);

    pair.client.handle_command(pair.now, Command::Shutdown);
    pair.exchange();
    let mut gone = words(&learned(&pair)[3..]);
    gone.sort();
    let mut expected = each("delete", "");
    expected.sort();
    assert_eq!(gone, expected);
    assert_eq!(variable(learned(&pair)[3], "common_name"), None, "as OpenVPN has it");
}

#[test]
fn nothing_is_sent_where_the_script_says_no() {
    let mut pair = pair();
    answer(&mut pair, 0, "10.66.0.0/16");
    assert!(pair.is_up());
    let routes: Vec<String> = routes(&pair).iter().map(ToString::to_string).collect();
    assert_eq!(routes, ["10.8.0.2/32", "fd00:8::1000/128"]);
    pair.server.handle_command(pair.now, Command::Disconnect { peer: PeerId(0) });
    pair.exchange();
    assert_eq!(learned(&pair).len(), 5, "what was refused is not taken back");
}

#[test]
fn who_comes_back_in_time_has_its_addresses_updated() {
    let mut pair = pair();
    answer(&mut pair, 0, "");
    come_again(&mut pair);
    let again = words(&learned(&pair)[3..]);
    assert_eq!(again.len(), 3, "{again:?}");
    assert!(again.iter().all(|line| line.contains(" update ") && line.ends_with(" alice")), "{again:?}");
    answer(&mut pair, 3, "");
    assert!(pair.is_up());
}

/// The script has not answered for its first connection yet: the first connection makes room, and the addresses stay
/// the name's.
#[test]
fn who_comes_back_before_the_answer_has_its_addresses() {
    let mut pair = pair();
    come_again(&mut pair);
    assert_eq!(words(&learned(&pair)[3..]), each("update", " alice"));
    // The answers for the first connection concern no connection any more.
    answer(&mut pair, 0, "");
    assert!(pair.is_up());
    assert_eq!((routes(&pair).len(), learned(&pair).len()), (3, 6));
}

#[test]
fn a_client_that_leaves_before_the_answer_leaves_nothing() {
    let mut pair = pair();
    pair.server.handle_command(pair.now, Command::Disconnect { peer: PeerId(0) });
    pair.exchange();
    assert!(words(&learned(&pair)[3..]).iter().all(|line| line.contains(" delete ")));
    assert_eq!(learned(&pair).len(), 6);
}

/// A program that changes a client's address quicker than the script answers does not fill the queue of scripts.
#[test]
fn updates_do_not_outrun_the_script() {
    let mut pair = pair();
    answer(&mut pair, 0, "");
    let update = |pair: &mut Pair, last: u8| {
        let options = format!("ifconfig 10.8.0.{last} 255.255.255.0");
        let sent = pair.server.push_update(pair.now, Some(0), &options);
        pair.exchange();
        sent
    };
    for last in 100..116 {
        assert_eq!(update(&mut pair, last), Ok(1));
    }
    let refused = update(&mut pair, 116).unwrap_err().to_string();
    assert_eq!(
        refused,
        "learn-address has not answered about 16 addresses of alice yet; try again when it has"
    );
    let runs = learned(&pair).len();
    assert_eq!(runs, 3 + 16 + 16, "each address was deleted before the next was added");
    answer(&mut pair, 3, "");
    assert_eq!(update(&mut pair, 116), Ok(1));
    assert_eq!(learned(&pair).len(), runs + 2);
    assert!(pair.is_up());
}

/// PUSH_UPDATE gives the client another address: OpenVPN 2.7 multi.c, `update_vhash`.
#[test]
fn an_address_that_an_update_gives_is_learned_first() {
    let mut pair = pair();
    answer(&mut pair, 0, "");
    let routed = |pair: &Pair| {
        let order = |event: &Event| match event {
            Event::Data(DataEvent::Peer(PeerOrder::AddRoute { route, .. })) => Some(format!("+{route}")),
            Event::Data(DataEvent::Peer(PeerOrder::RemoveRoute { route, .. })) => Some(format!("-{route}")),
            _ => None,
        };
        pair.server_events.iter().filter_map(order).collect::<Vec<_>>()
    };
    let update = |pair: &mut Pair, last: u8| {
        let options = format!("ifconfig 10.8.0.{last} 255.255.255.0");
        assert_eq!(pair.server.push_update(pair.now, Some(0), &options), Ok(1));
        pair.exchange();
    };
    update(&mut pair, 77);
    assert_eq!(
        words(&learned(&pair)[3..]),
        ["/learn word delete 10.8.0.2", "/learn word add 10.8.0.77 alice"]
    );
    assert_eq!(variable(learned(&pair)[4], "ifconfig_pool_remote_ip"), Some("10.8.0.77"));
    assert_eq!(routed(&pair), ["-10.8.0.2/32"], "not before the script has answered");
    answer(&mut pair, 4, "");
    assert_eq!(routed(&pair)[1..], ["+10.8.0.77/32"]);
    // One that the script says no to is not reached, and not taken back.
    update(&mut pair, 78);
    answer(&mut pair, 6, "10.8.0.78");
    assert_eq!(routed(&pair)[2..], ["-10.8.0.77/32"]);
    // Another comes before the script has answered.
    update(&mut pair, 79);
    let pending = learned(&pair).len() - 1;
    update(&mut pair, 80);
    answer(&mut pair, pending, "");
    let lines = words(&learned(&pair)[5..]);
    let expected = [
        "delete 10.8.0.77",
        "add 10.8.0.78 alice",
        "add 10.8.0.79 alice",
        "delete 10.8.0.79",
        "add 10.8.0.80 alice",
    ];
    assert_eq!(lines, expected.map(|line| format!("/learn word {line}")));
    assert_eq!(routed(&pair)[3..], ["+10.8.0.80/32"]);
    assert!(pair.is_up());
}
