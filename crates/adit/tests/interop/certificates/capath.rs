//! `capath`: an authority in a directory, under the name that `openssl rehash` gives it.

use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run, program};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;

#[test]
fn the_authority_is_found_by_the_hash_of_its_name() {
    if !can_run("capath", &PROGRAMS) {
        return;
    }
    let directory = Scratch::create("capath").unwrap();
    let mut bed =
        Bed::build_with(&Options::BASE, Program::OpenVpn, &[Program::Adit], |authority, [_, client]| {
            directory.write("authority.pem", &authority.certificate).unwrap();
            let mut rehash = program("openssl").unwrap();
            rehash.arg("rehash").arg(directory.path());
            assert!(rehash.output().unwrap().status.success());
            let block = format!("<ca>\n{}</ca>\n", authority.certificate);
            assert!(client.contains(&block), "{client}");
            *client = client.replace(&block, &format!("capath {}\n", directory.path().display()));
        })
        .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    bed.clients[0]
        .process()
        .wait_for_line(0, Program::Adit.up_line(), WAIT)
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
    bed.clients[0].stop().unwrap();
    bed.server.stop().unwrap();
}
