//! The end of child SAs that carry no packets (`inactivity` of swanctl.conf).

use std::time::Duration;

use adit_core::{Instant, Severity};

use super::child_sa::{ChildPhase, ChildSa};
use super::context::Context;
use super::sa::{IkeSa, Phase};

impl IkeSa {
    /// The child SA in use, with its child's time without a packet. The data plane tells the traffic of a peer as a whole, so that the
    /// connection has one child.
    fn limited_child(&self, cx: &Context<'_>) -> Option<(&ChildSa, Duration)> {
        let connection = cx.connections.get(self.connection?)?;
        let [child] = connection.children.as_slice() else { return None };
        let after = child.inactivity?;
        let is_used = |child: &&ChildSa| child.phase == ChildPhase::Active && child.is_sealing;
        self.children.values().rfind(is_used).map(|child| (child, after))
    }

    /// The time when a child SA ends if no packet passes before.
    pub(crate) fn inactive_at(&self, cx: &Context<'_>) -> Option<Instant> {
        let (_, after) = self.limited_child(cx)?;
        let state = cx.peers.get(&self.connection?).filter(|state| state.sa == Some(self.own_spi))?;
        Some(state.last_data + after)
    }

    /// Deletes a child SA that has carried no packet for too long. Its child takes no action: a packet brings it up again where packets
    /// do so.
    pub(crate) fn end_inactive(&mut self, cx: &mut Context<'_>) {
        let is_due = self.inactive_at(cx).is_some_and(|at| at <= cx.now());
        if !is_due || !matches!(self.phase, Phase::Established) {
            return;
        }
        let Some((child, after)) = self.limited_child(cx) else { return };
        let (spi, number) = (child.own_spi, child.number);
        self.log(
            cx,
            Severity::Info,
            &format!("no packet for {} s: the child SA is deleted", after.as_secs()),
        );
        self.forget_up(cx, number);
        self.delete_child(spi);
    }

    /// A child is down before its child SA is gone.
    fn forget_up(&self, cx: &mut Context<'_>, child: usize) {
        let (Some(number), Some(peer)) = (self.connection, self.peer()) else { return };
        let (Some(connection), Some(state)) = (cx.connections.get(number), cx.peers.get_mut(&number)) else {
            return;
        };
        if state.up.remove(&child)
            && let Some(child) = connection.children.get(child)
        {
            cx.shared.tell_down(peer, child);
        }
    }
}
