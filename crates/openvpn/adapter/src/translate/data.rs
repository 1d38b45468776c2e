//! The data channel: ciphers, sizes, compression.

use adit_core::Transport;
use adit_openvpn::params::{DataParams, MssFix, PushedCompression};
use adit_openvpn_config as file;
use adit_openvpn_config::Config;

/// The default of `mssfix`, 1492, less what a relay puts before each datagram to an IPv6 address (RFC 1928 §7).
const RELAYED_MTU: u16 = 1492 - 22;

pub(crate) fn data(config: &Config) -> DataParams {
    DataParams {
        ciphers: config.data.ciphers.clone(),
        fallback: config.data.fallback,
        cipher: config.data.cipher,
        digest: config.data.auth,
        compression: config.data.compression,
        decompress: config.data.decompression == file::Decompression::Named,
        pushed_compression: match config.data.decompression {
            file::Decompression::Unasked => PushedCompression::FramingAlone,
            file::Decompression::Pushed | file::Decompression::Named => PushedCompression::Decompressed,
            file::Decompression::Refused => PushedCompression::Refused,
        },
        fragment: config.data.fragment,
        migrate: config.data.migrate,
        before_2_6: config.data.before_2_6,
        before_2_7: config.data.before_2_7,
        tun_mtu: config.device.mtu,
        told_mtu: config.device.told_mtu,
        mssfix: match config.data.mssfix {
            MssFix::Default
                if config.device.mtu == 1500 && config.data.fragment.is_none() && has_relay(config) =>
            {
                MssFix::Mtu(RELAYED_MTU)
            }
            as_written => as_written,
        },
        replay_window: config.data.replay_window,
    }
}

/// Whether a server is reached over UDP by a proxy.
fn has_relay(config: &Config) -> bool {
    let file::Role::Client(client) = &config.role else { return false };
    client.remotes.iter().any(|remote| remote.transport == Transport::Udp && remote.proxy.is_some())
}
