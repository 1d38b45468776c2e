//! The abilities of this kernel by itself: tried once, in a namespace that is gone afterwards.

use std::sync::OnceLock;

use adit_testbed::{Namespace, TestbedError, is_root, program};

use super::Availability;

/// A tunnel in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ability {
    /// The device type `wireguard`.
    WireGuard,
    /// The device type that OpenVPN 2.7 hands its data channel to, in Linux since 6.16.
    Ovpn,
    /// The device type that OpenVPN 2.6 hands its data channel to, of a module from outside of Linux.
    OvpnDco,
    /// IPsec's ESP with AES-GCM.
    Esp,
    /// The point-to-point protocol over a terminal.
    Ppp,
    /// The point-to-point protocol in L2TP's data messages.
    L2tp,
}

const ALL: [Ability; 6] =
    [Ability::WireGuard, Ability::Ovpn, Ability::OvpnDco, Ability::Esp, Ability::Ppp, Ability::L2tp];

/// The start of the reason why a subject cannot run where this kernel lacks a module.
pub(crate) const NO_MODULE: &str = "this kernel has no";
/// The command that measures a subject with a kernel of Debian's, where this kernel lacks a module.
const IN_A_GUEST: &str = "`adit-lab run PLAN --guest sid` measures it in a guest";

/// Why it cannot, or nothing if it can.
pub(super) fn lacks(ability: Ability) -> Option<Availability> {
    static TRIED: OnceLock<[Option<String>; 6]> = OnceLock::new();
    let untried = |why: &str| Some(Availability::Impossible(why.to_owned()));
    if !is_root() {
        return untried("only root can try whether this kernel has it");
    }
    if program("ip").is_err() {
        return untried(
            "whether this kernel has it can be tried when `adit-lab setup` has got `ip` (iproute2)",
        );
    }
    let tried = TRIED.get_or_init(|| match Namespace::create("abilities") {
        Ok(namespace) => {
            ALL.map(|ability| attempt(&namespace, ability).err().map(|error| why(ability, &error)))
        }
        Err(error) => ALL.map(|_| Some(format!("whether this kernel has it cannot be tried here: {error}"))),
    });
    let index = ALL.iter().position(|known| *known == ability)?;
    tried.get(index)?.clone().map(Availability::Impossible)
}

fn why(ability: Ability, error: &TestbedError) -> String {
    let (what, module) = match ability {
        Ability::WireGuard => ("WireGuard", "wireguard"),
        Ability::Ovpn => ("OpenVPN's data channel (DCO)", "ovpn, since Linux 6.16"),
        Ability::OvpnDco => ("data channel of OpenVPN 2.6 (DCO)", "ovpn-dco-v2"),
        Ability::Esp => ("ESP", "esp4"),
        Ability::Ppp => ("PPP", "ppp_async"),
        Ability::L2tp => ("PPP over L2TP", "l2tp_ppp"),
    };
    let said = match error {
        TestbedError::Failed { output, .. } => output.clone(),
        other => other.to_string(),
    };
    format!("{NO_MODULE} {what} (module {module}): {said}; {IN_A_GUEST}")
}

fn attempt(namespace: &Namespace, ability: Ability) -> Result<(), TestbedError> {
    let device = |name: &str, kind: &str| namespace.ip(&["link", "add", name, "type", kind]).map(drop);
    match ability {
        Ability::WireGuard => device("try0", "wireguard"),
        Ability::Ovpn => {
            // The module names its netlink family alone, by which OpenVPN loads it, and no device type.
            load("ovpn");
            device("try1", "ovpn")
        }
        Ability::OvpnDco => device("try2", "ovpn-dco"),
        Ability::Esp => {
            // Any key will do: 32 bytes and the salt of RFC 4106.
            let key = format!("0x{}", "01".repeat(36));
            let state = "xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x100 mode tunnel aead rfc4106(gcm(aes))";
            let words: Vec<&str> = state.split(' ').chain([key.as_str(), "128"]).collect();
            namespace.ip(&words).map(drop)
        }
        Ability::Ppp => {
            load("ppp_async");
            exists("/dev/ppp")
        }
        Ability::L2tp => {
            load("l2tp_ppp");
            exists("/proc/net/pppol2tp")
        }
    }
}

/// Loads a module where there is one.
fn load(module: &str) {
    if let Ok(mut modprobe) = program("modprobe") {
        let _ = modprobe.args(["--quiet", module]).status();
    }
}

/// An error if there is no such file, which a module makes.
fn exists(path: &str) -> Result<(), TestbedError> {
    let metadata = std::fs::metadata(path);
    metadata.map(drop).map_err(|source| TestbedError::File { path: path.into(), source })
}
