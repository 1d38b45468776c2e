//! Random bytes from the system.

use rand_core::{OsRng, TryRngCore as _};
use zeroize::Zeroizing;

use crate::SetupError;

/// Random bytes from the system.
///
/// # Errors
/// When the system gives none.
pub fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, SetupError> {
    let mut bytes = Zeroizing::new([0; N]);
    OsRng.try_fill_bytes(bytes.as_mut_slice()).map_err(|error| SetupError::Random(error.to_string()))?;
    Ok(bytes)
}
