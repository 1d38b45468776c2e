//! How an interface ends.

use std::fs;
use std::process::Command;
use std::time::Duration;

use adit_io::{Tun, TunConfig};
use adit_testbed::{can_run, wait_until, wireguard_socket};

use super::bed::{End, PROGRAMS, Program, WAIT};

#[test]
fn an_interface_ends_with_its_device_and_can_begin_at_once() {
    if !can_run("an_interface_ends_with_its_device_and_can_begin_at_once", &PROGRAMS) {
        return;
    }
    let end = End::create(1, Program::Adit);
    end.start().unwrap();
    for _ in 0..10 {
        end.namespace.ip(&["link", "delete", &end.device]).unwrap();
        // The process before has not yet ended, perhaps.
        end.start().unwrap();
        end.set_key();
        assert_eq!(end.wg("show DEV public-key").unwrap().trim(), end.public_key);
    }
    end.namespace.ip(&["link", "delete", &end.device]).unwrap();
    end.wait_until_gone();
}

#[test]
fn an_interface_ends_with_the_file_of_its_socket() {
    if !can_run("an_interface_ends_with_the_file_of_its_socket", &PROGRAMS) {
        return;
    }
    let end = End::create(1, Program::Adit);
    let socket = wireguard_socket(&end.device);
    end.start().unwrap();
    fs::remove_file(&socket).unwrap();
    end.wait_until_gone();

    // Another file in its place is left where it is.
    end.start().unwrap();
    let other = end.scratch.write("other", "").unwrap();
    let beside = socket.with_extension("other");
    fs::copy(other, &beside).unwrap();
    fs::rename(&beside, &socket).unwrap();
    wait_until("the daemon to end", WAIT, || end.processes().is_empty()).unwrap();
    assert!(socket.exists());
    fs::remove_file(&socket).unwrap();
    end.wait_until_gone();
}

#[test]
fn an_interface_ends_by_a_signal_and_one_that_was_killed_is_in_nobodys_way() {
    if !can_run("an_interface_ends_by_a_signal_and_one_that_was_killed_is_in_nobodys_way", &PROGRAMS) {
        return;
    }
    let end = End::create(1, Program::Adit);
    let send = |signal: &str, processes: Vec<u32>| {
        for process in processes {
            let mut kill = Command::new("kill");
            kill.args([signal, &process.to_string()]);
            end.namespace.run(kill).unwrap();
        }
    };
    for signal in ["-TERM", "-INT", "-HUP"] {
        end.start().unwrap();
        send(signal, end.daemons());
        end.wait_until_gone();
    }
    // Its helper removes the files that a killed one leaves.
    end.start().unwrap();
    send("-KILL", end.daemons());
    end.wait_until_gone();
    end.start().unwrap();
    send("-KILL", end.helpers());
    send("-KILL", end.daemons());
    let is_gone = || !end.is_served() && end.namespace.devices().unwrap().is_empty();
    wait_until("the daemon to end", WAIT, is_gone).unwrap();
    assert!(wireguard_socket(&end.device).exists());
    end.start().unwrap();
    assert!(end.is_served());
    send("-TERM", end.daemons());
    end.wait_until_gone();
}

/// A device that outlasts its daemon, which `ip tuntap add` makes, and one that another process still has: wireguard-go takes the
/// first and fails at once at the second.
#[test]
fn a_device_that_was_left_is_taken_over() {
    if !can_run("a_device_that_was_left_is_taken_over", &PROGRAMS) {
        return;
    }
    let end = End::create(1, Program::Adit);
    let ip = |words: &[&str]| end.namespace.ip(words).unwrap();
    let kill = |signal: &str| {
        for process in end.daemons() {
            let mut kill = Command::new("kill");
            kill.args([signal, &process.to_string()]);
            end.namespace.run(kill).unwrap();
        }
        wait_until("the daemon to end", WAIT, || end.processes().is_empty()).unwrap();
    };
    ip(&["tuntap", "add", "dev", &end.device, "mode", "tun"]);
    for signal in ["-KILL", "-TERM"] {
        end.start().unwrap();
        end.set_key();
        assert_eq!(end.wg("show DEV public-key").unwrap().trim(), end.public_key);
        assert!(ip(&["link", "show", "dev", &end.device]).contains("mtu 1420"));
        kill(signal);
        assert!(end.namespace.devices().unwrap().contains(&end.device), "it outlasts its daemon");
    }
    ip(&["link", "delete", &end.device]);

    let hold = || {
        let config = TunConfig { name: Some(end.device.clone()), ..TunConfig::default() };
        end.namespace.enter(|| Tun::create(&config).unwrap()).unwrap()
    };
    let held = hold();
    let error = end.start().unwrap_err().to_string();
    assert!(error.contains("is in use by another program"), "{error}");
    assert!(!wireguard_socket(&end.device).exists(), "a socket was left");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            drop(held);
        });
        end.start().unwrap();
    });
    kill("-TERM");
    end.wait_until_gone();
}
