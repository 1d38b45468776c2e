//! The configuration files: a mark in the first line, then a directive a line.
//!
//! ```text
//! # adit toy
//! device toy0
//! address 10.9.0.1/24
//! listen 192.0.2.1:4500
//! peer 7 KEY 10.9.0.2/32
//! peer 8 KEY 10.9.0.3/32 198.51.100.1:4500
//! ```
//!
//! A peer has an identity, a key of 64 hexadecimal digits, its inner network, and an address if we reach out for it.

use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use adit_core::IpNet;
use adit_host::adapter::Problem;
use zeroize::Zeroizing;

/// The first line of a file.
pub(crate) const MARK: &str = "# adit toy\n";

/// The content of a file.
pub(crate) struct File {
    /// The name of the device.
    pub(crate) device: String,
    /// Our inner address, with its network.
    pub(crate) address: IpNet,
    /// The address of the socket; `None`: there is none but to peers with an address.
    pub(crate) listen: Option<SocketAddr>,
    /// The peers, in their order.
    pub(crate) peers: Vec<Peer>,
}

/// A peer, as a file has it.
#[derive(Clone)]
pub(crate) struct Peer {
    /// The number of the pair of ends.
    pub(crate) identity: u32,
    /// The key that both ends share.
    pub(crate) key: Zeroizing<[u8; 32]>,
    /// The inner network behind it.
    pub(crate) network: IpNet,
    /// Its address, if we reach out for it.
    pub(crate) remote: Option<SocketAddr>,
}

/// The content of a file, whose text is given.
///
/// # Errors
/// The first problem, with its line.
pub(crate) fn parse(file: &Path, text: &[u8]) -> Result<File, Problem> {
    let name = file.display().to_string();
    let problem = |line: Option<u32>, text: String| Problem { file: name.clone(), line, text };
    let text = std::str::from_utf8(text).map_err(|_| problem(None, "it is not UTF-8 text".to_owned()))?;
    let (mut device, mut address, mut listen, mut peers) = (None, None, None, Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let outcome = match words[..] {
            [] | ["#", ..] => Ok(()),
            ["device", name] => {
                device = Some(name.to_owned());
                Ok(())
            }
            ["address", text] => value(text).map(|found| address = Some(found)),
            ["listen", text] => value(text).map(|found| listen = Some(found)),
            ["peer", identity, key, network] => peer([identity, key, network], None).map(|it| peers.push(it)),
            ["peer", identity, key, network, remote] => {
                peer([identity, key, network], Some(remote)).map(|it| peers.push(it))
            }
            _ => Err("give `device`, `address`, `listen` or `peer` with their arguments".to_owned()),
        };
        outcome.map_err(|why| problem(Some(number), why))?;
    }
    let missing = |directive: &str| problem(None, format!("`{directive}` is missing"));
    let (device, address) =
        (device.ok_or_else(|| missing("device"))?, address.ok_or_else(|| missing("address"))?);
    Ok(File { device, address, listen, peers })
}

fn value<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no such value"))
}

fn peer([identity, key, network]: [&str; 3], remote: Option<&str>) -> Result<Peer, String> {
    Ok(Peer {
        identity: value(identity)?,
        key: secret(key).ok_or("a key has 64 hexadecimal digits")?,
        network: value(network)?,
        remote: remote.map(value).transpose()?,
    })
}

fn secret(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let mut key = Zeroizing::new([0; 32]);
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, index) in key.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(text.get(index..index + 2)?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_a_mistake_is_named_with_its_line() {
        let key = "07".repeat(32);
        let good = format!(
            "{MARK}device toy0\naddress 10.9.0.1/24\nlisten 192.0.2.1:4500\npeer 7 {key} 10.9.0.2/32\n\
             peer 8 {key} 10.9.0.3/32 198.51.100.1:4500\n"
        );
        let file = parse(Path::new("a.conf"), good.as_bytes()).expect("a good file");
        assert_eq!((file.device.as_str(), file.peers.len()), ("toy0", 2));
        assert_eq!(*file.peers[0].key, [7; 32]);
        assert!(file.peers[0].remote.is_none() && file.peers[1].remote.is_some());
        for (text, expected) in [
            (good.replace("address 10.9.0.1/24", "address ten"), "a.conf:3: `ten` is no such value"),
            (good.replace(&key, "07"), "a.conf:5: a key has 64 hexadecimal digits"),
            (good.replace("device toy0\n", ""), "a.conf: `device` is missing"),
            (format!("{good}port 1\n"), "a.conf:7: give `device`, "),
        ] {
            let problem = parse(Path::new("a.conf"), text.as_bytes()).err().expect("a problem").to_string();
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}
