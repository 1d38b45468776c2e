//! A client's WireGuard file, for adit, wg-quick and WireGuard's apps.

use std::fmt::Write as _;
use std::net::IpAddr;

use adit_core::IpNet;
use adit_wireguard::{PresharedKey, PrivateKey, PublicKey};
use zeroize::Zeroizing;

use adit_setup::{ClientName, Endpoint, Layout};

use super::listed;

/// Room for the file, so that its text never moves and leaves a copy of a key behind.
const ROOM: usize = 16 << 10;
/// Seconds after which something is sent, so that what translates addresses on the way keeps the mapping, and the client
/// can be reached: wg(8) names this number.
const KEEPALIVE: u16 = 25;

/// The facts about a client that its file states.
pub(super) struct Client<'a> {
    pub(super) name: &'a ClientName,
    pub(super) key: &'a PrivateKey,
    pub(super) preshared_key: &'a PresharedKey,
    pub(super) addresses: &'a [IpAddr],
}

/// The file. `endpoint` is the server's with WireGuard's port.
pub(super) fn text(
    client: &Client<'_>,
    endpoint: &Endpoint,
    server_key: PublicKey,
    layout: &Layout,
) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(ROOM));
    let hosts: Vec<IpNet> = client.addresses.iter().copied().map(IpNet::from).collect();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# WireGuard client {name} of {endpoint}, made by `adit add-client`.\n\
         # It holds a private key: keep it readable by its owner alone.\n\
         \n\
         [Interface]\n\
         PrivateKey = {key}\n\
         Address = {addresses}\n",
        name = client.name,
        key = *client.key.to_base64(),
        addresses = listed(&hosts),
    );
    if !layout.dns.is_empty() {
        let _ = writeln!(text, "DNS = {}", layout.dns.join(", "));
    }
    let _ = write!(
        text,
        "\n\
         [Peer]\n\
         #adit: post-quantum = on\n\
         PublicKey = {server_key}\n\
         PresharedKey = {preshared_key}\n\
         Endpoint = {endpoint}\n\
         AllowedIPs = {routes}\n\
         PersistentKeepalive = {KEEPALIVE}\n",
        preshared_key = *client.preshared_key.to_base64(),
        routes = listed(&layout.routes),
    );
    text
}

/// The file without comments and empty lines: as much as a QR code must hold.
pub(super) fn condensed(text: &str) -> Zeroizing<String> {
    let mut condensed = Zeroizing::new(String::with_capacity(text.len()));
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        condensed.push_str(line);
        condensed.push('\n');
    }
    condensed
}
