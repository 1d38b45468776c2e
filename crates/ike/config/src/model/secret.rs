use std::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{IdentityPattern, Places};

/// A section `secrets.ike…`, `secrets.ppk…` or `secrets.eap…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedSecret {
    /// The name of the section.
    pub name: String,
    /// Its lines.
    pub places: Places,
    /// `id…`: the identities that it belongs to. Without any: it belongs to all.
    pub owners: Vec<IdentityPattern>,
    /// `secret`, not empty.
    pub secret: SecretBytes,
}

/// Secret bytes. They are wiped when they are dropped, compared in constant time and never shown.
#[derive(Clone)]
pub struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    /// These bytes.
    pub const fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        SecretBytes(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &Zeroizing<Vec<u8>> {
        &self.0
    }
}

impl PartialEq for SecretBytes {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretBytes {}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(..)")
    }
}
