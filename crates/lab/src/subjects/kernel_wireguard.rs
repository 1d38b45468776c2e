//! WireGuard in the kernel.

use std::process::Command;

use adit_testbed::{Namespace, TestbedError, program};

use super::kernel::{self, Ability};
use super::{Availability, Subject, Tools, Tunnel, version};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, PORT, Testbed, bring_up};

/// The MTU that wg-quick chooses for an outer MTU of 1500.
const MTU: u16 = 1420;
const DEVICE: &str = "wg0";
const ENDS: [&str; 2] = ["server", "client"];

/// The kernel's WireGuard at both ends.
#[derive(Debug)]
pub(super) struct KernelWireGuard;

/// A private key in a file, and the public key.
fn keys(testbed: &Testbed, end: usize) -> Result<String, TestbedError> {
    let name = format!("{}.key", ENDS.get(end).copied().unwrap_or_default());
    let mut generate = program("wg")?;
    generate.arg("genkey");
    let file = testbed.directory.write(&name, &testbed.server.run(generate)?)?;
    let mut public = Command::new("sh");
    public.args(["-c", "wg pubkey <\"$0\""]).arg(file);
    Ok(testbed.server.run(public)?.trim().to_owned())
}

/// Makes the device and tells it all it has to know.
fn set_up(testbed: &Testbed, namespace: &Namespace, end: usize, peer: &str) -> Result<(), TestbedError> {
    namespace.ip(&["link", "add", DEVICE, "type", "wireguard"])?;
    let [own, other] = [end, 1 - end].map(|end| ENDS.get(end).copied().unwrap_or_default());
    let inner = if other == ENDS[0] { INNER[0] } else { INNER[1] };
    let mut set = program("wg")?;
    set.args(["set", DEVICE, "private-key"]).arg(testbed.directory.path().join(format!("{own}.key")));
    if own == ENDS[0] {
        set.args(["listen-port", &PORT.to_string()]);
    }
    set.args(["peer", peer, "allowed-ips", &format!("{inner}/32")]);
    if own == ENDS[1] {
        set.args(["endpoint", &format!("{}:{PORT}", OUTER[0])]);
    }
    namespace.run(set)?;
    let address = if own == ENDS[0] { INNER[0] } else { INNER[1] };
    bring_up(namespace, DEVICE, address, MTU)
}

impl Subject for KernelWireGuard {
    fn name(&self) -> String {
        "wireguard-kernel".to_owned()
    }

    fn about(&self) -> String {
        "the kernel's WireGuard, ChaCha20-Poly1305".to_owned()
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        kernel::lacks(Ability::WireGuard).unwrap_or_else(|| match version("wg", &["--version"]) {
            Some(version) => Availability::Installed(version),
            None => Availability::Installable("apt-get install --yes wireguard-tools".to_owned()),
        })
    }

    fn start(&self, testbed: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        let public = [keys(testbed, 0)?, keys(testbed, 1)?];
        set_up(testbed, &testbed.server, 0, &public[1])?;
        let shared = &*testbed;
        // There is no client's program: the time is that of giving the kernel its device, and of the
        // handshake.
        let (process, started) = shared
            .started_client(Command::new("true"), |namespace| set_up(shared, namespace, 1, &public[0]))?;
        drop(process);
        Ok(Tunnel::up(started))
    }
}
