use crate::Instant;

/// Keepalives and data of one direction, apart, with the time of the last of each. Times are those of the protocol's
/// clock, late by a few milliseconds at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Keepalives since the peer was added.
    pub keepalives: u64,
    /// When the last packet passed.
    pub last_data: Option<Instant>,
    /// When the last keepalive passed.
    pub last_keepalive: Option<Instant>,
    /// When the last authentic datagram passed that was neither: a message of the protocol's own, or one whose content
    /// was dropped.
    pub last_other: Option<Instant>,
}

impl Activity {
    /// When anything authentic passed last.
    pub fn last(&self) -> Option<Instant> {
        self.last_data.max(self.last_keepalive).max(self.last_other)
    }
}

/// The activity of a peer, as liveness is judged by it. A protocol may take [`Activity::last`] of the received
/// datagrams, may tell data from keepalives, or may compare the received ones with the sent ones (RFC 7296, section
/// 2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerActivity {
    /// The datagrams that came from it, authentic and new.
    pub received: Activity,
    /// The datagrams that were sealed for it.
    pub sent: Activity,
}

impl PeerActivity {
    /// When the last packet passed, in either direction.
    pub fn last_data(&self) -> Option<Instant> {
        self.received.last_data.max(self.sent.last_data)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_is_the_latest_of_all_kinds() {
        let at = |seconds| Some(Instant::ORIGIN + Duration::from_secs(seconds));
        let mut activity = Activity::default();
        assert_eq!(activity.last(), None);
        activity.last_keepalive = at(3);
        assert_eq!(activity.last(), at(3));
        activity.last_data = at(2);
        assert_eq!(activity.last(), at(3));
        activity.last_other = at(4);
        assert_eq!(activity.last(), at(4));
    }
}
