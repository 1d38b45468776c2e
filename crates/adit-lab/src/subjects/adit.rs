//! adit, with the files that OpenVPN gets.

use std::path::Path;
use std::process::Command;

use super::openvpn::{Shape, start};
use super::{Availability, Subject, Tools, Tunnel, lacks_tun, version_at};
use crate::error::LabError;
use crate::ground::Ground;

/// adit at both ends.
#[derive(Debug)]
struct Adit(Shape);

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    let mut all: Vec<Box<dyn Subject>> = Vec::new();
    for tcp in [false, true] {
        for cipher in ["AES-256-GCM", "AES-128-GCM", "CHACHA20-POLY1305"] {
            all.push(Box::new(Adit(Shape { tcp, cipher, lz4: false })));
        }
    }
    all
}

impl Subject for Adit {
    fn name(&self) -> String {
        format!("adit-{}", self.0.suffix())
    }

    fn about(&self) -> String {
        format!("adit {}", self.0.words())
    }

    fn availability(&self, tools: &Tools) -> Availability {
        match version_at(&tools.adit, &["--version"]) {
            Some(version) => lacks_tun().unwrap_or(Availability::Installed(version)),
            None => Availability::Impossible(format!(
                "there is no {}; build it (cargo build --release -p adit) or say where it is (--adit)",
                tools.adit.display()
            )),
        }
    }

    fn start(&self, ground: &mut Ground, tools: &Tools) -> Result<Tunnel, LabError> {
        let command = |file: &Path| {
            let mut command = Command::new(&tools.adit);
            command.arg("up").arg(file);
            Ok(command)
        };
        start(self.0, ground, &command)
    }
}
