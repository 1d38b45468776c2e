//! Third-party ends, which change keys as other programs do: clients as OpenVPN 3 (OpenVPN Connect on phones and desktops) and MirageVPN,
//! and a server as MirageVPN ([`server`]).
//!
//! They share the codecs with our own ends, but not the code that decides which keys come into use, as they are here to
//! test that. That decision follows the observed behaviour of the programs and their sources (openvpn3
//! `openvpn/ssl/proto.hpp`, miragevpn `src/engine.ml`):
//!
//! | | OpenVPN 3 | MirageVPN |
//! |---|---|---|
//! | answers SOFT_RESET with | its TLS as packet 0, no reset | the same |
//! | keeps | a primary and a secondary key | the active key, the one before, the one being made |
//! | seals with a new key | `min(hand-window, reneg-sec / 2)` after it is complete | as soon as it has the server's key method 2 |
//! | opens with a key | when all it sent was acknowledged, until another takes its place | until `tran-window` after the next, or the one after |
//! | a SOFT_RESET while keys are being made | with the next key id: takes their place | is ignored |
//! | its own `reneg-sec` runs out in an exchange | drops that exchange and begins the next key id | waits |
//! | an exchange that is late | begins the next key id | stalls; here it is dropped, or no tunnel would live on |
//! | wrapping after the first renegotiation | dynamic tls-crypt for all key ids | as before |

mod client;
mod connection;
mod exchange;
mod keys;
mod pushed;
mod server;
#[cfg(test)]
mod tests;

use std::time::Duration;

use adit_core::{Cipher, Digest, UnixTime};
use adit_openvpn::codec::Compression;
use adit_openvpn::tls::TlsConfig;
use adit_openvpn::wrap::WrapConfig;

pub(crate) use self::client::ThirdPartyClient;
pub(crate) use self::server::{Network, ThirdPartyServer, ifconfig};

/// TLS exporter label of the data keys.
const EXPORT_DATA_KEYS: &str = "EXPORTER-OpenVPN-datakeys";

/// The program whose behaviour it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Implementation {
    OpenVpn3,
    MirageVpn,
}

impl Implementation {
    /// `IV_PROTO`: OpenVPN 3 has the abilities of OpenVPN 2.7; MirageVPN has `DATA_V2`, the unasked push and the
    /// exporter.
    fn proto(self) -> u32 {
        match self {
            Implementation::OpenVpn3 => 8094,
            Implementation::MirageVpn => 2 + 4 + 8,
        }
    }
}

/// The parameters of a third-party end.
pub(crate) struct Params {
    pub(crate) implementation: Implementation,
    pub(crate) name: String,
    pub(crate) wrap: WrapConfig,
    pub(crate) brings_key: bool,
    pub(crate) tls: TlsConfig,
    /// The wall clock at the simulation's origin.
    pub(crate) wall: UnixTime,
    pub(crate) remotes: usize,
    pub(crate) ciphers: Vec<Cipher>,
    pub(crate) digest: Digest,
    pub(crate) compression: Compression,
    pub(crate) epochs: bool,
    pub(crate) hand_window: Duration,
    pub(crate) reneg: Option<Duration>,
    pub(crate) tran_window: Duration,
    /// How long it waits for a server's first answer.
    pub(crate) server_poll_timeout: Duration,
    /// How long it waits before it connects anew.
    pub(crate) retry: Duration,
}
