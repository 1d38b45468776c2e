//! The wire alone.

use super::{Availability, Subject, Tools, Tunnel};
use crate::error::LabError;
use crate::testbed::Testbed;

/// No tunnel at all: the bound for everything.
#[derive(Debug)]
pub(super) struct Veth;

impl Subject for Veth {
    fn name(&self) -> String {
        "veth".to_owned()
    }

    fn about(&self) -> String {
        "the wire alone, no tunnel".to_owned()
    }

    fn availability(&self, _tools: &Tools) -> Availability {
        Availability::Installed("part of the kernel".to_owned())
    }

    fn start(&self, _ground: &mut Testbed, _tools: &Tools) -> Result<Tunnel, LabError> {
        Ok(Tunnel { inner: false, starts: Vec::new() })
    }
}
