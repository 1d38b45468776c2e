//! The data channel: its ciphers, and when its keys are renewed and its peer is taken for gone.

use adit_core::{Cipher, IdleLimit, PeerLimits, ReplayWindow};
use adit_openvpn::codec::Compression;
use adit_openvpn::params::{Fragment, Keepalive, MssFix, Rekey};

use super::Out;
use crate::model::*;

pub(crate) fn print_data(out: &mut Out, data: &DataChannel) {
    let names: Vec<_> = data.ciphers.iter().copied().map(Cipher::name).collect();
    out.one("data-ciphers", names.join(":"));
    if let Some(cipher) = data.fallback {
        out.one("data-ciphers-fallback", cipher);
    }
    if let Some(cipher) = data.cipher {
        out.one("cipher", cipher);
    }
    if data.before_2_7 {
        out.one("compat-mode", if data.before_2_6 { "2.5.0" } else { "2.6.0" });
    }
    out.one("auth", data.auth);
    print_compression(out, data);
    let ReplayWindow { packets, time } = data.replay_window;
    out.line("replay-window", &[packets.to_string(), time.as_secs().to_string()]);
    match data.mssfix {
        MssFix::Default => {}
        MssFix::Off => out.one("mssfix", 0),
        MssFix::Payload(bytes) => out.one("mssfix", bytes),
        MssFix::Mtu(bytes) => out.line("mssfix", &[&bytes.to_string(), "mtu"]),
        MssFix::Fixed(bytes) => out.line("mssfix", &[&bytes.to_string(), "fixed"]),
    }
    match data.fragment {
        None => {}
        Some(Fragment::Payload(bytes)) => out.one("fragment", bytes),
        Some(Fragment::Mtu(bytes)) => out.line("fragment", &[&bytes.to_string(), "mtu"]),
    }
}

fn print_compression(out: &mut Out, data: &DataChannel) {
    let is_named = data.decompression == Decompression::Named;
    match data.compression {
        Compression::None if data.migrate => out.one("compress", "migrate"),
        Compression::None => {}
        Compression::LzoNo => out.one("comp-lzo", if is_named { "yes" } else { "no" }),
        Compression::Stub => out.one("compress", if is_named { "lz4" } else { "stub" }),
        Compression::StubV2 => out.one("compress", if is_named { "lz4-v2" } else { "stub-v2" }),
    }
    match data.decompression {
        Decompression::Unasked | Decompression::Named => {}
        Decompression::Pushed => out.one("allow-compression", "asym"),
        Decompression::Refused => out.one("allow-compression", "no"),
    }
}

pub(crate) fn print_liveness(out: &mut Out, liveness: &Keepalive) {
    if let Some(ping) = liveness.ping {
        out.seconds("ping", ping);
    }
    let name = if liveness.exit { "ping-exit" } else { "ping-restart" };
    if liveness.timeout.is_some() || liveness.exit {
        out.seconds(name, liveness.timeout.unwrap_or_default());
    }
}

pub(crate) fn print_limits(out: &mut Out, limits: &PeerLimits) {
    if let Some(IdleLimit { after, bytes }) = limits.idle {
        out.line("inactive", &[after.as_secs().to_string(), bytes.to_string()]);
    }
    if let Some(length) = limits.length {
        out.seconds("session-timeout", length);
    }
}

pub(crate) fn print_rekey(out: &mut Out, rekey: &Rekey) {
    out.seconds("reneg-sec", rekey.after.unwrap_or_default());
    for (name, limit) in [("reneg-bytes", rekey.limits.bytes), ("reneg-pkts", rekey.limits.packets)] {
        if limit > 0 {
            out.one(name, limit);
        }
    }
    out.seconds("tran-window", rekey.transition);
    out.seconds("hand-window", rekey.handshake);
    out.seconds("tls-timeout", rekey.retransmit);
}
