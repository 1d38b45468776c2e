//! `plugin` of auth-pam: clients of a server whose passwords PAM judges.

use std::fs;
use std::path::Path;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Scratch, can_run};

use super::passwords::{GOOD, script};
use crate::bed::Bed;
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;

/// `adit-pam`, which is built beside adit.
fn can_run_pam() -> bool {
    let judge = Path::new(env!("CARGO_BIN_EXE_adit")).with_file_name("adit-pam");
    can_run("PAM", &["openvpn", "openssl", "unshare", "mount", judge.to_str().unwrap()])
}

/// As root in spite of `user`: PAM's modules read files of root's.
#[test]
fn pam_judges_the_clients_of_a_server() {
    if !can_run_pam() {
        return;
    }
    let scratch = Scratch::create("services").unwrap();
    let check = script(
        &scratch,
        "check",
        "[ \"$PAM_USER $(id -u)\" = 'ann 0' ] && [ \"$(tr -d '\\0')\" = 's3 cret' ]\n",
    );
    let service = format!(
        "auth required pam_exec.so quiet expose_authtok {}\naccount required pam_permit.so\n",
        check.display()
    );
    fs::create_dir(scratch.path().join("pam.d")).unwrap();
    scratch.write("pam.d/vpn", &service).unwrap();
    let mut bed =
        Bed::build_with(&Options::BASE, Program::Adit, &[Program::OpenVpn], |_, [server, client]| {
            server.push_str(
                "user nobody\ngroup nogroup\nusername-as-common-name\n\
             plugin /usr/lib/openvpn/openvpn-plugin-auth-pam.so \"vpn login USERNAME password PASSWORD\"\n",
            );
            client.push_str(GOOD);
        })
        .unwrap();
    bed.server.start_with_services(&scratch.path().join("pam.d")).unwrap();
    bed.clients[0].start().unwrap();
    let came_up = bed.clients[0].process().wait_for_line(0, Program::OpenVpn.up_line(), WAIT);
    assert!(came_up.is_ok(), "{}", bed.logs());
    assert!(bed.server.process().wait_for_line(0, "ann connected", WAIT).is_ok(), "{}", bed.logs());
    bed.clients[0].stop().unwrap();
    let file = bed.clients[0].config().to_owned();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("s3 cret", "guess")).unwrap();
    bed.clients[0].start().unwrap();
    let refused = bed.clients[0].process().wait_for_line(0, "AUTH_FAILED", WAIT);
    assert!(refused.is_ok(), "{}", bed.logs());
    let said = bed.server.process().wait_for_line(0, "adit-pam: ann: PAM service vpn: ", WAIT);
    assert!(said.is_ok(), "{}", bed.logs());
    let log = bed.server.process().log();
    assert!(!log.contains("guess"), "{log}");
    bed.server.stop().unwrap();
}
