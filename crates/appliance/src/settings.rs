//! The settings of the machine: a file `appliance.conf` of lines `name = value`, with a section for each network device.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

/// The port of syslog over UDP (RFC 5426, section 3.3).
const SYSLOG: u16 = 514;
/// The longest name of a network device in bytes (linux/if.h `IFNAMSIZ`, without the end).
const LONGEST_DEVICE: usize = 15;

/// The settings of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The machine's name.
    pub(crate) hostname: Option<String>,
    /// Name servers, in place of those that a lease names.
    pub(crate) name_servers: Vec<IpAddr>,
    /// Time servers, in place of those that a lease names.
    pub(crate) time_servers: Vec<IpAddr>,
    /// The server that gets all lines of the log.
    pub(crate) syslog: Option<SocketAddr>,
    /// The kill switch of the tunnels.
    pub(crate) kill_switch: Option<KillSwitch>,
    /// The devices that have a section.
    pub(crate) devices: BTreeMap<String, Device>,
}

/// The packets that leave beside the tunnels: those of the tunnels themselves, and with [`KillSwitch::Lan`] packets to local networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KillSwitch {
    /// Nothing else.
    On,
    /// Packets to local networks.
    Lan,
}

/// The settings of a network device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    /// Addresses by DHCP.
    pub(crate) dhcp: bool,
    /// Addresses by router advertisements (RFC 4862).
    pub(crate) router_advertisements: bool,
    /// Static addresses.
    pub(crate) addresses: Vec<IpNet>,
    /// The next hops of default routes, one of a family.
    pub(crate) gateways: Vec<IpAddr>,
    /// Devices by which packets that come in by this one may leave.
    pub(crate) forward: Vec<String>,
}

impl Device {
    /// A device with addresses by DHCP and by router advertisements.
    pub(crate) fn automatic() -> Self {
        Device { dhcp: true, router_advertisements: true, ..Device::default() }
    }
}

impl Settings {
    /// Reads the file's text.
    ///
    /// # Errors
    /// The number of the first wrong line, from 1, with the fault and what would be right.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut settings = Settings::default();
        let mut section: Option<String> = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let result = match line.strip_prefix('[') {
                _ if line.is_empty() => Ok(()),
                Some(rest) => settings.begin(rest, &mut section),
                None => settings.set(line, section.as_deref()),
            };
            result.map_err(|fault| format!("{}: {fault}", index + 1))?;
        }
        Ok(settings)
    }

    /// The settings of a device of this machine.
    pub(crate) fn device(&self, name: &str) -> Device {
        self.devices.get(name).cloned().unwrap_or_else(Device::automatic)
    }

    fn begin(&mut self, rest: &str, section: &mut Option<String>) -> Result<(), String> {
        let name = rest.strip_suffix(']').map(str::trim).filter(|name| is_device(name));
        let name =
            name.ok_or_else(|| format!("`[{rest}`: a section is a device's name, such as `[eth0]`"))?;
        if self.devices.insert(name.to_owned(), Device::default()).is_some() {
            return Err(format!("`[{name}]` stands above already: one section for a device"));
        }
        *section = Some(name.to_owned());
        Ok(())
    }

    fn set(&mut self, line: &str, section: Option<&str>) -> Result<(), String> {
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!("`{line}`: write a name, `=` and a value"));
        };
        let (name, value) = (name.trim(), value.trim());
        match section.and_then(|section| self.devices.get_mut(section)) {
            Some(device) => device.set(name, value),
            None => self.set_of_machine(name, value),
        }
    }

    fn set_of_machine(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "hostname" => self.hostname = Some(hostname(value)?),
            "dns" => self.name_servers = list(name, value, "an address, such as 192.0.2.53")?,
            "ntp" => self.time_servers = list(name, value, "an address, such as 192.0.2.123")?,
            "syslog" => self.syslog = Some(syslog(value)?),
            "kill-switch" => self.kill_switch = kill_switch(value)?,
            _ => {
                return Err(format!(
                    "`{name}`: hostname, dns, ntp, syslog and kill-switch are known here, and [eth0] begins a device's section"
                ));
            }
        }
        Ok(())
    }
}

