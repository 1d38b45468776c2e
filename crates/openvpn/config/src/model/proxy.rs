//! Proxies by which servers are reached.

use super::UserPass;

/// A proxy by which a server is reached (`http-proxy`, `socks-proxy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The protocol that it speaks.
    pub kind: ProxyKind,
    /// Where the username and password for it come from; `None`: there are none.
    pub credentials: Option<UserPass>,
}

/// The protocol of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// HTTP, for TCP alone.
    Http(HttpProxy),
    /// SOCKS5.
    Socks,
}

/// The settings of an HTTP proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProxy {
    /// The authentication to it.
    pub authentication: HttpAuthentication,
    /// The version of HTTP in the request (`http-proxy-option VERSION`, default 1.0).
    pub version: String,
    /// Headers of the request, each a line `Name: value` (`http-proxy-option AGENT` and `CUSTOM-HEADER`).
    pub headers: Vec<String>,
}

impl HttpProxy {
    /// The version of HTTP by default, as in OpenVPN.
    pub const VERSION: &str = "1.0";
}

/// The authentication to an HTTP proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HttpAuthentication {
    /// Not at all.
    #[default]
    None,
    /// By the password itself, with the first request (`basic`).
    Basic,
    /// By a digest of the password (`digest`, `auto-nct`).
    Digest,
    /// As the proxy asks (`auto`).
    Any,
}
