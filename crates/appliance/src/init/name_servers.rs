//! The file of name servers that the C library reads.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::paths;

/// The first word of a file in which the tunnels' process has put a tunnel's name servers, and the ending of the file's copy that
/// it puts back (`adit_system`, `dns/file.rs`).
const OF_TUNNEL: &str = "# Written by adit";
const COPY: &str = ".before-adit";

/// The name servers of the machine. Copies share them.
#[derive(Clone, Debug, Default)]
pub(super) struct NameServers(Arc<Mutex<BTreeMap<String, Vec<IpAddr>>>>);

impl NameServers {
    /// Sets the name servers that a device's lease or advertisement names, or the settings (with an empty name, which comes first).
    /// False if they were these before.
    pub(super) fn set(&self, device: &str, servers: Vec<IpAddr>) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(device) == Some(&servers) {
            return false;
        }
        all.insert(device.to_owned(), servers);
        let path = match fs::read_to_string(paths::RESOLV_CONF) {
            Ok(text) if text.starts_with(OF_TUNNEL) => format!("{}{COPY}", paths::RESOLV_CONF),
            _ => paths::RESOLV_CONF.to_owned(),
        };
        let new = format!("{path}.new");
        let _ = fs::write(&new, text(&all)).and_then(|()| fs::rename(&new, &path));
        true
    }
}

/// The file: the settings' servers, or without them those of all leases.
fn text(all: &BTreeMap<String, Vec<IpAddr>>) -> String {
    let of_settings = all.get("").filter(|servers| !servers.is_empty());
    let servers: Vec<&IpAddr> = match of_settings {
        Some(servers) => servers.iter().collect(),
        None => all.values().flatten().collect(),
    };
    servers.iter().map(|server| format!("nameserver {server}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_servers_come_in_place_of_the_leases() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut all = BTreeMap::from([("eth0".to_owned(), vec![address("192.0.2.53")])]);
        assert_eq!(text(&all), "nameserver 192.0.2.53\n");
        all.insert(String::new(), Vec::new());
        assert_eq!(text(&all), "nameserver 192.0.2.53\n");
        all.insert(String::new(), vec![address("2001:db8::53")]);
        assert_eq!(text(&all), "nameserver 2001:db8::53\n");
    }
}
