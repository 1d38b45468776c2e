//! Commands and their answers. Those of OpenVPN 2.6.14 to the same commands are the model.

use std::time::{Duration, Instant};

use adit_core::{Cipher, Command, Ended, Path, PeerId, Report, Route, RouteVia, Transport, TunnelSettings};
use adit_io::{HttpAuthentication, HttpProxy, Proxy, ProxyKind};
use adit_openvpn::request::{
    ClientEvent, ClientStep, Event, PeerDetail, PeerInfo, Progress, RemoteDecision, RemoteQuery, Reply,
    Request, ServerNotice,
};
use zeroize::Zeroizing;

use super::journal::Kind;
use super::session::{Next, Output, Session};
use super::testing::{Order, context, desk_of};
use super::watcher::Watcher;
use super::*;

/// What the command is answered, line by line.
fn answers(context: &mut CommandContext, command: &str) -> Vec<String> {
    let mut out = Output::default();
    let mut session = Session::new(None, Instant::now(), context, &mut out);
    out.sent(usize::MAX);
    session.receive(command.as_bytes());
    session.receive(b"\n");
    assert_eq!(session.work(context, &mut out), Next::Stay, "{command}");
    let text = String::from_utf8_lossy(out.waiting()).into_owned();
    assert!(text.is_empty() || text.ends_with("\r\n"), "{command}: {text:?}");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_server_answers_as_openvpn_does() {
    let (mut context, _) = desk_of(Form::Clients(1));
    for (command, answer) in [
        ("pid", &*format!("SUCCESS: pid={}", std::process::id())),
        ("pid 'a b' c", &*format!("SUCCESS: pid={}", std::process::id())),
        ("FOO bar", "ERROR: unknown command, enter 'help' for more options"),
        ("load-stats", "SUCCESS: nclients=3,bytesin=1000,bytesout=2000"),
        ("nclients", "SUCCESS: nclients=3"),
        ("status 9", "ERROR: bad status format version number"),
        ("kill", "ERROR: the 'kill' command requires 1 parameter"),
        ("kill nobody", "ERROR: common name 'nobody' not found"),
        ("kill a:b", "ERROR: error parsing IP address: a"),
        ("kill :", "ERROR: kill parse"),
        ("kill 192.0.2.9:5", "ERROR: client at address 192.0.2.9:5 not found"),
        ("kill 192.0.2.9:0", "ERROR: port number is out of range: 192.0.2.9:0"),
        ("client-kill x", "ERROR: cannot parse CID"),
        ("client-kill 77", "ERROR: client-kill command failed"),
        ("state x", "ERROR: state parameter must be 'on' or 'off' or some number n or 'all'"),
        ("state on", "SUCCESS: real-time state notification set to ON"),
        ("log", "ERROR: the 'log' command requires at least 1 parameter"),
        ("log off", "SUCCESS: real-time log notification set to OFF"),
        ("log 0", "ERROR: log parameter must be 'on' or 'off' or some number n or 'all'"),
        ("echo all", "END"),
        ("verb", "SUCCESS: verb=1"),
        ("verb 99", "ERROR: verb level is out of range"),
        ("mute", "SUCCESS: mute=0"),
        ("mute 3", "SUCCESS: mute level changed"),
        ("mute", "SUCCESS: mute=3"),
        ("hold", "SUCCESS: hold=0"),
        ("hold on", "SUCCESS: hold flag set to ON"),
        ("hold", "SUCCESS: hold=1"),
        ("hold x", "ERROR: bad hold command parameter"),
        ("hold release", "SUCCESS: hold release succeeded"),
        ("username a", "ERROR: the 'username' command requires 2 parameters"),
        ("username Auth b", "ERROR: no username is currently needed at this time"),
        ("password Auth b", "ERROR: no password is currently needed at this time"),
        ("auth-retry", "SUCCESS: auth-retry=none"),
        ("auth-retry foo", "ERROR: bad auth-retry parameter"),
        ("signal", "ERROR: the 'signal' command requires 1 parameter"),
        ("signal FOO", "ERROR: signal 'FOO' is not a known signal type"),
        ("signal SIGUSR2", "SUCCESS: signal SIGUSR2 thrown"),
        ("bytecount 5", "SUCCESS: bytecount interval changed"),
        ("version 5", "SUCCESS: Management client version set to 5"),
        ("net", "ERROR: Sorry, this command is currently only implemented on Windows"),
        ("pk-sig", "ERROR: The pk-sig command is not currently available"),
        ("needok a ok", "ERROR: no needok-confirmation is currently needed at this time"),
        ("needstr a b", "ERROR: no needstr-string is currently needed at this time"),
        ("pkcs11-id-count", ">PKCS11ID-COUNT:0"),
        ("pkcs11-id-get 1", ">PKCS11ID-ENTRY:'1'"),
        ("pkcs11-id-get", "ERROR: the 'pkcs11-id-get' command requires 1 parameter"),
        ("forget-passwords", "SUCCESS: Passwords were forgotten"),
        ("remote ACCEPT", "ERROR: The 'remote' command is not supported by the current daemon mode"),
        ("cr-response eA==", "ERROR: The 'cr-response' command is not supported by the current daemon mode"),
    ] {
        assert_eq!(answers(&mut context, command), [answer], "{command}");
    }
    assert!(answers(&mut context, "version 2").is_empty() && answers(&mut context, "").is_empty());
    assert!(answers(&mut context, "kill \"x")[0].starts_with("ERROR: "));
    for command in ["help", "version"] {
        assert_eq!(answers(&mut context, command).last().map(String::as_str), Some("END"));
    }
}

#[test]
fn the_state_has_the_form_that_is_asked_for() {
    let (mut server, _) = desk_of(Form::Clients(2));
    for (command, form) in [
        ("status", "Clients(2)"),
        ("status 0", "Clients(2)"),
        ("status 1", "Clients(1)"),
        ("status 3", "Clients(3)"),
    ] {
        assert_eq!(answers(&mut server, command), [form, "END"], "{command}");
    }
    let (mut client, _) = desk_of(Form::Statistics);
    assert_eq!(answers(&mut client, "status 2"), ["Statistics", "END"]);
    assert_eq!(answers(&mut client, "load-stats"), ["SUCCESS: nclients=0,bytesin=1000,bytesout=2000"]);
    for name in ["kill", "client-kill", "nclients"] {
        let expected = format!("ERROR: The '{name}' command is not supported by the current daemon mode");
        assert_eq!(answers(&mut client, &format!("{name} 1")), [expected]);
    }
    // Before there is a tunnel.
    assert!(answers(&mut context(), "status")[0].ends_with("is not supported by the current daemon mode"));
    assert_eq!(answers(&mut context(), "load-stats"), ["SUCCESS: nclients=0,bytesin=0,bytesout=0"]);
    assert_eq!(answers(&mut context(), "signal SIGUSR1"), ["ERROR: signal 'SIGUSR1' is currently ignored"]);
}

#[test]
fn clients_are_killed_by_name_address_and_number() {
    let long = "x".repeat(300);
    for (command, answer, victims, message) in [
        ("kill anna", "SUCCESS: common name 'anna' found, 2 client(s) killed", &[0, 1][..], "RESTART"),
        ("kill 192.0.2.1:4000", "SUCCESS: 1 client(s) at address 192.0.2.1:4000 killed", &[0][..], "RESTART"),
        (
            "kill tcp:192.0.2.2:4000",
            "SUCCESS: 1 client(s) at address tcp:192.0.2.2:4000 killed",
            &[1][..],
            "RESTART",
        ),
        ("kill udp:192.0.2.2:4000", "ERROR: client at address udp:192.0.2.2:4000 not found", &[][..], ""),
        (
            "kill [2001:db8::1]:5000",
            "SUCCESS: 1 client(s) at address [2001:db8::1]:5000 killed",
            &[2][..],
            "RESTART",
        ),
        ("client-kill 42", "SUCCESS: client-kill command succeeded", &[2][..], "RESTART"),
        ("client-kill 50", "SUCCESS: client-kill command succeeded", &[10][..], "RESTART"),
        ("client-kill 51", "ERROR: client-kill command failed", &[][..], ""),
        ("client-kill 40 HALT,bye", "SUCCESS: client-kill command succeeded", &[0][..], "HALT,bye"),
        (&*format!("client-kill 40 {long}"), "ERROR: client-kill command failed", &[][..], ""),
    ] {
        let (mut context, told) = desk_of(Form::Clients(1));
        // A program judges client 50, which is not in yet.
        let step = ClientStep::AuthRequest { key: 1, again: false, password: Zeroizing::default() };
        context.pending_auths.note(&ClientEvent { client: 50, step, env: Vec::new() });
        assert_eq!(answers(&mut context, command), [answer]);
        let kill = |id: &u64| Reply::KillClient { client: id + 40, message: message.to_owned() };
        let expected: Vec<Order> = victims.iter().map(|id| Order::Reply(kill(id))).collect();
        assert_eq!(*told.lock().expect("no thread panicked"), expected, "{command}");
    }
}

#[test]
fn settings_are_pushed_to_clients() {
    let success = |clients| {
        vec![
            format!("SUCCESS: {clients} client(s) updated"),
            "SUCCESS: push-update command succeeded".to_owned(),
        ]
    };
    let failure =
        || vec!["ERROR: no client updated".to_owned(), "ERROR: push-update command failed".to_owned()];
    let (mut context, _) = desk_of(Form::Clients(1));
    for (command, answer) in [
        ("push-update-broad \"route 10.1.0.0,-dns\"", success(2)),
        ("push-update-cid 40 -dns", success(1)),
        ("push-update-cid 41 -dns", failure()),
        ("push-update-broad bad", failure()),
        ("push-update-cid x -dns", vec!["ERROR: push-update-cid fail during cid parsing".to_owned()]),
    ] {
        assert_eq!(answers(&mut context, command), answer, "{command}");
    }
    let (mut client, _) = desk_of(Form::Statistics);
    let answer = answers(&mut client, "push-update-broad -dns");
    assert_eq!(
        answer,
        ["ERROR: The 'push-update-broad' command is not supported by the current daemon mode"]
    );
}

#[test]
fn signals_become_commands() {
    for (signal, order) in [
        ("SIGTERM", Order::Command(Command::Shutdown)),
        ("SIGINT", Order::Command(Command::Shutdown)),
        ("SIGUSR1", Order::Command(Command::Restart)),
        ("SIGHUP", Order::Reload),
    ] {
        let (mut context, told) = desk_of(Form::Statistics);
        assert_eq!(
            answers(&mut context, &format!("signal {signal}")),
            [format!("SUCCESS: signal {signal} thrown")]
        );
        assert_eq!(*told.lock().expect("no thread panicked"), [order]);
    }
}

#[test]
fn bytes_are_told_every_so_often() {
    for (form, lines) in [
        (Form::Statistics, &[">BYTECOUNT:1000,2000"][..]),
        (
            Form::Clients(1),
            &[">BYTECOUNT_CLI:40,100,200", ">BYTECOUNT_CLI:41,101,201", ">BYTECOUNT_CLI:42,102,202"][..],
        ),
    ] {
        let ((mut context, _), mut out) = (desk_of(form), Output::default());
        let now = Instant::now();
        let mut session = Session::new(None, now, &context, &mut out);
        assert_eq!(session.due(), None);
        session.receive(b"bytecount 5\n");
        session.work(&mut context, &mut out);
        out.sent(usize::MAX);
        let mut look = |session: &mut Session, seconds| {
            session.look_at_time(now + Duration::from_secs(seconds), &context, &mut out);
            let text = String::from_utf8_lossy(out.waiting()).into_owned();
            out.sent(usize::MAX);
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(look(&mut session, 4).is_empty());
        assert_eq!(look(&mut session, 6), lines);
        assert!(look(&mut session, 10).is_empty());
        assert_eq!(look(&mut session, 12), lines);
        session.receive(b"bytecount 0\n");
        session.work(&mut self::context(), &mut Output::default());
        assert_eq!(session.due(), None);
    }
}

#[test]
fn the_log_and_its_level_are_at_hand() {
    let (mut context, _) = desk_of(Form::Clients(1));
    let notes = context.journal.clone();
    context.log.listen(Box::new(move |severity, text| notes.note_line(severity, text)));
    answers(&mut context, "verb 0");
    context.log.log(Severity::Info, "not written");
    answers(&mut context, "verb 6");
    let mut copy = context.log.clone();
    copy.log(Severity::Warning, "written");
    let lines = answers(&mut context, "log all");
    assert!(lines.iter().any(|line| line.ends_with(",W,written")), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("not written")), "{lines:?}");
    answers(&mut context, "password Auth 's3 cret'");
    let lines = answers(&mut context, "log 3");
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("password ...")), "{lines:?}");
    assert!(!format!("{lines:?}").contains("s3 cret"));
}

