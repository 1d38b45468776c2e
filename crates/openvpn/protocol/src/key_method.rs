//! Key method 2: the first message of each side inside TLS.
//!
//! `0 (4) | method (1) | pre-master (48, client only) | random (32) | random (32) | options | username |
//! password | peer info`, the last four as strings with a 16-bit length that counts the NUL at their end; an
//! empty string is a length of 0. A reader takes the last byte for the NUL, whatever it is: MirageVPN leaves it
//! unset at some lengths. Source: OpenVPN ssl.c (`key_method_2_write`, `key_method_2_read`, `read_string`).

use std::fmt;

use adit_core::printable;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::keys::{KeySource, PRE_MASTER_LEN};
use crate::wire::TlsRole;

/// Longest options string in bytes (OpenVPN ssl.h, `TLS_OPTIONS_LEN`, less the NUL).
pub const MAX_OPTIONS_LEN: usize = 511;
/// Longest username and password in bytes. OpenVPN reads up to 127, or 4,095 when built with PKCS#11.
pub const MAX_CREDENTIAL_LEN: usize = 4095;
/// Longest peer info in bytes, by the 16-bit length.
pub const MAX_PEER_INFO_LEN: usize = 65_534;

const METHOD: u8 = 2;
const METHOD_MASK: u8 = 0x0f;

/// One side's key method 2 message.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyMethod2 {
    /// Random numbers for the data keys; with a pre-master secret exactly if a client speaks.
    pub source: KeySource,
    /// The options string, see [`crate::occ`].
    pub options: String,
    /// Username, or empty.
    pub username: String,
    /// Password, or empty.
    pub password: Zeroizing<String>,
    /// `NAME=VALUE` lines, see [`crate::peer_info`]; empty if the peer sent none.
    pub peer_info: String,
}

impl fmt::Debug for KeyMethod2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyMethod2")
            .field("options", &self.options)
            .field("username", &self.username)
            .field("peer_info", &self.peer_info)
            .finish_non_exhaustive()
    }
}

