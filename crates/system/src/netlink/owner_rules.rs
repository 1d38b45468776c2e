//! Rules of policy routing that the owner of the machine set for some packets, and jumps to them.

use std::io;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleHeader, RuleMessage};

use super::{Netlink, PROTOCOL, unless};

/// A rule that sends the packets of another rule to that rule (ip-rule(8) `goto`), without its priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Jump(RuleMessage);

impl Jump {
    /// The jump to a rule of that priority. `None` where the rule is for all packets, for all but some, or decides nothing.
    pub(super) fn to(rule: &RuleMessage, priority: u32) -> Option<Self> {
        let decides = matches!(
            rule.header.action,
            RuleAction::ToTable | RuleAction::Blackhole | RuleAction::Unreachable | RuleAction::Prohibit
        );
        if decides { Jump::new(rule, priority) } else { None }
    }

    /// The jump that this rule is.
    pub(super) fn of(rule: &RuleMessage) -> Option<Self> {
        let target = rule.attributes.iter().find_map(|attribute| match attribute {
            RuleAttribute::Goto(target) => Some(*target),
            _ => None,
        });
        Jump::new(rule, target?)
    }

    fn new(rule: &RuleMessage, target: u32) -> Option<Self> {
        let RuleHeader { family, src_len, dst_len, tos, flags, .. } = rule.header;
        let selectors: Vec<RuleAttribute> =
            rule.attributes.iter().filter(|attribute| is_selector(attribute)).cloned().collect();
        let selects = tos != 0 || !selectors.is_empty();
        if !selects || flags.contains(RuleFlags::Invert) {
            return None;
        }
        let mut jump = RuleMessage::default();
        jump.header = RuleHeader { family, src_len, dst_len, tos, ..RuleHeader::default() };
        jump.header.action = RuleAction::Goto;
        jump.attributes = selectors;
        jump.attributes.push(RuleAttribute::Goto(target));
        Some(Jump(jump))
    }

    fn message(&self, priority: u32) -> RuleMessage {
        let mut message = self.0.clone();
        message.attributes.push(RuleAttribute::Priority(priority));
        message.attributes.push(RuleAttribute::Protocol(PROTOCOL));
        message
    }
}

/// Whether an attribute says for which packets a rule is.
fn is_selector(attribute: &RuleAttribute) -> bool {
    matches!(
        attribute,
        RuleAttribute::Source(_)
            | RuleAttribute::Destination(_)
            | RuleAttribute::FwMark(_)
            | RuleAttribute::FwMask(_)
            | RuleAttribute::TunId(_)
            | RuleAttribute::Iifname(_)
            | RuleAttribute::Oifname(_)
            | RuleAttribute::UidRange(_)
            | RuleAttribute::IpProtocol(_)
            | RuleAttribute::SourcePortRange(_)
            | RuleAttribute::DestinationPortRange(_)
    )
}

impl Netlink {
    /// Adds a jump. Succeeds if it is there already.
    pub(crate) fn add_jump(&mut self, jump: &Jump, priority: u32) -> io::Result<()> {
        let message = RouteNetlinkMessage::NewRule(jump.message(priority));
        unless(self.request(message, NLM_F_CREATE | NLM_F_EXCL), &[libc::EEXIST])
    }

    /// Removes a jump. Succeeds if it is gone already.
    pub(crate) fn remove_jump(&mut self, jump: &Jump, priority: u32) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelRule(jump.message(priority));
        unless(self.request(message, 0), &[libc::ENOENT, libc::ESRCH])
    }
}
