use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn names_say_whose_rules_they_are() {
    let name = Name { device: 7, mark: 51_820 };
    assert_eq!(Name::parse(&name.to_string()), Some(name));
    for other in ["adit_mark_7", "adit_mark_7_x", "adit_mark__1", "other_7_1", ""] {
        assert_eq!(Name::parse(other), None, "{other}");
    }
}

/// The rules that other programs set for such tunnels (docs/build/SYSTEM.md), with a comment of ours.
#[test]
fn rules_of_iptables_drop_and_mark_what_those_of_other_programs_do() {
    let name = Name { device: 7, mark: 51_820 };
    let addresses = [address("10.2.0.2"), address("fd07::2")];
    assert_eq!(
        iptables_rules(IpFamily::V4, name, "tun5", &addresses),
        "*raw
-I PREROUTING ! -i tun5 -d 10.2.0.2 -m addrtype ! --src-type LOCAL -m comment --comment adit_mark_7_51820 -j DROP
COMMIT
*mangle
-I PREROUTING -p udp -m comment --comment adit_mark_7_51820 -j CONNMARK --restore-mark
-I POSTROUTING -p udp -m mark --mark 0xca6c -m comment --comment adit_mark_7_51820 -j CONNMARK --save-mark
COMMIT
"
    );
    assert_eq!(
        iptables_rules(IpFamily::V6, Name { mark: 0, ..name }, "tun5", &addresses),
        "*raw
-I PREROUTING ! -i tun5 -d fd07::2 -m addrtype ! --src-type LOCAL -m comment --comment adit_mark_7_0 -j DROP
COMMIT
"
    );
}

#[test]
fn nothing_is_run_where_nothing_changes() {
    let mut guard = Guard::new(7, "tun5");
    let wanted =
        Wanted { families: BTreeSet::from([IpFamily::V4]), mark: 0, addresses: vec![address("10.2.0.2")] };
    guard.set(Wanted::default()).unwrap();
    assert_eq!(guard.in_force, None);
    guard.in_force = Some((wanted.clone(), Firewall::Nftables));
    guard.set(wanted.clone()).unwrap();
    assert_eq!(guard.in_force, Some((wanted, Firewall::Nftables)));
    guard.in_force = None;
}
