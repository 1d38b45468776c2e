//! The kernel's parameters of forwarding (ip-sysctl.rst in the kernel's documentation).

use std::fs;
use std::io;
use std::path::Path;

/// The directory of the parameters.
const ROOT: &str = "/proc/sys/net";
/// The parameter that turns on the forwarding of IPv4 for all devices.
const FORWARD_V4: &str = "ipv4/ip_forward";
/// The parameter that turns on the forwarding of IPv6 for all devices.
const FORWARD_V6: &str = "ipv6/conf/all/forwarding";

/// A parameter with a value. The path begins below `net`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sysctl {
    pub(super) path: String,
    pub(super) value: String,
}

impl Sysctl {
    fn new(path: impl Into<String>, value: impl Into<String>) -> Self {
        Sysctl { path: path.into(), value: value.into() }
    }

    /// Its name, as sysctl(8) writes it.
    pub(super) fn name(&self) -> String {
        format!("net/{}", self.path)
    }

    /// Sets it.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn set(&self) -> io::Result<()> {
        fs::write(Path::new(ROOT).join(&self.path), &self.value)
    }
}

/// The parameters to set so that packets are forwarded, and those to set so that all is as before, both in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) set: Vec<Sysctl>,
    pub(super) restore: Vec<Sysctl>,
    /// The plan turns the forwarding of IPv4 on: it was off.
    pub(super) turns_v4_on: bool,
    /// The plan turns the forwarding of IPv6 on: it was off.
    pub(super) turns_v6_on: bool,
}

/// The plan for packets of a tunnel's device, of these families.
pub(super) fn plan(device: &str, v4: bool, v6: bool) -> Plan {
    let mut plan = Plan::default();
    if v4 {
        plan.forward_v4(device);
    }
    if v6 {
        plan.forward_v6(device);
    }
    plan
}

impl Plan {
    fn forward_v4(&mut self, device: &str) {
        if read(FORWARD_V4).as_deref() != Some("0") {
            // A new device has the default, which may be another.
            let own = format!("ipv4/conf/{device}/forwarding");
            if read(&own).as_deref() == Some("0") {
                self.set.push(Sysctl::new(&own, "1"));
                self.restore.push(Sysctl::new(own, "0"));
            }
            return;
        }
        self.turns_v4_on = true;
        self.set.push(Sysctl::new(FORWARD_V4, "1"));
        self.restore.push(Sysctl::new(FORWARD_V4, "0"));
        // A change of `ip_forward` changes `forwarding` and `accept_redirects`, too (inet_forward_change in net/ipv4/devinet.c).
        self.keep_forwarding("ipv4", device);
        let redirects = "ipv4/conf/all/accept_redirects";
        if read(redirects).as_deref() == Some("0") {
            self.restore.push(Sysctl::new(redirects, "0"));
        }
    }

    fn forward_v6(&mut self, device: &str) {
        if read(FORWARD_V6).as_deref() != Some("0") {
            return;
        }
        self.turns_v6_on = true;
        self.restore.push(Sysctl::new(FORWARD_V6, "0"));
        // A router heeds router advertisements with 2 alone, and forgets its default route (accept_ra).
        for name in devices("ipv6")
            .into_iter()
            .filter(|name| ![device, "lo", "all", "default"].contains(&name.as_str()))
        {
            let path = format!("ipv6/conf/{name}/accept_ra");
            if read(&path).as_deref() == Some("1") {
                self.set.push(Sysctl::new(&path, "2"));
                self.restore.push(Sysctl::new(path, "1"));
            }
        }
        self.keep_forwarding("ipv6", device);
        self.set.push(Sysctl::new(FORWARD_V6, "1"));
    }

    /// Has the plan turn `forwarding` on again, when all is as before, for the devices that have it on now.
    fn keep_forwarding(&mut self, family: &str, device: &str) {
        for name in devices(family).into_iter().filter(|name| name != device && name != "all") {
            let path = format!("{family}/conf/{name}/forwarding");
            if read(&path).as_deref() == Some("1") {
                self.restore.push(Sysctl::new(path, "1"));
            }
        }
    }
}

/// Sets a parameter back. A device that is gone needs nothing. A value of `accept_ra` that another program has set since stays.
pub(super) fn restore(before: &Sysctl) {
    let is_others = before.path.ends_with("/accept_ra") && read(&before.path).as_deref() != Some("2");
    if !is_others {
        let _ = before.set();
    }
}

fn devices(family: &str) -> Vec<String> {
    let entries = fs::read_dir(Path::new(ROOT).join(family).join("conf")).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(ROOT).join(path)).ok()?;
    Some(text.trim().to_owned())
}

/// Whether the system has IPv6.
pub(super) fn has_v6() -> bool {
    Path::new(ROOT).join(FORWARD_V6).exists()
}
