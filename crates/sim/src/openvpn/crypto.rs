//! Deterministic TLS: AWS-LC with its randomness and its key exchange replaced by ones that draw from a seed, and a
//! clock that shows the simulation's time.
//!
//! For tests only: every secret follows from the seed.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use adit_openvpn::credentials::TlsEnvironment;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
    aws_lc_rs,
};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::{Error, NamedGroup, PeerMisbehaved, SupportedProtocolVersion};
use x25519_dalek::{PublicKey, StaticSecret};

/// The wall clock at the simulation's origin: 2026-01-01, inside the validity of [`crate::openvpn::identity`]'s
/// certificates.
pub(crate) const WALL_AT_ORIGIN: u64 = 1_767_225_600;

thread_local! {
    // TLS asks for randomness and time through traits without an argument for them. A simulation runs in one
    // thread, so the values that it sets here stay its own.
    static RANDOM: RefCell<ChaCha8Rng> = RefCell::new(ChaCha8Rng::from_seed([0; 32]));
    static SECONDS: Cell<i64> = const { Cell::new(0) };
}

/// Starts this thread's TLS randomness anew.
pub(crate) fn seed_tls(seed: [u8; 32]) {
    RANDOM.set(ChaCha8Rng::from_seed(seed));
}

/// Sets this thread's TLS clock to so many seconds after the origin.
pub(crate) fn set_clock(seconds: i64) {
    SECONDS.set(seconds);
}

fn fill(bytes: &mut [u8]) {
    RANDOM.with_borrow_mut(|random| random.fill_bytes(bytes));
}

#[derive(Debug)]
struct SeededRandom;

impl SecureRandom for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill(bytes);
        Ok(())
    }
}

#[derive(Debug)]
struct SeededX25519;

impl SupportedKxGroup for SeededX25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut bytes = [0; 32];
        fill(&mut bytes);
        let secret = StaticSecret::from(bytes);
        let public = PublicKey::from(&secret);
        Ok(Box::new(SeededExchange { secret, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct SeededExchange {
    secret: StaticSecret,
    public: PublicKey,
}

impl ActiveKeyExchange for SeededExchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer: [u8; 32] = peer.try_into().map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let shared = self.secret.diffie_hellman(&PublicKey::from(peer));
        if !shared.was_contributory() {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        Ok(SharedSecret::from(shared.as_bytes().as_slice()))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

#[derive(Debug)]
struct VirtualTime;

impl TimeProvider for VirtualTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(
            WALL_AT_ORIGIN.saturating_add_signed(SECONDS.get()),
        )))
    }
}

/// The environment of TLS.
pub(crate) fn environment(versions: &[&'static SupportedProtocolVersion]) -> TlsEnvironment {
    let provider = CryptoProvider {
        kx_groups: vec![&SeededX25519],
        secure_random: &SeededRandom,
        ..aws_lc_rs::default_provider()
    };
    TlsEnvironment { provider: Arc::new(provider), time: Arc::new(VirtualTime), versions: versions.to_vec() }
}
