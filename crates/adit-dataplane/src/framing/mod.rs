//! How sealed packets look on the wire. A framing says where the payload goes in a datagram, what the
//! nonce and the authenticated header are, and how an incoming datagram names its session; everything else
//! (keys, counters, replay, routes) is the same for all.

mod cbc;
mod compression;
mod epoch;
mod openvpn;
mod wireguard;

use std::fmt;
use std::ops::Range;

use adit_core::{Cipher, DirectionKey, Framing, Instant, PeerId, ReplayWindow, SessionId};

pub(crate) use self::openvpn::MAX_CONTROL;
use crate::aead::{self, Aead, AeadError};
use crate::counters::Drop;
use crate::replay::{Freshness, Window};
use crate::{Role, Wire};

/// Failed tags after which a session opens no more (RFC 9001 §6.6 has 2^36 for ChaCha20-Poly1305, and no
/// lower a figure would do for GCM with datagrams of ours).
const FAILED_TAGS_MAX: u64 = 1 << 36;
/// Failed tags after which new keys are due.
const FAILED_TAGS_WARN: u64 = 1 << 35;
/// GCM blocks and packets under one key (OpenVPN crypto.c, `cipher_get_aead_limits`).
const GCM_MAX: u64 = (1 << 36) - 1;
/// When new keys are due, where a session has one key: at 7/8 of them.
const GCM_WARN: u64 = GCM_MAX / 8 * 7;

/// What a datagram of that length uses of a key, in blocks and packets: one block for the authenticated header,
/// one for the packet.
#[inline]
fn blocks(datagram: usize) -> u64 {
    (datagram as u64).div_ceil(16) + 2
}

/// Where things go in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Where to put the payload.
    pub(crate) payload: usize,
    /// Length of the datagram.
    pub(crate) datagram: usize,
}

/// How an incoming datagram names its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// For the protocol.
    Control,
    /// Data of that session.
    Session(SessionId),
    /// Data of the peer at that path, OpenVPN key id `.0`.
    ByPath(u8),
    /// Neither.
    Malformed,
}

/// Tells control from data, and whose data it is.
#[inline]
pub(crate) fn classify(wire: Wire, role: Role, datagram: &[u8]) -> Class {
    match wire {
        Wire::OpenVpn => openvpn::classify(role, datagram),
        Wire::OpenVpnStatic => Class::Session(SessionId::openvpn(PeerId::SERVER, 0)),
        Wire::WireGuard => wireguard::classify(datagram),
    }
}

enum SealWire {
    OpenVpn(openvpn::Sealer),
    OpenVpnCbc(Box<cbc::Sealer>),
    /// Counters and limits are its own.
    OpenVpnEpoch(Box<epoch::Sealer>),
    WireGuard(wireguard::Sealer),
}

/// The sealing half of a session.
pub struct SealSession {
    wire: SealWire,
    /// The counter of the next packet.
    counter: u64,
    counter_warn: u64,
    counter_max: u64,
    /// GCM blocks and packets so far.
    used: u64,
    used_warn: u64,
    used_max: u64,
    warned: bool,
}

impl fmt::Debug for SealSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealSession").field("counter", &self.counter).finish_non_exhaustive()
    }
}

impl SealSession {
    /// Prepares the key.
    pub(crate) fn new(framing: Framing, cipher: Cipher, key: &DirectionKey) -> Result<Self, AeadError> {
        let aead = || aead::aws_lc(cipher, &key.key);
        let wire = match framing {
            Framing::OpenVpn(framing) if cipher.is_aead() => {
                SealWire::OpenVpn(openvpn::Sealer::new(framing, aead()?, key.implicit_iv))
            }
            Framing::OpenVpn(framing) => {
                SealWire::OpenVpnCbc(Box::new(cbc::Sealer::new(framing, cipher, key)?))
            }
            Framing::OpenVpnStatic(framing) => {
                SealWire::OpenVpnCbc(Box::new(cbc::Sealer::new(framing, cipher, key)?))
            }
            Framing::OpenVpnEpoch(framing) => {
                SealWire::OpenVpnEpoch(Box::new(epoch::Sealer::new(framing, cipher, key)?))
            }
            Framing::WireGuard { remote_index, mtu } => {
                SealWire::WireGuard(wireguard::Sealer { aead: aead()?, remote_index, mtu })
            }
        };
        let (counter, counter_warn, counter_max) = match framing {
            Framing::OpenVpn(_) | Framing::OpenVpnStatic(_) => {
                (1, openvpn::COUNTER_WARN, openvpn::COUNTER_MAX)
            }
            Framing::OpenVpnEpoch(_) => (0, u64::MAX, u64::MAX),
            Framing::WireGuard { .. } => (0, wireguard::COUNTER_WARN, wireguard::COUNTER_MAX),
        };
        let (used_warn, used_max) = match cipher {
            Cipher::Aes128Gcm | Cipher::Aes192Gcm | Cipher::Aes256Gcm => (GCM_WARN, GCM_MAX),
            // OpenVPN sets none for CBC with blocks of 128 bits; packet ids end long before one is due.
            Cipher::ChaCha20Poly1305 | Cipher::Aes128Cbc | Cipher::Aes192Cbc | Cipher::Aes256Cbc => {
                (u64::MAX, u64::MAX)
            }
        };
        Ok(SealSession {
            wire,
            counter,
            counter_warn,
            counter_max,
            used: 0,
            used_warn,
            used_max,
            warned: false,
        })
    }

