//! The kill switch: a table of nftables that lets nothing out but a tunnel's packets and its own datagrams.
//!
//! The table names neither a device nor an address. It knows the tunnel's device by its group, and the tunnel's datagrams
//! by their mark, so it holds before there is a tunnel, while adit is killed, and for the next one. The group is the same for
//! all tunnels, and so is the mark of those that do not choose one: the tunnels of one process have one table, and the tables of
//! several processes agree, unless a file brings a mark of its own.

mod ruleset;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::mark::MARK;
use crate::netlink::Netlink;
use crate::nftables::{self, Family, Table, Transaction};
use crate::routing;

/// The beginning of our tables' names.
const PREFIX: &str = "adit_kill_switch_";
/// Characters of the configuration file's name that the table's name has.
const LONGEST_STEM: usize = 40;

/// Why the kill switch is not as it was ordered.
#[derive(Debug, Error)]
pub enum KillSwitchError {
    /// The kernel refused a change of its nftables, or to list its tables.
    #[error("nftables refuse the kill switch: {0}; it needs root, and a kernel with nf_tables")]
    Nftables(io::Error),
    /// The kernel's routing cannot be reached.
    #[error("the kernel's routing cannot be reached: {0}")]
    Netlink(io::Error),
}

/// The kill switch of the configuration files of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillSwitch {
    table: String,
    /// Local networks may be reached.
    lan: bool,
    /// Marks beside [`MARK`].
    marks: BTreeSet<u32>,
}

impl KillSwitch {
    /// The kill switch for the tunnels of these configuration files, in any order. With `lan`, local networks (private,
    /// link-local and multicast addresses) may be reached.
    pub fn new(configurations: &[&Path], lan: bool) -> Self {
        let real = |path: &&Path| path.canonicalize().unwrap_or_else(|_| (*path).to_owned());
        let paths: BTreeSet<PathBuf> = configurations.iter().map(real).collect();
        let first = paths.first().and_then(|path| path.file_stem());
        let stem = first.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut stem: String = stem.chars().map(plain).take(LONGEST_STEM).collect();
        if let more @ 1.. = paths.len().saturating_sub(1) {
            stem.push_str(&format!("_and_{more}"));
        }
        // Two files of one name are two tunnels. No path has a zero byte.
        let mut digest = Sha256::new();
        for (number, path) in paths.iter().enumerate() {
            if number > 0 {
                digest.update([0]);
            }
            digest.update(path.as_os_str().as_encoded_bytes());
        }
        let digest: String = digest.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        KillSwitch { table: format!("{PREFIX}{stem}_{digest}"), lan, marks: BTreeSet::new() }
    }

    /// A switch that also lets datagrams with these marks out (0: none).
    pub fn with_marks(mut self, marks: impl IntoIterator<Item = u32>) -> Self {
        self.marks.extend(marks.into_iter().filter(|mark| *mark != 0));
        self
    }

    /// The name of its table, of the family `inet`.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Turns it on, or replaces it: in one step, so that nothing leaves meanwhile. It stays on until
    /// [`KillSwitch::off`], whatever becomes of this process.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn on(&self) -> Result<(), KillSwitchError> {
        let marks: Vec<u32> = [MARK].into_iter().chain(self.marks.iter().copied()).collect();
        ruleset::transaction(&inet(&self.table), &marks, self.lan).commit().map_err(KillSwitchError::Nftables)
    }

    /// Turns it off. True if it was on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn off(&self) -> Result<bool, KillSwitchError> {
        let on = KillSwitch::tables()?.contains(&self.table);
        if on {
            remove(&self.table)?;
        }
        Ok(on)
    }

    /// Turns all of them off, of whichever tunnel, and gives their tables. Rules of policy routing that a killed adit
    /// left behind go as well, as they keep packets in, too.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn all_off() -> Result<Vec<String>, KillSwitchError> {
        // Also where the kernel has no nftables.
        routing::recover(&mut Netlink::open().map_err(KillSwitchError::Netlink)?);
        let tables = KillSwitch::tables()?;
        tables.iter().try_for_each(|table| remove(table))?;
        Ok(tables)
    }

    /// The tables of all kill switches that are on.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn tables() -> Result<Vec<String>, KillSwitchError> {
        let tables = nftables::tables().map_err(KillSwitchError::Nftables)?;
        let ours = |table: &Table| table.family == Family::Inet && table.name.starts_with(PREFIX);
        Ok(tables.into_iter().filter(ours).map(|table| table.name).collect())
    }
}

