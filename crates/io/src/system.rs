//! The system's network as the driver has it set up: by this process, or by a helper that has the right to.

use std::io;
use std::net::IpAddr;

use adit_core::{IpNet, Report, Severity, TunnelSettings};
use adit_system::{Resolving, RouteWatch, SystemSettings};

use crate::helper_channels::NetworkChannel;

/// The process that sets the system's network up.
#[derive(Debug)]
pub(crate) enum System {
    /// This process.
    Own(Box<SystemSettings>),
    /// Its helper.
    Helper(Box<dyn NetworkChannel>),
    /// Nothing does: there is no device.
    Untouched,
}

impl System {
    /// Restores the settings that an adit that was killed left behind. A helper has done it at its start.
    pub(crate) fn recover(&mut self) -> Vec<Report> {
        match self {
            System::Own(settings) => settings.recover(),
            System::Helper(_) | System::Untouched => Vec::new(),
        }
    }

    /// Makes the system match `settings`. Gives the failures.
    pub(crate) fn apply(&mut self, settings: &TunnelSettings) -> Vec<Report> {
        match self {
            System::Own(own) => own.apply(settings),
            System::Helper(channel) => channel.apply(settings).unwrap_or_else(|error| {
                let text = format!("the tunnel's network is not set up: its helper failed: {error}");
                vec![Report { severity: Severity::Error, path: None, text }]
            }),
            System::Untouched => Vec::new(),
        }
    }

    /// Lets these addresses be reached beside the tunnel. The next attempt shows if it failed.
    pub(crate) fn bypass(&mut self, addresses: &[IpAddr]) {
        match self {
            System::Own(own) => own.bypass(addresses),
            System::Helper(channel) => drop(channel.bypass(addresses)),
            System::Untouched => {}
        }
    }

    /// The network changed.
    pub(crate) fn follow(&mut self) {
        match self {
            System::Own(own) => own.follow(),
            System::Helper(channel) => drop(channel.follow()),
            System::Untouched => {}
        }
    }

    /// Undoes the changes of the system. A helper that is gone has done so.
    pub(crate) fn undo(&mut self) {
        match self {
            System::Own(own) => own.undo(),
            System::Helper(channel) => drop(channel.undo()),
            System::Untouched => {}
        }
    }

    /// Whether the applied settings change with the network.
    pub(crate) fn depends_on_network(&self) -> bool {
        match self {
            System::Own(own) => own.depends_on_network(),
            System::Helper(channel) => channel.depends_on_network(),
            System::Untouched => false,
        }
    }

    /// The setting that the tunnel cannot be without and has not got, and why.
    pub(crate) fn lacks(&self) -> Option<String> {
        match self {
            System::Own(own) => own.lacks().map(str::to_owned),
            System::Helper(channel) => channel.lacks(),
            System::Untouched => None,
        }
    }

    /// The addresses of the settings applied last that the device could not get.
    pub(crate) fn missing_addresses(&self) -> &[IpNet] {
        match self {
            System::Own(own) => own.missing_addresses(),
            System::Helper(channel) => channel.missing_addresses(),
            System::Untouched => &[],
        }
    }

    /// Whether all traffic goes into the tunnel, and is held up while a route is missing.
    pub(crate) fn takes_all(&self) -> bool {
        match self {
            System::Own(own) => own.takes_all(),
            System::Helper(channel) => channel.takes_all(),
            System::Untouched => false,
        }
    }

    /// How this process resolves names. A helper knows it itself.
    pub(crate) fn resolving(&self, kill_switch: bool) -> Resolving {
        match self {
            System::Own(own) => own.resolving(kill_switch),
            System::Helper(_) | System::Untouched => Resolving::System,
        }
    }

    /// Watches for changes of the network.
    pub(crate) fn watch(&mut self) -> io::Result<RouteWatch> {
        match self {
            System::Own(_) | System::Untouched => RouteWatch::new(),
            System::Helper(channel) => channel.watch(),
        }
    }
}
