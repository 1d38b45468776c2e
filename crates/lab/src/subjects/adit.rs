//! adit, with the files that OpenVPN gets.

use std::path::Path;
use std::process::Command;

use super::openvpn::{Shape, clients, start};
use super::{Availability, Subject, Tools, Tunnel, lacks_tun, version_at};
use crate::error::LabError;
use crate::testbed::Testbed;

/// The cipher of MirageVPN's own benchmark, over TCP.
const MIRAGEVPN: &str = "AES-128-GCM";

/// adit at both ends.
#[derive(Debug)]
pub(super) struct Adit(pub(super) Shape);

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    let mut all: Vec<Box<dyn Subject>> = Vec::new();
    let mut add = |tcp, cipher| all.push(Box::new(Adit(Shape { tcp, cipher, lz4: false, kernel: false })));
    for tcp in [false, true] {
        for cipher in ["AES-256-GCM", "AES-128-GCM", "CHACHA20-POLY1305"] {
            add(tcp, cipher);
        }
    }
    add(false, "AES-192-GCM");
    all
}

/// How to get adit where it is not built.
pub(crate) fn unbuilt(tools: &Tools) -> String {
    let path = tools.adit.display();
    format!("there is no {path}; build it (cargo build --release -p adit) or say where it is (--adit)")
}

/// `adit up FILE`.
pub(crate) fn command(tools: &Tools, file: &Path) -> Command {
    let mut command = Command::new(&tools.adit);
    command.arg("up").arg(file);
    command
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
            None => Availability::Unbuilt(unbuilt(tools)),
        }
    }

    fn in_memory(&self, tools: &Tools) -> Result<Vec<(String, f64)>, LabError> {
        if !self.0.tcp || self.0.cipher != MIRAGEVPN {
            return Ok(Vec::new());
        }
        let mut command = Command::new(&tools.adit);
        command.args(["bench", "--json", "--only", "miragevpn"]);
        let failed = |what: &str| LabError::Usage(format!("adit bench --json: {what}"));
        let output = command.output().map_err(|error| failed(&error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let json: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|_| failed(said.trim()))?;
        let row = json["rows"].get(0).ok_or_else(|| failed("it has no row"))?;
        let figures = [
            ("seal_ns", row["seal_ns"]["median"].as_f64()),
            ("open_ns", row["open_ns"]["median"].as_f64()),
            ("seal_mbit", row["seal_gbit"].as_f64().map(|gigabits| gigabits * 1e3)),
            ("open_mbit", row["open_gbit"].as_f64().map(|gigabits| gigabits * 1e3)),
        ];
        Ok(figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
    }

    fn clients(&self, testbed: &mut Testbed, tools: &Tools, count: u32) -> Result<Vec<Command>, LabError> {
        clients(self.0, testbed, count, &|file| Ok(command(tools, file)))
    }

    fn start(&self, testbed: &mut Testbed, tools: &Tools) -> Result<Tunnel, LabError> {
        start(self.0, testbed, &|file| Ok(command(tools, file)))
    }
}
