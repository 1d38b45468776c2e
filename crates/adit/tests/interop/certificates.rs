//! Certificates: the properties that they must show, paths, revocation.

pub(crate) mod capath;
pub(crate) mod chains;
pub(crate) mod key_forms;
pub(crate) mod requirements;
pub(crate) mod revocation;
pub(crate) mod revocation_lists;
pub(crate) mod subject_names;
