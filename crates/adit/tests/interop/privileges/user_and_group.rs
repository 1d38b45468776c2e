//! `user` and `group`: the rights that the process keeps, and that they are enough.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run, wait_until, wait_until_reachable};

use crate::bed::{Bed, Host, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER};

const WAIT: Duration = MAX_WAIT;
/// `CAP_NET_ADMIN` in the kernel's masks (capability.h).
pub(crate) const NET_ADMIN: u64 = 1 << 12;

/// The rights of one thread.
#[derive(Debug)]
pub(crate) struct Rights {
    pub user: u32,
    pub group: u32,
    pub effective: u64,
    pub permitted: u64,
    pub inheritable: u64,
    pub bounding: u64,
    pub ambient: u64,
    pub no_new_privileges: u32,
    /// 2: a filter.
    pub seccomp: u32,
}

/// The rights of each thread of a process. Some end while they are read.
pub(crate) fn rights_of_threads(process: u32) -> Vec<Rights> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let text = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).ok();
    tasks.filter_map(|task| text(task.ok()?)).map(|text| rights_in(&text)).collect()
}

/// The rights in a file such as `/proc/PID/status`.
pub(crate) fn rights(status: &Path) -> Rights {
    rights_in(&fs::read_to_string(status).unwrap())
}

fn rights_in(text: &str) -> Rights {
    let lines: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.trim()))
        .collect();
    let mask = |name| u64::from_str_radix(lines[name], 16).unwrap();
    // Real, effective, saved, for files: they must not differ.
    let id = |name| {
        let all: Vec<&str> = lines[name].split('\t').collect();
        assert!(all.iter().all(|id| *id == all[0]), "{text}");
        all[0].parse().unwrap()
    };
    Rights {
        user: id("Uid"),
        group: id("Gid"),
        effective: mask("CapEff"),
        permitted: mask("CapPrm"),
        inheritable: mask("CapInh"),
        bounding: mask("CapBnd"),
        ambient: mask("CapAmb"),
        no_new_privileges: lines["NoNewPrivs"].parse().unwrap(),
        seccomp: lines["Seccomp"].parse().unwrap(),
    }
}

/// The process that a tunnel started to help it.
pub(crate) fn helper_of(tunnel: u32) -> i32 {
    let parent = format!("PPid:\t{tunnel}\n");
    let is_child = |process: &i32| {
        fs::read_to_string(format!("/proc/{process}/status")).is_ok_and(|status| status.contains(&parent))
    };
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let mut processes = names.filter_map(|name| name.to_str()?.parse::<i32>().ok());
    processes.find(is_child).expect("a helper")
}

/// Checks that every thread is that of `nobody`, without rights.
fn is_plain(host: &mut Host) {
    for rights in rights_of_threads(host.process().id()) {
        assert_eq!((rights.user, rights.group), (65_534, 65_534), "{rights:?}");
        assert_eq!(
            rights.effective | rights.permitted | rights.bounding | rights.inheritable,
            0,
            "{rights:?}"
        );
    }
}

fn run(bed: &mut Bed, resolv_conf: &Path) -> Result<(), String> {
    let text = |error: adit_testbed::TestbedError| error.to_string();
    let before = fs::read_to_string(resolv_conf).unwrap();
    bed.server.start().map_err(text)?;
    bed.clients[0].arguments(&["--resolv-conf", &resolv_conf.display().to_string()]);
    bed.clients[0].start().map_err(text)?;
    let server = SERVER_INNER[0].parse().unwrap();
    wait_until_reachable(&bed.clients[0].namespace, server, WAIT).map_err(text)?;
    is_plain(&mut bed.server);
    is_plain(&mut bed.clients[0]);
    let ours = || fs::read_to_string(resolv_conf).is_ok_and(|text| text.contains("nameserver 10.8.0.1"));
    wait_until("the name server", WAIT, ours).map_err(text)?;
    let routed = bed.clients[0].namespace.ip(&["route", "get", "10.77.0.1"]).map_err(text)?;
    assert!(routed.contains("dev tun"), "{routed}");

    // It comes back after a break: a new socket, routes again.
    let mark = bed.clients[0].process().mark();
    bed.clients[0].process().restart();
    bed.clients[0].process().wait_for_line(mark, "tunnel up: ", WAIT).map_err(text)?;
    wait_until_reachable(&bed.clients[0].namespace, server, WAIT).map_err(text)?;

    bed.clients[0].stop()?;
    assert_eq!(fs::read_to_string(resolv_conf).unwrap(), before);
    let left = bed.clients[0].namespace.ip(&["route", "show"]).map_err(text)?;
    assert!(!left.contains("tun"), "{left}");
    bed.server.stop()
}

#[test]
fn both_ends_give_up_their_rights_and_work_on() {
    if !can_run("user and group", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("privileges").unwrap();
    let (resolv_conf, pool) = (scratch.path().join("resolv.conf"), scratch.path().join("pool"));
    fs::write(&resolv_conf, "nameserver 192.0.2.53\n").unwrap();
    let lines = format!(
        "user nobody\ngroup nogroup\nifconfig-pool-persist {}\npush \"route 10.77.0.0 255.255.0.0\"\n\
         push \"dhcp-option DNS 10.8.0.1\"\n",
        pool.display()
    );
    let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &[Program::Adit], |_, [server, client]| {
        server.push_str(&lines);
        client.push_str("user nobody\ngroup nogroup\n");
    })
    .unwrap();
    let outcome = run(&mut bed, &resolv_conf);
    assert!(outcome.is_ok(), "{}\n{}", outcome.unwrap_err(), bed.logs());
    let remembered = fs::read_to_string(&pool).unwrap();
    assert!(remembered.starts_with("client1,10.8.0.2"), "{remembered}");
}

#[test]
fn an_unknown_user_is_reported_with_its_line() {
    if !can_run("an unknown user", &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build_with(&Options::BASE, Program::OpenVpn, &[Program::Adit], |_, [_, client]| {
        client.insert_str(0, "user no-such-user\n");
    })
    .unwrap();
    bed.clients[0].start().unwrap();
    let status = bed.clients[0].process().wait(WAIT).unwrap();
    let log = bed.clients[0].process().log();
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains("client1.conf:1: there is no user `no-such-user` on this system"), "{log}");
}
