//! The data channel: its ciphers, and when its keys are renewed and its peer is taken for gone.

use adit_core::{Cipher, Digest, ReplayWindow};
use adit_openvpn::codec::Compression;
use adit_openvpn::params::{Fragment, MssFix};

/// The data channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataChannel {
    /// Ciphers to negotiate, most wanted first; at least one.
    pub ciphers: Vec<Cipher>,
    /// `cipher`: the cipher that is announced to old peers. It has no other effect.
    pub cipher: Option<Cipher>,
    /// The cipher for peers that cannot negotiate (`data-ciphers-fallback`).
    pub fallback: Option<Cipher>,
    /// `auth`: for `tls-auth`, and for data ciphers that do not authenticate themselves.
    pub auth: Digest,
    /// The compression framing that the file asks for.
    pub compression: Compression,
    /// The handling of packets that the peer compressed.
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
    pub mssfix: MssFix,
}

/// The handling of packets that the peer compressed (`comp-lzo`, `compress`, `allow-compression`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decompression {
    /// The packets are dropped: nothing in the file asks for them.
    #[default]
    Unasked,
    /// The packets are decompressed where the server pushes an algorithm (`compress`, `compress stub-v2`,
    /// `allow-compression asym`).
    Pushed,
    /// The packets are decompressed: the file names an algorithm, that of the framing or another one of the same
    /// framing.
    Named,
    /// The packets are dropped, and a client accepts no algorithm from its server (`allow-compression no`).
    Refused,
}
