//! Wrappings of the control channel with fresh keys, and the datagrams that attackers forge or replay under each.

use std::path::{Path, PathBuf};
use std::process::Command;

use adit_testbed::{Scratch, TestbedError, static_key, tls_crypt_v2_client_key, tls_crypt_v2_keys};

/// The metadata in the key of [`Keys::refused`] for `tls-crypt-v2-verify`: `refused` in base64.
const REFUSED: &str = "cmVmdXNlZA==";

/// A kind of wrapping, with the configuration of a server and a client.
#[derive(Debug)]
pub(super) struct Wrapping {
    pub(super) name: &'static str,
    pub(super) lines: [String; 2],
    /// The option of `adit-load-openvpn` and the file with the attackers' key; `None` without a wrapping.
    key: Option<(&'static str, PathBuf)>,
}

/// A kind of datagram.
#[derive(Debug, PartialEq)]
pub(in crate::commands) struct Kind {
    pub(in crate::commands) name: String,
    pub(in crate::commands) datagrams: Vec<Vec<u8>>,
}

/// The wrappings that rows need. The key files are removed when this is dropped.
pub(super) struct Keys {
    /// Keys without a wrapping, for `tls-auth`, `tls-crypt` and `tls-crypt-v2`.
    pub(super) wrappings: [Wrapping; 4],
    /// `tls-crypt-v2`, where the attackers' key has metadata that the server's script refuses.
    pub(super) refused: Wrapping,
    _directory: Scratch,
}

impl Keys {
    /// Makes fresh keys by OpenVPN.
    pub(super) fn new() -> Result<Keys, TestbedError> {
        let directory = Scratch::create("attack-keys")?;
        let text = static_key()?;
        let auth = |direction: u8| {
            format!("auth SHA256\nkey-direction {direction}\n<tls-auth>\n{text}</tls-auth>\n")
        };
        let crypt = format!("<tls-crypt>\n{text}</tls-crypt>\n");
        let key = directory.write("static.key", &text)?;
        let v2 = |keys: &[String; 2]| {
            keys.each_ref().map(|text| format!("<tls-crypt-v2>\n{text}</tls-crypt-v2>\n"))
        };
        let keys = tls_crypt_v2_keys()?;
        let client = directory.write("client.key", &keys[1])?;
        let verified = tls_crypt_v2_keys()?;
        let refused = tls_crypt_v2_client_key(&verified[0], Some(REFUSED))?;
        let refused = directory.write("refused.key", &refused)?;
        let name = "tls-crypt-v2";
        let option = "--tls-crypt-v2";
        Ok(Keys {
            wrappings: [
                Wrapping::none(),
                Wrapping {
                    name: "tls-auth",
                    lines: [auth(0), auth(1)],
                    key: Some(("--tls-auth", key.clone())),
                },
                Wrapping {
                    name: "tls-crypt",
                    lines: [crypt.clone(), crypt],
                    key: Some(("--tls-crypt", key)),
                },
                Wrapping { name, lines: v2(&keys), key: Some((option, client)) },
            ],
            refused: Wrapping { name, lines: v2(&verified), key: Some((option, refused)) },
            _directory: directory,
        })
    }
}

impl Wrapping {
    /// The control channel as it is.
    pub(super) fn none() -> Wrapping {
        Wrapping { name: "none", lines: Default::default(), key: None }
    }

    /// The arguments that give `adit-load-openvpn` the attackers' key.
    pub(super) fn arguments(&self) -> Vec<String> {
        self.key
            .iter()
            .flat_map(|(option, path)| [(*option).to_owned(), path.display().to_string()])
            .collect()
    }

    /// The datagrams that attackers that forge or replay can send to a server with this wrapping.
    pub(super) fn kinds(&self, load: &Path) -> Result<Vec<Kind>, TestbedError> {
        kinds_of(load, "datagrams", &self.arguments())
    }
}

/// The datagrams that the subcommand of a load generator writes, by kind.
pub(in crate::commands) fn kinds_of(
    load: &Path,
    subcommand: &str,
    arguments: &[String],
) -> Result<Vec<Kind>, TestbedError> {
    let program = load.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{program} {subcommand}");
    let mut command = Command::new(load);
    command.arg(subcommand).args(arguments);
    let text = said(&name, command)?;
    kinds(&text).ok_or(TestbedError::Output { command: name, output: text })
}

/// The output of a command that ends by itself.
pub(in crate::commands) fn said(name: &str, mut command: Command) -> Result<String, TestbedError> {
    let output =
        command.output().map_err(|source| TestbedError::Start { command: name.to_owned(), source })?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(TestbedError::Output { command: name.to_owned(), output: text });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads lines `KIND: HEXADECIMAL`; those of one kind follow each other.
fn kinds(text: &str) -> Option<Vec<Kind>> {
    let mut kinds: Vec<Kind> = Vec::new();
    for line in text.lines() {
        let (name, digits) = line.split_once(": ")?;
        let datagram = bytes(digits)?;
        match kinds.last_mut().filter(|kind| kind.name == name) {
            Some(kind) => kind.datagrams.push(datagram),
            None => kinds.push(Kind { name: name.to_owned(), datagrams: vec![datagram] }),
        }
    }
    Some(kinds)
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_read_by_kind() {
        let read = kinds("forged resets: 00ff\nforged resets: 01\ngarbage: \n").unwrap();
        let kind = |name: &str, datagrams: &[&[u8]]| Kind {
            name: name.to_owned(),
            datagrams: datagrams.iter().map(|datagram| datagram.to_vec()).collect(),
        };
        assert_eq!(read, [kind("forged resets", &[&[0, 255], &[1]]), kind("garbage", &[&[]])]);
        assert_eq!(kinds("forged resets 00\n"), None);
        assert_eq!(kinds("forged resets: zz\n"), None);
    }
}
