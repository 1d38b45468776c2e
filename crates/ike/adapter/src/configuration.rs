//! Files of swanctl as the host knows them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use adit_core::UnixTime;
use adit_core::configuration::{Disposition, Failure as Unreadable, Problem};
use adit_guard::{Allowed, Dialect, Gathered};
use adit_host::adapter::{Adapter, Configuration, Setting, Tunnel};
use adit_host::blocking::{BlockError, BlockOrder};
use adit_host::configuration::{is_exposed, warning};
use adit_host::facts::Facts;
use adit_host::failure::Failure;
use adit_host::remarks::{Notes as _, Remarks};
use adit_ike::machine::{Endpoint, Limits, Params, Sockets};
use adit_ike_config::{Files, Parsed, is_recognized};

use crate::files::{Disk, Read, read};
use crate::translate::{self, Planned};
use crate::tunnel::IpsecTunnel;
use crate::{NAME, blocked, facts, names};

/// IKEv2 and IPsec.
#[derive(Debug)]
pub struct Ipsec;

impl Adapter for Ipsec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "IPsec"
    }

    fn recognizes(&self, text: &[u8]) -> bool {
        is_recognized(text)
    }

    fn read(&self, file: &Path, text: &[u8]) -> Result<Box<dyn Configuration>, Unreadable> {
        let disk = Disk::default();
        let mut content = parse(file, text, &disk)?;
        let mut exposed = disk.exposed_keys();
        let config = &content.parsed.config;
        let has_secrets = !config.shared_keys.is_empty() || !config.passwords.is_empty();
        if has_secrets && is_exposed(file) {
            exposed.insert(0, file.to_owned());
        }
        content.parsed.warnings.extend(exposed.iter().map(|path| warning(path)));
        Ok(Box::new(IpsecConfiguration { file: file.to_owned(), content: Arc::new(content) }))
    }

    fn helper_files(&self) -> Dialect {
        HELPER
    }

    fn set_blocked(&self, order: &BlockOrder<'_>) -> Option<Result<String, BlockError>> {
        blocked::set(order)
    }
}

/// The content of a file, and the connections that the machine is to have.
pub(crate) struct Content {
    pub(crate) parsed: Parsed,
    pub(crate) planned: Vec<Planned>,
}

/// The content of a file whose text is given.
///
/// # Errors
/// When the file is wrong: one problem a line.
pub(crate) fn parse(file: &Path, text: &[u8], files: &dyn Files) -> Result<Content, Unreadable> {
    let name = file.display().to_string();
    let mut parsed = adit_ike_config::parse(&name, text, files)?;
    parsed.warnings.extend(translate::without_effect(&parsed.config));
    let planned = translate::connections(&parsed.config);
    let empty = || {
        let text = "there is no connection: add `connections { NAME { … } }`".to_owned();
        vec![Problem { file: name.clone(), line: None, text }]
    };
    match planned.and_then(|planned| if planned.is_empty() { Err(empty()) } else { Ok(planned) }) {
        Ok(planned) => Ok(Content { parsed, planned }),
        Err(problems) => Err(Unreadable { problems, report: parsed.report }),
    }
}

/// The content of a file as the helper has read it.
///
/// # Errors
/// When the file is wrong: one problem a line.
pub(crate) fn parse_gathered(file: &Path, gathered: &Gathered) -> Result<Content, String> {
    if !is_recognized(&gathered.text) {
        return Err(format!("{}: it is no file of swanctl any more", file.display()));
    }
    parse(file, &gathered.text, &Read(gathered)).map_err(|failure| failure.to_string())
}

/// The functions with which the helper reads a file. No tunnel replaces a file.
const HELPER: Dialect = Dialect {
    gather,
    rewrite: |_, _| Err(std::io::ErrorKind::PermissionDenied.into()),
    print_leases: |_| String::new(),
};

/// Reads the file in `path` again, with the files that it includes and names. Runs in the helper.
fn gather(path: &Path) -> std::io::Result<Gathered> {
    let text = read(path)?;
    let disk = Disk::default();
    let allowed = parse(path, &text, &disk)
        .ok()
        .map(|content| Allowed { names: Some(names::names(&content.planned)), ..Allowed::default() });
    Ok(Gathered { text: text.to_vec(), files: disk.into_gathered(), allowed })
}

/// A file that was read and found good.
struct IpsecConfiguration {
    file: PathBuf,
    content: Arc<Content>,
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

/// Whether the machine takes the connections. The address of a name stands open: in its place is one for documentation (RFC 5737).
pub(crate) fn check_machine(file: &Path, planned: &[Planned]) -> Result<(), Failure> {
    let params = Params {
        connections: names::with_stand_ins(planned),
        sockets: Sockets::default(),
        limits: Limits::default(),
        tunnel: None,
        wall_at_origin: UnixTime(0),
    };
    let made = Endpoint::new(params, adit_core::Instant::ORIGIN, [0; 32]);
    made.map(drop).map_err(|error| Failure::Configuration(format!("{}: {error}", file.display())))
}
