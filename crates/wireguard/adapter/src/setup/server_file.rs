//! The server's WireGuard file: the form that wg-quick and `wg setconf` read. Each client is a section `[Peer]`, in which
//! a setting of adit's own has its name.

use std::fmt::Write as _;
use std::net::IpAddr;

use adit_core::IpNet;
use adit_wireguard::{PresharedKey, PrivateKey, PublicKey};
use zeroize::Zeroizing;

use adit_setup::{ClientName, Endpoint, Layout, SetupError};

use super::listed;

/// Room for the file without its clients.
const ROOM: usize = 1024;
/// Room for a client.
const PEER_ROOM: usize = 512;

/// A client, as the server knows it.
pub(super) struct Peer<'a> {
    pub(super) name: &'a ClientName,
    pub(super) public_key: PublicKey,
    pub(super) preshared_key: &'a PresharedKey,
    pub(super) addresses: &'a [IpAddr],
}

/// The file of a server without clients.
pub(super) fn new(endpoint: &Endpoint, key: &PrivateKey, layout: &Layout, port: u16) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(ROOM));
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# WireGuard of the server {host}, made by `adit init`: beside OpenVPN in server.conf, with the same device.\n\
         # `adit add-client --wireguard` adds clients, `adit revoke` removes them.\n\
         # It holds private keys: keep it readable by its owner alone.\n\
         \n\
         [Interface]\n\
         PrivateKey = {key}\n\
         Address = {addresses}\n\
         ListenPort = {port}\n",
        host = endpoint.host,
        key = *key.to_base64(),
        addresses = listed(&layout.server),
    );
    if !layout.forward.is_empty() {
        let _ = writeln!(text, "#adit: forward = {}", listed(&layout.forward));
    }
    text
}

/// The file with another client at its end.
pub(super) fn with_peer(text: &str, peer: &Peer<'_>) -> Zeroizing<String> {
    let mut changed = Zeroizing::new(String::with_capacity(text.len() + PEER_ROOM));
    changed.push_str(text.trim_end());
    let hosts: Vec<IpNet> = peer.addresses.iter().copied().map(IpNet::from).collect();
    let _ = write!(
        changed,
        "\n\n[Peer]\n#adit: name = {name}\n#adit: post-quantum = on\nPublicKey = {public_key}\nPresharedKey = {preshared_key}\nAllowedIPs = {hosts}\n",
        name = peer.name,
        public_key = peer.public_key,
        preshared_key = *peer.preshared_key.to_base64(),
        hosts = listed(&hosts),
    );
    changed
}

/// The file without the peers whose keys are `out`. `None` if there are none.
pub(super) fn without_peers(text: &str, out: &dyn Fn(&PublicKey) -> bool) -> Option<Zeroizing<String>> {
    let mut changed = Zeroizing::new(String::with_capacity(text.len()));
    let mut found = false;
    for section in sections(text) {
        if !section.iter().filter_map(|line| public_key(line)).any(|key| out(&key)) {
            section.iter().for_each(|line| changed.push_str(line));
            continue;
        }
        found = true;
        // Comments behind the last setting may belong to what follows.
        let after = section.iter().rposition(|line| !setting(line).is_empty()).map_or(0, |last| last + 1);
        let rest = section.iter().skip(after).skip_while(|line| line.trim().is_empty());
        rest.for_each(|line| changed.push_str(line));
    }
    found.then_some(changed)
}

/// The public keys of the peers in the file.
pub(super) fn public_keys(text: &str) -> Vec<PublicKey> {
    text.lines().filter_map(public_key).collect()
}

/// The lines of each section; of the first, those before any.
fn sections(text: &str) -> Vec<Vec<&str>> {
    let mut sections = vec![Vec::new()];
    for line in text.split_inclusive('\n') {
        if setting(line).starts_with('[') {
            sections.push(Vec::new());
        }
        if let Some(section) = sections.last_mut() {
            section.push(line);
        }
    }
    sections
}

