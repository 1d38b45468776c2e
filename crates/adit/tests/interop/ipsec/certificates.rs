//! Authentication by certificates.

use super::authority::{Authority, RSA};
use super::bed::{Certified, End, Program, ROLES, Settings, at_once, is_ready, joined, pair, row_of};

fn settings(certificates: [Certified; 2]) -> Settings {
    Settings { certificates: Some(certificates), ..Settings::default() }
}

#[test]
fn long_messages_go_in_fragments() {
    if !is_ready("ipsec fragments") {
        return;
    }
    let authority = Authority::new(RSA);
    let both = ["end1.example", "end2.example"].map(|host| authority.issue(host, &authority));
    let small = Settings { daemon: "fragment_size = 600", ..settings(both) };
    for programs in ROLES {
        let [first, second] = pair(programs, &small);
        second.reaches(&first);
    }
}

/// strongSwan signs and verifies as a peer that does not know RFC 7427: RSA with SHA-1, by method 1.
#[test]
fn rsa_with_sha_1_authenticates_beside_a_peer_without_rfc_7427() {
    if !is_ready("ipsec RSA with SHA-1") {
        return;
    }
    let authority = Authority::new(RSA);
    let both = ["end1.example", "end2.example"].map(|host| authority.issue(host, &authority));
    let settings = Settings { daemon: "signature_authentication = no", ..settings(both) };
    at_once(ROLES, |programs| {
        row_of("RSA with SHA-1", programs, |_| {
            let mut ends = joined(programs, &settings);
            let adit = ends.iter().find(|end| end.program == Program::Adit).unwrap();
            let text = std::fs::read_to_string(adit.path(&adit.file_name())).unwrap();
            adit.put(&adit.file_name(), &text.replace("auth = pubkey", "auth = ike:rsa-sha1"));
            ends.iter_mut().for_each(End::start);
            ends[1].reaches(&ends[0]);
        });
    });
}
