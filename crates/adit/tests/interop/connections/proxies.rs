//! Servers that are reached by a proxy alone: Debian's tinyproxy, dante and microsocks.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    MAX_WAIT, Ping, Process, Scratch, TestbedError, can_run, program, wait_until, wait_until_reachable,
};

use crate::bed::{Bed, PROGRAMS};
use crate::management::commands::Talk;
use crate::options::{Options, Program, Transport};

const WAIT: Duration = MAX_WAIT;
/// An address of the server that the client has no route to, for IPv4 and IPv6.
const BEHIND: [&str; 2] = ["10.77.0.1", "fd00:77::1"];
/// The proxy's address, in the same namespace.
const PROXY: &str = "10.9.1.1";
const PORT: u16 = 3128;

/// A server that the client reaches by the lines alone, and the directory of the proxy's files.
fn bed(transport: Transport, lines: &str) -> (Bed, Scratch) {
    let files = Scratch::create("proxy").unwrap();
    let user = files.write("user", "ann\nsecret\n").unwrap();
    let lines = lines.replace("USER", &user.display().to_string());
    let options = Options { transport, ..Options::BASE };
    let behind = BEHIND[usize::from(transport.is_v6())];
    let bed = Bed::build_with(&options, Program::OpenVpn, &[Program::Adit], |_, [server, client]| {
        // It answers from the address that was written to, which the relay of a proxy expects.
        server.push_str(if transport.is_tcp() { "" } else { "multihome\n" });
        *client = client
            .replace("remote 10.9.1.1 ", &format!("remote {behind} "))
            .replace("remote fd00:9:1::1 ", &format!("remote {behind} "));
        client.push_str(&lines);
    })
    .unwrap();
    let network = &bed.server.namespace;
    network.ip(&["address", "add", "10.77.0.1/32", "dev", "lo"]).unwrap();
    network.ip(&["address", "add", "fd00:77::1/128", "dev", "lo", "nodad"]).unwrap();
    (bed, files)
}

/// Starts a proxy and waits until it listens.
fn start(bed: &Bed, name: &str, command: Command) -> Process {
    let process = bed.server.namespace.spawn(name, command).unwrap();
    let listens = || bed.server.namespace.is_bound(true, PORT).unwrap_or(false);
    wait_until("the proxy to listen", WAIT, listens)
        .unwrap_or_else(|error| panic!("{error}\n{}", process.log_tail()));
    process
}

/// The tunnel carries packets, larger and smaller ones, in both directions.
fn carries(bed: &mut Bed, mut proxy: Process) {
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let outcome = bed.clients[0]
        .process()
        .wait_for_line(0, Program::Adit.up_line(), WAIT)
        .and_then(|_| wait_until_reachable(&bed.clients[0].namespace, "10.8.0.1".parse().unwrap(), WAIT))
        .and_then(|_| {
            let mut ping = Ping::new(20, Duration::from_millis(5));
            ping.size = 1300;
            ping.run(&bed.clients[0].namespace, "10.8.0.1".parse().unwrap())
        });
    match outcome {
        Ok(report) => assert!(report.is_clean(), "{report:?}\n{}", bed.logs()),
        Err(error) => panic!("{error}\n{}\n{}", bed.logs(), proxy.log_tail()),
    }
    bed.clients[0].stop().unwrap();
    // By this signal its children end with it.
    proxy.terminate(WAIT).unwrap();
}

fn tinyproxy(files: &Scratch) -> Result<Command, TestbedError> {
    let text = format!(
        "Port {PORT}\nListen {PROXY}\nTimeout 60\nMaxClients 10\nBasicAuth ann secret\nConnectPort 1194\n"
    );
    let file = files.write("tinyproxy.conf", &text)?;
    let mut command = program("tinyproxy")?;
    command.arg("-d").arg("-c").arg(file);
    Ok(command)
}

/// With all traffic in the tunnel, as the proxy must be reached beside it.
#[test]
fn an_http_proxy_with_basic_authentication() {
    if !can_run("tinyproxy", &[&PROGRAMS[..], &["tinyproxy"]].concat()) {
        return;
    }
    let lines = format!("http-proxy {PROXY} {PORT} USER basic\nredirect-gateway def1\n");
    let (mut bed, files) = bed(Transport::Tcp4, &lines);
    let proxy = start(&bed, "tinyproxy", tinyproxy(&files).unwrap());
    carries(&mut bed, proxy);
}