    /// Goes on to other keys as the opening half of the same session does, where the framing has such.
    pub(crate) fn follow(&mut self, open: &OpenSession) {
        if let (SealWire::OpenVpnEpoch(sealer), OpenWire::OpenVpnEpoch(opener)) = (&mut self.wire, &open.wire)
        {
            sealer.follow(opener);
        }
    }

    /// Where a payload of that length goes. `first` is its first byte, on which OpenVPN's `stub-v2` depends.
    #[inline]
    pub(crate) fn layout(&self, first: Option<u8>, payload_len: usize) -> Layout {
        match &self.wire {
            SealWire::OpenVpn(sealer) => sealer.layout(first, payload_len),
            SealWire::OpenVpnCbc(sealer) => sealer.layout(first, payload_len),
            SealWire::OpenVpnEpoch(sealer) => sealer.layout(first, payload_len),
            SealWire::WireGuard(sealer) => sealer.layout(payload_len),
        }
    }

    /// Seals the payload into a datagram of the length that [`SealSession::layout`] gave; `at` is what it
    /// gave as the payload's place.
    #[inline]
    pub(crate) fn seal(&mut self, payload: &[u8], datagram: &mut [u8], at: usize) -> Result<(), Drop> {
        if let SealWire::OpenVpnEpoch(sealer) = &mut self.wire {
            return sealer.seal(payload, datagram, at).ok_or(Drop::Exhausted);
        }
        let used = self.used.saturating_add(blocks(datagram.len()));
        if self.counter > self.counter_max || used > self.used_max {
            return Err(Drop::Exhausted);
        }
        let counter = self.counter;
        self.counter += 1;
        self.used = used;
        let sealed = match &self.wire {
            SealWire::OpenVpn(sealer) if sealer.is_plain() => sealer.seal_from(counter, payload, datagram),
            wire => {
                // What surrounds the payload must be sealed with it: that is done in place.
                let place = at..at + payload.len();
                datagram.get_mut(place.clone()).ok_or(Drop::Malformed)?.copy_from_slice(payload);
                match wire {
                    SealWire::OpenVpn(sealer) => sealer.seal(counter, datagram, place.len()),
                    SealWire::OpenVpnCbc(sealer) => sealer.seal(counter, datagram, place),
                    SealWire::OpenVpnEpoch(_) => None,
                    SealWire::WireGuard(sealer) => sealer.seal(counter, datagram, place.len()),
                }
            }
        };
        sealed.ok_or(Drop::Exhausted)
    }

    /// Whether new keys are due; true once.
    #[inline]
    pub(crate) fn take_limit_near(&mut self) -> bool {
        let near = !self.warned
            && match &self.wire {
                SealWire::OpenVpnEpoch(sealer) => sealer.is_near_end(),
                _ => self.counter >= self.counter_warn || self.used >= self.used_warn,
            };
        self.warned |= near;
        near
    }

    /// Goes to that epoch.
    #[cfg(test)]
    pub(crate) fn wear_epoch(&mut self, epoch: u16) {
        if let SealWire::OpenVpnEpoch(sealer) = &mut self.wire {
            sealer.wear(epoch, 1, 0);
        }
    }

    /// Pretends that as many packets and blocks were sealed.
    #[cfg(test)]
    pub(crate) fn wear(&mut self, counter: u64, used: u64) {
        self.counter = counter;
        self.used = used;
    }
}

enum OpenWire {
    OpenVpn(openvpn::Opener),
    OpenVpnCbc(Box<cbc::Opener>),
    /// Windows and limits are its own.
    OpenVpnEpoch(Box<epoch::Opener>),
    WireGuard(Box<dyn Aead>),
}

/// The opening half of a session.
pub struct OpenSession {
    wire: OpenWire,
    window: Window,
    failed_tags: u64,
}

