//! The contract of `wg-quick` with the program that it starts (<https://www.wireguard.com/xplatform/>).

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use adit_io::{Tun, TunConfig};
use adit_testbed::{can_run, wait_until, wireguard_socket};
use rustix::io::{FdFlags, fcntl_setfd};

use super::bed::{End, PROGRAMS, Program, WAIT, joined};

#[test]
fn the_program_returns_when_the_interface_can_be_used() {
    if !can_run("the_program_returns_when_the_interface_can_be_used", &PROGRAMS) {
        return;
    }
    let end = End::create(1, Program::Adit);
    assert_eq!(end.start().unwrap(), "");
    let port = end.wg("show DEV listen-port").unwrap();
    assert!(port.trim().parse().is_ok_and(|port| end.namespace.is_bound(false, port).unwrap()), "{port}");
    let link = end.namespace.ip(&["link", "show", &end.device]).unwrap();
    assert!(link.contains("mtu 1420 ") && link.contains("state DOWN"), "{link}");
    let processes = end.daemons();
    assert_eq!(processes.len(), 1, "{processes:?}");
    for stream in 0..3 {
        let file = std::fs::read_link(format!("/proc/{}/fd/{stream}", processes[0])).unwrap();
        assert_eq!(file.to_str(), Some("/dev/null"), "stream {stream}");
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", processes[0])).unwrap();
    let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap().to_owned();
    assert_eq!(session, processes[0].to_string(), "it leads a session of its own");
    // Another one under that name is refused, and leaves the first alone.
    let error = end.start().unwrap_err().to_string();
    assert!(error.contains("exit status: 1") && error.contains(&end.device), "{error}");
    assert!(end.is_served());
}

#[test]
fn usage_and_versions() {
    if !can_run("usage_and_versions", &[]) {
        return;
    }
    let end = End::create(1, Program::Adit);
    let run = |words: &[&str]| {
        let mut command = Program::Adit.command();
        command.args(words);
        end.namespace.run(command)
    };
    assert!(run(&["--version"]).unwrap().starts_with("adit-wireguard "));
    for words in [&[][..], &["--unknown", "wg0"], &["wg0", "wg1"], &["a-name-that-is-too-long"]] {
        let error = run(words).unwrap_err().to_string();
        assert!(error.contains("exit status: 1"), "{words:?}: {error}");
    }
    assert!(end.namespace.devices().unwrap().is_empty());
    // A name is enough to be that program.
    let mut adit = Command::new(env!("CARGO_BIN_EXE_adit"));
    adit.arg0("wireguard-go").arg("--version");
    assert!(end.namespace.run(adit).unwrap().starts_with("adit-wireguard "));
}

#[test]
fn in_the_foreground_it_logs_and_ends_by_a_signal() {
    if !can_run("in_the_foreground_it_logs_and_ends_by_a_signal", &PROGRAMS) {
        return;
    }
    let end = End::create(1, Program::Adit);
    let foreground = |arguments: &[&str], variable: (&str, &str)| {
        let mut command = end.command();
        command.args(arguments).env(variable.0, variable.1);
        let process = end.namespace.spawn("adit-wireguard", command).unwrap();
        wait_until("the interface", WAIT, || end.is_served()).unwrap();
        process
    };
    let mut process = foreground(&[], ("WG_PROCESS_FOREGROUND", "1"));
    process.interrupt();
    assert!(process.wait(WAIT).unwrap().success());
    assert_eq!(process.log(), "", "errors alone are logged");
    end.wait_until_gone();

    let mut process = foreground(&["--foreground"], ("LOG_LEVEL", "verbose"));
    assert!(process.terminate(WAIT).unwrap().success());
    assert!(process.log().contains("ended on request"), "{}", process.log());
    end.wait_until_gone();
}

#[test]
fn descriptors_are_taken_over() {
    if !can_run("descriptors_are_taken_over", &PROGRAMS) {
        return;
    }
    let ends = joined([Program::Adit; 2]);
    let [first, second] = &ends;
    let config = TunConfig { name: Some(first.device.clone()), ..TunConfig::default() };
    let tun = first.namespace.enter(|| Tun::create_first(&config, 1).map(OwnedFd::from)).unwrap().unwrap();
    std::fs::create_dir_all("/var/run/wireguard").unwrap();
    let socket = UnixListener::bind(wireguard_socket(&first.device)).unwrap();
    fcntl_setfd(&tun, FdFlags::empty()).unwrap();
    fcntl_setfd(&socket, FdFlags::empty()).unwrap();
    // The name on the command line is not that of the device.
    let mut command = Program::Adit.command();
    command.arg("other").env("STATE_DIRECTORY", &first.state);
    command.env("WG_TUN_FD", tun.as_raw_fd().to_string());
    command.env("WG_UAPI_FD", socket.as_raw_fd().to_string());
    first.namespace.run(command).unwrap();
    drop((tun, socket));
    first.set_key();
    second.start().unwrap();
    second.set_key();
    first.add_peer(second, None);
    second.add_peer(first, Some(first.outer()));
    ends.iter().for_each(End::bring_up);
    second.reaches(first);
    first.namespace.ip(&["link", "delete", &first.device]).unwrap();
    first.wait_until_gone();

    let mut command = second.command();
    command.env("WG_TUN_FD", "1000");
    let error = first.namespace.run(command).unwrap_err().to_string();
    assert!(error.contains("WG_TUN_FD=1000"), "{error}");
}

#[test]
fn it_has_no_right_and_its_helper_has_two() {
    if !can_run("it_has_no_right_and_its_helper_has_two", &PROGRAMS) {
        return;
    }
    let end = End::create(1, Program::Adit);
    end.start().unwrap();
    let process = end.daemons()[0];
    let states: Vec<String> = std::fs::read_dir(format!("/proc/{process}/task"))
        .unwrap()
        .map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap())
        .collect();
    let is_confined =
        |status: &String| status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n");
    assert!(states.iter().all(is_confined), "{states:?}");
    let line = |status: &String, name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
    };
    for status in &states {
        assert_eq!(line(status, "CapEff:"), "0000000000000000");
        assert!(line(status, "Uid:").starts_with("65534"), "{status}");
    }
    let [helper] = end.helpers()[..] else { panic!("one helper") };
    let status = std::fs::read_to_string(format!("/proc/{helper}/status")).unwrap();
    // CAP_NET_BIND_SERVICE is 10, CAP_NET_ADMIN 12 (capabilities(7)).
    assert_eq!(line(&status, "CapEff:"), "0000000000001400");
    assert!(is_confined(&status), "{status}");
    // The rights are enough for the requests of `wg`.
    end.wg("set DEV fwmark 7 listen-port 500").unwrap();
    assert_eq!(end.wg("show DEV fwmark").unwrap().trim(), "0x7");
}
