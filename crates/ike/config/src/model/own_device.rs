use adit_core::IpNet;

use super::Place;

/// The settings of adit's own about the device of a connection: `#adit: CONNECTION.device` and `#adit: CONNECTION.addresses`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnDevice {
    /// The first line about it.
    pub place: Place,
    /// Its name. `None`: the file does not say it.
    pub name: Option<String>,
    /// Its addresses with the lengths of their networks.
    pub addresses: Vec<IpNet>,
}
