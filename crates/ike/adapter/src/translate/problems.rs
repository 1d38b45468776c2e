//! The problems of a file that can be read and not carried out.

use std::fmt;

use adit_core::configuration::Problem;
use adit_core::escaped;
use adit_ike_config::{Connection, DscpCopy, Padding, Place};

use crate::driver::IKE_PORT;

/// The problems that were found so far.
#[derive(Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    /// One more, if it is not there yet: a certificate may serve two purposes.
    pub(super) fn add(&mut self, place: &Place, text: impl Into<String>) {
        let problem = Problem { file: place.file.to_string(), line: Some(place.line), text: text.into() };
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// The value. An error is a problem with what `name` names.
    pub(super) fn unless<T>(
        &mut self,
        place: &Place,
        name: &str,
        value: Result<T, impl fmt::Display>,
    ) -> Option<T> {
        value.map_err(|error| self.add(place, format!("{}: {error}", escaped(name)))).ok()
    }

    /// The value, if there is no problem.
    pub(super) fn or<T>(self, value: T) -> Result<T, Vec<Problem>> {
        if self.0.is_empty() { Ok(value) } else { Err(self.0) }
    }

    /// Adds the settings that are not carried out and that change what is carried or how safe it is.
    pub(super) fn refuse_missing(&mut self, of: &Connection) {
        if of.local_port.is_some_and(|port| port != IKE_PORT) {
            self.add(of.places.of("local_port"), "`local_port`: the ports are 500 and 4500; leave it out");
        }
        for child in &of.children {
            if child.tfc_padding != Padding::None {
                let text = "`tfc_padding`: packets are not padded, so that their lengths show; leave it out";
                self.add(child.places.of("tfc_padding"), text);
            }
            match child.replay_window {
                Some(0) => {
                    let text = "`replay_window`: replayed packets are always refused; leave it out, or write a number of packets";
                    self.add(child.places.of("replay_window"), text);
                }
                Some(packets) if packets > LARGEST_WINDOW => {
                    let text = format!("`replay_window`: {LARGEST_WINDOW} packets are the most");
                    self.add(child.places.of("replay_window"), text);
                }
                _ => {}
            }
        }
    }
}

/// The settings that have no effect so far, and without which a connection is as safe. `has_dscp`: the connections of the file have one
/// DSCP.
pub(super) fn without_effect(of: &Connection, has_dscp: bool) -> Vec<Problem> {
    let mut warnings = Problems::default();
    if of.dscp != 0 && !has_dscp {
        let text = "`dscp` has no effect, as the connections of the file differ: give all of them the same";
        warnings.add(of.places.of("dscp"), text);
    }
    for child in &of.children {
        if matches!(child.copy_dscp, DscpCopy::In | DscpCopy::Both) {
            let text =
                "`copy_dscp`: the DSCP of received packets stays as their sender set it: write `out` or `no`";
            warnings.add(child.places.of("copy_dscp"), text);
        }
        if child.inactivity.is_some() && of.children.len() > 1 {
            let text = "`inactivity` has no effect, as traffic is counted by peer: put the child into a connection of its own";
            warnings.add(child.places.of("inactivity"), text);
        }
        if !child.copy_df {
            let text = "`copy_df` has no effect: one socket sends the packets of all peers, with DF as the system sets it";
            warnings.add(child.places.of("copy_df"), text);
        }
        if child.icmp {
            let text =
                "`icmp` has no effect so far: an ICMP error passes if its source is within `remote_ts`";
            warnings.add(child.places.of("icmp"), text);
        }
    }
    warnings.0
}

/// The largest replay window in packets: 8 KiB of memory for a child SA.
const LARGEST_WINDOW: u32 = 1 << 16;
