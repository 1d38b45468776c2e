//! Two servers that are endpoints of one tunnel: one pool, and one client of a name.
use adit_core::{Command, PeerId, PeerOrder, Protocol, SharedPool, Transport};
use adit_openvpn::params::{PerClientParams, ServerParams};
use adit_openvpn::request::{DataEvent, Event, PeerSettings, Reply, ScriptOutcome};
use adit_openvpn::testing::judged::asked;
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

/// A tunnel with an endpoint for UDP and one for TCP.
struct Tunnel {
    authority: Authority,
    pool: SharedPool,
    change: fn(&mut ServerParams),
}

impl Tunnel {
    fn new(change: fn(&mut ServerParams)) -> Self {
        Tunnel { authority: Authority::new(), pool: SharedPool::default(), change }
    }

    /// An endpoint, to which a client of that name connects.
    fn endpoint(&self, transport: Transport, name: &str) -> Pair {
        let client = client_params(&self.authority.issue(name, ClientAuth), WrapConfig::Plain, transport);
        let mut server = server_params(&self.authority.issue("server", ServerAuth), WrapConfig::Plain);
        (self.change)(&mut server);
        Pair::with_pool(client, server, &self.pool)
    }
}

/// Does the driver's part: the other endpoint looks, if this one reports that leases moved.
fn tell(from: &mut Pair, to: &mut Pair) -> bool {
    let count = from.server_events.len();
    from.server_events.retain(|event| !matches!(event, Event::LeasesMoved));
    let moved = from.server_events.len() < count;
    if moved {
        to.server.handle_command(to.now, Command::LeasesMoved);
        to.exchange();
    }
    moved
}

/// The inner addresses of the only client.
fn addresses(pair: &Pair) -> Vec<String> {
    let peers = pair.server.peers();
    assert_eq!(peers.len(), 1);
    peers[0].1.addresses.iter().map(ToString::to_string).collect()
}

fn why_down(pair: &Pair) -> Option<&str> {
    pair.server_events.iter().find_map(|event| match event {
        Event::PeerDown { reason, .. } => Some(reason.as_str()),
        _ => None,
    })
}

#[test]
fn a_name_moves_to_the_other_endpoint_with_its_addresses() {
    let tunnel = Tunnel::new(|_| {});
    let mut udp = tunnel.endpoint(Transport::Udp, "alice");
    assert_eq!(addresses(&udp), ["10.8.0.2", "fd00:8::1000"]);
    let mut tcp = tunnel.endpoint(Transport::Tcp, "alice");
    assert_eq!(addresses(&tcp), addresses(&udp), "before the older session hears of it");
    assert!(tell(&mut tcp, &mut udp));
    assert!(udp.server.peers().is_empty());
    let why = "replaced by a new connection of the same client at another endpoint";
    assert_eq!(why_down(&udp), Some(why));
    assert!(
        udp.server_events
            .iter()
            .any(|event| matches!(event, Event::Data(DataEvent::Peer(PeerOrder::Remove(_)))))
    );
    assert_eq!((addresses(&tcp).len(), why_down(&tcp)), (2, None));
    // And back, by a client that comes anew.
    let mut again = tunnel.endpoint(Transport::Udp, "alice");
    assert!(tell(&mut again, &mut tcp));
    assert_eq!((addresses(&again)[0].as_str(), why_down(&tcp)), ("10.8.0.2", Some(why)));
}

#[test]
fn other_names_have_other_addresses_of_one_pool() {
    let tunnel = Tunnel::new(|_| {});
    let mut udp = tunnel.endpoint(Transport::Udp, "alice");
    let mut tcp = tunnel.endpoint(Transport::Tcp, "bob");
    assert!(!tell(&mut tcp, &mut udp));
    assert_eq!((addresses(&udp)[0].as_str(), addresses(&tcp)[0].as_str()), ("10.8.0.2", "10.8.0.3"));
}

#[test]
fn a_name_may_be_at_both_with_duplicate_cn() {
    let tunnel = Tunnel::new(|server| server.duplicate_cn = true);
    let mut udp = tunnel.endpoint(Transport::Udp, "alice");
    let mut tcp = tunnel.endpoint(Transport::Tcp, "alice");
    assert!(!tell(&mut tcp, &mut udp));
    assert_ne!(addresses(&udp), addresses(&tcp));
}

