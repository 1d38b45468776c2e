//! TLS 1.2 with and without the extended master secret (RFC 7627): only with it may data keys be exported from TLS.

use adit_testbed::{MAX_WAIT, can_run, wait_until};

use crate::bed::{Bed, PROGRAMS};
use crate::handshake::point_to_point::points;
use crate::options::{Options, Program};
use crate::profiles::variants::{BOTH_WAYS, play};

/// OpenSSL as before 1.1.0.
const WITHOUT: &str = "
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = defaults
[defaults]
Options = -ExtendedMasterSecret
";
const TLS_1_2: Options = Options { tls_version_max: "1.2", ..Options::BASE };

/// Brings a tunnel up. `exports` is the line that OpenVPN logs where keys are exported.
fn check(name: &str, change: fn(&mut [String; 2]), exports: &str) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    for pair in BOTH_WAYS {
        for extended in [true, false] {
            let [server, client] = pair;
            let mut bed = Bed::build_with(&TLS_1_2, server, &[client], |_, texts| {
                change(texts);
                texts.iter_mut().for_each(|text| text.push_str("verb 4\n"));
            })
            .unwrap();
            let openvpn = |bed: &mut Bed| match server {
                Program::OpenVpn => bed.server.process().log(),
                _ => bed.clients[0].process().log(),
            };
            if !extended {
                bed.server.configure_openssl(WITHOUT).unwrap();
                bed.clients[0].configure_openssl(WITHOUT).unwrap();
            }
            let outcome = play(&mut bed);
            let context = format!("{name}, {pair:?}, extended master secret: {extended}");
            assert!(outcome.is_ok(), "{context}: {}\n{}", outcome.unwrap_err(), bed.logs());
            let log = openvpn(&mut bed);
            assert_eq!(log.contains(exports), extended, "{context}:\n{log}");
        }
    }
}

#[test]
fn keys_are_exported_only_with_the_extended_master_secret() {
    check("keys_are_exported_only_with_the_extended_master_secret", |_| {}, "tls-ekm");
}

#[test]
fn point_to_point_keys_are_exported_only_with_the_extended_master_secret() {
    check("point_to_point_keys_are_exported_only_with_the_extended_master_secret", points, "TLS_export=1");
}

/// A server cannot make a client export keys all the same.
#[test]
fn a_push_does_not_make_keys_exportable() {
    if !can_run("a_push_does_not_make_keys_exportable", &PROGRAMS) {
        return;
    }
    let mut bed = Bed::build_with(&TLS_1_2, Program::OpenVpn, &[Program::Adit], |_, [server, _]| {
        server.push_str("push \"key-derivation tls-ekm\"\n");
    })
    .unwrap();
    bed.server.configure_openssl(WITHOUT).unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let client = bed.clients[0].process();
    let refused = || client.log().contains("TLS 1.2 without extended master secret");
    let outcome = wait_until("the refusal", MAX_WAIT, refused);
    assert!(outcome.is_ok(), "{}", bed.logs());
}
