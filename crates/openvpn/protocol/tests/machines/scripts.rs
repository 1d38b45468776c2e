//! The facts that an end that connects gives its scripts, and the decisions of its `tls-verify`.

use std::sync::Arc;

use adit_core::{Command, Ended, Protocol as _, Route, RouteVia, Transport};
use adit_openvpn::credentials::Credentials;
use adit_openvpn::params::{ClientParams, ScriptParams, ServerParams};
use adit_openvpn::request::{Event, Reply, Request, Script, ScriptOutcome, TunnelFacts};
use adit_openvpn::testing::{Authority, Pair, client_params, server_params};
use adit_openvpn::wrap::WrapConfig;
use rcgen::ExtendedKeyUsagePurpose;

fn pair(change: impl FnOnce(&mut ClientParams, &mut ServerParams, &mut ScriptParams)) -> Pair {
    let authority = Authority::new();
    let issue = |name, usage| -> Credentials { authority.issue(name, usage) };
    let server = issue("vpn", ExtendedKeyUsagePurpose::ServerAuth);
    let mut server_params = server_params(&server, WrapConfig::Plain);
    let client = issue("alice", ExtendedKeyUsagePurpose::ClientAuth);
    let mut client_params = client_params(&client, WrapConfig::Plain, Transport::Udp);
    client_params.control.authorities = server.authorities();
    let mut scripts =
        ScriptParams { env: vec![("OWN".to_owned(), "1".to_owned())], ..ScriptParams::default() };
    change(&mut client_params, &mut server_params, &mut scripts);
    client_params.control.holds_hello = scripts.tls_verify.is_some();
    client_params.local.scripts = Some(Arc::new(scripts));
    Pair::new(client_params, server_params)
}

fn requests(pair: &Pair) -> impl Iterator<Item = &Request> {
    pair.client_events.iter().filter_map(|event| match event {
        // These are for the management client.
        Event::Request(Request::Progress(_)) => None,
        Event::Request(request) => Some(request),
        _ => None,
    })
}

fn facts(pair: &Pair) -> &TunnelFacts {
    let found = requests(pair).find_map(|request| match request {
        Request::TunnelFacts(facts) => Some(facts.as_ref()),
        _ => None,
    });
    found.expect("facts of the tunnel")
}

fn value<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
    env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn verify(_: &mut ClientParams, _: &mut ServerParams, scripts: &mut ScriptParams) {
    scripts.tls_verify = Some(vec!["/verify".to_owned(), "word".to_owned()]);
}

fn asked(pair: &Pair) -> Vec<&Script> {
    requests(pair).filter_map(script).collect()
}

fn script(request: &Request) -> Option<&Script> {
    match request {
        Request::RunScript(script) => Some(script),
        _ => None,
    }
}

fn answer(pair: &mut Pair, code: i32) {
    let id = asked(pair).last().expect("a script").id;
    let outcome = ScriptOutcome { exit: Ok(code), files: Vec::new(), settings: None };
    let now = pair.now;
    pair.client.handle_reply(now, Reply::ScriptDone { id, outcome });
    pair.exchange();
}

#[test]
fn scripts_are_told_of_the_peer_and_then_of_the_tunnel() {
    let pair = pair(|_, server, scripts| {
        server.push.push("dhcp-option DNS 10.8.0.1".to_owned());
        server.push.push("setenv-safe WORD x".to_owned());
        scripts.dhcp_options.push("DOMAIN a.example".to_owned());
    });
    let first: Vec<&Request> = requests(&pair).collect();
    let [Request::PeerFacts(peer), Request::TunnelFacts(_), ..] = first[..] else { panic!("{first:?}") };
    for (name, expected) in [
        ("OWN", "1"),
        ("common_name", "vpn"),
        ("X509_0_CN", "vpn"),
        ("X509_1_CN", "test authority"),
        ("tls_id_1", "CN=test authority"),
    ] {
        assert_eq!(value(&peer.env, name), Some(expected), "{name}");
    }
    assert!(peer.address.starts_with("[AF_INET]"), "{}", peer.address);
    let facts = facts(&pair);
    assert_eq!((facts.local.as_str(), facts.remote.as_str()), ("10.8.0.2", "255.255.255.0"));
    for (name, expected) in [
        ("foreign_option_1", "dhcp-option DOMAIN a.example"),
        ("foreign_option_2", "dhcp-option DNS 10.8.0.1"),
        ("OPENVPN_WORD", "x"),
        ("ifconfig_netmask", "255.255.255.0"),
    ] {
        assert_eq!(value(&facts.env, name), Some(expected), "{name}");
    }
    for (name, expected) in [
        ("route_network_1", "10.20.0.0"),
        ("route_netmask_1", "255.255.0.0"),
        ("route_gateway_1", "10.8.0.1"),
        ("route_vpn_gateway", "10.8.0.1"),
    ] {
        assert_eq!(value(&facts.routes, name), Some(expected), "{name}");
    }
    assert_eq!(facts.gateways[0].name, "route_net_gateway");
}

