//! A tunnel that only moves packets.

use std::process::Command;

use super::{Availability, Subject, Tools, Tunnel, lacks_tun};
use crate::error::LabError;
use crate::testbed::{INNER, OUTER, PORT, Testbed, bring_up};

/// The MTU of the device: such a tunnel has no overhead to leave room for.
const MTU: u16 = 1500;
const DEVICE: &str = "null0";

/// The bound for a tunnel in user space with offloads: no encryption, no checksums, no cutting.
#[derive(Debug)]
pub(super) struct Null;

impl Subject for Null {
    fn name(&self) -> String {
        "null".to_owned()
    }

    fn about(&self) -> String {
        "a tunnel that moves packets and does nothing else".to_owned()
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        lacks_tun().unwrap_or(Availability::Installed("the lab's own".to_owned()))
    }

    fn start(&self, testbed: &mut Testbed, tools: &Tools) -> Result<Tunnel, LabError> {
        let command = |own: usize| {
            let mut command = Command::new(&tools.lab);
            let address = |end: usize| format!("{}:{PORT}", OUTER[end]);
            command.args(["null".to_owned(), DEVICE.to_owned(), address(own), address(1 - own)]);
            command
        };
        testbed.start_server(command(0))?;
        bring_up(&testbed.server, DEVICE, INNER[0], MTU)?;
        let started = testbed.start_client(command(1), |client| bring_up(client, DEVICE, INNER[1], MTU))?;
        Ok(Tunnel::up(started))
    }
}
