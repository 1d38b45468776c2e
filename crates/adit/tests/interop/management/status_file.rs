//! `status`: the same file as OpenVPN 2.6 writes, line by line and column by column.

use std::collections::BTreeSet;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run, wait_until, wait_until_reachable};

use super::commands::{Talk, managed};
use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Part, Program, SERVER_INNER};

const WAIT: Duration = MAX_WAIT;

/// The file that `program` writes as a server or client of the other program, once there is a client in it.
fn file_of(program: Program, part: Part, lines: &str) -> String {
    let scratch = Scratch::create("status").unwrap();
    let path = scratch.path().join("status");
    let other = if program == Program::Adit { Program::OpenVpn } else { Program::Adit };
    let [server, client] = if part == Part::Server { [program, other] } else { [other, program] };
    let lines = format!("status {} 1\n{lines}", path.display());
    let mut bed = Bed::build_with(&Options::BASE, server, &[client], |_, texts| {
        texts[usize::from(part == Part::Client)].push_str(&lines);
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let there = wait_until_reachable(&bed.clients[0].namespace, SERVER_INNER[0].parse().unwrap(), WAIT);
    assert!(there.is_ok(), "{}", bed.logs());
    // The file is written anew each second, in its place: half of it may be read, or the end of it behind the one
    // before.
    let mut text = String::new();
    wait_until("the status file", WAIT, || {
        text = std::fs::read_to_string(&path).unwrap_or_default();
        text.ends_with("END\n") && text.matches("END\n").count() == 1 && shows_a_client(&text, part)
    })
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    text
}

/// Whether the file was written after the handshake: a server's names the client, a client's counts bytes everywhere
/// (its first ones are written before there are any, or before they were counted at each place).
fn shows_a_client(text: &str, part: Part) -> bool {
    match part {
        Part::Server => text.contains("fd00:8::1000"),
        Part::Client => {
            let counts = || text.lines().filter_map(|line| Some(line.split_once(" bytes,")?.1));
            counts().count() > 3 && counts().all(|count| count.len() > 1)
        }
    }
}

/// The kind of a column, without the parts that differ from run to run.
pub(super) fn kind(column: &str) -> String {
    let digits = column.chars().all(|c| c.is_ascii_digit()) && !column.is_empty();
    let time = column.len() == 19 && column.as_bytes()[10] == b' ' && column.as_bytes()[13] == b':';
    match column.rsplit_once(':') {
        _ if digits && column.len() > 1 => "NUMBER".to_owned(),
        _ if time => "TIME".to_owned(),
        Some((address, _)) if address.starts_with("10.9.") => format!("{address}:PORT"),
        _ => column.to_owned(),
    }
}

/// The lines in a form that can be compared; clients and routes come in any order.
fn shape(text: &str, by: char) -> Vec<Vec<String>> {
    let columns = |line: &str| line.split(by).map(kind).collect::<Vec<_>>();
    let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with("TITLE")).map(columns).collect();
    let routes = lines.iter().position(|line| line[0].starts_with("ROUTING") && line.len() == 1);
    if let Some(start) = routes {
        lines[start + 2..start + 4].sort();
    } else if let Some(start) = lines.iter().position(|line| line[0] == "ROUTING_TABLE") {
        lines[start..start + 2].sort();
    }
    lines
}

fn compare(part: Part, lines: &str, by: char) {
    if !can_run("status", &PROGRAMS) {
        return;
    }
    let [ours, theirs] = [Program::Adit, Program::OpenVpn].map(|program| file_of(program, part, lines));
    assert_eq!(shape(&ours, by), shape(&theirs, by), "ours:\n{ours}\ntheirs:\n{theirs}");
}

#[test]
fn status_of_a_server() {
    compare(Part::Server, "", ',');
}

#[test]
fn status_of_a_server_version_2() {
    compare(Part::Server, "status-version 2\n", ',');
}

#[test]
fn status_of_a_server_version_3() {
    compare(Part::Server, "status-version 3\n", '\t');
}

#[test]
fn status_of_a_client() {
    compare(Part::Client, "status-version 2\n", ',');
}

/// The status is read at many points of a second: a time that is computed from the connection's age at each reading differs.
#[test]
fn a_client_has_one_time_of_connection() {
    if !can_run("time of connection", &PROGRAMS) {
        return;
    }
    let (_scratch, socket, _bed) = managed(Program::Adit);
    let mut talk = Talk::at(&socket);
    let mut times = BTreeSet::new();
    for _ in 0..40 {
        let status = talk.answer("status 3");
        let client = status.iter().find(|line| line.starts_with("CLIENT_LIST\t")).unwrap();
        times.insert(client.split('\t').nth(8).unwrap().to_owned());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(times.len(), 1, "{times:?}");
}
