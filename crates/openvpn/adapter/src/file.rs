//! OpenVPN's configurations as the host knows them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use adit_core::configuration::{Disposition, Problem};
use adit_openvpn_config::{Parsed, Role};

use super::prepare::{plan, settle};
use super::tunnel::Tunnel;
use super::{configuration, facts, forwarding};
use crate::asking::Asking;
use adit_host::adapter::{self, Configuration, Setting};
use adit_host::facts::Facts;
use adit_host::failure::Failure;
use adit_host::remarks::{Notes as _, Remarks};
use adit_host::writable;
use time::OffsetDateTime;

/// Reads and checks the command line of this process ([`configuration::use_command_line`]) as the configuration `file`.
///
/// # Errors
/// When it is wrong: one problem a line.
pub(crate) fn read_command_line(file: &Path) -> Result<OpenVpnConfiguration, Failure> {
    let text = configuration::command_line().unwrap_or_default();
    let parsed = configuration::parse(file, text.as_bytes());
    let parsed = Box::new(parsed.map_err(|failure| Failure::Configuration(failure.to_string()))?);
    Ok(OpenVpnConfiguration { file: file.to_owned(), parsed })
}

/// A configuration of OpenVPN's that was read and found good.
pub(crate) struct OpenVpnConfiguration {
    file: PathBuf,
    parsed: Box<Parsed>,
}

impl OpenVpnConfiguration {
    /// The configuration of a file that was parsed.
    pub(crate) fn new(file: PathBuf, parsed: impl Into<Box<Parsed>>) -> Self {
        OpenVpnConfiguration { file, parsed: parsed.into() }
    }

    /// The values of the configuration, and the use that is made of each line.
    pub(crate) fn parsed(&self) -> &Parsed {
        &self.parsed
    }
}

impl Configuration for OpenVpnConfiguration {
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
        facts::of(&self.parsed.config)
    }

    fn check(&self, remarks: &mut Remarks) -> Result<(), Failure> {
        (self as &dyn Configuration).check_log_place()?;
        let mut parsed = Parsed::clone(&self.parsed);
        settle(&mut parsed, &self.file, remarks)?;
        if let Some(status) = &parsed.config.process.status
            && let Err(error) = writable::check(&status.path)
        {
            let path = status.path.display();
            remarks.warn(&format_args!("status {path}: it cannot be written: {error}"));
        }
        let plan = plan(&mut parsed, &self.file, &Asking::Never, remarks)?;
        let near = plan.watched().expiry.near(OffsetDateTime::now_utc());
        near.iter().for_each(|expiring| remarks.warn(expiring));
        Ok(())
    }

    fn advice(&self) -> Vec<String> {
        forwarding::told_name_servers(&self.parsed.config).into_iter().collect()
    }

    fn kill_switch_mark(&self, _number: usize) -> Result<Option<u32>, &'static str> {
        match &self.parsed.config.role {
            Role::Client(_) => Ok(self.parsed.config.socket.mark),
            Role::Server(_) | Role::PointToPoint(_) => {
                Err("clients and WireGuard files: an OpenVPN server's answers would not leave")
            }
        }
    }

    fn tunnel<'a>(self: Box<Self>, setting: Setting<'a>) -> Box<dyn adapter::Tunnel + 'a> {
        let OpenVpnConfiguration { file, parsed } = *self;
        let parsed: Arc<Parsed> = Arc::from(parsed);
        let Setting { options, name, has_others, log, shared, unbound, .. } = setting;
        let as_read = Arc::clone(&parsed);
        Box::new(Tunnel { options, file, name, has_others, parsed, as_read, log, shared, unbound })
    }
}
