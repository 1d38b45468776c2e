//! The frame of the work on the keys of the second protocol.

use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{DEFAULT_DEVICE, Directory, SERVER};
use crate::files::{self, Access, Existing};
use crate::{
    ClientName, Endpoint, KeyOptions, KeyServer, Layout, MadeClient, Protocols, Room, Second, SetupError,
};

/// The files of a server that begins to have the second protocol.
pub(super) struct BothServers {
    pub(super) device: String,
    /// `server.conf`, with room for clients of the second protocol.
    pub(super) first: Zeroizing<String>,
    pub(super) second: Zeroizing<String>,
}

impl Directory {
    /// Adds the second protocol to the directory, and gives the path of its server's file.
    ///
    /// # Errors
    /// Why the directory does not have it.
    pub fn add_key_server(&mut self, options: &KeyOptions) -> Result<PathBuf, SetupError> {
        self.refuse_alone()?;
        let before = self.index.keys.clone();
        if before.as_ref().is_some_and(|keys| !keys.unfinished) {
            return Err(SetupError::HasKeys(self.lacking()));
        }
        let server = self.dir.join(SERVER);
        let old = files::read(&server)?;
        let new =
            both_servers(self.protocols, (server.as_path(), old.as_str()), &self.index.endpoint, options)?;
        let path = self.dir.join(format!("{}.conf", new.device));
        let left = before.map(|before| self.dir.join(format!("{}.conf", before.device)));
        if path.exists() && left.as_ref() != Some(&path) {
            return Err(SetupError::FileExists(path));
        }
        self.index.begin_keys(&new.device);
        if let Some(left) = left.filter(|left| *left != path) {
            // An interrupted attempt made it, for another device.
            files::remove(&left)?;
        }
        self.write_index()?;
        files::write(&path, new.second.as_bytes(), Access::Owner, Existing::Replace)?;
        if *new.first != *old {
            files::write(&server, new.first.as_bytes(), Access::Owner, Existing::Replace)?;
            self.notes.push(format!(
                "server.conf has `dev {}` now, and a pool of the lower half of its network: restart the server",
                new.device
            ));
        }
        self.index.finish_keys();
        self.write_index()?;
        Ok(path)
    }

    /// Makes a client of the second protocol, perhaps with a QR code.
    ///
    /// # Errors
    /// Why there is no such client now.
    pub fn add_key_client(&mut self, name: &ClientName, with_code: bool) -> Result<MadeClient, SetupError> {
        self.refuse_alone()?;
        self.protocols.key.add_client(self, name, with_code)
    }

    /// Makes new keys for clients of the second protocol, and gives the files that were written.
    ///
    /// # Errors
    /// Why not, or not for all.
    pub fn renew_keys(&mut self, names: &[ClientName]) -> Result<Vec<PathBuf>, SetupError> {
        self.protocols.key.renew(self, names)
    }

    /// The file of the second protocol's server, in a directory that has one.
    ///
    /// # Errors
    /// When the directory has none.
    pub fn key_server(&self) -> Result<PathBuf, SetupError> {
        match &self.index.keys {
            Some(keys) if !keys.unfinished => Ok(self.dir.join(format!("{}.conf", keys.device))),
            _ => Err(SetupError::NoKeys(self.lacking())),
        }
    }

    /// The tunnel of the server.
    ///
    /// # Errors
    /// When the second protocol cannot share it.
    pub fn layout(&self) -> Result<Layout, SetupError> {
        let path = self.dir.join(SERVER);
        layout(self.protocols, &path, &files::read(&path)?)
    }

    /// The words of errors about a directory with or without the second protocol.
    fn lacking(&self) -> Second {
        let protocol = self.protocols.key;
        Second { dir: self.dir.clone(), title: protocol.title(), option: protocol.name() }
    }

    /// The error that no address is left for the second protocol.
    pub fn no_address(&self) -> SetupError {
        let Protocols { certificate, key, .. } = self.protocols;
        SetupError::NoAddress { key: key.title(), certificate: certificate.title() }
    }
}

/// The files of both protocols for the configuration `text`, which stands in `path` or is about to.
pub(super) fn both_servers(
    protocols: Protocols,
    (path, text): (&Path, &str),
    endpoint: &Endpoint,
    options: &KeyOptions,
) -> Result<BothServers, SetupError> {
    let title = protocols.key.title();
    let failed = |why| SetupError::Server { title, why };
    let wanted = options.device.as_deref().unwrap_or(DEFAULT_DEVICE);
    let room = Room { device: wanted, other: title };
    let first = protocols.certificate.with_room(path, text, room).map_err(failed)?;
    let layout = layout(protocols, path, &first)?;
    let device = layout.device.as_deref().unwrap_or("tun");
    if device != wanted && options.device.is_some() {
        return Err(failed(format!(
            "it has `dev {device}`, and both protocols share the device: leave out --dev, or write `dev {wanted}` there"
        )));
    }
    protocols.key.check_device(device).map_err(|why| failed(format!("`dev {device}`: {why}")))?;
    let second = protocols.key.server(endpoint, &layout, &KeyServer { device, port: options.port })?;
    Ok(BothServers { device: device.to_owned(), first, second })
}

fn layout(protocols: Protocols, path: &Path, text: &str) -> Result<Layout, SetupError> {
    let title = protocols.key.title();
    protocols.certificate.layout(path, text, Some(title)).map_err(|why| SetupError::Server { title, why })
}
