//! The rows.

use std::fmt;

use adit_core::{Cipher, Digest, Transport};

/// The driver sends what it sealed after as many bytes, or packets, whichever comes first.
const BATCH_BYTES: usize = 48 * 1024;
const BATCH_PACKETS: usize = 64;

/// Ciphers that are measured at every length; the others at one length.
const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

/// With ciphers that are no AEAD.
pub(crate) const DIGEST: Digest = Digest::Sha256;

/// Packet lengths in bytes, inner headers included.
const LENGTHS: [usize; 5] = [64, 256, 1024, 1400, 8192];

/// What is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// IPv4/UDP packets, one a call, as from a device without offloads; nothing is merged.
    Packets,
    /// The same in OpenVPN 2.7's epoch format.
    Epochs,
    /// A TCP flow: super-packets that are cut and given checksums while they are sealed, and that are
    /// checked and merged after they were opened.
    Flow,
    /// UDP packets one by one in WireGuard's format, with what it does to the headers around them (RFC 6040, loops).
    WireGuard,
    /// The same, with headers around them that do not depend on the packets.
    WireGuardPlain,
    /// MirageVPN's own benchmark (its bench/bench_engine.ml): 1024 zero bytes, TCP framing, AES-128-GCM.
    /// They are no IP packet, so the data plane carries them as it does a protocol's messages: sealed by
    /// an `Inject` order each, and handed to the protocol in a copy.
    MirageVpn,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// What is carried.
    pub(crate) load: Load,
    /// The cipher; [`DIGEST`] is with one that is no AEAD.
    pub(crate) cipher: Cipher,
    /// Length of each payload that is sealed.
    pub(crate) bytes: usize,
}

impl Case {
    /// All rows, in the order they are shown.
    pub(crate) fn all() -> Vec<Case> {
        let packets = CIPHERS
            .into_iter()
            .flat_map(|cipher| LENGTHS.map(|bytes| Case { load: Load::Packets, cipher, bytes }));
        let others = Cipher::ALL.into_iter().filter(|cipher| !CIPHERS.contains(cipher));
        let others = others.map(|cipher| Case { load: Load::Packets, cipher, bytes: 1400 });
        let epochs = CIPHERS.map(|cipher| Case { load: Load::Epochs, cipher, bytes: 1400 });
        let flows = CIPHERS.map(|cipher| Case { load: Load::Flow, cipher, bytes: 1400 });
        let wireguard = [Load::WireGuard, Load::WireGuardPlain];
        let wireguard = wireguard.map(|load| Case { load, cipher: Cipher::ChaCha20Poly1305, bytes: 1400 });
        let mirage = Case { load: Load::MirageVpn, cipher: Cipher::Aes128Gcm, bytes: 1024 };
        packets.chain(others).chain(epochs).chain(flows).chain(wireguard).chain([mirage]).collect()
    }

    /// Datagrams a batch: what the driver puts into one system call.
    pub(crate) fn batch(self) -> usize {
        match self.load {
            // As many full segments as one super-packet of less than 64 KiB has and one GSO batch takes.
            Load::Flow => 44,
            Load::Packets | Load::Epochs | Load::WireGuard | Load::WireGuardPlain | Load::MirageVpn => {
                (BATCH_BYTES / self.bytes).clamp(1, BATCH_PACKETS)
            }
        }
    }

    /// What carries the datagrams.
    pub(crate) fn transport(self) -> Transport {
        match self.load {
            Load::Packets | Load::Epochs | Load::Flow | Load::WireGuard | Load::WireGuardPlain => {
                Transport::Udp
            }
            Load::MirageVpn => Transport::Tcp,
        }
    }

    /// The row's name: load, cipher and length.
    pub(crate) fn name(self) -> String {
        format!("{}/{}/{}", self.load_name(), self.cipher_name(), self.bytes)
    }

    /// The cipher's name, with the digest's if it needs one.
    pub(crate) fn cipher_name(self) -> String {
        if self.cipher.is_aead() { self.cipher.to_string() } else { format!("{}+{DIGEST}", self.cipher) }
    }

    /// The load in a word.
    pub(crate) fn load_name(self) -> &'static str {
        match self.load {
            Load::Packets => "packets",
            Load::Epochs => "epochs",
            Load::Flow => "flow",
            Load::WireGuard => "wireguard",
            Load::WireGuardPlain => "wireguard-plain",
            Load::MirageVpn => "miragevpn",
        }
    }

    /// The load in words.
    pub(crate) fn label(self) -> &'static str {
        match self.load {
            Load::Packets => "UDP packets, one by one",
            Load::Epochs => "UDP packets, epoch format",
            Load::Flow => "TCP flow, cut and merged",
            Load::WireGuard => "UDP packets, WireGuard, ECN",
            Load::WireGuardPlain => "UDP packets, WireGuard, no ECN",
            Load::MirageVpn => "MirageVPN's: zeros as messages, TCP",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes, {}", self.label(), self.bytes, self.cipher_name())
    }
}
