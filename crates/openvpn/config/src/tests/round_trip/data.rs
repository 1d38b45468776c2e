//! Any data channel and any times.

use adit_core::{Cipher, Digest, IdleLimit, PeerLimits, ReplayWindow};
use adit_openvpn::UseLimits;
use adit_openvpn::codec::Compression;
use adit_openvpn::params::{Fragment, Keepalive, MssFix, Rekey};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::seconds;
use crate::model::*;

pub(crate) fn data() -> impl Strategy<Value = DataChannel> {
    let all = Cipher::ALL.to_vec();
    let (pushed, named, refused) = (Decompression::Pushed, Decompression::Named, Decompression::Refused);
    let framings = vec![
        (Compression::None, Decompression::Unasked, false),
        (Compression::None, Decompression::Unasked, true),
        (Compression::None, pushed, false),
        (Compression::None, refused, true),
        (Compression::LzoNo, Decompression::Unasked, false),
        (Compression::LzoNo, pushed, false),
        (Compression::LzoNo, named, false),
        (Compression::LzoNo, refused, false),
        (Compression::Stub, pushed, false),
        (Compression::Stub, named, false),
        (Compression::StubV2, pushed, false),
        (Compression::StubV2, named, false),
        (Compression::StubV2, refused, false),
    ];
    let mssfix = prop_oneof![
        Just(MssFix::Default),
        Just(MssFix::Off),
        (576..=u16::MAX).prop_map(MssFix::Payload),
        (576..=u16::MAX).prop_map(MssFix::Mtu),
        (576..=u16::MAX).prop_map(MssFix::Fixed),
    ];
    let fragment =
        prop_oneof![(68..=u16::MAX).prop_map(Fragment::Payload), (68..=u16::MAX).prop_map(Fragment::Mtu),];
    (
        subsequence(all.clone(), 1..=3).prop_shuffle(),
        option::of(select(all.clone())),
        option::of(select(all)),
        select(&Digest::ALL[..]),
        select(framings),
        (select(vec![(false, false), (false, true), (true, true)]), replay_window()),
        (mssfix, option::of(fragment)),
    )
        .prop_map(
            |(
                ciphers,
                cipher,
                fallback,
                auth,
                (compression, decompression, migrate),
                ((before_2_6, before_2_7), replay_window),
                (mssfix, fragment),
            )| {
                DataChannel {
                    ciphers,
                    cipher,
                    fallback,
                    auth,
                    compression,
                    decompression,
                    fragment,
                    migrate,
                    before_2_6,
                    before_2_7,
                    replay_window,
                    mssfix,
                }
            },
        )
}

fn replay_window() -> impl Strategy<Value = ReplayWindow> {
    (1..=65_536u32, seconds(0..601)).prop_map(|(packets, time)| ReplayWindow { packets, time })
}

pub(crate) fn timers() -> impl Strategy<Value = (Keepalive, PeerLimits, Rekey)> {
    let liveness = (option::of(seconds(1..100)), option::of(seconds(1..100)), any::<bool>())
        .prop_map(|(ping, timeout, exit)| Keepalive { ping, timeout, exit });
    let rekey = (
        option::of(seconds(1..9000)),
        0..9000u64,
        any::<u64>(),
        seconds(0..9000),
        seconds(1..900),
        seconds(1..9),
    )
        .prop_map(|(after, bytes, packets, transition, handshake, retransmit)| Rekey {
            after,
            limits: UseLimits { bytes, packets },
            transition,
            handshake,
            retransmit,
        });
    let idle =
        (seconds(0..9000), any::<u32>()).prop_map(|(after, bytes)| IdleLimit { after, bytes: bytes.into() });
    let limits = (option::of(idle), option::of(seconds(0..9000)))
        .prop_map(|(idle, length)| PeerLimits { idle, length });
    (liveness, limits, rekey)
}