fn info(remote: &str) -> Box<PeerInfo> {
    Box::new(PeerInfo {
        name: "server".to_owned(),
        path: Path::Udp { socket: 0, remote: remote.parse().expect("an address") },
        addresses: Vec::new(),
        cipher: Cipher::Aes256Gcm,
        rekeys: 0,
        last_handshake: adit_core::Instant::ORIGIN,
        since: adit_core::Instant::ORIGIN,
        heard: adit_core::Instant::ORIGIN,
        routes: Vec::new(),
        detail: PeerDetail::default(),
    })
}

fn up(addresses: &[&str], routes: &[&str]) -> Event {
    let network = |text: &&str| text.parse().expect("a network");
    let route = |text| Route { destination: network(text), via: RouteVia::Tunnel, metric: None };
    let addresses = addresses.iter().map(network).collect();
    let routes = routes.iter().map(route).collect();
    Event::Up(TunnelSettings { addresses, routes, ..TunnelSettings::default() })
}

fn watcher(context: &CommandContext, server: bool) -> Watcher {
    let asked = (context.pending_auths.clone(), Arc::clone(&context.questions));
    Watcher::new(context.journal.clone(), asked, server, None)
}

fn states(server: bool, events: &[Event]) -> Vec<String> {
    let context = context();
    let mut watcher = watcher(&context, server);
    for event in events {
        watcher.event(event);
        if let Event::Request(request) = event {
            watcher.request(request, "tun0");
        }
    }
    let entries = context.journal.last(Kind::State, None);
    entries.iter().filter_map(|entry| Some(entry.split_once(',')?.1.to_owned())).collect()
}

