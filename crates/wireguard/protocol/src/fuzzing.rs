//! Entry points for the fuzz targets; nothing else uses them.

use adit_core::Instant;

use crate::keys::PublicKey;
use crate::macs::{ReceiverKeys, SenderCookie};

/// Fills in mac1, as every host can that knows the receiver's public key; mac2 becomes zero.
pub fn add_mac1(receiver: &PublicKey, message: &mut [u8]) {
    SenderCookie::default().add_macs(Instant::ORIGIN, &ReceiverKeys::new(receiver), message);
}
