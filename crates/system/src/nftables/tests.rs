use super::*;
use crate::firewall::nft;
use crate::testing::in_fresh_network;

fn table(family: Family) -> Table {
    Table { family, name: "own".to_owned() }
}

/// The kernel takes the messages, and `nft` shows what they mean.
#[test]
fn each_match_and_action_is_what_nft_shows() {
    in_fresh_network(|| {
        let own = table(Family::Inet);
        let mut transaction = Transaction::default();
        transaction.add_table(&own);
        let chain = |name, translates, hook, policy| Chain { name, translates, hook, priority: -5, policy };
        transaction.add_chain(&own, &chain("in", false, Hook::Prerouting, Policy::Accept));
        transaction.add_chain(&own, &chain("out", false, Hook::Output, Policy::Drop));
        transaction.add_chain(&own, &chain("behind", true, Hook::Postrouting, Policy::Accept));
        let is = |family| Match::Family(family);
        let network = |text: &str| Match::Destination(text.parse().unwrap());
        let udp = Match::Protocol(17);
        let icmp6 = Match::Protocol(58);
        let rules: [(&str, &[Match<'_>], Action, &str); 11] = [
            (
                "in",
                &[Match::InName("a"), Match::SourceNotLocal],
                Action::Drop,
                "iifname \"a\" fib saddr type != local drop",
            ),
            (
                "in",
                &[Match::InNot(1), udp],
                Action::MarkPacket,
                "iif != \"lo\" meta l4proto udp meta mark set ct mark",
            ),
            (
                "in",
                &[Match::Answer, Match::InGroup(7)],
                Action::Accept,
                "ct state established,related iifgroup 7 accept",
            ),
            ("out", &[Match::Out(1), Match::OutName("b")], Action::Accept, "oif \"lo\" oifname \"b\" accept"),
            ("out", &[Match::OutGroup(7)], Action::Accept, "oifgroup 7 accept"),
            ("out", &[is(Family::Ip), network("10.0.0.0/9")], Action::Accept, "ip daddr 10.0.0.0/9 accept"),
            ("out", &[is(Family::Ip6), network("fd00::1/128")], Action::Accept, "ip6 daddr fd00::1 accept"),
            (
                "out",
                &[is(Family::Ip6), icmp6, Match::IcmpType(135), Match::HopLimit(255)],
                Action::Accept,
                "icmpv6 type nd-neighbor-solicit ip6 hoplimit 255 accept",
            ),
            (
                "out",
                &[udp, Match::Ports(68, 67)],
                Action::Reject,
                "udp sport 68 udp dport 67 reject with icmpx admin-prohibited",
            ),
            (
                "behind",
                &[Match::Mark(0x51)],
                Action::MarkConnection,
                "meta mark 0x00000051 ct mark set meta mark",
            ),
            ("behind", &[], Action::Masquerade, "masquerade"),
        ];
        for (chain, matches, action, _) in &rules {
            transaction.add_rule(&own, chain, matches, *action);
        }
        transaction.commit().unwrap();
        assert_eq!(tables().unwrap(), [own]);
        let Ok(text) = nft(&["list", "ruleset"], "") else {
            assert!(std::env::var_os("CI").is_none(), "nft is needed");
            #[allow(clippy::print_stderr)]
            {
                eprintln!("NOT TESTED: there is no nft to show the rules");
            }
            return;
        };
        for line in
            rules.iter().map(|(.., line)| *line).chain(["hook output priority filter - 5; policy drop;"])
        {
            assert!(text.contains(line), "{line}\n{text}");
        }
    });
}

#[test]
fn a_transaction_is_in_force_as_a_whole_or_not_at_all() {
    in_fresh_network(|| {
        let mut transaction = Transaction::default();
        for family in [Family::Ip, Family::Ip6] {
            transaction.add_table(&table(family));
        }
        transaction.commit().unwrap();
        assert_eq!(tables().unwrap(), [Family::Ip, Family::Ip6].map(table));
        let mut transaction = Transaction::default();
        transaction.remove_table(&table(Family::Ip6));
        transaction.remove_table(&table(Family::Inet));
        let mut wrong = transaction.clone();
        wrong.add_rule(&table(Family::Ip), "missing", &[], Action::Drop);
        wrong.commit().unwrap_err();
        assert_eq!(tables().unwrap().len(), 2);
        transaction.commit().unwrap();
        assert_eq!(tables().unwrap(), [table(Family::Ip)]);
    });
}
