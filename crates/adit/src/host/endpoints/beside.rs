//! A WireGuard file beside OpenVPN servers: an endpoint of their tunnel, if its interface has the name that is their `dev`.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use adit_core::{IpNet, Transport};
use adit_openvpn_config::{Parsed, Role, ServerConfig};
use adit_wireguard_config as wireguard;

use crate::host::configuration::Dialect;
use crate::host::place::place_in;
use crate::openvpn::adapter::translate;

/// What the device of a tunnel has from its OpenVPN servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceTerms {
    /// MTU in bytes.
    pub(crate) mtu: u16,
    /// Packets that may wait in it.
    pub(crate) txqueuelen: u32,
    /// Peers reach each other without passing through it.
    pub(crate) client_to_client: bool,
}

/// Those of that file, if it is a server's.
pub(super) fn device_terms(dialect: &Dialect) -> Option<DeviceTerms> {
    let Dialect::OpenVpn(parsed) = dialect else { return None };
    let Role::Server(server) = &parsed.config.role else { return None };
    Some(DeviceTerms {
        mtu: parsed.config.device.mtu,
        txqueuelen: translate::txqueuelen(&parsed.config),
        client_to_client: server.client_to_client,
    })
}

/// Whether the interface of a WireGuard file has the name that is the server's `dev`.
pub(super) fn is_beside(file: &Path, parsed: &Parsed) -> bool {
    let name = file.to_str().and_then(wireguard::interface_name);
    let is_server = matches!(parsed.config.role, Role::Server(_));
    is_server && name.is_some() && parsed.config.device.name.as_deref() == name
}

/// What a WireGuard file contradicts the server in whose tunnel it is an endpoint, one problem a line.
pub(crate) fn contradictions(
    (file, parsed): (&Path, &wireguard::Parsed),
    (server_file, of_server): (&Path, &Parsed),
) -> Vec<String> {
    let Role::Server(server) = &of_server.config.role else { return Vec::new() };
    let interface = &parsed.config.interface;
    let mut problems = Vec::new();
    let mut problem = |key: &str, what: String, directives: &[&str], theirs: String| {
        let (here, there) =
            (place_in(&parsed.report, file, &[key]), place_in(&of_server.report, server_file, directives));
        problems.push(format!(
            "{here}: {what}, but {theirs} at {there}: the interface is an endpoint of that server's tunnel; correct \
             it, or give the file another name"
        ));
    };
    let (mut own, mut theirs) = (interface.addresses.clone(), addresses(server));
    own.sort_unstable();
    theirs.sort_unstable();
    if own != theirs {
        let list = |all: &[IpNet]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let what =
            if own.is_empty() { "no `Address`".to_owned() } else { format!("`Address = {}`", list(&own)) };
        let theirs = format!("the server's address is {}", list(&theirs));
        problem("Address", what, &["server", "ifconfig", "server-ipv6", "ifconfig-ipv6"], theirs);
    }
    if let Some(mtu) = interface.mtu.filter(|mtu| *mtu != of_server.config.device.mtu) {
        let theirs = format!("the MTU is {}", of_server.config.device.mtu);
        problem("MTU", format!("`MTU = {mtu}`"), &["tun-mtu", "dev"], theirs);
    }
    let is_shared = |port: u16| {
        server.listen.iter().any(|listen| listen.transport == Transport::Udp && listen.port == port)
    };
    if interface.fwmark.is_some_and(|mark| mark != 0) && interface.listen_port.is_some_and(is_shared) {
        let theirs = "the server has that port and no mark".to_owned();
        problem("FwMark", "a firewall mark".to_owned(), &["port", "lport", "proto"], theirs);
    }
    problems
}

fn addresses(server: &ServerConfig) -> Vec<IpNet> {
    let v4 = server.ipv4.map(|own| IpNet::V4(own.address));
    let v6 = server.ipv6.map(|own| IpNet::V6(own.address));
    v4.into_iter().chain(v6).collect()
}

/// The servers of a tunnel that have not bound their sockets yet, which an interface beside them may use.
#[derive(Clone, Default)]
pub(crate) struct Binding(Arc<(Mutex<usize>, Condvar)>);

/// A server that has not bound its sockets. When this is dropped it has, or has failed.
pub(crate) struct Unbound(Binding);

impl Binding {
    /// One more server.
    pub(crate) fn server(&self) -> Unbound {
        *self.lock() += 1;
        Unbound(self.clone())
    }

    /// Waits until all servers have bound their sockets.
    pub(crate) fn wait(&self) {
        let mut left = self.lock();
        while *left > 0 {
            left = self.0.1.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
        self.0.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "dh none\n<ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
                        <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
                        <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n";

    fn server() -> Parsed {
        let none = |_: &Path| Err("no such file".to_owned());
        let text = format!("dev tun0\nserver 10.8.0.0 255.255.255.0\n{KEYS}");
        adit_openvpn_config::parse("udp.conf", text.as_bytes(), &none).expect("a good file")
    }

    fn problems(lines: &str) -> Vec<String> {
        let text = format!("[Interface]\n{lines}");
        let parsed = wireguard::parse(text.as_bytes(), "tun0.conf").expect("a good file");
        contradictions((Path::new("tun0.conf"), &parsed), (Path::new("udp.conf"), &server()))
    }

    #[test]
    fn an_interface_beside_a_server_is_known_by_its_name_and_agrees_with_it() {
        assert!(is_beside(Path::new("/etc/wireguard/tun0.conf"), &server()));
        assert!(!is_beside(Path::new("tun1.conf"), &server()));
        assert_eq!(problems("Address=10.8.0.1/24\nMTU=1500\nListenPort=1194\n"), [""; 0]);
        assert_eq!(problems("Address=10.8.0.1/24\nFwMark=7\nListenPort=51820\n"), [""; 0]);
        for (lines, start) in [
            (
                "ListenPort=1194\n",
                "tun0.conf: no `Address`, but the server's address is 10.8.0.1/24 at udp.conf:2: ",
            ),
            ("Address=10.8.0.9/24\n", "tun0.conf:2: `Address = 10.8.0.9/24`, but "),
            (
                "Address=10.8.0.1/24\nMTU=1420\n",
                "tun0.conf:3: `MTU = 1420`, but the MTU is 1500 at udp.conf:1: ",
            ),
            (
                "Address=10.8.0.1/24\nFwMark=7\nListenPort=1194\n",
                "tun0.conf:3: a firewall mark, but the server has that port and no mark at ",
            ),
        ] {
            let found = problems(lines);
            assert!(found.len() == 1 && found[0].starts_with(start), "{found:?}");
        }
    }

    #[test]
    fn who_is_beside_waits_for_the_sockets_of_all_servers() {
        let binding = Binding::default();
        binding.wait();
        let servers = [binding.server(), binding.server()];
        let waiting = {
            let binding = binding.clone();
            std::thread::spawn(move || binding.wait())
        };
        let [first, second] = servers;
        drop(first);
        assert!(!waiting.is_finished());
        drop(second);
        waiting.join().unwrap();
    }
}