/// Why a key method 2 message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyMethodError {
    /// The message ends within that field.
    #[error("the key method 2 message ends within its {0}")]
    CutShort(&'static str),
    /// Not method 2.
    #[error("key method {0} instead of 2, the only one in use since OpenVPN 2.0")]
    Method(u8),
    /// A string is longer than its limit.
    #[error("the {field} in the key method 2 message is longer than {limit} bytes")]
    TooLong {
        /// Which string.
        field: &'static str,
        /// Its limit.
        limit: usize,
    },
    /// A string holds a NUL before its last byte.
    #[error("the {0} in the key method 2 message holds a NUL byte, which may stand at its end only")]
    Nul(&'static str),
    /// A string is no printable UTF-8.
    #[error("the {0} in the key method 2 message is not printable UTF-8 text")]
    Text(&'static str),
}

impl KeyMethod2 {
    /// Appends the message to `out`.
    ///
    /// # Errors
    /// If a string is too long or holds a NUL byte. `out` is then to be thrown away.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), KeyMethodError> {
        out.extend_from_slice(&[0, 0, 0, 0, METHOD]);
        if let Some(pre_master) = &self.source.pre_master {
            out.extend_from_slice(pre_master);
        }
        out.extend_from_slice(&self.source.random1);
        out.extend_from_slice(&self.source.random2);
        write_string(out, &OPTIONS, &self.options)?;
        write_string(out, &USERNAME, &self.username)?;
        write_string(out, &PASSWORD, &self.password)?;
        write_string(out, &PEER_INFO, &self.peer_info)
    }

    /// At least as many bytes as the message has: a buffer of that capacity does not grow, so that no copy of the password
    /// is left behind.
    pub fn max_len(&self) -> usize {
        const NUMBERS: usize = 5 + PRE_MASTER_LEN + 64;
        let strings = [&self.options, &self.username, &*self.password, &self.peer_info];
        // Each has a length before it and a NUL behind it.
        NUMBERS + strings.iter().map(|string| string.len() + 3).sum::<usize>()
    }

    /// Reads the message of a peer in that role.
    ///
    /// Control characters in the username are an error (OpenVPN replaces them); the rest is made [`printable`].
    ///
    /// The strings after the options may be absent at the end, as old peers leave them out. Bytes after the
    /// peer info are ignored, as OpenVPN ignores them.
    ///
    /// # Errors
    /// If it is cut short, not of method 2, or has a string that is too long or no text.
    pub fn decode(message: &[u8], sender: TlsRole) -> Result<Self, KeyMethodError> {
        let rest = message.get(4..).ok_or(KeyMethodError::CutShort("start"))?;
        let (&method, mut rest) = rest.split_first().ok_or(KeyMethodError::CutShort("method"))?;
        if method & METHOD_MASK != METHOD {
            return Err(KeyMethodError::Method(method & METHOD_MASK));
        }
        let pre_master = match sender {
            TlsRole::Client => Some(read_array::<PRE_MASTER_LEN>(&mut rest, "pre-master secret")?),
            TlsRole::Server => None,
        };
        let random1 = read_array(&mut rest, "random numbers")?;
        let random2 = read_array(&mut rest, "random numbers")?;
        let source = KeySource { pre_master, random1, random2 };
        let options = text(&OPTIONS, read_string(&mut rest, &OPTIONS)?)?;
        let username = printable(&text(&USERNAME, read_optional(&mut rest, &USERNAME)?)?);
        // Passwords may hold any character.
        let password = std::str::from_utf8(read_optional(&mut rest, &PASSWORD)?)
            .map_err(|_| KeyMethodError::Text(PASSWORD.name))?;
        let password = Zeroizing::new(password.to_owned());
        // The lines are judged one by one later: a strange one must not cost the connection.
        let peer_info = String::from_utf8_lossy(read_optional(&mut rest, &PEER_INFO)?).into_owned();
        Ok(KeyMethod2 { source, options, username, password, peer_info })
    }
}

struct Field {
    name: &'static str,
    limit: usize,
}

const OPTIONS: Field = Field { name: "options string", limit: MAX_OPTIONS_LEN };
const USERNAME: Field = Field { name: "username", limit: MAX_CREDENTIAL_LEN };
const PASSWORD: Field = Field { name: "password", limit: MAX_CREDENTIAL_LEN };
const PEER_INFO: Field = Field { name: "peer info", limit: MAX_PEER_INFO_LEN };

fn write_string(out: &mut Vec<u8>, field: &Field, string: &str) -> Result<(), KeyMethodError> {
    if string.contains('\0') {
        return Err(KeyMethodError::Nul(field.name));
    }
    if string.is_empty() {
        out.extend_from_slice(&[0, 0]);
        return Ok(());
    }
    let length = u16::try_from(string.len() + 1).ok().filter(|_| string.len() <= field.limit);
    let length = length.ok_or(KeyMethodError::TooLong { field: field.name, limit: field.limit })?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(string.as_bytes());
    out.push(0);
    Ok(())
}

fn read_array<const N: usize>(rest: &mut &[u8], name: &'static str) -> Result<[u8; N], KeyMethodError> {
    let (array, tail) = rest.split_first_chunk().ok_or(KeyMethodError::CutShort(name))?;
    *rest = tail;
    Ok(*array)
}

/// The bytes of a string without its last byte, which stands for the NUL (OpenVPN overwrites it with one).
fn read_string<'a>(rest: &mut &'a [u8], field: &Field) -> Result<&'a [u8], KeyMethodError> {
    let length = usize::from(u16::from_be_bytes(read_array(rest, field.name)?));
    let (string, tail) = rest.split_at_checked(length).ok_or(KeyMethodError::CutShort(field.name))?;
    *rest = tail;
    let Some((_, string)) = string.split_last() else { return Ok(&[]) };
    if string.contains(&0) {
        return Err(KeyMethodError::Nul(field.name));
    }
    if string.len() > field.limit {
        return Err(KeyMethodError::TooLong { field: field.name, limit: field.limit });
    }
    Ok(string)
}

fn read_optional<'a>(rest: &mut &'a [u8], field: &Field) -> Result<&'a [u8], KeyMethodError> {
    if rest.is_empty() { Ok(&[]) } else { read_string(rest, field) }
}