/// The lines are OpenVPN 2.6.14's, of a server and of a client.
#[test]
fn states_are_noted() {
    assert_eq!(
        states(
            true,
            &[up(&["10.88.0.1/24", "fd00:88::1/64"], &["10.88.1.0/24"]), Event::Ended(Ended::Shutdown)]
        ),
        [
            "CONNECTING,,,,,,",
            "ASSIGN_IP,,10.88.0.1,,,,,fd00:88::1",
            "ADD_ROUTES,,,,,,",
            "CONNECTED,SUCCESS,10.88.0.1,,,,,fd00:88::1",
            "EXITING,SIGTERM,,,,,"
        ]
    );
    let peer_up = || Event::PeerUp { peer: PeerId::SERVER, info: info("[::ffff:127.0.0.1]:11994") };
    let path = info("127.0.0.1:1194").path;
    let step_of = |request| Event::Request(request);
    let step = |progress| step_of(Request::Progress(progress));
    let failure = || {
        let text = "the server is silent; next attempt in 1 s".to_owned();
        Event::Report(Report { severity: Severity::Error, path: None, text })
    };
    assert_eq!(
        states(
            false,
            &[
                Event::Open { remote: 0 },
                step(Progress::Opening { named: true, transport: Transport::Tcp }),
                step(Progress::Waiting),
                Event::Open { remote: 1 },
                step(Progress::Opening { named: false, transport: Transport::Udp }),
                step(Progress::Waiting),
                step(Progress::Authenticating),
                step(Progress::AskingForSettings),
                step(Progress::Pending(Some(60))),
                up(&["10.88.0.6/24"], &[]),
                peer_up(),
                failure(),
                Event::Close { path },
            ]
        ),
        [
            "CONNECTING,,,,,,",
            "RESOLVE,,,,,,",
            "TCP_CONNECT,,,,,,",
            "WAIT,,,,,,",
            "RECONNECTING,connection-failed,,,,,",
            "WAIT,,,,,,",
            "AUTH,,,,,,",
            "GET_CONFIG,,,,,,",
            "AUTH_PENDING,timeout 60,,,,,",
            "ASSIGN_IP,,10.88.0.6,,,,",
            "CONNECTED,SUCCESS,10.88.0.6,127.0.0.1,11994,,",
            "RECONNECTING,connection-lost,,,,,"
        ]
    );
    // One that is held back has lost its server before.
    let held = step_of(Request::MayGoOn { wait: Duration::from_secs(1) });
    let states_of = states(false, &[Event::Open { remote: 0 }, peer_up(), held.clone()]);
    assert_eq!(states_of[2..], ["RECONNECTING,connection-lost,,,,,"]);
    let refused = step_of(Request::AuthFailed(String::new()));
    let states_of = states(false, &[Event::Open { remote: 0 }, refused, held]);
    assert_eq!(states_of[1..], ["RECONNECTING,auth-failure,,,,,"]);
    let ended = || Event::Ended(Ended::Failed("no luck".to_owned()));
    let end = [Event::Open { remote: 0 }, peer_up(), Event::Close { path }, Event::Down, ended()];
    assert_eq!(states(false, &end)[2..], ["EXITING,error,,,,,"], "no word of coming back");
    // The listening end of a point-to-point tunnel; the connection of an unauthenticated peer is closed there.
    let down = Event::PeerDown { peer: PeerId::SERVER, reason: "silent".to_owned() };
    assert_eq!(
        states(false, &[peer_up(), Event::Close { path }, down, failure()])[1..],
        ["CONNECTED,SUCCESS,,127.0.0.1,11994,,", "RECONNECTING,connection-lost,,,,,"]
    );
}

