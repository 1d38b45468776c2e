//! The rows beside Debian unstable's strongSwan: those of the older one again, and what only the newer one has.

use adit_testbed::{PingReport, wait_until};

use super::authority::{Authority, ED25519, P256, RSA};
use super::bed::{End, Program, Settings, WAIT, is_newer_ready, joined, pair, roles, row, row_of};
use super::rekeys::{own, under_pings};

const PEER: Program = Program::NewerStrongSwan;
/// ESP goes in IP if no NAT is there.
const RAW: &str = "raw_esp = yes";

fn reach(ends: &[End; 2]) {
    ends[1].reaches(&ends[0]);
    ends[0].reaches(&ends[1]);
}

fn strongswan(ends: &[End; 2]) -> &End {
    ends.iter().find(|end| end.program == PEER).unwrap()
}

#[test]
fn keys_and_suites_carry_packets_beside_the_newer_strongswan() {
    if !is_newer_ready("ipsec beside unstable's strongSwan") {
        return;
    }
    let suite = |ike: &'static str, esp: &'static str| Settings {
        proposals: [ike; 2],
        esp: [esp; 2],
        ..Settings::default()
    };
    let signed = |kind| {
        let authority = Authority::new(kind);
        let both = ["end1.example", "end2.example"].map(|host| authority.issue(host, &authority));
        Settings { certificates: Some(both), ..Settings::default() }
    };
    let rows = [
        ("shared key", Settings::default()),
        ("IPv6 outside", Settings { is_v6: true, ..Settings::default() }),
        ("ChaCha20-Poly1305", suite("chacha20poly1305-prfsha256-ecp384", "chacha20poly1305")),
        ("AES-CBC with SHA-256", suite("aes256-sha256-modp2048", "aes256-sha256")),
        ("RSA", signed(RSA)),
        ("ECDSA P-256", signed(P256)),
        ("Ed25519", signed(ED25519)),
        (
            "childless",
            Settings { connection: ["childless = force"; 2].map(str::to_owned), ..Settings::default() },
        ),
        (
            "PPK",
            Settings {
                connection: ["ppk_id = ppk.example\n ppk_required = yes"; 2].map(str::to_owned),
                ppks: ["a key"; 2],
                ..Settings::default()
            },
        ),
        ("ML-KEM-768 by IKE_INTERMEDIATE", suite("aes256gcm16-prfsha384-x25519-ke1_mlkem768", "aes256gcm16")),
        (
            "ML-KEM-1024 by IKE_INTERMEDIATE",
            suite("aes256gcm16-prfsha384-ecp384-ke1_mlkem1024", "aes256gcm16"),
        ),
        (
            "ML-KEM-768 where the initiator also offers none",
            Settings {
                proposals: [
                    "aes256gcm16-prfsha384-x25519-ke1_mlkem768",
                    "aes256gcm16-prfsha384-x25519-ke1_none-ke1_mlkem768",
                ],
                ..Settings::default()
            },
        ),
    ];
    for (name, settings) in rows {
        row(name, PEER, |programs| reach(&pair(programs, &settings)));
    }
}

#[test]
fn rekeys_beside_the_newer_strongswan_lose_no_packet() {
    if !is_newer_ready("ipsec rekeys beside unstable's strongSwan") {
        return;
    }
    row("rekeys by unstable's strongSwan", PEER, |programs| {
        let ends = pair(programs, &Settings::default());
        ends[1].reaches(&ends[0]);
        let strongswan = strongswan(&ends);
        let before = [strongswan.ike_sas(), strongswan.child_sas("c")].concat();
        let reports = under_pings(&ends, 100, || {
            strongswan.control(&["--rekey", "--ike", "t"]).unwrap();
            wait_until("another IKE SA", WAIT, || strongswan.ike_sas() != before[..1]).unwrap();
            strongswan.control(&["--rekey", "--child", "c"]).unwrap();
        });
        strongswan.settles(&before);
        assert!(reports.iter().all(PingReport::is_clean), "{programs:?}: {reports:?}");
    });
    row("rekeys by adit", PEER, |programs| {
        let settings = Settings {
            connection: own(programs, "rekey_time = 3s"),
            child: own(programs, "rekey_time = 2s"),
            ..Settings::default()
        };
        let ends = pair(programs, &settings);
        ends[1].reaches(&ends[0]);
        let strongswan = strongswan(&ends);
        let before = [strongswan.ike_sas(), strongswan.child_sas("c")].concat();
        let reports = under_pings(&ends, 200, || {});
        let logs = || format!("{}\n====\n{}", ends[0].log(), ends[1].log());
        assert!(reports.iter().all(PingReport::is_clean), "{programs:?}: {reports:?}\n{}", logs());
        strongswan.settles(&before);
    });
}