impl fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSession").field("failed_tags", &self.failed_tags).finish_non_exhaustive()
    }
}

/// What came out of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The payload's place in the datagram.
    pub(crate) payload: Range<usize>,
    /// Whether its counter is the highest so far.
    pub(crate) newest: bool,
}

/// A datagram that was decrypted.
#[derive(Debug)]
struct Plain {
    /// At least 1.
    counter: u64,
    payload: Range<usize>,
}

impl OpenSession {
    /// Prepares the key and an empty replay window.
    pub(crate) fn new(
        framing: Framing,
        cipher: Cipher,
        key: &DirectionKey,
        replay: ReplayWindow,
    ) -> Result<Self, AeadError> {
        let aead = || aead::aws_lc(cipher, &key.key);
        let wire = match framing {
            Framing::OpenVpn(framing) if cipher.is_aead() => {
                OpenWire::OpenVpn(openvpn::Opener::new(framing, aead()?, key.implicit_iv))
            }
            Framing::OpenVpn(framing) => {
                OpenWire::OpenVpnCbc(Box::new(cbc::Opener::new(framing, cipher, key)?))
            }
            Framing::OpenVpnStatic(framing) => {
                OpenWire::OpenVpnCbc(Box::new(cbc::Opener::new(framing, cipher, key)?))
            }
            Framing::OpenVpnEpoch(framing) => {
                OpenWire::OpenVpnEpoch(Box::new(epoch::Opener::new(framing, cipher, key, replay)?))
            }
            Framing::WireGuard { .. } => OpenWire::WireGuard(aead()?),
        };
        Ok(OpenSession { wire, window: Window::new(replay), failed_tags: 0 })
    }

    /// Takes the place of `other`, which had the same id. Under a static key it has the same key too, and what
    /// that one took it does not take again.
    pub(crate) fn succeed(&mut self, other: OpenSession) {
        if self.is_static() && other.is_static() {
            self.window = other.window;
        }
    }

    fn is_static(&self) -> bool {
        matches!(&self.wire, OpenWire::OpenVpnCbc(opener) if opener.is_static())
    }

    /// Verifies, decrypts in place and judges freshness. `Err` says why not.
    #[inline]
    pub(crate) fn open(&mut self, datagram: &mut [u8]) -> Result<Opened, Drop> {
        if self.failed_tags >= FAILED_TAGS_MAX {
            return Err(Drop::Exhausted);
        }
        let opened = match &mut self.wire {
            OpenWire::OpenVpn(opener) => opener.open(datagram),
            OpenWire::OpenVpnCbc(opener) => opener.open(datagram),
            OpenWire::OpenVpnEpoch(opener) => return opener.open(datagram),
            OpenWire::WireGuard(aead) => wireguard::open(&**aead, datagram),
        };
        let plain = match opened {
            Ok(plain) => plain,
            Err(reason) => {
                // There are no other keys to go on to from a static one, and its HMAC bears any number.
                self.failed_tags += u64::from(reason == Drop::BadTag && !self.is_static());
                return Err(reason);
            }
        };
        let freshness = self.window.accept(plain.counter);
        if freshness == Freshness::Replayed {
            return Err(Drop::Replay);
        }
        Ok(Opened { payload: plain.payload, newest: freshness == Freshness::Newest })
    }

    /// The time goes on; call it about once a second. What was late for too long is refused from now on.
    pub(crate) fn tick(&mut self, now: Instant) {
        match &mut self.wire {
            OpenWire::OpenVpnEpoch(opener) => opener.tick(now),
            _ => self.window.tick(now),
        }
    }

    /// Takes the payload out of what surrounds it inside the encryption (OpenVPN's compression byte).
    #[inline]
    pub(crate) fn unframe(&self, datagram: &mut [u8], payload: Range<usize>) -> Result<Range<usize>, Drop> {
        match &self.wire {
            OpenWire::OpenVpn(opener) => compression::unframe(opener.compression, datagram, payload),
            OpenWire::OpenVpnCbc(opener) => compression::unframe(opener.compression, datagram, payload),
            OpenWire::OpenVpnEpoch(opener) => compression::unframe(opener.compression, datagram, payload),
            OpenWire::WireGuard(_) => Ok(payload),
        }
    }

    /// Pretends that as many tags failed.
    #[cfg(test)]
    pub(crate) fn wear(&mut self, failed_tags: u64) {
        self.failed_tags = failed_tags;
    }

    /// Whether, with the tag that failed last, new keys became due.
    pub(crate) fn limit_near(&self) -> bool {
        self.failed_tags == FAILED_TAGS_WARN
    }
}