#[test]
fn the_end_has_words_of_its_own() {
    let context = context();
    let mut watcher = watcher(&context, false);
    context.journal.attend(true);
    assert_eq!(watcher.request(&Request::AuthFailed(String::new()), "tun0"), None);
    watcher.request(&Request::AuthFailed("locked".to_owned()), "tun0");
    watcher.event(&Event::Ended(Ended::Failed("no luck".to_owned())));
    let said: Vec<String> = context.journal.take().into();
    assert_eq!(
        said,
        [
            ">PASSWORD:Verification Failed: 'Auth'",
            ">PASSWORD:Verification Failed: 'Auth' ['locked']",
            ">FATAL:no luck"
        ]
    );
}

/// The program hears of a server's clients, with how many there are.
#[test]
fn clients_are_told_of() {
    let context = context();
    let mut watcher = watcher(&context, true);
    context.journal.attend(true);
    let event = |step| Request::Client(Box::new(ClientEvent { client: 9, step, env: Vec::new() }));
    let (peer, reason) = (PeerId(4), "gone".to_owned());
    watcher.request(
        &event(ClientStep::AuthRequest { key: 1, again: false, password: Zeroizing::default() }),
        "tun0",
    );
    assert!(context.pending_auths.waits(9, 1));
    watcher.event(&Event::PeerUp { peer, info: info("192.0.2.1:4000") });
    watcher.request(&event(ClientStep::Established { networks: Vec::new() }), "tun0");
    watcher.request(&event(ClientStep::Disconnected), "tun0");
    watcher.event(&Event::PeerDown { peer, reason });
    assert!(!context.pending_auths.is_there(9, 1));
    watcher.request(&event(ClientStep::Established { networks: Vec::new() }), "tun1");
    let told: Vec<_> = std::iter::from_fn(|| context.journal.next_client_event()).collect();
    assert_eq!(told.iter().map(|told| told.clients).collect::<Vec<_>>(), [0, 1, 1, 0]);
    assert_eq!((told[0].device.as_str(), told[3].device.as_str()), ("tun0", "tun1"));
}

/// A client's words to the program at the socket, and the program's answers.
#[test]
fn a_front_end_is_told_and_asked() {
    let (mut context, told) = desk_of(Form::Statistics);
    let mut watcher = watcher(&context, false);
    context.journal.attend(true);
    let query = RemoteQuery { remote: 2, host: "vpn.example".to_owned(), port: 1194, protocol: "udp" };
    let ask = |watcher: &mut Watcher| watcher.request(&Request::Remote(Box::new(query.clone())), "tun0");
    answers(&mut context, "echo on");
    context.journal.follow(Kind::Echo, true);
    for request in [
        Request::ServerInfo("WEB_AUTH::https://sso.example/1".to_owned()),
        Request::ServerNotice(ServerNotice { kind: "remote-exit", text: "EXIT".to_owned() }),
        Request::Echo("forget-passwords".to_owned()),
    ] {
        assert_eq!(watcher.request(&request, "tun0"), None);
    }
    let said: Vec<String> = context.journal.take().into();
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