/// Each end rekeys the IKE SA and the child SA, with an additional key exchange each time (RFC 9370 section 2.2.4).
#[test]
fn rekeys_with_ml_kem_beside_the_newer_strongswan_lose_no_packet() {
    if !is_newer_ready("ipsec rekeys with ML-KEM beside unstable's strongSwan") {
        return;
    }
    row("rekeys with ML-KEM-768 by each end", PEER, |programs| {
        let settings = Settings {
            proposals: ["aes256gcm16-prfsha384-x25519-ke1_mlkem768"; 2],
            esp: ["aes256gcm16-x25519-ke1_mlkem768"; 2],
            ..Settings::default()
        };
        let mut ends = joined(programs, &settings);
        ends.iter_mut().for_each(|end| match end.program {
            Program::Adit => end.start_with_vici(),
            _ => end.start(),
        });
        ends[1].reaches(&ends[0]);
        let strongswan = strongswan(&ends);
        let reports = under_pings(&ends, 150, || {
            for end in &ends {
                let before = strongswan.ike_sas();
                end.control(&["--rekey", "--ike", "t"]).unwrap();
                wait_until("another IKE SA", WAIT, || {
                    let now = strongswan.ike_sas();
                    now.len() == 1 && now != before
                })
                .unwrap_or_else(|error| {
                    panic!("{}: {error}\n{}\n{}", end.program, ends[0].log(), ends[1].log())
                });
                let before = strongswan.child_sas("c");
                end.control(&["--rekey", "--child", "c"]).unwrap();
                wait_until("another child SA", WAIT, || {
                    let now = strongswan.child_sas("c");
                    now.len() == 1 && now != before
                })
                .unwrap_or_else(|error| {
                    panic!("{}: {error}\n{}\n{}", end.program, ends[0].log(), ends[1].log())
                });
            }
        });
        assert!(reports.iter().all(PingReport::is_clean), "{programs:?}: {reports:?}");
        let sas = strongswan.sas();
        let (ike, children) = sas.split_once("child-sas").unwrap();
        let installed = children.split("state=INSTALLED").nth(1).unwrap();
        assert!(ike.contains("ake1=ML_KEM_768") && installed.contains("ake1=ML_KEM_768"), "{sas}");
    });
}

#[test]
fn esp_goes_as_an_ip_protocol_where_neither_end_sees_a_nat() {
    if !is_newer_ready("ipsec raw ESP") {
        return;
    }
    for (name, is_v6) in [("raw ESP", false), ("raw ESP over IPv6", true)] {
        row(name, PEER, |programs| {
            let ends = pair(programs, &Settings { is_v6, libipsec: RAW, ..Settings::default() });
            reach(&ends);
            let adit = ends.iter().find(|end| end.program == Program::Adit).unwrap();
            let status = adit.status();
            assert!(status.contains("c: ESP AES-256-GCM"), "{status}");
        });
    }
}

#[test]
fn a_packet_of_either_end_brings_a_child_up() {
    if !is_newer_ready("ipsec trap beside unstable's strongSwan") {
        return;
    }
    for programs in roles(PEER) {
        row_of("trap", programs, |_| {
            let mut ends = joined(programs, &Settings { start: "trap", ..Settings::default() });
            ends.iter_mut().for_each(End::start);
            assert_eq!(strongswan(&ends).ike_sas().len(), 0, "nothing has asked for it");
            ends[1].reaches(&ends[0]);
            wait_until("the IKE SA", WAIT, || strongswan(&ends).ike_sas().len() == 1).unwrap();
        });
    }
}
