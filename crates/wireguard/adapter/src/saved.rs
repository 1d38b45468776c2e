//! `SaveConfig`: a WireGuard file is written anew from what runs, as `wg-quick save` does: what `wg showconf` shows, and the keys
//! that are wg-quick's and adit's own.
//!
//! The tunnel sends the [`State`], which holds values alone; the helper builds the text from the state and from the file, which the
//! helper reads itself. So a tunnel's process that was taken over can change the keys, addresses and ports in the file, and no
//! command in it.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use adit_wireguard::{PresharedKey, PrivateKey, PublicKey};
use adit_wireguard_config::{Config, Interface, Peer, Table, parse};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

/// A tunnel's state at run time. It has no `Debug`, as it holds keys, and wipes the keys when it is dropped.
#[derive(Serialize, Deserialize)]
pub(crate) struct State {
    /// The private key, if there is one.
    pub(crate) private_key: Option<[u8; 32]>,
    /// The port in use; 0: none.
    pub(crate) listen_port: u16,
    /// The firewall mark; 0: none.
    pub(crate) fwmark: u32,
    /// All peers, in their order.
    pub(crate) peers: Vec<PeerState>,
}

/// A peer's state at run time.
#[derive(Serialize, Deserialize)]
pub(crate) struct PeerState {
    /// The public key.
    pub(crate) public_key: [u8; 32],
    /// The preshared key, if there is one.
    pub(crate) preshared_key: Option<[u8; 32]>,
    /// Its allowed IPs.
    pub(crate) allowed_ips: Vec<IpNet>,
    /// The endpoint, if the next start is to look for the peer there.
    pub(crate) endpoint: Option<SocketAddr>,
    /// The interval of persistent keepalives in seconds; 0: none.
    pub(crate) persistent_keepalive: u16,
}

impl Drop for State {
    fn drop(&mut self) {
        self.private_key.zeroize();
        self.peers.iter_mut().for_each(|peer| peer.preshared_key.zeroize());
    }
}

impl State {
    /// The state as the helper reads it.
    ///
    /// # Errors
    /// When it is too large.
    pub(crate) fn encode(&self) -> io::Result<Zeroizing<Vec<u8>>> {
        // In one piece: a buffer that grows would leave copies of keys behind.
        let size = postcard::experimental::serialized_size(self).map_err(io::Error::other)?;
        let mut bytes = Zeroizing::new(vec![0; size]);
        postcard::to_slice(self, &mut bytes).map_err(io::Error::other)?;
        Ok(bytes)
    }

    fn decode(bytes: &[u8]) -> io::Result<Self> {
        match postcard::take_from_bytes(bytes).map_err(io::Error::other)? {
            (state, []) => Ok(state),
            (_, _) => Err(invalid("bytes follow the state of the tunnel")),
        }
    }
}

/// Builds the text that replaces a file: `text` is the file's text as the helper read it, `state` the encoded [`State`]. Runs in
/// the helper.
///
/// # Errors
/// When the file does not say `SaveConfig = true`, `state` is no encoded [`State`], or the new text would differ from the file in
/// more than the state.
pub(crate) fn rewrite(text: &[u8], state: &[u8]) -> io::Result<Zeroizing<Vec<u8>>> {
    let before = read(text)?;
    if !before.interface.save_config {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the file does not say `SaveConfig = true`",
        ));
    }
    let new = print(&before, &State::decode(state)?);
    let after = read(new.as_bytes())?;
    if !differs_in_state_alone(&before, &after) {
        return Err(invalid("the state would change more of the file than keys, ports, marks and peers"));
    }
    Ok(Zeroizing::new(new.as_bytes().to_vec()))
}