#[test]
fn scripts_are_told_all_of_a_name_server() {
    let pair = pair(|_, server, _| {
        for line in ["address 10.8.0.1:5353 fd00:8::53", "resolve-domains a.example b.example", "dnssec yes"]
        {
            server.push.push(format!("dns server 1 {line}"));
        }
        server.push.push("dns server 2 address 10.8.0.3".to_owned());
        server.push.push("dns server 2 transport DoT".to_owned());
        server.push.push("dns server 2 sni dns.example".to_owned());
    });
    let facts = facts(&pair);
    let found: Vec<(&str, &str)> = facts
        .env
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix("dns_server_")?, value.as_str())))
        .collect();
    let expected = [
        ("1_address_1", "10.8.0.1"),
        ("1_port_1", "5353"),
        ("1_address_2", "fd00:8::53"),
        ("1_resolve_domain_1", "a.example"),
        ("1_resolve_domain_2", "b.example"),
        ("1_dnssec", "yes"),
        ("2_address_1", "10.8.0.3"),
        ("2_transport", "DoT"),
        ("2_sni", "dns.example"),
    ];
    assert_eq!(found, expected);
}

/// The server gives its routes for scripts about its clients.
#[test]
fn a_server_says_its_routes() {
    let pair = pair(|_, server, _| {
        server.scripts = Some(Arc::default());
        let route =
            Route { destination: "10.66.0.0/16".parse().unwrap(), via: RouteVia::Tunnel, metric: None };
        server.routes.push(route);
    });
    let facts = pair.server_events.iter().find_map(|event| match event {
        Event::Request(Request::TunnelFacts(facts)) => Some(facts),
        _ => None,
    });
    let routes = &facts.expect("facts of the tunnel").routes;
    assert_eq!(value(routes, "route_network_1"), Some("10.66.0.0"));
    assert_eq!(value(routes, "route_gateway_1"), Some("10.8.0.2"));
}

#[test]
fn without_scripts_nothing_is_said_for_them() {
    let authority = Authority::new();
    let server = authority.issue("vpn", ExtendedKeyUsagePurpose::ServerAuth);
    let client = authority.issue("alice", ExtendedKeyUsagePurpose::ClientAuth);
    let pair = Pair::new(
        client_params(&client, WrapConfig::Plain, Transport::Udp),
        server_params(&server, WrapConfig::Plain),
    );
    assert!(pair.is_up() && requests(&pair).next().is_none());
}

#[test]
fn why_a_connection_ends_is_said_before_it() {
    let mut pair = pair(|_, _, _| {});
    pair.client.handle_command(pair.now, Command::Restart);
    pair.exchange();
    let position = |wanted: fn(&Event) -> bool| pair.client_events.iter().position(wanted);
    let signal = position(|event| matches!(event, Event::Request(Request::Signal("sigusr1"))));
    let down = position(|event| matches!(event, Event::PeerDown { .. }));
    assert!(signal.is_some() && signal < down, "{signal:?} {down:?}");
}

/// `explicit-exit-notify`: scripts and the log get it.
#[test]
fn a_client_that_ends_says_that_it_sends_an_exit_notice() {
    for exit_notify in [true, false] {
        let mut pair = pair(|client, _, _| client.remotes[0].exit_notify = exit_notify);
        pair.client.handle_command(pair.now, Command::Shutdown);
        pair.exchange();
        let signal = if exit_notify { "exit-with-notification" } else { "sigterm" };
        let mut told = Vec::new();
        for event in &pair.client_events {
            match event {
                Event::Request(Request::Signal(signal)) => told.push(*signal),
                Event::Request(Request::ExitNotice { commanded: true }) => told.push("notice"),
                _ => {}
            }
        }
        let wanted = if exit_notify { vec!["notice", signal] } else { vec![signal] };
        assert_eq!(told, wanted, "{:?}", pair.client_events);
    }
}

#[test]
fn a_server_is_told_nothing_before_its_certificates_are_found_good() {
    let mut pair = pair(verify);
    assert!(!pair.is_up());
    let words = |pair: &Pair| asked(pair).last().unwrap().argv.clone();
    assert_eq!(words(&pair), ["/verify", "word", "1", "CN=test authority"]);
    let env = &asked(&pair)[0].env;
    assert_eq!((value(env, "X509_1_CN"), value(env, "X509_0_CN")), (Some("test authority"), None));
    answer(&mut pair, 0);
    assert!(!pair.is_up());
    assert_eq!(words(&pair), ["/verify", "word", "0", "CN=vpn"]);
    assert_eq!(value(&asked(&pair)[1].env, "common_name"), Some("vpn"));
    answer(&mut pair, 0);
    assert!(pair.is_up());
    assert_eq!(asked(&pair).len(), 2);
}

#[test]
fn a_certificate_that_the_script_refuses_ends_the_connection() {
    let mut pair = pair(verify);
    answer(&mut pair, 1);
    assert!(!pair.is_up());
    let says = |event: &Event| match event {
        Event::Report(report) => {
            report.text.contains("tls-verify refuses") && report.text.contains("depth 1")
        }
        _ => false,
    };
    assert!(pair.client_events.iter().any(says), "{:?}", pair.client_events);
    assert!(pair.server.peers().is_empty());
}

#[test]
fn with_tls_exit_a_certificate_that_the_script_refuses_ends_the_client() {
    let mut pair = pair(|client, server, scripts| {
        client.tls_exit = true;
        verify(client, server, scripts);
    });
    answer(&mut pair, 1);
    let failed =
        |event: &Event| matches!(event, Event::Ended(Ended::Failed(why)) if why.contains("tls-exit"));
    assert!(pair.client_events.iter().any(failed), "{:?}", pair.client_events);
}
