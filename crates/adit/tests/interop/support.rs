//! The testbed of the rows: namespaces, configuration files, and a lossy relay.

pub(crate) mod bed;
pub(crate) mod options;
pub(crate) mod relay;
