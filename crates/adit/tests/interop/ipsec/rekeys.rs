//! Rekeys under load.

use std::thread;
use std::time::Duration;

use adit_testbed::{Ping, PingReport};

use super::bed::{End, Program, ROLES, Settings, is_ready, pair};

/// Pings both ways while `act` runs, for four seconds.
fn under_pings(ends: &[End; 2], act: impl FnOnce() + Send) -> [PingReport; 2] {
    let [first, second] = ends;
    thread::scope(|scope| {
        let ping = |from: &'_ End, to: &'_ End| {
            let (namespace, target) = (&from.namespace, to.inner());
            Ping::new(200, Duration::from_millis(20)).run(namespace, target).unwrap()
        };
        let out = scope.spawn(move || ping(first, second));
        let back = scope.spawn(move || ping(second, first));
        scope.spawn(act);
        [out.join().unwrap(), back.join().unwrap()]
    })
}

#[test]
fn no_packet_is_lost_when_strongswan_rekeys() {
    if !is_ready("ipsec rekeys by strongSwan") {
        return;
    }
    for programs in ROLES {
        let ends = pair(programs, &Settings { esp: ["aes256gcm16-x25519"; 2], ..Settings::default() });
        ends[1].reaches(&ends[0]);
        let strongswan = ends.iter().find(|end| end.program == Program::StrongSwan).unwrap();
        let reports = under_pings(&ends, || {
            for what in [["--rekey", "--child", "c"], ["--rekey", "--ike", "t"], ["--rekey", "--child", "c"]]
            {
                strongswan.control(&what).unwrap();
                thread::sleep(Duration::from_millis(800));
            }
        });
        assert!(reports.iter().all(PingReport::is_clean), "{programs:?}: {reports:?}");
    }
}

#[test]
fn no_packet_is_lost_when_adit_rekeys() {
    if !is_ready("ipsec rekeys by adit") {
        return;
    }
    for programs in ROLES {
        let own =
            |what: &str| programs.map(|it| if it == Program::Adit { what.to_owned() } else { String::new() });
        let settings = Settings {
            esp: ["aes256gcm16-x25519"; 2],
            connection: own("rekey_time = 3s"),
            child: own("rekey_time = 2s"),
            ..Settings::default()
        };
        let ends = pair(programs, &settings);
        ends[1].reaches(&ends[0]);
        let strongswan = ends.iter().find(|end| end.program == Program::StrongSwan).unwrap();
        let before = strongswan.sas();
        let reports = under_pings(&ends, || {});
        assert!(reports.iter().all(PingReport::is_clean), "{programs:?}: {reports:?}");
        let after = strongswan.sas();
        let ike_sa = |text: &str| text.split("initiator-spi=").nth(1).map(|rest| rest[..16].to_owned());
        let child_sa = |text: &str| {
            let installed = text.split("state=INSTALLED").nth(1)?;
            installed.split("spi-in=").nth(1).map(|rest| rest[..8].to_owned())
        };
        for spi in [ike_sa, child_sa] {
            assert!(spi(&before).is_some() && spi(&before) != spi(&after), "{before}\n{after}");
        }
    }
}
