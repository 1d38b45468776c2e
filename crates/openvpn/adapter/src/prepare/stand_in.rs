//! A certificate and key in place of our own, where these are known at the start alone: everything else is judged with them.

use adit_openvpn::credentials::Credentials;
use adit_pki::issue::{Authority, Serial};
use rand_core::{OsRng, TryRngCore as _};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use adit_host::failure::{Failure, no_randomness};

/// A certificate that is its own authority, with its key; `ca` are the authorities that are known.
pub(crate) fn credentials(ca: Vec<u8>) -> Result<Credentials, Failure> {
    let mut bytes = [0; 16];
    OsRng.try_fill_bytes(&mut bytes).map_err(no_randomness)?;
    let authority = Authority::create("stand-in", &Serial::from_random(bytes), OffsetDateTime::now_utc());
    let authority = authority.map_err(|error| Failure::World(error.to_string()))?;
    let certificate = authority.certificate().as_bytes().to_vec();
    Ok(Credentials {
        ca: if ca.is_empty() { certificate.clone() } else { ca },
        certificate,
        private_key: Zeroizing::new(authority.key_pem().as_bytes().to_vec()),
    })
}
