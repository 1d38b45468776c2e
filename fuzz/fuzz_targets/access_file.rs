//! Files of access rules, and packets that are judged by them. A comment changes nothing; mistakes have a line and are plain text; the
//! verdict on a packet does not depend on bytes behind its end.
#![no_main]

use std::sync::Arc;

use adit_access::{AccessFile, Address, Direction, Guard, Moment, Owner, PeerFlows, Rules};
use adit_core::{Instant, is_unprintable};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (text, packet) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(text) = std::str::from_utf8(text) else { return };
    // A mark of byte order counts at the beginning alone, where the comment will be.
    let text = text.trim_start_matches('\u{feff}');
    let commented = format!("# a comment\n{text}");
    match (AccessFile::parse("access.toml", text), AccessFile::parse("access.toml", &commented)) {
        (Ok(file), Ok(again)) => {
            let places = |file: &AccessFile| file.rules.iter().map(|rule| rule.to.clone()).collect::<Vec<_>>();
            assert_eq!((file.default, places(&file)), (again.default, places(&again)));
            judge(&file, packet);
        }
        (Err(one), Err(other)) => {
            assert!(!one.problems.is_empty() && one.problems.len() == other.problems.len());
            let lines = text.lines().count() + 1;
            assert!(one.problems.iter().all(|problem| (1..=lines).contains(&problem.line)), "{one}");
            assert!(one.problems.iter().all(|problem| !problem.text.contains(is_unprintable)), "{one}");
        }
        _ => panic!("a comment changes what becomes of the file"),
    }
});

fn judge(file: &AccessFile, packet: &[u8]) {
    let rules = Arc::new(Rules::new(file));
    let member = Arc::new(rules.member("alice", ["staff"]));
    let at = Moment { now: Instant::ORIGIN, epoch: 1 };
    let owner = |address: Address| if address == Address::V4(0x0a08_0002) { Owner::ThisPeer } else { Owner::NoPeer };
    for direction in [Direction::FromPeer, Direction::ToPeer] {
        let verdict = |packet: &[u8]| {
            let flows = Arc::new(PeerFlows::default());
            let mut guard = Guard::new(direction, Arc::clone(&rules), Arc::clone(&member), flows);
            [guard.passes(packet, at, owner), guard.passes(packet, at, owner)]
        };
        let [first, second] = verdict(packet);
        assert_eq!(first, second, "a packet that passes once passes twice");
        // With more bytes, a packet that was cut off may be whole.
        assert!(!first || verdict(&[packet, &[0; 9]].concat())[0]);
    }
}