/// A line without its comment.
fn setting(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

/// The key that a line `PublicKey = …` names. `wg` removes white space also within keys.
fn public_key(line: &str) -> Option<PublicKey> {
    let (key, value) = setting(line).split_once('=')?;
    let value: String = value.split_whitespace().collect();
    key.trim().eq_ignore_ascii_case("PublicKey").then(|| PublicKey::from_base64(&value))?
}

/// Reads back what was made: nothing leaves that adit itself would refuse.
pub(super) fn check(text: &str, file: &str) -> Result<adit_wireguard_config::Config, SetupError> {
    let parsed = adit_wireguard_config::parse(text.as_bytes(), file);
    parsed.map(|parsed| parsed.config).map_err(|failure| SetupError::KeyFile(failure.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tunnel that the server shares.
    fn layout() -> Layout {
        let nets = |words: &[&str]| words.iter().map(|word| word.parse().unwrap()).collect::<Vec<IpNet>>();
        Layout {
            device: None,
            server: nets(&["10.8.0.1/24", "fd00::1/64"]),
            pool: ("10.8.0.2".parse().unwrap(), "10.8.0.127".parse().unwrap()),
            last: "10.8.0.254".parse().unwrap(),
            pool6: Some("fd00::1000/64".parse().unwrap()),
            routes: nets(&["10.8.0.0/24", "fd00::/64"]),
            forward: nets(&["0.0.0.0/0", "::/0", "192.168.1.0/24"]),
            dns: Vec::new(),
        }
    }

    fn key(byte: u8) -> PublicKey {
        PublicKey([byte; 32])
    }

    fn text(peers: &[(u8, &str)]) -> Zeroizing<String> {
        let endpoint = "vpn.example".parse().unwrap();
        let private = PrivateKey::new([9; 32]).unwrap();
        let mut text = new(&endpoint, &private, &layout(), 51820);
        for (number, name) in peers {
            let peer = Peer {
                name: &name.parse().unwrap(),
                public_key: key(*number),
                preshared_key: &PresharedKey::new([*number; 32]),
                addresses: &[IpAddr::from([10, 8, 0, *number]), format!("fd00::{number}").parse().unwrap()],
            };
            text = with_peer(&text, &peer);
        }
        text
    }

    #[test]
    fn what_is_written_is_read() {
        let text = text(&[(128, "alice"), (129, "bob")]);
        let config = check(&text, "adit0.conf").unwrap();
        assert_eq!(config.interface.addresses, ["10.8.0.1/24", "fd00::1/64"].map(|net| net.parse().unwrap()));
        assert_eq!(config.interface.listen_port, Some(51820));
        let forward = ["0.0.0.0/0", "::/0", "192.168.1.0/24"].map(|net| net.parse().unwrap());
        assert_eq!(config.interface.forward, forward);
        assert!(
            text.contains("\n\n[Peer]\n#adit: name = bob\n#adit: post-quantum = on\nPublicKey = "),
            "{}",
            *text
        );
        let bob = &config.peers[1];
        assert_eq!((bob.public_key, bob.preshared_key.as_ref().unwrap().as_bytes()), (key(129), &[129; 32]));
        let allowed = ["10.8.0.129/32", "fd00::129/128"].map(|net| net.parse().unwrap());
        assert_eq!(bob.allowed_ips, allowed.map(adit_wireguard::AllowedIp::Add));
        assert_eq!(public_keys(&text), [key(128), key(129)]);
    }

    #[test]
    fn peers_are_removed_and_all_else_stays() {
        let all = text(&[(1, "alice"), (2, "bob"), (3, "carol")]);
        let without = |out: &[u8]| without_peers(&all, &|found| out.iter().any(|byte| key(*byte) == *found));
        assert_eq!(without(&[]), None);
        assert_eq!(without(&[9]), None);
        assert_eq!(without(&[2]).unwrap(), text(&[(1, "alice"), (3, "carol")]));
        assert_eq!(without(&[1, 2, 3]).unwrap().trim_end(), text(&[]).trim_end());
        // A new client stands where the last one went, without a gap.
        assert_eq!(
            without(&[3]).map(|text| text.trim_end().to_owned()),
            Some(text(&[(1, "alice"), (2, "bob")]).trim_end().to_owned())
        );
    }

    #[test]
    fn peers_are_found_however_they_are_written() {
        let (first, second) = (key(1).to_base64(), key(2).to_base64());
        let (head, tail) = first.split_at(10);
        let text = format!(
            "[interface]\nListenPort = 1\n[PEER] # mine\n publickey={head} {tail} # alice\nAllowedIPs = \n\n\
             # the office\n[Peer]\n# PublicKey = {first}\nPublicKey = {second}\n"
        );
        let changed = without_peers(&text, &|found| *found == key(1)).unwrap();
        let expected = format!(
            "[interface]\nListenPort = 1\n# the office\n[Peer]\n# PublicKey = {first}\nPublicKey = {second}\n"
        );
        assert_eq!(*changed, expected);
    }
}