fn text(field: &Field, bytes: &[u8]) -> Result<String, KeyMethodError> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => Ok(text.to_owned()),
        _ => Err(KeyMethodError::Text(field.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(sender: TlsRole) -> KeyMethod2 {
        KeyMethod2 {
            source: KeySource {
                pre_master: (sender == TlsRole::Client).then_some([1; 48]),
                random1: [2; 32],
                random2: [3; 32],
            },
            options: "V4,dev-type tun".to_owned(),
            username: "ann".to_owned(),
            password: Zeroizing::new("s3cret".to_owned()),
            peer_info: "IV_VER=1\nIV_PLAT=linux\n".to_owned(),
        }
    }

    fn encoded(message: &KeyMethod2) -> Vec<u8> {
        let mut out = Vec::with_capacity(message.max_len());
        let capacity = out.capacity();
        message.encode(&mut out).unwrap();
        assert_eq!(out.capacity(), capacity, "a buffer that grows leaves a copy behind");
        out
    }

    #[test]
    fn layout() {
        let bytes = encoded(&message(TlsRole::Client));
        assert_eq!(bytes[..5], [0, 0, 0, 0, 2]);
        assert_eq!(bytes[5..53], [1; 48]);
        assert_eq!(bytes[53..85], [2; 32]);
        assert_eq!(bytes[85..117], [3; 32]);
        assert_eq!(bytes[117..135], *b"\0\x10V4,dev-type tun\0");
        assert_eq!(bytes[135..141], *b"\0\x04ann\0");
        let bytes = encoded(&message(TlsRole::Server));
        assert_eq!(bytes[5..37], [2; 32]);
    }

    #[test]
    fn absent_strings_are_empty() {
        let full = encoded(&message(TlsRole::Server));
        let mut bare = message(TlsRole::Server);
        for (end, clear) in [(full.len() - 26, 1), (full.len() - 26 - 9, 2), (full.len() - 26 - 9 - 6, 3)] {
            bare.peer_info.clear();
            if clear > 1 {
                bare.password.clear();
            }
            if clear > 2 {
                bare.username.clear();
            }
            assert_eq!(KeyMethod2::decode(&full[..end], TlsRole::Server), Ok(bare.clone()));
        }
        assert_eq!(KeyMethod2::decode(&encoded(&bare), TlsRole::Server), Ok(bare));
    }

    #[test]
    fn the_last_byte_of_a_string_is_not_part_of_it() {
        let sent = message(TlsRole::Server);
        let mut bytes = encoded(&sent);
        // Where `KeyMethod2::encode` puts the NULs of options, username, password and peer info.
        for (at, unset) in [(86, b'x'), (92, 0xff), (101, b'\n'), (bytes.len() - 1, 0x80)] {
            assert_eq!(std::mem::replace(&mut bytes[at], unset), 0);
        }
        assert_eq!(KeyMethod2::decode(&bytes, TlsRole::Server), Ok(sent));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let good = encoded(&message(TlsRole::Server));
        let decode = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            KeyMethod2::decode(&bytes, TlsRole::Server).unwrap_err()
        };
        assert_eq!(decode(&|b| b[4] = 1), KeyMethodError::Method(1));
        assert_eq!(decode(&|b| b.truncate(50)), KeyMethodError::CutShort("random numbers"));
        assert_eq!(decode(&|b| b.truncate(80)), KeyMethodError::CutShort("options string"));
        assert_eq!(decode(&|b| b[72] = b'\n'), KeyMethodError::Text("options string"));
        assert_eq!(decode(&|b| b[72] = 0xff), KeyMethodError::Text("options string"));
        assert_eq!(decode(&|b| b[72] = 0), KeyMethodError::Nul("options string"));
        let end = good.len() - 2;
        assert_eq!(decode(&|b| b[end] = 0), KeyMethodError::Nul("peer info"));
        let long = KeyMethod2 { username: "u".repeat(MAX_CREDENTIAL_LEN + 1), ..message(TlsRole::Server) };
        let too_long = KeyMethodError::TooLong { field: "username", limit: MAX_CREDENTIAL_LEN };
        assert_eq!(long.encode(&mut Vec::new()), Err(too_long));
        let nul = KeyMethod2 { username: "a\0b".to_owned(), ..message(TlsRole::Server) };
        assert_eq!(nul.encode(&mut Vec::new()), Err(KeyMethodError::Nul("username")));
        // A server's message is no client's: it ends too early.
        assert!(KeyMethod2::decode(&good[..100], TlsRole::Client).is_err());
    }

    #[test]
    fn debug_hides_secrets() {
        let text = format!("{:?}", message(TlsRole::Client));
        assert!(text.contains("ann") && !text.contains("s3cret") && !text.contains("source"));
    }

    proptest! {
        #[test]
        fn decode_undoes_encode(
            client: bool,
            random in any::<[u8; 32]>(),
            options in "[ -~é]{0,100}",
            username in "[ -~é]{0,100}",
            password in "[^\0]{0,100}",
            peer_info in "[^\0]{0,200}",
        ) {
            let sender = if client { TlsRole::Client } else { TlsRole::Server };
            let pre_master = client.then_some([9; 48]);
            let source = KeySource { pre_master, random1: random, random2: random };
            let message = KeyMethod2 { source, options, username, password: Zeroizing::new(password), peer_info };
            prop_assert_eq!(KeyMethod2::decode(&encoded(&message), sender), Ok(message));
        }

        #[test]
        fn decode_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), client: bool) {
            let sender = if client { TlsRole::Client } else { TlsRole::Server };
            let _ = KeyMethod2::decode(&bytes, sender);
            let mut cut = encoded(&message(sender));
            for (byte, with) in cut.iter_mut().skip(60).zip(&bytes) {
                *byte ^= with & with.wrapping_shr(4);
            }
            let _ = KeyMethod2::decode(&cut, sender);
        }
    }
}