#[test]
fn an_address_by_settings_is_taken_from_the_other_endpoint_unless_it_is_fixed_there() {
    let tunnel =
        Tunnel::new(|server| server.per_client = PerClientParams { ask: true, ..server.per_client.clone() });
    let settle = |pair: &mut Pair, name: &str, address: Option<&str>| {
        let netmask = "255.255.255.0".parse().unwrap();
        let ipv4 = address.map(|address| (address.parse().unwrap(), netmask));
        let settings = Ok(Box::new(PeerSettings { ipv4, ..PeerSettings::default() }));
        let reply = Reply::PeerSettings { peer: PeerId(0), name: name.to_owned(), settings };
        pair.server.handle_reply(pair.now, reply);
        pair.exchange();
    };
    let mut udp = tunnel.endpoint(Transport::Udp, "alice");
    settle(&mut udp, "alice", None);
    assert_eq!(addresses(&udp)[0], "10.8.0.2");
    let mut tcp = tunnel.endpoint(Transport::Tcp, "bob");
    settle(&mut tcp, "bob", Some("10.8.0.2"));
    assert!(tell(&mut tcp, &mut udp));
    assert_eq!(why_down(&udp), Some("its address belongs to bob by ifconfig-push"));
    assert_eq!(addresses(&tcp)[0], "10.8.0.2");

    let mut other = tunnel.endpoint(Transport::Udp, "carol");
    settle(&mut other, "carol", Some("10.8.0.2"));
    assert!(!tell(&mut other, &mut tcp) && other.server.peers().is_empty());
    let refusal = other.server_events.iter().find_map(|event| match event {
        Event::Report(report) if report.text.contains("ifconfig-push") => Some(report.text.clone()),
        _ => None,
    });
    assert_eq!(refusal.as_deref(), Some("carol: bob has the same address by ifconfig-push; refused"));
}

#[test]
fn learn_address_hears_of_an_update_and_not_that_the_address_went() {
    let tunnel = Tunnel::new(|server| server.access.learn_address = Some(vec!["/learn".to_owned()]));
    let answer = |pair: &mut Pair| {
        let ids: Vec<_> = asked(pair, "learn-address").iter().map(|script| script.id).collect();
        for id in ids {
            let outcome = ScriptOutcome { exit: Ok(0), files: Vec::new(), settings: None };
            pair.server.handle_reply(pair.now, Reply::ScriptDone { id, outcome });
            pair.exchange();
        }
    };
    let words = |pair: &Pair| -> Vec<String> {
        asked(pair, "learn-address").iter().map(|script| script.argv[1].clone()).collect()
    };
    let mut udp = tunnel.endpoint(Transport::Udp, "alice");
    answer(&mut udp);
    let mut tcp = tunnel.endpoint(Transport::Tcp, "alice");
    assert!(tell(&mut tcp, &mut udp));
    answer(&mut tcp);
    assert_eq!(addresses(&tcp)[0], "10.8.0.2");
    assert_eq!((words(&udp), words(&tcp)), (vec!["add".to_owned(); 2], vec!["update".to_owned(); 2]));
    tcp.client.handle_command(tcp.now, Command::Shutdown);
    tcp.exchange();
    assert_eq!(words(&tcp)[2..], ["delete", "delete"]);
}

#[test]
fn a_client_that_is_judged_still_loses_to_a_later_one() {
    let tunnel = Tunnel::new(|server| server.access.client_connect = Some(vec!["/connect".to_owned()]));
    let mut udp = tunnel.endpoint(Transport::Udp, "alice");
    let mut tcp = tunnel.endpoint(Transport::Tcp, "alice");
    // The script of the older one ends before its endpoint learned of the later one.
    let done = |pair: &mut Pair| {
        let id = asked(pair, "client-connect")[0].id;
        let outcome = ScriptOutcome { exit: Ok(0), files: Vec::new(), settings: None };
        pair.server.handle_reply(pair.now, Reply::ScriptDone { id, outcome });
        pair.exchange();
    };
    done(&mut udp);
    assert!(udp.server.peers().is_empty());
    done(&mut tcp);
    assert_eq!(addresses(&tcp)[0], "10.8.0.2");
    tell(&mut tcp, &mut udp);
    assert_eq!(addresses(&tcp).len(), 2);
}

#[test]
fn other_ranges_wait_while_another_endpoint_uses_the_pool() {
    let only_ipv4 = |server: &mut ServerParams| (server.address6, server.pool6) = (None, None);
    let tunnel = Tunnel::new(only_ipv4);
    let mut udp = tunnel.endpoint(Transport::Udp, "alice");
    let tcp = tunnel.endpoint(Transport::Tcp, "bob");
    let others = || {
        let mut params = server_params(&tunnel.authority.issue("server", ServerAuth), WrapConfig::Plain);
        only_ipv4(&mut params);
        params.pool4 = Some(("10.8.0.100".parse().unwrap(), "10.8.0.120".parse().unwrap()));
        params
    };
    udp.server.reconfigure(others());
    udp.exchange();
    let waits = |event: &Event| matches!(event, Event::Report(report) if report.text.contains("shared with other endpoints"));
    assert_eq!(udp.server_events.iter().filter(|event| waits(event)).count(), 1);
    let carol = tunnel.endpoint(Transport::Udp, "carol");
    assert_eq!(addresses(&carol)[0], "10.8.0.4", "of the old ranges");
    // With the others gone they hold.
    drop((tcp, carol));
    udp.server.reconfigure(others());
    let dora = tunnel.endpoint(Transport::Tcp, "dora");
    assert_eq!((addresses(&udp)[0].as_str(), addresses(&dora)[0].as_str()), ("10.8.0.2", "10.8.0.100"));
}
