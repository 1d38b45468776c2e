//! `crl-verify`: reads what it names, and looks every second whether it has changed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use adit_core::{Protocol, Severity};
use adit_guard::{HelperAccess, HelperFiles, Mark};
use adit_io::Handle;
use adit_openvpn::credentials;
use adit_openvpn::request::Reply;
use adit_openvpn_config::Crl;
use adit_pki::{RevocationError, Revocations};

use super::expiry::Expiry;
use adit_host::configuration;
use adit_host::ending::Ending;
use adit_host::log::Logger;
use adit_host::terminal::{Turn, Turns};

/// How often to look. A client that was let in meanwhile goes when the change is seen.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Larger files are no revocation lists.
const MAX_FILE: u64 = 64 << 20;

/// The file or directory that is watched.
pub(crate) struct Source {
    path: PathBuf,
    directory: bool,
    /// As it was when it was read last.
    seen: Option<Mark>,
    /// Warns before a list expires.
    expiry: Expiry,
    /// The CA certificates, whose lists they should be.
    ca: Vec<u8>,
}

/// The lists that the configuration in `file` names, and what to watch for newer ones.
pub(crate) fn load(
    crl: Option<&Crl>,
    file: &Path,
    expiry: &Expiry,
) -> Result<(Option<Revocations>, Option<Source>), String> {
    let source = match crl {
        None => return Ok((None, None)),
        Some(Crl::Inline(lists)) => {
            let pem = lists.text().as_bytes();
            let lists = Revocations::from_lists(pem).map_err(|error| unusable(&error))?;
            expiry.note_lists(pem);
            return Ok((Some(lists), None));
        }
        Some(Crl::File(path)) => Source::new(configuration::find(file, path), false, expiry),
        Some(Crl::Directory(path)) => Source::new(configuration::find(file, path), true, expiry),
    };
    let content = source.read().map_err(|error| source.unreadable(&error))?;
    let lists = match source.directory {
        true => Revocations::from_serials(&content),
        false => Revocations::from_lists(&content).map_err(|error| unusable(&error))?,
    };
    source.note(&content);
    Ok((Some(lists), Some(source)))
}

fn unusable(error: &RevocationError) -> String {
    format!("crl-verify: {error}")
}

/// The lists in a configuration that is read again.
pub(crate) struct Other {
    /// The lists.
    pub(crate) lists: Option<Revocations>,
    content: Vec<u8>,
    source: Option<Source>,
}

/// The lists that a configuration names which the helper has read, but not adopted yet.
pub(crate) fn again(
    crl: Option<&Crl>,
    file: &Path,
    files: &HelperFiles,
    expiry: &Expiry,
) -> Result<Other, String> {
    let source = match crl {
        None => return Ok(Other { lists: None, content: Vec::new(), source: None }),
        Some(Crl::Inline(lists)) => {
            let content = lists.text().as_bytes().to_vec();
            let lists = Revocations::from_lists(&content).map_err(|error| unusable(&error))?;
            return Ok(Other { lists: Some(lists), content, source: None });
        }
        Some(Crl::File(path)) => Source::unread(configuration::find(file, path), false, expiry),
        Some(Crl::Directory(path)) => Source::unread(configuration::find(file, path), true, expiry),
    };
    let content = files.proposed_revocations().map_err(|error| source.unreadable(&error))?;
    let lists = match source.directory {
        true => Revocations::from_serials(&content),
        false => Revocations::from_lists(&content).map_err(|error| unusable(&error))?,
    };
    Ok(Other { lists: Some(lists), content, source: Some(source) })
}

/// Watches what `crl-verify` names, one file or directory at a time. Copies do the same.
#[derive(Clone)]
pub(crate) struct Watch {
    helper: HelperAccess,
    ending: Ending,
    log: Logger,
    turns: Turns,
}

impl Watch {
    /// Watches nothing yet, and nothing after the end of the tunnel.
    pub(crate) fn new(helper: HelperAccess, ending: Ending, log: Logger) -> Self {
        Watch { helper, ending, log, turns: Turns::default() }
    }

