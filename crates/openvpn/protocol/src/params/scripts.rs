use std::net::{Ipv4Addr, Ipv6Addr};

/// The environment of the programs that run when the tunnel comes up and goes down, besides the facts that the protocol
/// knows. Where it is there, the machines ask by [`crate::request::Request::PeerFacts`] and the like that these
/// programs run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptParams {
    /// Environment variables of all scripts.
    pub env: Vec<(String, String)>,
    /// `dhcp-option` of our own file: each with its value.
    pub dhcp_options: Vec<String>,
    /// `route-gateway`.
    pub gateway: Option<Ipv4Addr>,
    /// The other end's address in `ifconfig-ipv6`.
    pub peer_ipv6: Option<Ipv6Addr>,
    /// `tls-verify` of an end that connects.
    pub tls_verify: Option<Vec<String>>,
}