fn inet(name: &str) -> Table {
    Table { family: Family::Inet, name: name.to_owned() }
}

fn remove(table: &str) -> Result<(), KillSwitchError> {
    let mut transaction = Transaction::default();
    transaction.remove_table(&inet(table));
    transaction.commit().map_err(KillSwitchError::Nftables)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::mark::DEVICE_GROUP;
    use crate::netlink::KernelRoute;
    use crate::testing::{Device, in_fresh_network};

    #[test]
    fn each_file_has_a_table_of_its_own() {
        let table = |path: &str| KillSwitch::new(&[Path::new(path)], false).table().to_owned();
        let one = table("/nonexistent/a/my client; drop.ovpn");
        assert!(one.starts_with("adit_kill_switch_my_client__drop_"), "{one}");
        assert!(one.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{one}");
        assert_ne!(one, table("/nonexistent/b/my client; drop.ovpn"));
    }

    #[test]
    fn several_files_have_one_table() {
        let [a, b] = ["/nonexistent/a.ovpn", "/nonexistent/b.ovpn"].map(Path::new);
        let table = |files: &[&Path]| KillSwitch::new(files, false).table().to_owned();
        let both = table(&[a, b]);
        assert!(both.starts_with("adit_kill_switch_a_and_1_"), "{both}");
        assert_eq!(both, table(&[b, a]), "in any order");
        assert!(![table(&[a]), table(&[b])].contains(&both));
    }

    /// Whether a datagram of this kind gets out.
    fn leaves(to: &str, marked: bool) -> bool {
        leaves_with(to, if marked { MARK } else { 0 })
    }

    fn leaves_with(to: &str, mark: u32) -> bool {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket2::SockRef::from(&socket).set_mark(mark).unwrap();
        socket.send_to(b"hello", to).is_ok()
    }

    #[test]
    fn only_the_tunnel_and_marked_datagrams_leave() {
        in_fresh_network(|| {
            let _world = routing::tests::world();
            let switch = KillSwitch::new(&[Path::new("/nonexistent/a.ovpn")], false);
            let second = KillSwitch::new(&[Path::new("/nonexistent/b.ovpn")], true);
            switch.on().unwrap();
            second.on().unwrap();
            switch.on().expect("it is replaced");
            assert_eq!(KillSwitch::tables().unwrap().len(), 2);
            let (far, lan) = ("8.8.8.8:9", "192.168.5.9:9");
            assert!(!leaves(far, false) && leaves(far, true));
            assert!(!leaves(lan, false), "the first does not allow it");
            assert!(leaves("127.0.0.1:9", false));
            assert!(!leaves_with(far, 0x99));
            let own = [&switch, &second].map(|switch| switch.clone().with_marks([0, 0x99]));
            own.iter().for_each(|switch| switch.on().unwrap());
            assert!(leaves_with(far, 0x99) && leaves(far, true) && !leaves(far, false));
            [&switch, &second].iter().for_each(|switch| switch.on().unwrap());
            assert!(!leaves_with(far, 0x99));
            // A tunnel that comes later.
            let tun = Device::new("tun%d");
            let mut netlink = Netlink::open().unwrap();
            let device = netlink.link(tun.name()).unwrap().index;
            netlink.set_up(device, true).unwrap();
            let destination = "8.8.8.8/32".parse().unwrap();
            let route = KernelRoute { destination, gateway: None, device: Some(device), metric: None };
            netlink.add_address(device, "10.8.0.2/24".parse().unwrap(), None).unwrap();
            netlink.add_route(&route).unwrap();
            assert!(!leaves(far, false), "any device");
            netlink.set_group(device, DEVICE_GROUP).unwrap();
            assert!(leaves(far, false), "the tunnel's");

            assert!(switch.off().unwrap());
            assert!(!switch.off().unwrap(), "it is off");
            assert!(leaves(lan, false) && !leaves("9.9.9.9:9", false));
            assert_eq!(KillSwitch::all_off().unwrap(), [second.table()]);
            assert!(leaves("9.9.9.9:9", false));
        });
    }
}
