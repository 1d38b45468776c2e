//! Scripts of a server: `client-connect`, `client-disconnect`, `tls-verify`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run, wait_until, wait_until_reachable};

use crate::authentication::passwords::script;
use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;

/// A server with these lines, and a client that stays as it is.
fn bed(client: Program, lines: &str) -> Bed {
    Bed::build_with(&Options::BASE, Program::Adit, &[client], |_, [server, _]| server.push_str(lines))
        .unwrap()
}

/// The variables that `env` wrote to a file.
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
        "script-security 2\nsetenv PROFILE_ID office\nroute 10.66.0.0 255.255.0.0\nclient-connect {}\nclient-disconnect {}\n",
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
        ("ifconfig_pool_local_ip6", "fd00:8::1"),
        ("ifconfig_ipv6_remote", "fd00:8::2"),
        ("route_network_1", "10.66.0.0"),
        ("route_netmask_1", "255.255.0.0"),
        ("route_gateway_1", "10.8.0.2"),
        ("route_vpn_gateway", "10.8.0.2"),
        ("IV_PLAT", "linux"),
    ] {
        assert_eq!(env.get(name).map(String::as_str), Some(value), "{name} in {env:?}");
    }
    assert!(env["dev"].starts_with("tun") && env["time_unix"].parse::<u64>().is_ok(), "{env:?}");

    // Totals are updated once a second.
    std::thread::sleep(Duration::from_secs(2));
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

/// `learn-address` of adit says the same words as that of OpenVPN.
#[test]
fn learn_address_gets_the_arguments_that_openvpn_gives() {
    if !can_run("learn-address", &PROGRAMS) {
        return;
    }
    let reported = [Program::Adit, Program::OpenVpn].map(|program| {
        let scratch = Scratch::create("learn").unwrap();
        let body = "echo \"$* ($script_type, $common_name)\" >>\"$HERE/reported\"\nexit 0\n";
        let learn = script(&scratch, "learn", body);
        let ccd = scratch.path().join("ccd");
        std::fs::create_dir(&ccd).unwrap();
        std::fs::write(ccd.join("client1"), "iroute 10.66.0.0 255.255.0.0\n").unwrap();
        let lines = format!(
            "script-security 2\nlearn-address \"{} word\"\nclient-config-dir {}\n",
            learn.display(),
            ccd.display()
        );
        let other = if program == Program::Adit { Program::OpenVpn } else { Program::Adit };
        let mut bed =
            Bed::build_with(&Options::BASE, program, &[other], |_, [server, _]| server.push_str(&lines))
                .unwrap();
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        let there = wait_until_reachable(&bed.clients[0].namespace, "10.8.0.1".parse().unwrap(), WAIT);
        assert!(there.is_ok(), "{}", bed.logs());
        bed.clients[0].stop().unwrap();
        // OpenVPN takes its time to forget addresses, but none when it ends.
        bed.server.stop().unwrap();
        let lines = || -> Vec<String> {
            let text = std::fs::read_to_string(scratch.path().join("reported")).unwrap_or_default();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let _ = wait_until("learn-address", WAIT, || lines().len() == 6);
        lines()
    });
    assert_eq!(reported[0], reported[1]);
    assert_eq!(reported[0].len(), 6, "{reported:?}");
    assert!(
        reported[0].contains(&"word add 10.8.0.2 client1 (learn-address, client1)".to_owned()),
        "{reported:?}"
    );
}

/// `tls-crypt-v2-verify` of adit and of OpenVPN sees the same of the same key, and shuts it out.
#[test]
fn tls_crypt_v2_verify_decides_about_keys() {
    if !can_run("tls-crypt-v2-verify", &PROGRAMS) {
        return;
    }
    let options = Options { wrap: crate::options::Wrap::TlsCryptV2, ..Options::BASE };
    let reported = [Program::Adit, Program::OpenVpn].map(|program| {
        let scratch = Scratch::create("keys").unwrap();
        // The time in the key differs from run to run.
        let body = "echo \"$# $script_type $metadata_type $(wc -c <\"$metadata_file\")\" >>\"$HERE/reported\"\n\
                    [ -e \"$HERE/good\" ]\n";
        let verifier = script(&scratch, "verify", body);
        let lines = format!("script-security 2\ntls-crypt-v2-verify \"{} word\"\n", verifier.display());
        let other = if program == Program::Adit { Program::OpenVpn } else { Program::Adit };
        let mut bed =
            Bed::build_with(&options, program, &[other], |_, [server, _]| server.push_str(&lines)).unwrap();
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        let reported = || std::fs::read_to_string(scratch.path().join("reported")).unwrap_or_default();
        wait_until("the script", WAIT, || !reported().is_empty()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let server = "10.8.0.1".parse().unwrap();
        assert!(wait_until_reachable(&bed.clients[0].namespace, server, Duration::from_millis(10)).is_err());
        // The client tries again later, with a control channel of its own.
        std::fs::write(scratch.path().join("good"), "").unwrap();
        bed.clients[0].process().kill().unwrap();
        bed.clients[0].no_device_left().unwrap();
        bed.clients[0].start().unwrap();
        let there = wait_until_reachable(&bed.clients[0].namespace, server, WAIT);
        assert!(there.is_ok(), "{}", bed.logs());
        reported().lines().next().unwrap().to_owned()
    });
    assert_eq!(reported, ["1 tls-crypt-v2-verify 1 8", "1 tls-crypt-v2-verify 1 8"]);
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

/// A script that takes as long for one client as another needs to come in; the first comes in in the end.
#[test]
fn a_slow_script_keeps_no_other_client_waiting() {
    if !can_run("slow scripts", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("scripts").unwrap();
    // It gives up after 25 s at the latest.
    let body = "[ \"$common_name\" = client2 ] && exit 0\n: >\"$HERE/began\"\nleft=250\n\
                until [ -e \"$HERE/go\" ] || [ $left = 0 ]; do left=$((left - 1)); sleep 0.1; done\n\
                : >\"$HERE/ended\"\n";
    let slow = script(&scratch, "slow", body);
    let [began, go, ended] = ["began", "go", "ended"].map(|name| scratch.path().join(name));
    let line = format!("script-security 2\nclient-connect {}\n", slow.display());
    let clients = [Program::OpenVpn, Program::Adit];
    let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &clients, |_, texts| {
        // A handshake of 5 s would be too short where many tests share few processors.
        for text in texts.iter_mut() {
            *text =
                text.replace("hand-window 5\n", "hand-window 30\n").replace("reneg-sec 10", "reneg-sec 0");
        }
        if !texts[0].contains(&line) {
            texts[0].push_str(&line);
        }
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    wait_until("the slow script", WAIT, || began.exists()).unwrap();
    bed.clients[1].start().unwrap();
    let second = bed.clients[1].process().wait_for_line(0, "tunnel up: ", WAIT).is_ok();
    assert!(second && !ended.exists(), "{}", bed.logs());
    let up = Program::OpenVpn.up_line();
    assert_eq!(bed.clients[0].process().count_lines(0, up), 0, "{}", bed.logs());
    std::fs::write(go, "").unwrap();
    let first = bed.clients[0].process().wait_for_line(0, up, WAIT).is_ok();
    assert!(first && ended.exists(), "{}", bed.logs());
}
