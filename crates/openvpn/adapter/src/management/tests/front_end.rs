//! The events and questions for a client's front end.

use std::time::Duration;

use adit_io::{HttpAuthentication, HttpProxy, Proxy, ProxyKind};
use adit_openvpn::request::{RemoteDecision, RemoteQuery, Reply, Request, ServerNotice};
use zeroize::Zeroizing;

use super::super::Topic;
use super::super::journal::Kind;
use super::super::testing::{Order, desk_of};
use super::super::watcher::Watcher;
use super::{answers, watcher};
use crate::status_file::Form;

/// A client's words to the program at the socket, and the program's answers.
#[test]
fn a_front_end_is_told_and_asked() {
    let (mut context, told) = desk_of(Form::Statistics);
    let mut watcher = watcher(&context, false);
    let program = context.journal.enter();
    let query = RemoteQuery { remote: 2, host: "vpn.example".to_owned(), port: 1194, protocol: "udp" };
    let ask = |watcher: &mut Watcher| watcher.request(&Request::Remote(Box::new(query.clone())), "tun0");
    answers(&mut context, "echo on");
    context.journal.follow(program, Kind::Echo, true);
    for request in [
        Request::ServerInfo("WEB_AUTH::https://sso.example/1".to_owned()),
        Request::ServerNotice(ServerNotice { kind: "remote-exit", text: "EXIT".to_owned() }),
        Request::Echo("forget-passwords".to_owned()),
    ] {
        assert_eq!(watcher.request(&request, "tun0"), None);
    }
    let said: Vec<String> = context.journal.take(program).into();
    assert_eq!(said[..2], [">INFOMSG:WEB_AUTH::https://sso.example/1", ">NOTIFY:info,remote-exit,EXIT"]);
    assert!(said[2].starts_with(">ECHO:") && said[2].ends_with(",forget-passwords"), "{said:?}");
    let replaced = |host: &str, port| Some((host.to_owned(), port));
    for (command, instead, decision) in [
        ("remote ACCEPT", None, RemoteDecision::Try { instead: None }),
        ("remote SKIP", None, RemoteDecision::Skip(1)),
        ("remote SKIP 3", None, RemoteDecision::Skip(3)),
        (
            "remote MOD 192.0.2.1 443",
            replaced("192.0.2.1", 443),
            RemoteDecision::Try { instead: replaced("192.0.2.1", 443) },
        ),
    ] {
        assert_eq!(ask(&mut watcher), None);
        for bad in
            ["remote", "remote MOD x", "remote MOD x 0", "remote MOD 'a b' 1", "remote SKIP 0", "remote x"]
        {
            assert!(answers(&mut context, bad)[0].starts_with("ERROR: "), "{bad}");
        }
        assert_eq!(answers(&mut context, command), ["SUCCESS: remote command succeeded"]);
        let orders = std::mem::take(&mut *told.lock().expect("no thread panicked"));
        assert_eq!(orders, [Order::ReplaceRemote(2, instead), Order::Reply(Reply::Remote(decision))]);
        assert_eq!(answers(&mut context, command), ["ERROR: remote command failed"], "once");
    }
    // Not held back, and held back.
    let wait = Duration::from_secs(4);
    assert_eq!(watcher.request(&Request::MayGoOn { wait }, "tun0"), Some(Reply::GoOn { at_once: false }));
    answers(&mut context, "hold on");
    assert_eq!(watcher.request(&Request::MayGoOn { wait }, "tun0"), None);
    assert_eq!(answers(&mut context, "signal SIGUSR1"), ["ERROR: signal 'SIGUSR1' is currently ignored"]);
    answers(&mut context, "hold release");
    assert_eq!(answers(&mut context, "cr-response SGFsbG8="), ["SUCCESS: command succeeded"]);
    assert_eq!(answers(&mut context, "cr-response !"), ["ERROR: command failed"]);
    answers(&mut context, "forget-passwords");
    assert_eq!(
        *told.lock().expect("no thread panicked"),
        [
            Order::Reply(Reply::GoOn { at_once: true }),
            Order::Reply(Reply::ServerResponse(Zeroizing::new("SGFsbG8=".to_owned()))),
            Order::Reply(Reply::ForgetPasswords),
        ]
    );
}

#[test]
fn a_front_end_names_the_proxy_of_an_attempt() {
    let (mut context, told) = desk_of(Form::Statistics);
    let mut watcher = watcher(&context, false);
    watcher.ask_for_proxies();
    let by = |kind| Some(Proxy { host: "proxy.example".to_owned(), port: 8080, kind, credentials: None });
    let http = |authentication| {
        by(ProxyKind::Http(HttpProxy { authentication, version: "1.0".to_owned(), headers: Vec::new() }))
    };
    for (protocol, line, command, proxy) in [
        ("udp", ">PROXY:3,UDP,vpn.example", "proxy NONE", None),
        ("udp", ">PROXY:3,UDP,vpn.example", "proxy SOCKS proxy.example 8080", by(ProxyKind::Socks)),
        (
            "tcp-client",
            ">PROXY:3,TCP,vpn.example",
            "proxy HTTP proxy.example 8080",
            http(HttpAuthentication::Any),
        ),
        (
            "tcp-client",
            ">PROXY:3,TCP,vpn.example",
            "proxy HTTP proxy.example 8080 nct",
            http(HttpAuthentication::Digest),
        ),
    ] {
        let query = RemoteQuery { remote: 2, host: "vpn.example".to_owned(), port: 1194, protocol };
        assert_eq!(watcher.request(&Request::Remote(Box::new(query)), "tun0"), None);
        assert_eq!(context.questions.greeting(), [line]);
        for bad in ["proxy", "proxy HTTP x", "proxy SOCKS x 0", "proxy FTP x 1", "remote ACCEPT"] {
            assert!(answers(&mut context, bad)[0].starts_with("ERROR: "), "{bad}");
        }
        if protocol == "udp" {
            assert_eq!(answers(&mut context, "proxy HTTP x 1"), ["ERROR: proxy command failed"]);
        }
        assert_eq!(answers(&mut context, command), ["SUCCESS: proxy command succeeded"]);
        let orders = std::mem::take(&mut *told.lock().expect("no thread panicked"));
        let goes_on = Order::Reply(Reply::Remote(RemoteDecision::Try { instead: None }));
        let topic = proxy.as_ref().map(|proxy| match proxy.kind {
            ProxyKind::Http(_) => Topic::HttpProxy,
            ProxyKind::Socks => Topic::SocksProxy,
        });
        assert_eq!(context.questions.named_proxy(2), topic, "{command}");
        assert_eq!(context.questions.named_proxy(1), None, "of another remote");
        assert_eq!(orders, [Order::ReplaceProxy(2, proxy), goes_on]);
        assert_eq!(answers(&mut context, command), ["ERROR: proxy command failed"], "once");
    }
}