/// The questions about a proxy that wants a password, at the program at the client's socket: first a wrong answer, then
/// the right one.
#[test]
fn an_http_proxy_whose_password_is_asked_for() {
    if !can_run("tinyproxy", &[&PROGRAMS[..], &["tinyproxy"]].concat()) {
        return;
    }
    let scratch = Scratch::create("proxy-password").unwrap();
    let socket = scratch.path().join("socket");
    let lines = format!(
        "http-proxy {PROXY} {PORT} auto\nmanagement {} unix\nmanagement-hold\nmanagement-query-passwords\n",
        socket.display()
    );
    let (mut bed, files) = bed(Transport::Tcp4, &lines);
    let _proxy = start(&bed, "tinyproxy", tinyproxy(&files).unwrap());
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let mut talk = Talk::within(&socket, WAIT);
    talk.until(">HOLD:");
    talk.answer("state on");
    talk.answer("hold release");
    let asks = ">PASSWORD:Need 'HTTP Proxy' username/password";
    for (password, before) in
        [("wrong", None), ("secret", Some(">PASSWORD:Verification Failed: 'HTTP Proxy'"))]
    {
        if let Some(before) = before {
            assert_eq!(talk.until(">PASSWORD:"), before);
        }
        assert_eq!(talk.until(">PASSWORD:"), asks);
        talk.answer("username \"HTTP Proxy\" ann");
        talk.answer(&format!("password \"HTTP Proxy\" {password}"));
    }
    talk.until_with(">STATE:", ",CONNECTED,");
}

/// The errors name the proxy, and have its message.
#[test]
fn a_proxy_that_refuses_is_named() {
    if !can_run("tinyproxy", &[&PROGRAMS[..], &["tinyproxy"]].concat()) {
        return;
    }
    let lines = format!("http-proxy {PROXY} {PORT}\nconnect-retry 0 1\nconnect-retry-max 1\n");
    let (mut bed, files) = bed(Transport::Tcp4, &lines);
    let _proxy = start(&bed, "tinyproxy", tinyproxy(&files).unwrap());
    bed.clients[0].start().unwrap();
    let line = bed.clients[0].process().wait_for_line(0, "by the proxy `10.9.1.1`", WAIT).unwrap();
    assert!(line.contains("10.9.1.1:3128: it asks for an authentication (Basic)"), "{line}");
}

fn dante(files: &Scratch, external: &str) -> Result<Command, TestbedError> {
    let text = format!(
        "logoutput: stderr\ninternal: {PROXY} port = {PORT}\nexternal: {external}\nclientmethod: none\n\
         socksmethod: none\nuser.privileged: root\nuser.unprivileged: root\n\
         client pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 }}\n\
         socks pass {{ from: 0/0 to: 0/0 }}\n"
    );
    let file = files.write("danted.conf", &text)?;
    let mut command = program("danted")?;
    command.arg("-f").arg(file).arg("-p").arg(Path::new(files.path()).join("danted.pid"));
    Ok(command)
}

/// UDP to the server over IPv4 and over IPv6, with all traffic in the tunnel.
#[test]
fn a_socks_proxy_relays_datagrams() {
    if !can_run("dante", &[&PROGRAMS[..], &["danted"]].concat()) {
        return;
    }
    for (transport, external) in [(Transport::Udp4, PROXY), (Transport::Udp6, "fd00:9:1::1")] {
        let lines = format!("socks-proxy {PROXY} {PORT}\nredirect-gateway def1\n");
        let (mut bed, files) = bed(transport, &lines);
        let proxy = start(&bed, "dante", dante(&files, external).unwrap());
        carries(&mut bed, proxy);
    }
}

#[test]
fn a_socks_proxy_with_a_password() {
    if !can_run("microsocks", &[&PROGRAMS[..], &["microsocks"]].concat()) {
        return;
    }
    let (mut bed, _files) = bed(Transport::Tcp6, &format!("socks-proxy {PROXY} {PORT} USER\nproto tcp\n"));
    let mut command = program("microsocks").unwrap();
    command.args(["-i", PROXY, "-p", &PORT.to_string(), "-u", "ann", "-P", "secret"]);
    let proxy = start(&bed, "microsocks", command);
    carries(&mut bed, proxy);
}
