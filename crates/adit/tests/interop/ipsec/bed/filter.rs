//! Filters of the IKE messages that an end gets.

use adit_testbed::program;

use super::End;

/// The rule that drops the datagram of that number, counted from 0, and no other.
pub(crate) fn one(number: usize) -> String {
    format!("numgen inc mod 100000 {number} counter drop")
}

/// The rule that drops all.
pub(crate) const ALL: &str = "counter drop";
/// The rule that drops none.
pub(crate) const NONE: &str = "counter accept";

impl End {
    /// From now on IKE messages that come in pass the rule `rule` of nftables, each in its turn. ESP passes.
    pub(crate) fn filter_ike(&self, rule: &str) {
        let script = format!(
            "add table inet loss\ndelete table inet loss\nadd table inet loss\nadd chain inet loss ike\nadd rule inet loss ike {rule}\n\
             add chain inet loss in {{ type filter hook input priority 0; }}\nadd rule inet loss in udp dport 500 jump ike\n\
             add rule inet loss in udp dport 4500 @th,64,32 0 jump ike\n"
        );
        self.nft(&script);
    }

    /// Datagrams that the rule of [`End::filter_ike`] has dropped.
    pub(crate) fn dropped(&self) -> u64 {
        let listed = self.nft("list chain inet loss ike");
        let count = listed.split("packets ").nth(1).and_then(|rest| rest.split(' ').next());
        count.and_then(|count| count.parse().ok()).unwrap()
    }

    /// Runs `nft` with commands, one a line.
    pub(crate) fn nft(&self, script: &str) -> String {
        let file = self.scratch.write("rules.nft", script).unwrap();
        let mut command = program("nft").unwrap();
        command.arg("-f").arg(file);
        self.namespace.run(command).unwrap()
    }
}
