use std::net::IpAddr;
use std::time::Duration;

use adit_core::{Cipher, Digest, PeerLimits, ReplayWindow, UnixTime};

use super::{Fragment, Keepalive, LocalSettings, MssFix, RemoteParams};
use crate::codec::Compression;
use crate::static_key::StaticKey;
use crate::wrap::KeyDirection;

/// One end of a tunnel with a static key.
#[derive(Clone, Debug)]
pub struct StaticParams {
    /// `secret`: the key that both ends share.
    pub key: StaticKey,
    /// Which half of it is for which direction.
    pub direction: KeyDirection,
    /// `cipher`. It is no AEAD.
    pub cipher: Cipher,
    /// `auth`.
    pub digest: Digest,
    /// The compression framing that both ends' files name.
    pub compression: Compression,
    /// The files name an algorithm: packets that the peer compressed are decompressed.
    pub decompress: bool,
    /// `fragment`, over UDP.
    pub fragment: Option<Fragment>,
    /// `replay-window`.
    pub replay_window: ReplayWindow,
    /// `tun-mtu`.
    pub tun_mtu: u16,
    /// The second value of `tun-mtu`, which the options string has in its place.
    pub told_mtu: Option<u16>,
    /// `mssfix`.
    pub mssfix: MssFix,
    /// `ping`, `ping-restart`, `ping-exit`.
    pub keepalive: Keepalive,
    /// `inactive` and `session-timeout`.
    pub limits: PeerLimits,
    /// Addresses, routes and the rest of our own end.
    pub local: LocalSettings,
    /// Where the peer is, in the order to try. Empty: we wait for it.
    pub remotes: Vec<RemoteParams>,
    /// `float`: follow a peer that moves. An end that waits follows anyway, within
    /// [`StaticParams::only_from`].
    pub float: bool,
    /// For an end that waits: the only outer addresses that the peer may have (`remote` without `float`),
    /// until [`crate::request::Reply::PeerAddresses`] names others; `None`: any.
    pub only_from: Option<Vec<IpAddr>>,
    /// For an end that waits: `explicit-exit-notify`.
    pub exit_notify: bool,
    /// `connect-retry`: the first wait between attempts, and the longest.
    pub retry: (Duration, Duration),
    /// `connect-retry-max`: give up after so many rounds through all remotes.
    pub retry_max: Option<u32>,
    /// `resolv-retry`: how long to try on while none of the remotes' names exists; `None` without end.
    pub resolve_timeout: Option<Duration>,
    /// The wall clock at [`adit_core::Instant::ORIGIN`].
    pub wall_at_origin: UnixTime,
}

impl StaticParams {
    /// An end that waits, with OpenVPN's defaults around that key and cipher.
    pub fn new(key: StaticKey, direction: KeyDirection, cipher: Cipher, wall_at_origin: UnixTime) -> Self {
        StaticParams {
            key,
            direction,
            cipher,
            digest: Digest::Sha1,
            compression: Compression::None,
            decompress: false,
            fragment: None,
            replay_window: ReplayWindow::default(),
            tun_mtu: 1500,
            told_mtu: None,
            mssfix: MssFix::Default,
            keepalive: Keepalive::default(),
            limits: PeerLimits::default(),
            local: LocalSettings::default(),
            remotes: Vec::new(),
            float: false,
            only_from: None,
            exit_notify: false,
            retry: (Duration::from_secs(1), Duration::from_secs(300)),
            retry_max: None,
            resolve_timeout: Some(Duration::ZERO),
            wall_at_origin,
        }
    }

    /// Whether the other end comes to us.
    pub(crate) fn waits(&self) -> bool {
        self.remotes.is_empty()
    }
}
