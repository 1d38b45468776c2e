use std::path::PathBuf;

use super::hex_pair;

/// The URL of a directory's server, or of an entry there (RFC 4516). The part after `?` is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdapUrl {
    /// The server.
    pub place: LdapPlace,
    /// The entry, if one is named.
    pub entry: Option<String>,
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LdapPlace {
    /// Over TCP (`ldap`).
    Tcp {
        /// Its name or address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// Over TLS from the first byte on (`ldaps`).
    Tls {
        /// Its name or address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// At a socket of this system (`ldapi`).
    Unix(PathBuf),
}

impl LdapUrl {
    /// Reads one.
    ///
    /// # Errors
    /// The error says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let right = || format!("found `{text}`; write `ldap://HOST`, `ldaps://HOST` or `ldapi://PATH`");
        let (scheme, rest) = text.split_once("://").ok_or_else(right)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let entry = path.split_once('?').map_or(path, |(entry, _)| entry);
        let entry = percent_decoded(entry).ok_or_else(right)?;
        let place = match scheme.to_ascii_lowercase().as_str() {
            "ldap" => {
                let (host, port) = host_and_port(authority, 389).ok_or_else(right)?;
                LdapPlace::Tcp { host, port }
            }
            "ldaps" => {
                let (host, port) = host_and_port(authority, 636).ok_or_else(right)?;
                LdapPlace::Tls { host, port }
            }
            "ldapi" => {
                let path = percent_decoded(authority).filter(|path| path.starts_with('/'));
                LdapPlace::Unix(path.ok_or_else(right)?.into())
            }
            _ => return Err(right()),
        };
        Ok(LdapUrl { place, entry: Some(entry).filter(|entry| !entry.is_empty()) })
    }
}

fn host_and_port(authority: &str, usual: u16) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']')?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = match port {
        Some(port) => port.parse::<u16>().ok().filter(|port| *port != 0)?,
        None => usual,
    };
    let is_good = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control());
    is_good.then(|| (host.to_owned(), port))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' { hex_pair(bytes.next()?, bytes.next()?)? } else { byte });
    }
    String::from_utf8(decoded).ok()
}
