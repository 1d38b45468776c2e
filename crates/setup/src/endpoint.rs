//! The endpoint of a server.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The port of servers, unless another is named.
const PORT: u16 = 1194;

/// The name or address, and the port, by which clients reach the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Endpoint {
    /// Whether the host is an IPv6 address, so that the server must listen on IPv6.
    pub fn is_ipv6(&self) -> bool {
        matches!(self.host.parse(), Ok(IpAddr::V6(_)))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ipv6() {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    /// `HOST`, `HOST:PORT`, an IPv6 address, or one in brackets with or without `:PORT`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix('[') {
            let (host, port) = rest.split_once(']').ok_or("a `[` without its `]`")?;
            let address: Ipv6Addr = host.parse().map_err(|_| "between brackets stands an IPv6 address")?;
            let port = match port {
                "" => PORT,
                _ => parse_port(port.strip_prefix(':').ok_or("after `]` comes `:PORT`")?)?,
            };
            return Ok(Endpoint { host: address.to_string(), port });
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Endpoint { host: address.to_string(), port: PORT });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, parse_port(port)?),
            None => (text, PORT),
        };
        let label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        if host.len() > 253 || !host.strip_suffix('.').unwrap_or(host).split('.').all(label) {
            return Err("write a host name or an IP address, and `:PORT` if it is not 1194".into());
        }
        Ok(Endpoint { host: host.into(), port })
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("`{text}` is no port from 1 to 65535")),
    }
}

/// The transport of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proto {
    /// UDP: the faster
    Udp,
    /// TCP: where UDP does not pass
    Tcp,
}

impl Proto {
    /// The word for it in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Proto::Udp => "udp",
            Proto::Tcp => "tcp",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for (text, host, port) in [
            ("vpn.example", "vpn.example", 1194),
            ("vpn.example:443", "vpn.example", 443),
            ("192.0.2.1:1", "192.0.2.1", 1),
            ("2001:DB8::1", "2001:db8::1", 1194),
            ("[2001:db8::1]", "2001:db8::1", 1194),
            ("[2001:db8::1]:65535", "2001:db8::1", 65535),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!((endpoint.host.as_str(), endpoint.port), (host, port), "{text}");
            assert_eq!(endpoint.to_string().parse::<Endpoint>(), Ok(endpoint));
        }
        for text in [
            "", ":1", "a:0", "a:65536", "a:x", "a b", "a\nb", "[::1", "[::1]1", "[a]:1", "-a", "a..b",
            "\"x\"",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
        }
    }
}
