//! Several clients at one server: limits, settings of one client, workers.

pub(crate) mod client_files;
pub(crate) mod five_clients;
pub(crate) mod limits;
pub(crate) mod workers;
