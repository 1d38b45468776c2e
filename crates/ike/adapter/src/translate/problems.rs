//! The problems of a file that can be read and not carried out.

use std::fmt;

use adit_core::configuration::Problem;
use adit_core::escaped;
use adit_ike_config::{Connection, DscpCopy, InterfaceId, Padding, Place};

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
        let settings = [
            ("if_id_in", of.if_id_in != InterfaceId::None, NO_DEVICE),
            ("if_id_out", of.if_id_out != InterfaceId::None, NO_DEVICE),
            (
                "local_port",
                of.local_port.is_some_and(|port| port != IKE_PORT),
                "the ports are 500 and 4500; leave it out",
            ),
        ];
        for (key, _, why) in settings.into_iter().filter(|(_, is_set, _)| *is_set) {
            self.add(of.places.of(key), format!("`{key}`: {why}"));
        }
        for child in &of.children {
            let settings = [
                ("if_id_in", child.if_id_in != InterfaceId::None, NO_DEVICE),
                ("if_id_out", child.if_id_out != InterfaceId::None, NO_DEVICE),
                ("policies", !child.policies, NO_DEVICE),
                ("updown", child.updown.is_some(), "programs are not run yet; leave it out"),
            ];
            for (key, _, why) in settings.into_iter().filter(|(_, is_set, _)| *is_set) {
                self.add(child.places.of(key), format!("`{key}`: {why}"));
            }
        }
    }
}

/// The settings that have no effect so far, and without which a connection is as safe.
pub(super) fn without_effect(of: &Connection) -> Vec<Problem> {
    let mut warnings = Problems::default();
    if of.dscp != 0 {
        warnings.add(of.places.of("dscp"), "`dscp` has no effect so far");
    }
    for child in &of.children {
        let settings = [
            ("rekey_bytes", child.bytes.rekey.is_some()),
            ("rekey_packets", child.packets.rekey.is_some()),
            ("inactivity", child.inactivity.is_some()),
            ("tfc_padding", child.tfc_padding != Padding::None),
            ("replay_window", child.replay_window.is_some()),
            ("copy_df", !child.copy_df),
            ("copy_ecn", !child.copy_ecn),
            ("copy_dscp", child.copy_dscp != DscpCopy::Out),
            ("icmp", child.icmp),
        ];
        for (key, _) in settings.into_iter().filter(|(_, is_set)| *is_set) {
            warnings.add(child.places.of(key), format!("`{key}` has no effect so far"));
        }
    }
    warnings.0
}

const NO_DEVICE: &str = "child SAs have no devices of their own yet; leave it out";
