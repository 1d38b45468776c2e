//! Name servers that the server pushes: set, and taken back, also after a kill.
//!
//! The client writes to a file of the test's own, never to the machine's.

use std::path::Path;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run, wait_until};
use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};
use crate::privileges::user_and_group::helper_of;

const WAIT: Duration = MAX_WAIT;
const BEFORE: &str =
    "# the machine's own\nnameserver 192.0.2.53\nsearch home.example\noptions edns0 timeout:2\n";

/// By `dhcp-option`, as all servers push.
#[test]
fn dhcp_options_are_set_and_taken_back() {
    let pushed = "push \"dhcp-option DNS 10.8.0.1\"\npush \"dhcp-option DNS 10.8.0.2\"\n\
                  push \"dhcp-option DOMAIN corp.example\"\npush \"dhcp-option DOMAIN-SEARCH lab.example\"\n\
                  push \"dhcp-option DOMAIN-SEARCH $(reboot)\"\n";
    let wanted = ["nameserver 10.8.0.1", "nameserver 10.8.0.2", "search corp.example lab.example"];
    for server in [Program::OpenVpn, Program::Adit] {
        check(server, pushed, &wanted);
    }
}

/// By `dns`, which goes before `dhcp-option`.
#[test]
fn dns_options_are_set_and_taken_back() {
    let pushed = "push \"dns server 1 address 10.8.0.9\"\npush \"dns server 0 address 10.8.0.1 fd00:8::1\"\n\
                  push \"dns search-domains corp.example\"\npush \"dhcp-option DNS 10.8.0.7\"\n";
    check(Program::OpenVpn, pushed, &["nameserver 10.8.0.1", "nameserver fd00:8::1", "search corp.example"]);
}

/// `DOMAIN-ROUTE`: name servers for some names alone, which a file has no words for, and the log says so; `.` stands
/// for all names.
#[test]
fn name_servers_for_some_names() {
    if !can_run("DOMAIN-ROUTE", &PROGRAMS) {
        return;
    }
    for (server, domain, parted) in [
        (Program::OpenVpn, "corp.example", true),
        (Program::Adit, "corp.example", true),
        (Program::Adit, ".", false),
    ] {
        let scratch = Scratch::create("dns").unwrap();
        let file = scratch.write("resolv.conf", BEFORE).unwrap();
        let mut bed = Bed::build_with(&Options::BASE, server, &[Program::Adit], |_, [server, _]| {
            server.push_str(&format!(
                "push \"dhcp-option DNS 10.8.0.1\"\npush \"dhcp-option DOMAIN-ROUTE {domain}\"\n"
            ));
        })
        .unwrap();
        bed.clients[0].arguments(&["--resolv-conf", file.to_str().unwrap()]);
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        let up = bed.clients[0].process().wait_for_line(0, "tunnel up: ", WAIT);
        assert!(up.is_ok(), "{}", bed.logs());
        let reported = std::fs::read_to_string(&file).unwrap();
        assert!(
            reported.contains("nameserver 10.8.0.1\n") && !reported.contains("search corp"),
            "{reported}\n{}",
            bed.logs()
        );
        bed.clients[0].stop().unwrap();
        let warned = bed.clients[0].process().count_lines(0, "not for corp.example alone");
        assert_eq!(warned > 0, parted, "{}", bed.logs());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), BEFORE);
    }
}

/// With the options that the server pushes, the client's file holds these lines besides its own options while the
/// tunnel is up. Afterwards it is as it was before; also when the client is killed, or gets two signals to end.
fn check(server: Program, pushed: &str, wanted: &[&str]) {
    if !can_run("dns", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::create("dns").unwrap();
    let file = scratch.write("resolv.conf", BEFORE).unwrap();
    let mut bed = Bed::build_with(&Options::BASE, server, &[Program::Adit], |_, [server, _]| {
        server.push_str(pushed);
    })
    .unwrap();
    bed.clients[0].arguments(&["--resolv-conf", file.to_str().unwrap()]);
    bed.server.start().unwrap();
    let read = |file: &Path| std::fs::read_to_string(file).unwrap();
    let comes_up = |bed: &mut Bed| {
        bed.clients[0].start().unwrap();
        let up = bed.clients[0].process().wait_for_line(0, "tunnel up: ", WAIT);
        assert!(up.is_ok(), "{}", bed.logs());
        let reported = read(&file);
        let rest: Vec<&str> = reported.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(rest, [wanted, &["options edns0 timeout:2"]].concat(), "{}", bed.logs());
    };

    comes_up(&mut bed);
    bed.clients[0].stop().unwrap();
    assert_eq!(read(&file), BEFORE);

    // A second signal ends it at once.
    comes_up(&mut bed);
    let process = bed.clients[0].process();
    process.send_terminate();
    process.send_terminate();
    process.wait(WAIT).unwrap();
    comes_back("two signals", &file, &bed);

    comes_up(&mut bed);
    bed.clients[0].process().kill().unwrap();
    comes_back("a kill", &file, &bed);

    // Where the helper is killed as well, the next start puts it back.
    comes_up(&mut bed);
    bed.server.process().kill().unwrap();
    let helper = helper_of(bed.clients[0].process().id());
    kill_process(Pid::from_raw(helper).unwrap(), Signal::KILL).unwrap();
    bed.clients[0].process().kill().unwrap();
    assert_ne!(read(&file), BEFORE, "nothing could put it back");
    bed.clients[0].start().unwrap();
    comes_back("the next start", &file, &bed);
    bed.clients[0].process().wait_for_line(0, "connecting to", WAIT).unwrap();
    bed.clients[0].stop().unwrap();
    let names: Vec<_> =
        std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["resolv.conf"], "nothing else is left");
}

fn comes_back(after: &str, file: &Path, bed: &Bed) {
    let read = || std::fs::read_to_string(file).unwrap();
    wait_until("the file to come back", WAIT, || read() == BEFORE)
        .unwrap_or_else(|error| panic!("after {after}: {error}\n{}\n{}", read(), bed.logs()));
}
