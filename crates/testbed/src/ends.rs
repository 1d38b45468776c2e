//! Where load runs between.

use std::net::IpAddr;

use crate::Namespace;

/// The two ends of a tunnel, or of the bare link.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Where servers and sinks run.
    pub server: &'a Namespace,
    /// Where clients and sources run.
    pub client: &'a Namespace,
    /// The server's address on the link or tunnel that is measured.
    pub target: IpAddr,
}
