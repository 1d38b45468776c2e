//! A server in a namespace, joined with those of its peers.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use adit_testbed::{
    Ends, Namespace, Probe, Process, Scratch, TestbedError, WireGuardKeys, configure_wireguard, connect,
    wait_until, wireguard_keys, wireguard_socket,
};

use super::control;
use crate::subjects::Tools;
use crate::subjects::wireguard::{MTU, Program, wait_for_socket};
use crate::testbed::bring_up;

/// The port of the server.
pub(super) const PORT: u16 = 1194;
/// The server's address in the tunnel.
pub(super) const INNER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 8, 0, 1));
/// Networks outside of the tunnel (RFC 5737): the server is .1 of each, its peer .2.
const NETWORKS: [&str; 3] = ["192.0.2", "198.51.100", "203.0.113"];
const TIMEOUT: Duration = Duration::from_secs(60);

/// Tells the devices of clients apart.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A server.
pub(super) struct Testbed<'a> {
    pub(super) tools: &'a Tools,
    pub(super) process: Process,
    pub(super) server: Namespace,
    pub(super) device: String,
    keys: WireGuardKeys,
    socket: PathBuf,
    directory: Scratch,
}

/// A namespace that is joined with the server's, and the keys of a peer in it.
pub(super) struct Peer {
    pub(super) namespace: Namespace,
    keys: WireGuardKeys,
    /// The number of its network.
    number: usize,
}

/// A peer's program that runs. It is ended when this is dropped.
pub(super) struct Running {
    process: Process,
    socket: PathBuf,
}

impl<'a> Testbed<'a> {
    /// Starts the program in a namespace of its own, without peers.
    pub(super) fn build(tools: &'a Tools, program: Program) -> Result<Testbed<'a>, TestbedError> {
        let directory = Scratch::create("wireguard")?;
        let [keys, _] = wireguard_keys(directory.path())?;
        let server = Namespace::create("server")?;
        let device = device('s');
        let socket = wireguard_socket(&device);
        let process = server.spawn("the server", program.command(tools, &device, directory.path()))?;
        let testbed = Testbed { tools, process, server, device, keys, socket, directory };
        let is_there = || testbed.set("").is_ok();
        if let Err(error) = wait_until("the server's socket", TIMEOUT, is_there) {
            let output = format!("{error}\nthe server's log:\n{}", testbed.process.log_tail());
            return Err(TestbedError::Output { command: program.name().to_owned(), output });
        }
        testbed.set(&format!("private_key={}\nlisten_port={PORT}\n", testbed.keys.private()))?;
        bring_up(&testbed.server, &testbed.device, &INNER.to_string(), MTU)?;
        Ok(testbed)
    }

    /// Joins a namespace and configures its peer at the server. At most one for each of [`NETWORKS`].
    pub(super) fn join(&self, number: usize, name: &str) -> Result<Peer, TestbedError> {
        let namespace = Namespace::create(name)?;
        let [left, right] = [address(number, 1), address(number, 2)].map(|address| format!("{address}/24"));
        connect(&self.server, &[&left], &namespace, &[&right], &format!("wire{number}"))?;
        let [keys, _] = wireguard_keys(self.directory.path())?;
        let peer = Peer { namespace, keys, number };
        self.set(&control::peer(peer.keys.public(), &peer.inner()))?;
        Ok(peer)
    }

    /// Changes the server's configuration; gives how long it took.
    pub(super) fn set(&self, changes: &str) -> Result<Duration, TestbedError> {
        control::set(&self.device, changes)
    }

    /// The server's public key, in hexadecimal digits.
    pub(super) fn key(&self) -> &str {
        self.keys.public()
    }

    /// Starts a program for a peer and configures it. Gives how long it took from its start to the first reply through the
    /// tunnel, or why there was none.
    pub(super) fn start(
        &self,
        peer: &Peer,
        program: Program,
        timeout: Duration,
    ) -> Result<(Running, Result<Duration, TestbedError>), TestbedError> {
        let device = device('c');
        let socket = wireguard_socket(&device);
        let command = program.command(self.tools, &device, self.directory.path());
        let endpoint = format!("{}:{PORT}", address(peer.number, 1));
        let started = peer.namespace.enter(|| -> Result<_, TestbedError> {
            let probe = Probe::open(INNER)?;
            let start = Instant::now();
            let process = Process::spawn("a client", command)?;
            let server = (&self.keys, Some(endpoint.as_str()), INNER.to_string());
            let set_up = wait_for_socket(&device)
                .and_then(|()| configure_wireguard(&device, &peer.keys, None, server.0, server.1, &server.2))
                .and_then(|()| bring_up(&peer.namespace, &device, &peer.inner(), MTU));
            Ok((process, set_up.and_then(|()| probe.first_reply(start, timeout))))
        })?;
        let (process, reply) = started?;
        Ok((Running { process, socket }, reply))
    }

    /// Connects a peer that must come up.
    pub(super) fn connect(&self, peer: &Peer, program: Program) -> Result<Running, TestbedError> {
        let (running, reply) = self.start(peer, program, TIMEOUT)?;
        match reply {
            Ok(_) => Ok(running),
            Err(error) => {
                let (client, server) = (running.process.log_tail(), self.process.log_tail());
                let output = format!("{error}\nthe client's log:\n{client}\nthe server's log:\n{server}");
                Err(TestbedError::Output { command: "the tunnel".to_owned(), output })
            }
        }
    }

    /// Where load runs between.
    pub(super) fn ends<'b>(&'b self, peer: &'b Peer) -> Ends<'b> {
        Ends { server: &self.server, client: &peer.namespace, target: INNER }
    }
}

impl Drop for Testbed<'_> {
    fn drop(&mut self) {
        end(&mut self.process, &self.socket);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.process, &self.socket);
    }
}

/// Lets a program clean up after itself.
fn end(process: &mut Process, socket: &Path) {
    let _ = process.terminate(Duration::from_secs(3));
    // Most remove it themselves.
    let _ = std::fs::remove_file(socket);
}

impl Peer {
    /// Its address in the tunnel.
    fn inner(&self) -> String {
        format!("10.8.0.{}", self.number + 2)
    }
}

/// Host `host` of network `number`.
pub(super) fn address(number: usize, host: u8) -> String {
    format!("{}.{host}", NETWORKS.get(number).unwrap_or(&NETWORKS[0]))
}

/// A name that no other device has; the test bed sweeps sockets of such names if this process is killed.
fn device(end: char) -> String {
    format!("wg{}{end}{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed) % 1000)
}

/// The address in the tunnel of a peer that is only configured.
pub(super) fn configured(number: u32) -> String {
    Ipv4Addr::from_bits(u32::from_be_bytes([10, 64, 0, 0]) + number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_have_addresses_of_their_own() {
        assert_eq!([configured(0), configured(9_999)], ["10.64.0.0", "10.64.39.15"].map(str::to_owned));
        assert_eq!(address(1, 2), "198.51.100.2");
        assert_ne!(device('s'), device('s'));
    }
}