fn read(text: &[u8]) -> io::Result<Config> {
    parse(text, "the file").map(|parsed| parsed.config).map_err(|failure| invalid(&failure.to_string()))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Whether commands, programs, names and the network are as before.
fn differs_in_state_alone(before: &Config, after: &Config) -> bool {
    let Interface { private_key, listen_port, fwmark, .. } = before.interface.clone();
    let interface = Interface { private_key, listen_port, fwmark, ..after.interface.clone() };
    let is_of_file = |peer: &Peer| {
        let mut known = before.peers.iter().filter(|it| it.public_key == peer.public_key);
        peer.directives.is_empty() || known.any(|it| it.directives == peer.directives)
    };
    interface == before.interface && after.peers.iter().all(is_of_file)
}

/// The new text of the file. Writing to a string does not fail.
fn print(config: &Config, state: &State) -> Zeroizing<String> {
    // Keys are not left behind by a string that grows.
    let mut text = Zeroizing::new(String::with_capacity(size(config, state)));
    text.push_str("[Interface]\n");
    own_keys(&mut text, &config.interface);
    if state.listen_port != 0 {
        let _ = writeln!(text, "ListenPort = {}", state.listen_port);
    }
    if state.fwmark != 0 {
        let _ = writeln!(text, "FwMark = {:#x}", state.fwmark);
    }
    if let Some(key) = state.private_key.and_then(PrivateKey::new) {
        let _ = writeln!(text, "PrivateKey = {}", *key.to_base64());
    }
    for it in &state.peers {
        let of_file = config.peers.iter().find(|peer| peer.public_key.0 == it.public_key);
        peer(&mut text, it, of_file.into_iter().flat_map(|peer| &peer.directives));
    }
    text
}

/// An upper bound of the text's length in bytes.
fn size(Config { interface, peers }: &Config, state: &State) -> usize {
    let Interface { pre_up, post_up, pre_down, post_down, search, directives, .. } = interface;
    let words = [pre_up, post_up, pre_down, post_down, search, directives].into_iter().flatten();
    let words = words.chain(peers.iter().flat_map(|peer| &peer.directives));
    let prefixes: usize = state.peers.iter().map(|peer| peer.allowed_ips.len()).sum();
    let single = interface.addresses.len() + interface.dns.len() + prefixes;
    words.map(|word| word.len() + 20).sum::<usize>() + single * 70 + state.peers.len() * 400 + 1000
}

fn own_keys(text: &mut String, interface: &Interface) {
    for address in &interface.addresses {
        let _ = writeln!(text, "Address = {address}");
    }
    let servers = interface.dns.iter().map(ToString::to_string);
    for word in servers.chain(interface.search.iter().cloned()) {
        let _ = writeln!(text, "DNS = {word}");
    }
    if let Some(mtu) = interface.mtu {
        let _ = writeln!(text, "MTU = {mtu}");
    }
    let _ = match &interface.table {
        Table::Auto => Ok(()),
        Table::Off => writeln!(text, "Table = off"),
        Table::Number(number) => writeln!(text, "Table = {number}"),
        Table::Name(name) => writeln!(text, "Table = {name}"),
    };
    text.push_str("SaveConfig = true\n");
    directives(text, &interface.directives);
    for (key, commands) in [
        ("PreUp", &interface.pre_up),
        ("PostUp", &interface.post_up),
        ("PreDown", &interface.pre_down),
        ("PostDown", &interface.post_down),
    ] {
        for command in commands {
            let _ = writeln!(text, "{key} = {command}");
        }
    }
}

/// adit's own settings.
fn directives<'a>(text: &mut String, directives: impl IntoIterator<Item = &'a String>) {
    for directive in directives {
        let _ = writeln!(text, "#adit: {directive}");
    }
}

fn peer<'a>(text: &mut String, state: &PeerState, of_file: impl IntoIterator<Item = &'a String>) {
    let _ = writeln!(text, "\n[Peer]\nPublicKey = {}", PublicKey(state.public_key));
    directives(text, of_file);
    if let Some(key) = state.preshared_key {
        let _ = writeln!(text, "PresharedKey = {}", *PresharedKey::new(key).to_base64());
    }
    if !state.allowed_ips.is_empty() {
        let nets: Vec<String> = state.allowed_ips.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "AllowedIPs = {}", nets.join(", "));
    }
    if let Some(endpoint) = state.endpoint {
        let _ = writeln!(text, "Endpoint = {}", with_zone(endpoint));
    }
    if state.persistent_keepalive != 0 {
        let _ = writeln!(text, "PersistentKeepalive = {}", state.persistent_keepalive);
    }
}

