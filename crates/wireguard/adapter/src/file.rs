//! wg-quick's files as the host knows them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use adit_core::configuration::{Disposition, Problem};
use adit_wireguard_config::Parsed;

use super::wg_quick::Tunnel;
use super::{facts, prepare};
use crate::network;
use adit_host::adapter::{self, Configuration, Setting};
use adit_host::facts::Facts;
use adit_host::failure::Failure;
use adit_host::remarks::Remarks;

/// A file of wg-quick's that was read and found good.
pub(crate) struct WireGuardConfiguration {
    file: PathBuf,
    parsed: Arc<Parsed>,
}

impl WireGuardConfiguration {
    /// The file that was parsed.
    pub(crate) fn new(file: PathBuf, parsed: impl Into<Arc<Parsed>>) -> Self {
        WireGuardConfiguration { file, parsed: parsed.into() }
    }
}

impl Configuration for WireGuardConfiguration {
    fn file(&self) -> &Path {
        &self.file
    }

    fn report(&self) -> &[Disposition] {
        &self.parsed.report
    }

    fn warnings(&self) -> &[Problem] {
        &self.parsed.warnings
    }

    fn facts(&self) -> Facts {
        facts::of(&self.file, &self.parsed.config)
    }

    fn check(&self, remarks: &mut Remarks) -> Result<(), Failure> {
        prepare::prepare(&self.file, &self.parsed, remarks).map(drop)
    }

    fn kill_switch_mark(&self, number: usize) -> Result<Option<u32>, &'static str> {
        Ok(Some(network::kill_switch_mark(&self.parsed.config, number)))
    }

    fn tunnel<'a>(self: Box<Self>, setting: Setting<'a>) -> Box<dyn adapter::Tunnel + 'a> {
        let WireGuardConfiguration { file, parsed } = *self;
        let Setting { options, name, number, has_others, log, shared, .. } = setting;
        Box::new(Tunnel { options, file, name, number, has_others, parsed, log, shared })
    }
}
