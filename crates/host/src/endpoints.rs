//! Files that are endpoints of one tunnel: those that name the same device, if one of them leads. This module has the
//! settings on which they must agree, and the things that they share.

mod binding;

use std::collections::BTreeSet;

use adit_core::SharedPool;
use adit_io::SharedDevice;
use adit_system::Forwarding;

pub use self::binding::{Binding, Unbound};
use super::facts::{DeviceTerms, EndpointRole, Facts};
use super::leases::Leases;

/// The things that the endpoints of a tunnel share. Clones share the same.
#[derive(Clone, Default)]
pub struct Shared {
    /// The device with its data plane.
    pub device: SharedDevice,
    /// Addresses and names.
    pub pool: SharedPool,
    /// The leases of the pool that are remembered.
    pub leases: Leases,
    /// The names of the endpoints.
    pub names: Vec<String>,
    /// The settings of the device, as those that lead state them.
    pub terms: Option<DeviceTerms>,
    /// The tunnel's forwarding, by the files of all endpoints; `None`: it forwards nothing.
    pub forwarding: Option<Forwarding>,
    /// The endpoints that lead and have not bound their sockets.
    pub binding: Binding,
}

impl Shared {
    /// The tunnel's forwarding, if `name` is the first of the endpoints: one helper forwards for all of them.
    pub fn take_forwarding(&self, name: &str) -> Option<Forwarding> {
        self.forwarding.clone().filter(|_| self.names.first().is_some_and(|first| first == name))
    }
}

/// Whether two files without others are endpoints of one tunnel.
pub fn are_one_tunnel(one: &Facts, other: &Facts) -> bool {
    LedDevices::of([one, other].into_iter()).join(one, other)
}

/// The devices that files of the process lead, by the facts of all files.
pub(crate) struct LedDevices<'a>(BTreeSet<&'a str>);

impl<'a> LedDevices<'a> {
    /// The devices of files with these facts.
    pub(crate) fn of(all: impl Iterator<Item = &'a Facts>) -> Self {
        let endpoints = all.filter_map(|facts| facts.endpoint.as_ref());
        let leading = endpoints.filter(|endpoint| matches!(endpoint.role, EndpointRole::Leads(_)));
        LedDevices(leading.map(|endpoint| endpoint.device.as_str()).collect())
    }

    /// Whether two of the files are endpoints of one tunnel: they name a device that one of them leads, or a third file.
    pub(crate) fn join(&self, one: &Facts, other: &Facts) -> bool {
        let (one, other) = (device_of(one), device_of(other));
        one.is_some_and(|device| self.0.contains(device)) && one == other
    }
}

fn device_of(facts: &Facts) -> Option<&str> {
    facts.endpoint.as_ref().map(|endpoint| endpoint.device.as_str())
}

/// A file of the process, by the name of its tunnel.
pub struct Named<'a> {
    /// The name.
    pub name: &'a str,
    /// The facts of the file.
    pub facts: &'a Facts,
}

/// The things that each of these files shares with others; `None` if it is a tunnel of its own. Files that join a tunnel share its
/// things with each other, too.
pub fn share(all: &[Named<'_>]) -> Vec<Option<Shared>> {
    let mut shared: Vec<Option<Shared>> = Vec::with_capacity(all.len());
    let led = LedDevices::of(all.iter().map(|file| file.facts));
    for (number, own) in all.iter().enumerate() {
        let is_same = |(other_number, other): &(usize, &Named<'_>)| {
            *other_number == number || led.join(own.facts, other.facts)
        };
        let members = || all.iter().enumerate().filter(is_same);
        let names: Vec<String> = members().map(|(_, member)| member.name.to_owned()).collect();
        let terms = members().find_map(|(_, member)| terms(member.facts));
        let before = members().map(|(other, _)| other).find(|other| *other < number);
        shared.push(match before.and_then(|before| shared.get(before).cloned().flatten()) {
            Some(found) => Some(found),
            None if names.len() > 1 => {
                let forwarding = forwarding(members().map(|(_, member)| member.facts));
                Some(Shared { names, terms, forwarding, ..Shared::default() })
            }
            None => None,
        });
    }
    shared
}

/// The settings of the device, if the file leads.
fn terms(facts: &Facts) -> Option<DeviceTerms> {
    match &facts.endpoint.as_ref()?.role {
        EndpointRole::Leads(lead) => Some(lead.terms),
        EndpointRole::Joins(_) => None,
    }
}

/// The forwarding of one tunnel whose endpoints have these facts; `None`: it forwards nothing.
fn forwarding<'a>(endpoints: impl Iterator<Item = &'a Facts>) -> Option<Forwarding> {
    let mut all = endpoints.filter_map(|facts| facts.forwarding.clone());
    let mut together = all.next()?;
    for one in all {
        together.networks.extend(one.networks);
        together.destinations.extend(one.destinations);
        together.ports.extend(one.ports);
    }
    Some(together)
}
