use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::*;
use crate::firewall::{self, FirewallError};
use crate::netlink::IpFamily;
use crate::testing::{Device, in_fresh_network};

const INTERNET: [&str; 2] = ["0.0.0.0/0", "::/0"];

fn forwarding(device: &str, destinations: &[&str]) -> Forwarding {
    Forwarding {
        device: device.to_owned(),
        networks: ["10.8.0.1/24", "fd00:8::1/64"].map(|net| net.parse().unwrap()).to_vec(),
        destinations: destinations.iter().map(|net| net.parse().unwrap()).collect(),
        ports: Vec::new(),
    }
}

/// The parameters that turning forwarding on or off changes, the rules of nftables, and those of iptables.
fn state() -> (BTreeMap<String, String>, String, String) {
    let mut sysctls = BTreeMap::new();
    for family in ["ipv4", "ipv6"] {
        let conf = Path::new("/proc/sys/net").join(family).join("conf");
        for device in fs::read_dir(conf).unwrap().flatten() {
            for file in fs::read_dir(device.path()).unwrap().flatten() {
                let path = file.path().display().to_string();
                sysctls.insert(path, fs::read_to_string(file.path()).unwrap_or_default());
            }
        }
    }
    let iptables = firewall::iptables_save(IpFamily::V4).unwrap_or_default();
    let rules = iptables.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    (sysctls, nft(&["list", "ruleset"], "").unwrap(), rules)
}

fn sysctl(path: &str) -> String {
    fs::read_to_string(format!("/proc/sys/net/{path}")).unwrap().trim().to_owned()
}

fn set(path: &str, value: &str) {
    fs::write(format!("/proc/sys/net/{path}"), value).unwrap();
}

fn iptables(arguments: &[&str]) -> Result<String, FirewallError> {
    firewall::run("iptables", "iptables", arguments, "")
}

/// Whether there is `nft`; else nothing is tested, which CI takes for a fault.
fn has_nft() -> bool {
    match nft(&["list", "tables"], "") {
        Err(FirewallError::NoProgram { .. }) if std::env::var_os("CI").is_none() => {
            #[allow(clippy::print_stderr)]
            {
                eprintln!("NOT TESTED: forwarding needs nft");
            }
            false
        }
        result => {
            result.unwrap();
            true
        }
    }
}

#[test]
fn all_is_as_before_when_the_last_tunnel_ends() {
    in_fresh_network(|| {
        if !has_nft() {
            return;
        }
        let _devices = ["uplink", "tun0", "tun1"].map(Device::new);
        set("ipv4/conf/all/accept_redirects", "0");
        set("ipv4/conf/uplink/forwarding", "1");
        set("ipv6/conf/uplink/accept_ra", "1");
        nft(&["-f", "-"], "table inet owners {\nchain c {\ntype filter hook forward priority 5;\n}\n}\n")
            .unwrap();
        let before = state();
        let (first, _) = forwarding("tun0", &INTERNET).begin();
        assert_eq!([sysctl("ipv4/ip_forward"), sysctl("ipv6/conf/all/forwarding")], ["1", "1"]);
        assert_eq!([sysctl("ipv6/conf/uplink/accept_ra"), sysctl("ipv6/conf/lo/accept_ra")], ["2", "1"]);
        let (second, _) = forwarding("tun1", &["192.168.1.0/24"]).begin();
        first.undo();
        assert_eq!([sysctl("ipv4/ip_forward"), sysctl("ipv6/conf/all/forwarding")], ["1", "1"]);
        second.undo();
        assert_eq!(state(), before);
        // Forwarding that was on before stays on.
        set("ipv4/ip_forward", "1");
        let before = state();
        let (only, _) = forwarding("tun0", &INTERNET).begin();
        only.undo();
        assert_eq!(state(), before);
    });
}

#[test]
fn what_a_killed_process_left_is_undone() {
    in_fresh_network(|| {
        if !has_nft() {
            return;
        }
        let _devices = ["uplink", "tun0"].map(Device::new);
        let before = state();
        let (left, _) = forwarding("tun0", &INTERNET).begin();
        Forwarding::recover();
        assert_eq!(sysctl("ipv4/ip_forward"), "1", "its process runs");
        let [(table, records)] = tables().try_into().unwrap();
        let gone = |record: Record| match record {
            Record::Owner(owner) => Record::Owner(owner.another()),
            other => other,
        };
        let records: Vec<Record> = records.into_iter().map(gone).collect();
        nft(&["-f", "-"], &ruleset::ruleset(&forwarding("tun0", &INTERNET), &records)).unwrap();
        assert_eq!(table, ruleset::table(&left.device));
        Forwarding::recover();
        assert_eq!(state(), before);
    });
}