    /// Watches that, in place of what was watched before.
    ///
    /// # Errors
    /// When the helper is gone, or there are no more threads.
    pub(crate) fn start<P: Protocol<Reply = Reply> + 'static>(
        &self,
        source: Source,
        handle: Handle<P>,
    ) -> io::Result<()> {
        let turn = self.turns.next();
        let files = self.helper.files()?;
        source.watch(files, handle, (self.log.clone(), self.ending.clone(), turn))
    }

    /// Watches what another configuration names, or nothing.
    pub(crate) fn change<P: Protocol<Reply = Reply> + 'static>(
        &self,
        Other { content, source, .. }: Other,
        handle: Handle<P>,
        (ca, expiry): (&[u8], &Expiry),
    ) {
        let Some(mut source) = source else {
            drop(self.turns.next());
            return expiry.note_lists(&content);
        };
        source.set_authorities(ca);
        source.note(&content);
        if let Err(error) = self.start(source, handle) {
            let text = format_args!("crl-verify: changes of it are not seen: {error}");
            self.log.clone().log(Severity::Warning, text);
        }
    }
}

impl Source {
    /// One that counts as changed when it is looked at first.
    fn unread(path: PathBuf, directory: bool, expiry: &Expiry) -> Self {
        Source { path, directory, seen: None, expiry: expiry.clone(), ca: Vec::new() }
    }

    fn new(path: PathBuf, directory: bool, expiry: &Expiry) -> Self {
        let mut source = Source::unread(path, directory, expiry);
        source.seen = source.mark().ok();
        source
    }

    /// Notes when the lists expire; names in a directory do not.
    fn note(&self, content: &[u8]) {
        if !self.directory {
            self.expiry.note_lists(content);
        }
    }

    /// The lists should be of these CA certificates, as PEM.
    pub(crate) fn set_authorities(&mut self, ca: &[u8]) {
        self.ca = ca.to_vec();
    }

    /// Warnings about lists of other authorities.
    fn of_other_authorities(&self, content: &[u8]) -> Vec<String> {
        if self.directory {
            return Vec::new();
        }
        // The protocol reports a list that cannot be read.
        Revocations::from_lists(content)
            .map_or_else(|_| Vec::new(), |lists| credentials::warnings_of_lists(&self.ca, &lists))
    }

    /// The lists, or the names in the directory, one a line.
    fn read(&self) -> io::Result<Vec<u8>> {
        if !self.directory {
            if fs::metadata(&self.path)?.len() > MAX_FILE {
                return Err(io::Error::other("it is too large for a revocation list"));
            }
            return fs::read(&self.path);
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            if let Some(name) = entry?.file_name().to_str() {
                names.extend_from_slice(name.as_bytes());
                names.push(b'\n');
            }
        }
        Ok(names)
    }

    fn mark(&self) -> io::Result<Mark> {
        let metadata = fs::metadata(&self.path)?;
        Ok((metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino()))
    }

    fn unreadable(&self, error: &io::Error) -> String {
        format!("crl-verify: {} cannot be read: {error}", self.path.display())
    }

    /// The file or directory that is watched.
    pub(crate) fn watched(&self) -> adit_guard::Revocations {
        adit_guard::Revocations { path: self.path.clone(), is_directory: self.directory }
    }

    /// Gives the protocol each change that the helper sees, until the tunnel has ended. A list that cannot be read is
    /// logged, once; the lists read before stay in force, as with OpenVPN.
    fn watch<P: Protocol<Reply = Reply> + 'static>(
        mut self,
        files: HelperFiles,
        handle: Handle<P>,
        (mut log, ending, turn): (Logger, Ending, Turn),
    ) -> io::Result<()> {
        let mut complained = false;
        thread::Builder::new().name("adit-crl".to_owned()).spawn(move || {
            loop {
                if turn.is_over() {
                    return;
                }
                let looked = files.revocation_mark().and_then(|mark| match self.seen == Some(mark) {
                    true => Ok(None),
                    false => files.revocations().map(|content| Some((mark, content))),
                });
                match looked {
                    Ok(None) => {}
                    Ok(Some((mark, content))) => {
                        self.seen = Some(mark);
                        complained = false;
                        self.note(&content);
                        for warning in self.of_other_authorities(&content) {
                            log.log(Severity::Warning, warning);
                        }
                        if !handle.reply(Reply::RevocationList(content)) {
                            return;
                        }
                    }
                    Err(error) if !complained => {
                        complained = true;
                        let why = self.unreadable(&error);
                        log.log(
                            Severity::Warning,
                            format_args!("{why}; the list read before stays in force"),
                        );
                    }
                    Err(_) => {}
                }
                if ending.wait(LOOK_EVERY) {
                    return;
                }
            }
        })?;
        Ok(())
    }
}
