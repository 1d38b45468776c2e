//! The steps of a method, as the authenticator takes them.

use crate::crypto::Secret;

/// The authenticator's next step.
pub(super) enum Step {
    Request(Vec<u8>),
    /// The password is wrong, and the peer may try another one.
    Retry(Vec<u8>),
    /// The password is wrong, and the peer may try no other one.
    Refuse(Vec<u8>),
    Success(Secret),
    Failure(String),
}

/// The peer's answer, or the reason why it does not go on.
pub(super) type Answer = Result<Vec<u8>, String>;
