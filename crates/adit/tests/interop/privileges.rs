//! The operations that the process may still do once it runs.

pub(crate) mod confinement;
pub(crate) mod user_and_group;