impl Device {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "address" => {
                for word in words(value) {
                    self.add_address(word)?;
                }
            }
            "gateway" => self.gateways = list(name, value, "an address, such as 192.0.2.1")?,
            "forward" => {
                let devices: Vec<String> = words(value).map(str::to_owned).collect();
                if let Some(wrong) = devices.iter().find(|name| !is_device(name)) {
                    return Err(format!("`forward = {wrong}`: the name of a device is needed, such as tun0"));
                }
                self.forward = devices;
            }
            _ => return Err(format!("`{name}`: a device has address, gateway and forward")),
        }
        Ok(())
    }

    fn add_address(&mut self, word: &str) -> Result<(), String> {
        match word {
            "dhcp" => self.dhcp = true,
            "ra" => self.router_advertisements = true,
            _ => self.addresses.push(IpNet::from_str(word).map_err(|_| {
                format!("`address = {word}`: dhcp, ra or an address with its length is needed, such as 192.0.2.2/24")
            })?),
        }
        Ok(())
    }
}

fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn list<T: FromStr>(name: &str, value: &str, right: &str) -> Result<Vec<T>, String> {
    words(value)
        .map(|word| word.parse().map_err(|_| format!("`{name} = {word}`: {right} is needed")))
        .collect()
}

fn hostname(value: &str) -> Result<String, String> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    // linux/utsname.h `__NEW_UTS_LEN`.
    match is_plain && (1..=64).contains(&value.len()) {
        true => Ok(value.to_owned()),
        false => Err(format!("`hostname = {value}`: letters, digits, `-` and `.` are needed, 64 at most")),
    }
}

fn syslog(value: &str) -> Result<SocketAddr, String> {
    let alone = value.parse().map(|address: IpAddr| SocketAddr::new(address, SYSLOG));
    alone.or_else(|_| value.parse()).map_err(|_| {
        format!("`syslog = {value}`: an address is needed, with or without a port, such as 192.0.2.9:514")
    })
}

fn kill_switch(value: &str) -> Result<Option<KillSwitch>, String> {
    match value {
        "on" => Ok(Some(KillSwitch::On)),
        "lan" => Ok(Some(KillSwitch::Lan)),
        "off" => Ok(None),
        _ => Err(format!("`kill-switch = {value}`: on, lan or off is needed")),
    }
}

/// Whether a device can have that name.
fn is_device(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/:[]".contains(&byte));
    is_plain && (1..=LONGEST_DEVICE).contains(&name.len()) && name != "." && name != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_machines_settings_and_a_section_for_each_device() {
        let text = "hostname = gate\ndns = 192.0.2.53, 2001:db8::53 # both\nsyslog = 192.0.2.9\nkill-switch = lan\n\n[eth0]\naddress = dhcp\n\
                    [eth1]\naddress = 10.1.0.1/24, fd00:1::1/64\nforward = tun0\n";
        let settings = Settings::read(text).unwrap();
        assert_eq!(settings.hostname.as_deref(), Some("gate"));
        assert_eq!(settings.name_servers.len(), 2);
        assert_eq!(settings.syslog, Some("192.0.2.9:514".parse().unwrap()));
        assert_eq!(settings.kill_switch, Some(KillSwitch::Lan));
        assert_eq!(settings.device("eth0"), Device { dhcp: true, ..Device::default() });
        let inside = settings.device("eth1");
        assert_eq!((inside.addresses.len(), inside.forward), (2, vec!["tun0".to_owned()]));
        assert_eq!(settings.device("eth2"), Device::automatic());
    }

    #[test]
    fn a_wrong_line_is_named_with_what_would_be_right() {
        for (text, wanted) in [
            ("\ndns = name\n", "2: `dns = name`: an address"),
            ("[eth0]\naddress = 192.0.2.2\n", "2: `address = 192.0.2.2`: dhcp, ra or"),
            ("[a/b]\n", "1: `[a/b]`"),
            ("[eth0]\n[eth0]\n", "2: `[eth0]` stands above"),
            ("address = dhcp\n", "1: `address`: hostname, dns"),
            ("[eth0]\ndns = 192.0.2.53\n", "2: `dns`: a device has"),
            ("hostname = a b\n", "1: `hostname = a b`"),
            ("dns\n", "1: `dns`: write a name"),
            ("syslog = x\n", "1: `syslog = x`"),
            ("kill-switch = yes\n", "1: `kill-switch = yes`: on, lan or off"),
        ] {
            let fault = Settings::read(text).unwrap_err();
            assert!(fault.starts_with(wanted), "{text:?}: {fault}");
        }
    }
}