/// The endpoint, whose scope is written as the name of an interface, as `wg showconf` has it.
fn with_zone(endpoint: SocketAddr) -> String {
    match endpoint {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => {
            format!("[{}%{}]:{}", v6.ip(), adit_system::zone_of_scope(v6.scope_id()), v6.port())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let peer = PeerState {
            public_key: [2; 32],
            preshared_key: Some([3; 32]),
            allowed_ips: ["10.0.0.0/24", "fd00::/64"].map(|net| net.parse().expect("a network")).to_vec(),
            endpoint: Some("[2001:db8::1]:7".parse().expect("an address")),
            persistent_keepalive: 25,
        };
        State { private_key: Some([0x40; 32]), listen_port: 51820, fwmark: 0xca6c, peers: vec![peer] }
    }

    const LINES: &str = "Address = 10.0.0.1/24\nDNS = 10.0.0.53\nDNS = corp.example\nMTU = 1400\nTable = 7\n\
                         SaveConfig = true\n#adit: client-connect = /bin/true x\nPreUp = true # kept\nPostDown = echo %i\n";

    fn rewritten(file: &str, state: &State) -> io::Result<String> {
        let text = rewrite(file.as_bytes(), &state.encode().expect("it has a size"))?;
        Ok(String::from_utf8(text.to_vec()).expect("text"))
    }

    #[test]
    fn a_scope_is_the_name_of_its_interface() {
        for (endpoint, written) in [
            ("[fe80::1%1]:7", "[fe80::1%lo]:7"),
            ("[fe80::1%4000000000]:7", "[fe80::1%4000000000]:7"),
            ("[2001:db8::1]:7", "[2001:db8::1]:7"),
            ("192.0.2.1:7", "192.0.2.1:7"),
        ] {
            assert_eq!(with_zone(endpoint.parse().expect("an address")), written);
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let before = format!("[Interface]\n{LINES}");
        let text = rewritten(&before, &state()).expect("a file that may be saved");
        let keys = format!("[Interface]\n{LINES}ListenPort = 51820\nFwMark = 0xca6c\nPrivateKey = ");
        assert!(text.starts_with(&keys), "{text}");
        assert!(text.len() <= size(&read(before.as_bytes()).expect("a good file"), &state()));
        let after = read(text.as_bytes()).expect("a good file");
        assert_eq!(after.interface.private_key.as_ref().map(|key| *key.as_bytes()), Some([0x40; 32]));
        assert_eq!(after.peers[0].endpoint.as_ref().map(|it| it.host.as_str()), Some("2001:db8::1"));
        assert_eq!((after.peers[0].allowed_ips.len(), after.peers[0].persistent_keepalive), (2, Some(25)));
        // The text that was written stays as it is when it is written anew.
        assert_eq!(rewritten(&text, &state()).expect("the same"), text);
    }

    #[test]
    fn a_state_is_values_alone() {
        let file = format!("[Interface]\n{LINES}");
        for text in ["", "[Interface]\nPreUp = id\n", "client\ncert /etc/shadow\n"] {
            assert!(rewrite(file.as_bytes(), text.as_bytes()).is_err(), "{text:?}");
        }
        let mut bytes = state().encode().expect("it has a size").to_vec();
        bytes.extend_from_slice(b"\nPreUp = id\n");
        assert!(rewrite(file.as_bytes(), &bytes).is_err(), "what follows the state");
        let unsaved = rewritten("[Interface]\nPreUp = true\n", &state());
        assert!(unsaved.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied));
    }

    #[test]
    fn what_a_file_may_run_is_never_changed() {
        let before = read(format!("[Interface]\n{LINES}").as_bytes()).expect("a good file");
        let with = |line: &str| {
            let after = read(format!("[Interface]\n{LINES}{line}\n").as_bytes()).expect("a good file");
            differs_in_state_alone(&before, &after)
        };
        assert!(
            with("ListenPort = 7")
                && with("[Peer]\nPublicKey = AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=")
        );
        for line in [
            "PreUp = id",
            "PostUp = id",
            "#adit: client-disconnect = /bin/id",
            "DNS = 192.0.2.1",
            "Address = 192.0.2.1/24",
            "[Peer]\nPublicKey = AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\n#adit: tcp = http://192.0.2.1/",
        ] {
            assert!(!with(line), "{line}");
        }
    }
}