#[test]
fn devices_that_were_apart_stay_apart() {
    let records = ["eth0", "eth1"].map(|name| Record::Separate(Family::V4, name.to_owned()));
    let rules = ruleset::ruleset(&forwarding("tun0", &INTERNET), &records);
    assert!(rules.contains("meta nfproto ipv4 iifname \"eth0\" oifname { \"eth1\" } drop"), "{rules}");
    assert!(rules.contains("meta nfproto ipv4 iifname \"eth1\" oifname { \"eth0\" } drop"), "{rules}");
    assert!(!ruleset::ruleset(&forwarding("tun0", &INTERNET), &records[..1]).contains("\"eth0\" oifname"));
}

#[test]
fn only_what_has_no_way_back_is_translated() {
    let postrouting = |networks: &[&str], destinations: &[&str]| {
        let networks = networks.iter().map(|net| net.parse().unwrap()).collect();
        let rules = ruleset::ruleset(&Forwarding { networks, ..forwarding("t", destinations) }, &[]);
        let (_, chain) = rules.split_once("chain postrouting {").unwrap();
        let rules = chain.lines().filter_map(|line| line.trim().strip_suffix(" masquerade"));
        rules.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        postrouting(&["10.8.0.1/24", "2001:db8::1/64", "fd00::1/64"], &INTERNET),
        ["oifname != \"t\" ip saddr { 10.8.0.0/24 }", "oifname != \"t\" ip6 saddr { fd00::/64 }"]
    );
    assert_eq!(
        postrouting(&["203.0.113.1/24"], &["192.168.1.0/24"]),
        ["oifname != \"t\" ip saddr { 203.0.113.0/24 } ip daddr { 192.168.1.0/24 }"]
    );
    assert_eq!(postrouting(&["203.0.113.1/24"], &INTERNET), [""; 0]);
}

/// As Docker sets it: the policy of FORWARD drops, and the owner's own rules come first.
#[test]
fn a_chain_of_iptables_that_drops_is_told() {
    in_fresh_network(|| {
        if !has_nft() || firewall::iptables_save(IpFamily::V4).is_err() {
            assert!(std::env::var_os("CI").is_none(), "NOT TESTED: needs nft and iptables");
            return;
        }
        let _devices = ["uplink", "tun0"].map(Device::new);
        for words in ["-N DOCKER-USER", "-A FORWARD -j DOCKER-USER", "-P FORWARD DROP"] {
            iptables(&words.split(' ').collect::<Vec<_>>()).unwrap();
        }
        let before = state();
        let (forwarded, reports) = forwarding("tun0", &INTERNET).begin();
        let listing = iptables(&["-S", "FORWARD"]).unwrap();
        let lines: Vec<&str> = listing.lines().collect();
        assert_eq!(lines[1], "-A FORWARD -j DOCKER-USER");
        assert!(lines[2].contains("adit_forward_tun0") && lines.len() == 4, "{listing}");
        assert!(reports.iter().any(|report| report.text.contains("chain FORWARD drops")), "{reports:?}");
        forwarded.undo();
        assert_eq!(state(), before);
    });
}

#[test]
fn a_family_without_a_way_to_the_internet_is_told() {
    in_fresh_network(|| {
        let told = |family: &str| {
            let reports = forwarding("tun0", &INTERNET).survey();
            reports.iter().any(|it| it.text.ends_with(&format!("no default route of {family} now")))
        };
        assert!(told("IPv4") && told("IPv6"));
        let _world = crate::routing::tests::world();
        assert!(!told("IPv4") && !told("IPv6"));
        let reports = forwarding("tun0", &INTERNET).survey();
        assert!(
            reports[0].text.starts_with("forwards 10.8.0.0/24 to the internet through world, translated"),
            "{reports:?}"
        );
    });
}

#[test]
fn a_chain_of_the_owner_that_drops_is_named_with_the_command() {
    in_fresh_network(|| {
        if !has_nft() {
            return;
        }
        let text =
            "table inet mine {\nchain forwarded {\ntype filter hook forward priority 0; policy drop;\n}\n}\n";
        nft(&["-f", "-"], text).unwrap();
        let found =
            |what: &str| forwarding("tun0", &INTERNET).survey().iter().any(|it| it.text.contains(what));
        assert!(found("nft 'insert rule inet mine forwarded iifname \"tun0\" accept"));
        nft(&["insert rule inet mine forwarded iifname \"tun0\" accept"], "").unwrap();
        assert!(!found("insert rule"));
    });
}
