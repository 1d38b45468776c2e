//! Files of swanctl as the host knows them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use adit_core::configuration::{Disposition, Failure as Unreadable, Problem};
use adit_guard::{Allowed, Dialect, Gathered};
use adit_host::adapter::{Configuration, Setting, Tunnel};
use adit_host::configuration::{is_exposed, warning};
use adit_host::facts::Facts;
use adit_host::failure::Failure;
use adit_host::remarks::{Notes as _, Remarks};
use adit_ike_config::Config;

use crate::content::{Content, check_machine, parse};
use crate::files::{Disk, read};
use crate::tunnel::IpsecTunnel;
use crate::{facts, names, updown};

/// The functions with which the helper reads a file. No tunnel replaces a file.
pub(crate) const HELPER: Dialect = Dialect {
    gather,
    rewrite: |_, _| Err(std::io::ErrorKind::PermissionDenied.into()),
    print_leases: |_| String::new(),
};

/// Reads the file in `path` again, with the files that it includes and names. Runs in the helper.
fn gather(path: &Path) -> std::io::Result<Gathered> {
    let text = read(path)?;
    let disk = Disk::default();
    let allowed = parse(path, &text, &disk).ok().map(|content| Allowed {
        names: Some(names::names(&content.planned)),
        scripts: updown::allowed(&content.planned),
        ..Allowed::default()
    });
    Ok(Gathered { text: text.to_vec(), files: disk.into_gathered(), allowed })
}

/// A file that was read and found good.
pub(crate) struct IpsecConfiguration {
    file: PathBuf,
    content: Arc<Content>,
}

impl IpsecConfiguration {
    /// Reads and checks a file whose text is given, with the files that it names.
    ///
    /// # Errors
    /// When the configuration is wrong: one problem a line.
    pub(crate) fn read(file: &Path, text: &[u8]) -> Result<Self, Unreadable> {
        let disk = Disk::default();
        let mut content = parse(file, text, &disk)?;
        let mut exposed = disk.exposed_keys();
        let config = &content.parsed.config;
        let has_secrets = !config.shared_keys.is_empty() || !config.passwords.is_empty();
        if has_secrets && is_exposed(file) {
            exposed.insert(0, file.to_owned());
        }
        content.parsed.warnings.extend(exposed.iter().map(|path| warning(path)));
        Ok(IpsecConfiguration { file: file.to_owned(), content: Arc::new(content) })
    }

    /// The content of the file.
    pub(crate) fn config(&self) -> &Config {
        &self.content.parsed.config
    }
}

impl Configuration for IpsecConfiguration {
    fn file(&self) -> &Path {
        &self.file
    }

    fn report(&self) -> &[Disposition] {
        &self.content.parsed.report
    }

    fn warnings(&self) -> &[Problem] {
        &self.content.parsed.warnings
    }

    fn facts(&self) -> Facts {
        facts::of(&self.content)
    }

    fn check(&self, remarks: &mut Remarks) -> Result<(), Failure> {
        check_machine(&self.file, &self.content.planned)?;
        for name in names::names(&self.content.planned) {
            remarks.left_open(&format_args!("{}: the address of {name}", self.file.display()));
        }
        Ok(())
    }

    fn kill_switch_mark(&self, _number: usize) -> Result<Option<u32>, &'static str> {
        Ok(Some(adit_system::MARK))
    }

    fn tunnel<'a>(self: Box<Self>, setting: Setting<'a>) -> Box<dyn Tunnel + 'a> {
        Box::new(IpsecTunnel::new(self.file, self.content, setting))
    }
}
