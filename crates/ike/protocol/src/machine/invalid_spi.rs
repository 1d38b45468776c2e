//! Messages which say that the peer knows no child SA with an SPI (`INVALID_SPI`, RFC 7296 section 1.5): it may have started anew. They are
//! not protected, so that anyone may have written them. This end asks the peer for a sign of life, and does nothing else.

use std::time::Duration;

use adit_core::{Path, Rejected};

use super::child::child_spi;
use super::endpoint::Endpoint;
use super::payloads::Payloads;
use super::sa::{IkeSa, Phase, Request};
use crate::wire::{ExchangeType, Message, NotifyType};

/// The time after such a message for which no other one is looked at.
const PAUSE: Duration = Duration::from_secs(1);

/// The SPI that a message without protection says to be unknown.
fn unknown_spi(message: &Message<'_>) -> Option<u32> {
    let header = &message.header;
    if header.exchange != ExchangeType::INFORMATIONAL || header.flags.is_response || message.sealed.is_some()
    {
        return None;
    }
    child_spi(&Payloads(&message.payloads).notify(NotifyType::INVALID_SPI)?.data)
}

impl Endpoint {
    /// Asks the peer at that address for a sign of life, if the message says that an SPI is unknown with which this end sends packets
    /// there. `None`: the message says no such thing.
    pub(super) fn heed_unknown_spi(&mut self, path: Path, message: &Message<'_>) -> Option<Rejected> {
        let (spi, now) = (unknown_spi(message)?, self.shared.now);
        if now < self.next_invalid_spi {
            return Some(Rejected::Limited("messages about unknown SPIs"));
        }
        self.next_invalid_spi = now + PAUSE;
        let source = path.remote().ip().to_canonical();
        let mut sas = self.sas.values().map(|sa| &**sa).filter(|sa| {
            matches!(sa.phase, Phase::Established) && sa.path.remote().ip().to_canonical() == source
        });
        let concerned = sas.find(|sa| sa.children.values().any(|child| child.peer_spi == spi));
        let is_idle = |sa: &&IkeSa| sa.pending.is_none() && sa.follow_up.is_none();
        if let Some(own) = concerned.filter(is_idle).map(|sa| sa.own_spi) {
            self.with_sa(own, |sa, cx| sa.request(cx, ExchangeType::INFORMATIONAL, &[], Request::Liveness));
        }
        Some(Rejected::Unauthentic("an INVALID_SPI"))
    }
}
