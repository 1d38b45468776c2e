//! What both ends of a tunnel do alike when they hear from the data plane.

use adit_core::{Instant, Notice, Path};

use crate::data_keys::DataKeys;
use crate::data_message::{self, DataMessage};
use crate::lifetime::Lifetime;
use crate::liveness::Liveness;
use crate::session::Session;
use crate::usage::{Traffic, UseLimits};

/// The parts of either end that hear of its data plane.
pub(crate) struct Hearing<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) link: &'a mut DataKeys,
    pub(crate) liveness: &'a mut Liveness,
    pub(crate) lifetime: &'a mut Lifetime,
    /// When data keys are renewed by use.
    pub(crate) limits: UseLimits,
}

/// What is left for the end itself to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Nothing,
    /// The peer said goodbye.
    Goodbye,
    /// The peer is somewhere else.
    Moved(Path),
}

impl Hearing<'_> {
    pub(crate) fn hear(self, now: Instant, notice: &Notice) -> Heard {
        match notice {
            Notice::Traffic { received, sent, received_bytes, sent_bytes, message_bytes, .. } => {
                self.liveness.traffic(now, *received, *sent);
                let bytes = received_bytes.saturating_add(*sent_bytes).saturating_sub(*message_bytes);
                self.lifetime.traffic(now, bytes);
                let received = Traffic { packets: *received, bytes: *received_bytes };
                let sent = Traffic { packets: *sent, bytes: *sent_bytes };
                if self.link.traffic(received, sent, self.limits) {
                    self.session.rekey(now);
                }
            }
            Notice::FirstOpened { session, .. } => self.session.confirm(now, (session.0 & 7) as u8),
            Notice::LimitNear { .. } => {
                self.session.rekey(now);
            }
            Notice::Message { payload, .. } if data_message::classify(payload) == DataMessage::OccExit => {
                return Heard::Goodbye;
            }
            Notice::Message { .. } | Notice::Wanted { .. } => {}
            Notice::Moved { path, .. } => return Heard::Moved(*path),
        }
        Heard::Nothing
    }
}
