//! The devices of connections that have one of their own. They are there from the start of the tunnel to its end.

use std::collections::BTreeMap;

use adit_core::{DeviceId, Severity};
use adit_host::adapter::Setting;
use adit_host::failure::Failure;
use adit_host::log::Logger;
use adit_ike::machine::{Connection, Endpoint};
use adit_io::{Driver, TunConfig};
use adit_system::Netlink;

use crate::settings;
use crate::translate::{OwnDevice, Planned};

/// The devices, by their names.
#[derive(Clone, Default)]
pub(crate) struct Devices(BTreeMap<String, Made>);

/// A device as it was made.
#[derive(Clone)]
struct Made {
    id: DeviceId,
    device: OwnDevice,
}

impl Devices {
    /// Makes the devices of the connections, which are up and without a carrier. Nothing is left behind on an error.
    ///
    /// # Errors
    /// The device that cannot be had, and why.
    pub(crate) fn make(
        driver: &mut Driver<Endpoint>,
        setting: &mut Setting<'_>,
        connections: &[(&Planned, &Connection)],
    ) -> Result<Self, Failure> {
        let mut devices = Devices::default();
        for (planned, _) in connections {
            let Some(device) = &planned.device else { continue };
            if devices.0.contains_key(&device.name) {
                continue;
            }
            let config = TunConfig {
                name: Some(device.name.clone()),
                mtu: Some(mtu(device, connections)?.into()),
                offloads: setting.options.offloads,
                ..TunConfig::default()
            };
            let fault = |error| Failure::World(format!("{}: {error}", planned.place));
            let id = driver.add_device(&config, &device.addresses).map_err(fault)?;
            if let Err(error) = driver.follow_peers(id) {
                say_no_carrier(&mut setting.log, device, &error);
            }
            devices.0.insert(device.name.clone(), Made { id, device: device.clone() });
        }
        Ok(devices)
    }

    /// Gives the connections their devices.
    pub(crate) fn assign<'a>(&self, both: impl Iterator<Item = (&'a Planned, &'a mut Connection)>) {
        for (planned, connection) in both {
            let made = planned.device.as_ref().and_then(|device| self.0.get(&device.name));
            connection.device = made.map_or(DeviceId::MAIN, |made| made.id);
        }
    }

    /// Whether the connections of a file that was read again have devices that were made at the start.
    ///
    /// # Errors
    /// The first connection that would need another device.
    pub(crate) fn check(&self, planned: &[Planned]) -> Result<(), String> {
        for one in planned {
            let Some(device) = &one.device else { continue };
            if self.0.get(&device.name).is_none_or(|made| made.device != *device) {
                return Err(format!(
                    "{}: the device {} and its addresses are made at the start alone: restart the tunnel",
                    one.place, device.name
                ));
            }
        }
        Ok(())
    }

    /// The device of that number. `None`: it is the tunnel's.
    pub(crate) fn get(&self, id: DeviceId) -> Option<&OwnDevice> {
        self.0.values().find(|made| made.id == id).map(|made| &made.device)
    }
}

/// The MTU that the paths to the peers of a device leave.
fn mtu(device: &OwnDevice, connections: &[(&Planned, &Connection)]) -> Result<u16, Failure> {
    let no_netlink = |error| Failure::World(format!("the system does not tell its routes: {error}"));
    let of_device = || connections.iter().filter(|(planned, _)| planned.device.as_ref() == Some(device));
    let peers: Vec<_> = of_device()
        .flat_map(|(_, connection)| settings::peer_addresses(std::slice::from_ref(*connection)))
        .collect();
    let path = Netlink::open().and_then(|mut netlink| netlink.path_mtu(&peers)).map_err(no_netlink)?;
    let planned: Vec<Planned> = of_device().map(|(planned, _)| (*planned).clone()).collect();
    Ok(settings::mtu(&planned, path))
}

fn say_no_carrier(log: &mut Logger, device: &OwnDevice, error: &std::io::Error) {
    let text = format_args!("the link of {} stays up while no peer is connected: {error}", device.name);
    log.log(Severity::Warning, text);
}
