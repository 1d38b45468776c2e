//! `swanctl` drives adit by VICI.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;

use adit_testbed::wait_until;

use super::bed::{End, Program, ROLES, Settings, WAIT, is_ready, joined};

/// The connections that a socket serves at once (`adit_host::sockets::MAX_CONNECTIONS`).
const MOST: usize = 64;

/// The values of a name in `swanctl --list-sas --raw`.
fn values<'a>(raw: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("{name}=");
    let words = raw.split([' ', '{', '}', '[', ']']);
    words.filter_map(|word| word.strip_prefix(&start)).collect()
}

fn error(end: &End, arguments: &[&str]) -> String {
    end.control(arguments).unwrap_err().to_string()
}

#[test]
fn swanctl_lists_rekeys_terminates_and_initiates() {
    if !is_ready("ipsec vici") {
        return;
    }
    for programs in ROLES {
        let mut ends = joined(programs, &Settings::default());
        ends.iter_mut().for_each(End::start_with_vici);
        ends[1].reaches(&ends[0]);
        let is_initiator = programs[1] == Program::Adit;
        let [adit, strongswan] = if is_initiator { [&ends[1], &ends[0]] } else { [&ends[0], &ends[1]] };
        assert!(adit.control(&["--version", "--daemon"]).unwrap().contains("adit"));
        assert!(adit.control(&["--stats"]).unwrap().contains("1 total"));
        let listed = adit.control(&["--list-sas"]).unwrap();
        for part in ["t: #1, ESTABLISHED, IKEv2", "INSTALLED, TUNNEL", "10.77.1.0/24", "fd00:77:2::/64"] {
            assert!(listed.contains(part), "{part}:\n{listed}");
        }
        assert_eq!(adit.control(&["--list-sas", "--ike", "other"]).unwrap(), "");
        the_same_sas(&adit.sas(), &strongswan.sas());
        let before = adit.sas();
        adit.control(&["--rekey", "--child", "c"]).unwrap();
        let is_rekeyed = || values(&adit.sas(), "spi-in") != values(&before, "spi-in");
        wait_until("the rekey", WAIT, is_rekeyed).unwrap();
        let before = adit.sas();
        adit.control(&["--rekey", "--ike", "t"]).unwrap();
        let is_rekeyed = || values(&adit.sas(), "initiator-spi") != values(&before, "initiator-spi");
        wait_until("the rekey of the IKE SA", WAIT, is_rekeyed).unwrap();
        let before = adit.sas();
        adit.control(&["--rekey", "--ike", "t", "--reauth"]).unwrap();
        let is_anew = || values(&adit.sas(), "initiator-spi") != values(&before, "initiator-spi");
        wait_until("another IKE SA", WAIT, is_anew).unwrap();
        adit.control(&["--terminate", "--ike", "t"]).unwrap();
        wait_until("strongSwan's end", WAIT, || !strongswan.sas().contains("ESTABLISHED")).unwrap();
        assert_eq!(adit.control(&["--list-sas"]).unwrap(), "");
        assert!(error(adit, &["--terminate", "--ike", "t"]).contains("no matching SAs to terminate found"));
        if is_initiator {
            adit.control(&["--initiate", "--child", "c"]).unwrap();
            ends[1].reaches(&ends[0]);
        }
    }
}

/// Both ends show one IKE SA and one child SA, with the same algorithms, SPIs, and counts of packets and bytes.
fn the_same_sas(adit: &str, strongswan: &str) {
    let names =
        ["initiator-spi", "responder-spi", "encr-alg", "encr-keysize", "integ-alg", "prf-alg", "dh-group"];
    for name in names.into_iter().chain(["state", "protocol", "mode", "encap"]) {
        assert_eq!(values(adit, name), values(strongswan, name), "{name}:\n{adit}\n{strongswan}");
        let is_optional = ["encap", "integ-alg"].contains(&name);
        assert!(is_optional || !values(strongswan, name).is_empty(), "{name}: {strongswan}");
    }
    for (own, other) in [
        ("local-id", "remote-id"),
        ("local-host", "remote-host"),
        ("spi-in", "spi-out"),
        ("local-ts", "remote-ts"),
        ("packets-in", "packets-out"),
        ("bytes-in", "bytes-out"),
    ] {
        assert_eq!(values(adit, own), values(strongswan, other), "{own}:\n{adit}\n{strongswan}");
        assert_eq!(values(adit, other), values(strongswan, own), "{other}:\n{adit}\n{strongswan}");
    }
}

#[test]
fn swanctl_is_told_what_there_is_not() {
    if !is_ready("ipsec vici faults") {
        return;
    }
    let mut ends = joined(ROLES[0], &Settings::default());
    let adit = if ROLES[0][0] == Program::Adit { &mut ends[0] } else { &mut ends[1] };
    adit.start_with_vici();
    assert!(error(adit, &["--initiate", "--child", "other"]).contains("CHILD_SA config 'other' not found"));
    assert!(error(adit, &["--initiate", "--ike", "other"]).contains("IKE_SA config 'other' not found"));
}

#[test]
fn wrong_packets_close_their_connection_alone() {
    if !is_ready("ipsec vici packets") {
        return;
    }
    let mut ends = joined(ROLES[0], &Settings::default());
    let adit = if ROLES[0][0] == Program::Adit { &mut ends[0] } else { &mut ends[1] };
    adit.start_with_vici();
    let rights = |adit: &End| {
        let metadata = fs::metadata(adit.vici()).unwrap();
        (metadata.permissions().mode() & 0o777, metadata.gid())
    };
    assert_eq!(rights(adit), (0o600, 0), "root's alone");
    let packet = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let deep = [&b"\0\x08list-sas"[..], &[1, 1, b's'].repeat(17), &[2; 17]].concat();
    for wrong in [vec![0xff; 4], vec![0; 4], packet(&[9]), packet(&deep), packet(&[5])] {
        let mut stream = UnixStream::connect(adit.vici()).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.write_all(&wrong).unwrap();
        // It is reset where bytes are left that adit has not read.
        let end = stream.read(&mut [0; 9]).or_else(|error| match error.kind() {
            io::ErrorKind::ConnectionReset => Ok(0),
            _ => Err(error),
        });
        assert_eq!(end.unwrap(), 0, "{wrong:?}");
    }
    assert!(adit.control(&["--stats"]).unwrap().contains("0 total"));
    // Those that say nothing have a bounded number of connections, and the places of those that go are free.
    let silent: Vec<UnixStream> = (0..MOST).map(|_| UnixStream::connect(adit.vici()).unwrap()).collect();
    let mut further = UnixStream::connect(adit.vici()).unwrap();
    further.set_read_timeout(Some(WAIT)).unwrap();
    assert_eq!(further.read(&mut [0; 9]).unwrap(), 0, "one too many");
    drop(silent);
    wait_until("a place", WAIT, || adit.control(&["--stats"]).is_ok()).unwrap();
    // The group of a file that every Debian has.
    let text = fs::read_to_string(adit.path(&adit.file_name())).unwrap();
    adit.write_text(&format!("#adit: vici-group = daemon\n{text}"), "", "");
    adit.process().terminate(WAIT).unwrap();
    adit.start_with_vici();
    assert_eq!(rights(adit), (0o660, 1), "root's and a group's");
}
