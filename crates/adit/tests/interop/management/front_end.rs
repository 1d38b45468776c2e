//! `management-hold` and `management-query-remote`: a desktop program holds each connection back and says where it goes. adit
//! answers as OpenVPN does.

use std::time::Duration;

use adit_testbed::{Scratch, can_run};

use super::commands::Talk;
use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

const WAIT: Duration = Duration::from_secs(60);

/// The lines at the program at the socket of a client, without times.
fn dialogue(client: Program) -> Vec<String> {
    let scratch = Scratch::create("front-end").unwrap();
    let socket = scratch.path().join("socket");
    let lines = format!(
        "management {} unix\nmanagement-hold\nmanagement-query-remote\nconnect-retry 1\nremote vpn.invalid 1\necho hello\n",
        socket.display()
    );
    let mut bed = Bed::build_with(&Options::BASE, Program::Adit, &[client], |_, [_, client]| {
        client.push_str(&lines);
    })
    .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let mut talk = Talk::within(&socket, WAIT);
    let mut heard = vec![talk.until(">HOLD:")];
    heard.extend(talk.answer("state on"));
    heard.extend(talk.answer("signal SIGUSR1"));
    heard.extend(talk.answer("hold release"));
    let first = talk.until(">REMOTE:");
    heard.push(first.clone());
    heard.extend(talk.answer("remote SKIP"));
    heard.push(talk.until(">REMOTE:"));
    // The place of the server, under the name of the other remote.
    let place: Vec<&str> = first.trim_start_matches(">REMOTE:").split(',').collect();
    heard.extend(talk.answer(&format!("remote MOD {} {}", place[0], place[1])));
    let connected = |line: String| line.split_once(',').map(|(_, state)| state.to_owned()).unwrap();
    heard.push(connected(talk.until_with(">STATE:", ",CONNECTED,")));
    heard.extend(talk.answer("remote ACCEPT"));
    heard.extend(talk.answer("signal SIGUSR1"));
    heard.push(talk.until(">HOLD:"));
    heard.extend(talk.answer("hold release"));
    heard.push(talk.until(">REMOTE:"));
    heard.extend(talk.answer("remote SKIP"));
    heard.push(talk.until(">REMOTE:"));
    heard.extend(talk.answer("remote ACCEPT"));
    heard.push(connected(talk.until_with(">STATE:", ",CONNECTED,")));
    heard.extend(talk.answer("echo all").iter().map(|line| line.split(',').next_back().unwrap().to_owned()));
    heard.extend(talk.answer("forget-passwords"));
    heard
}

#[test]
fn a_front_end_steers_a_client() {
    if !can_run("management", &PROGRAMS) {
        return;
    }
    let [theirs, ours] = [Program::OpenVpn, Program::Adit].map(dialogue);
    assert_eq!(ours, theirs);
    assert!(ours[2].contains("is currently ignored") && ours[4].starts_with(">REMOTE:"), "{ours:#?}");
}
