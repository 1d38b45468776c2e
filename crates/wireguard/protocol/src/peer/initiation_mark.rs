//! The mark of an initiation, by which ends find out that both agree on post-quantum keys (docs/build/POST-QUANTUM.md).

use crate::keys::PresharedKey;

/// The meaning of an initiation's mark.
#[derive(Default)]
pub(super) struct Mark {
    /// There is one: the sender takes part in exchanges.
    pub(super) present: bool,
    /// The key that it names.
    pub(super) key: Option<PresharedKey>,
}
