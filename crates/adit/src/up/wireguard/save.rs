//! `SaveConfig`: the file is written anew from what runs, as `wg-quick save` does: what `wg showconf` shows, and the keys that
//! are wg-quick's own.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;

use adit_config::wireguard::{Config, Interface, Table};
use adit_core::Transport;
use adit_io::HelperFiles;
use adit_wireguard::{PeerStatus, Status};
use zeroize::Zeroizing;

/// Has the helper write the file. Its name stands for the old one or for the whole new one.
///
/// # Errors
/// When it cannot be written; the old one is there then.
pub(super) fn save(files: &HelperFiles, config: &Config, status: &Status) -> io::Result<()> {
    files.write_configuration(text(config, status).as_bytes())
}

/// The text. Writing to a string does not fail.
fn text(config: &Config, status: &Status) -> Zeroizing<String> {
    // Keys are not left behind by a string that grows.
    let mut text = Zeroizing::new(String::with_capacity(size(config, status)));
    text.push_str("[Interface]\n");
    own_keys(&mut text, &config.interface);
    if status.listen_port != 0 {
        let _ = writeln!(text, "ListenPort = {}", status.listen_port);
    }
    if status.fwmark != 0 {
        let _ = writeln!(text, "FwMark = {:#x}", status.fwmark);
    }
    if let Some(key) = &status.private_key {
        let _ = writeln!(text, "PrivateKey = {}", *key.to_base64());
    }
    for it in &status.peers {
        let of_file = config.peers.iter().filter(|peer| peer.public_key == it.detail.public_key.0);
        peer(&mut text, it, of_file.flat_map(|peer| &peer.directives));
    }
    text
}

/// An upper bound of the text's length in bytes.
fn size(Config { interface, peers }: &Config, status: &Status) -> usize {
    let Interface { pre_up, post_up, pre_down, post_down, search, directives, .. } = interface;
    let words = [pre_up, post_up, pre_down, post_down, search, directives].into_iter().flatten();
    let words = words.chain(peers.iter().flat_map(|peer| &peer.directives));
    let prefixes: usize = status.peers.iter().map(|peer| peer.detail.allowed_ips.len()).sum();
    let single = interface.addresses.len() + interface.dns.len() + prefixes;
    words.map(|word| word.len() + 20).sum::<usize>() + single * 70 + status.peers.len() * 400 + 1000
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

fn peer<'a>(
    text: &mut String,
    PeerStatus { detail, preshared_key }: &PeerStatus,
    of_file: impl IntoIterator<Item = &'a String>,
) {
    let _ = writeln!(text, "\n[Peer]\nPublicKey = {}", detail.public_key);
    directives(text, of_file);
    if !preshared_key.is_none() {
        let _ = writeln!(text, "PresharedKey = {}", *preshared_key.to_base64());
    }
    if !detail.allowed_ips.is_empty() {
        let nets: Vec<String> = detail.allowed_ips.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "AllowedIPs = {}", nets.join(", "));
    }
    // Where a connection comes from says nothing about the next one.
    if let Some(endpoint) = detail.endpoint.filter(|_| detail.transport != Some(Transport::Tcp)) {
        let _ = writeln!(text, "Endpoint = {}", with_zone(endpoint));
    }
    if detail.persistent_keepalive != 0 {
        let _ = writeln!(text, "PersistentKeepalive = {}", detail.persistent_keepalive);
    }
}

/// The endpoint, whose scope is written as the name of an interface, as `wg showconf` has it.
fn with_zone(endpoint: SocketAddr) -> String {
    match endpoint {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => {
            format!("[{}%{}]:{}", v6.ip(), adit_io::zone_of_scope(v6.scope_id()), v6.port())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use adit_wireguard::{PeerDetail, PresharedKey, PrivateKey, PublicKey};

    use super::*;

    fn status() -> Status {
        let detail = PeerDetail {
            public_key: PublicKey([2; 32]),
            endpoint: Some("[2001:db8::1]:7".parse().expect("an address")),
            transport: Some(Transport::Udp),
            last_handshake: None,
            received_bytes: 0,
            sent_bytes: 0,
            persistent_keepalive: 25,
            allowed_ips: vec![
                "10.0.0.0/24".parse().expect("a network"),
                "fd00::/64".parse().expect("a network"),
            ],
            last_timestamp: None,
            unanswered: 0,
            blocked: false,
            post_quantum: None,
        };
        Status {
            private_key: PrivateKey::new([0x40; 32]),
            listen_port: 51820,
            fwmark: 0xca6c,
            peers: vec![PeerStatus { detail, preshared_key: PresharedKey::new([3; 32]) }],
        }
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
        let lines = "Address = 10.0.0.1/24\nDNS = 10.0.0.53\nDNS = corp.example\nMTU = 1400\nTable = 7\n\
                     SaveConfig = true\nPreUp = true # kept\nPostDown = echo %i\n";
        let read = |text: &str| {
            adit_config::wireguard::parse(text.as_bytes(), "wg0.conf").expect("a good file").config
        };
        let before = read(&format!("[Interface]\n{lines}"));
        let text = text(&before, &status());
        assert!(
            text.starts_with(&format!(
                "[Interface]\n{lines}ListenPort = 51820\nFwMark = 0xca6c\nPrivateKey = "
            )),
            "{}",
            *text
        );
        assert!(text.len() <= size(&before, &status()));
        let after = read(&text);
        assert_eq!(after.interface.private_key.as_ref().map(|key| *key.bytes()), Some([0x40; 32]));
        assert_eq!(after.peers[0].endpoint.as_ref().map(|it| it.host.as_str()), Some("2001:db8::1"));
        assert_eq!((after.peers[0].allowed_ips.len(), after.peers[0].persistent_keepalive), (2, Some(25)));
    }
}
