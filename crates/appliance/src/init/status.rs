//! The line that says how the machine is.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use adit_system::Netlink;

/// How often the line is written.
pub(super) const PERIOD: Duration = Duration::from_secs(60);

/// The time since the start, memory that is free, and each device with its addresses and the bytes that it received and sent.
pub(super) fn line() -> String {
    let mut line = format!("up {} s, {} MiB of memory free", uptime(), free_memory() >> 10);
    let Ok(mut netlink) = Netlink::open() else { return line };
    let addresses = netlink.device_addresses().unwrap_or_default();
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    for name in names.iter().filter(|name| *name != "lo") {
        let Ok(link) = netlink.link(name) else { continue };
        let _ = write!(line, "; {name}");
        let own =
            addresses.iter().filter(|(address, device)| *device == link.index && !is_link_local(*address));
        own.for_each(|(address, _)| {
            let _ = write!(line, " {address}");
        });
        let _ = write!(line, " received {} sent {} bytes", link.rx_bytes, link.tx_bytes);
    }
    line
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn uptime() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0)
}

/// In KiB.
fn free_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
