//! The two halves of a session.

use std::fmt;
use std::sync::Arc;

use adit_core::Instant;

use super::{Opener, Sealer};
use crate::outer::OuterPolicy;
use crate::selectors::Selectors;

/// The sealing half of a session, on its way to [`crate::Egress`].
pub struct SealSession {
    pub(crate) codec: Box<dyn Sealer>,
    pub(crate) is_keepalive: fn(&[u8]) -> bool,
    pub(crate) expires: Option<Instant>,
    pub(crate) outer: OuterPolicy,
    pub(crate) selectors: Option<Arc<Selectors>>,
}

impl fmt::Debug for SealSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealSession(..)")
    }
}

/// The opening half of a session, on its way to [`crate::Ingress`].
pub struct OpenSession {
    pub(crate) codec: Box<dyn Opener>,
    pub(crate) is_keepalive: fn(&[u8]) -> bool,
    pub(crate) expires: Option<Instant>,
    pub(crate) outer: OuterPolicy,
    pub(crate) selectors: Option<Arc<Selectors>>,
}

impl fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenSession(..)")
    }
}
