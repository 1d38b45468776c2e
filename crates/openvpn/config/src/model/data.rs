//! The data channel: its ciphers, and when its keys are renewed and its peer is taken for gone.

use std::time::Duration;

use adit_core::{Cipher, Digest, ReplayWindow};

/// The data channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataChannel {
    /// Ciphers to negotiate, most wanted first; at least one.
    pub ciphers: Vec<Cipher>,
    /// `cipher`: the cipher that is announced to old peers. It has no other effect.
    pub cipher: Option<Cipher>,
    /// For peers that cannot negotiate (`data-ciphers-fallback`).
    pub fallback: Option<Cipher>,
    /// `auth`: for `tls-auth`, and for data ciphers that do not authenticate themselves.
    pub auth: Digest,
    /// The compression framing that the file asks for.
    pub compression: Compression,
    /// What becomes of what the peer compressed.
    pub decompression: Decompression,
    /// `fragment`, over UDP alone.
    pub fragment: Option<Fragment>,
    /// A server pushes to clients that announce compression to send none (`compress migrate`). Then `compression` is
    /// [`Compression::None`].
    pub migrate: bool,
    /// Speak as OpenVPN before 2.6 did (`compat-mode`): data keys by its own derivation, nothing newer offered.
    pub before_2_6: bool,
    /// No epoch data format, which came with OpenVPN 2.7 (`compat-mode`). True if `before_2_6` is.
    pub before_2_7: bool,
    /// How late packets may come (`replay-window`): 1 to 65536 packets, 0 to 600 seconds.
    pub replay_window: ReplayWindow,
    /// Largest TCP segments inside.
    pub mssfix: Mssfix,
}

/// What `comp-lzo` and `compress` add to each payload. adit never compresses: it speaks the framing alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Nothing.
    #[default]
    None,
    /// The byte of `comp-lzo no`.
    LzoNo,
    /// The byte of `compress stub`.
    Stub,
    /// The escapes of `compress stub-v2`.
    StubV2,
}

/// What becomes of packets that the peer compressed (`comp-lzo`, `compress`, `allow-compression`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decompression {
    /// They are dropped: nothing in the file asks for them.
    #[default]
    Unasked,
    /// They are decompressed where the server pushes an algorithm (`compress`, `compress stub-v2`, `allow-compression asym`).
    Pushed,
    /// They are decompressed: the file names an algorithm, that of the framing or another one of the same framing.
    Named,
    /// They are dropped, and a client accepts no algorithm from its server (`allow-compression no`).
    Refused,
}

/// `fragment`: the largest datagram, 68 bytes at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fragment {
    /// Without its IP and UDP headers.
    Payload(u16),
    /// With them (`mtu`).
    Outer(u16),
}

/// `mssfix`, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mssfix {
    /// As OpenVPN does without the directive: that of `fragment` if there is one; else an outer size of 1492 if the TUN's
    /// MTU is 1500, and else its MTU.
    #[default]
    Default,
    /// Leave segments alone.
    Off,
    /// The datagram without its IP and UDP headers stays within this.
    Payload(u16),
    /// The datagram with its IP and UDP headers stays within this (`mtu`).
    Outer(u16),
    /// The inner packet stays within this (`fixed`).
    Fixed(u16),
}

/// Pings and what their absence means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liveness {
    /// Ping after so long without sending.
    pub ping: Option<Duration>,
    /// The peer is gone after so long without receiving.
    pub timeout: Option<Duration>,
    /// What then.
    pub on_timeout: OnTimeout,
}

/// What to do when the peer is gone. A server drops the client in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnTimeout {
    /// Connect anew (`ping-restart`).
    #[default]
    Restart,
    /// End (`ping-exit`).
    Exit,
}

/// When keys are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rekey {
    /// Longest life of a key (`reneg-sec`, default 3600 s); `None` for ever.
    pub after: Option<Duration>,
    /// After so many bytes in all (`reneg-bytes`); 0: no limit.
    pub bytes: u64,
    /// After so many packets in all (`reneg-pkts`); 0: no limit.
    pub packets: u64,
    /// How long the old key still opens (`tran-window`, default 3600 s).
    pub transition: Duration,
    /// How long a handshake may take (`hand-window`, default 60 s).
    pub handshake: Duration,
    /// First wait before a control datagram is sent again (`tls-timeout`, default 2 s).
    pub retransmit: Duration,
}

impl Default for Rekey {
    fn default() -> Self {
        Rekey {
            after: Some(Duration::from_secs(3600)),
            bytes: 0,
            packets: 0,
            transition: Duration::from_secs(3600),
            handshake: Duration::from_secs(60),
            retransmit: Duration::from_secs(2),
        }
    }
}
