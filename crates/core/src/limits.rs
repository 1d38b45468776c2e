use std::time::Duration;

/// How long a peer may stay connected. Zero stands for without end, whatever was said elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerLimits {
    /// The connection ends when too little passed through the tunnel.
    pub idle: Option<IdleLimit>,
    /// The longest time that a connection lasts.
    pub length: Option<Duration>,
}

/// How little is too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleLimit {
    /// The time in which...
    pub after: Duration,
    /// ... at least so many bytes must pass, both directions together and without the protocol's own messages;
    /// 0: any packet will do.
    pub bytes: u64,
}

impl PeerLimits {
    /// These limits, where `later` has no others.
    #[must_use]
    pub fn merged(self, later: PeerLimits) -> PeerLimits {
        PeerLimits { idle: later.idle.or(self.idle), length: later.length.or(self.length) }
    }
}
