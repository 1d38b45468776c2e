//! Scripts of a server: `client-connect`, `client-disconnect`, `tls-verify`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use adit_testbed::{Scratch, can_run, wait_until, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};
use crate::passwords::script;

const WAIT: Duration = Duration::from_secs(10);

/// A server with these lines, and a client that stays as it is.
fn bed(client: Program, lines: &str) -> Bed {
    Bed::build_with(&Options::BASE, Program::Adit, &[client], |_, [server, _]| server.push_str(lines))
        .unwrap()
}

/// What `env` wrote to a file.
fn environment(path: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path).unwrap();
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.lines().filter_map(pair).collect()
}

fn connects_and_leaves(client: Program) {
    if !can_run("client-connect", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("scripts").unwrap();
    let connect = script(
        &scratch,
        "connect",
        "env >\"$HERE/connect.env\"\necho 'ifconfig-push 10.8.0.77 255.255.255.0' >\"$1\"\n",
    );
    let leave =
        script(&scratch, "leave", "env >\"$HERE/leave.part\"; mv \"$HERE/leave.part\" \"$HERE/leave.env\"\n");
    let lines = format!(
        "script-security 2\nsetenv PROFILE_ID office\nclient-connect {}\nclient-disconnect {}\n",
        connect.display(),
        leave.display()
    );
    let mut bed = bed(client, &lines);
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let there = wait_until_reachable(&bed.server.namespace, "10.8.0.77".parse().unwrap(), WAIT);
    assert!(there.is_ok(), "{}", bed.logs());
    let env = environment(&scratch.path().join("connect.env"));
    for (name, value) in [
        ("PROFILE_ID", "office"),
        ("script_type", "client-connect"),
        ("common_name", "client1"),
        ("X509_0_CN", "client1"),
        ("trusted_ip", "10.9.1.2"),
        ("ifconfig_pool_remote_ip", "10.8.0.2"),
        ("ifconfig_pool_remote_ip6", "fd00:8::1000"),
        ("IV_PLAT", "linux"),
    ] {
        assert_eq!(env.get(name).map(String::as_str), Some(value), "{name} in {env:?}");
    }
    assert!(env["dev"].starts_with("tun") && env["time_unix"].parse::<u64>().is_ok(), "{env:?}");

    // Totals are told once a second.
    std::thread::sleep(Duration::from_millis(1200));
    bed.clients[0].stop().unwrap();
    let file = scratch.path().join("leave.env");
    wait_until("client-disconnect", WAIT, || file.exists()).unwrap();
    let env = environment(&file);
    assert_eq!(env["ifconfig_pool_remote_ip"], "10.8.0.77", "{env:?}");
    for name in ["bytes_received", "bytes_sent"] {
        assert!(env[name].parse::<u64>().is_ok_and(|bytes| bytes > 0), "{name} in {env:?}");
    }
    assert!(env["time_duration"].parse::<u64>().is_ok(), "{env:?}");
}

#[test]
fn openvpn_client_connects_and_leaves() {
    connects_and_leaves(Program::OpenVpn);
}

#[test]
fn adit_client_connects_and_leaves() {
    connects_and_leaves(Program::Adit);
}

fn refuses(client: Program, directive: &str) {
    if !can_run("scripts that say no", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("scripts").unwrap();
    let no = script(&scratch, "no", "exit 1\n");
    let mut bed = bed(client, &format!("script-security 2\n{directive} {}\n", no.display()));
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let ended = bed.clients[0].process().wait(WAIT).is_ok();
    let log = bed.clients[0].process().log();
    assert!(ended && log.contains("AUTH_FAILED"), "{}", bed.logs());
    assert!(bed.server.process().log().contains(&format!("{directive} says no")), "{}", bed.logs());
}

#[test]
fn client_connect_refuses_openvpn_client() {
    refuses(Program::OpenVpn, "client-connect");
}

#[test]
fn tls_verify_refuses_adit_client() {
    refuses(Program::Adit, "tls-verify");
}

/// A script that takes 3 s for one client; another comes in meanwhile, and the first in the end.
#[test]
fn a_slow_script_keeps_no_other_client_waiting() {
    if !can_run("slow scripts", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("scripts").unwrap();
    let body = "[ \"$common_name\" = client2 ] && exit 0\n: >\"$HERE/began\"\nsleep 3\n: >\"$HERE/ended\"\n";
    let slow = script(&scratch, "slow", body);
    let (began, ended) = (scratch.path().join("began"), scratch.path().join("ended"));
    let line = format!("script-security 2\nclient-connect {}\n", slow.display());
    let clients = [Program::OpenVpn, Program::Adit];
    let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &clients, |_, [server, _]| {
        if !server.contains(&line) {
            server.push_str(&line);
        }
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    wait_until("the slow script", WAIT, || began.exists()).unwrap();
    bed.clients[1].start().unwrap();
    let second = bed.clients[1].process().wait_for_line(0, "tunnel up: ", WAIT).is_ok();
    assert!(second && !ended.exists(), "{}", bed.logs());
    let first = bed.clients[0].process().wait_for_line(0, "Initialization Sequence Completed", WAIT).is_ok();
    assert!(first && ended.exists(), "{}", bed.logs());
}
