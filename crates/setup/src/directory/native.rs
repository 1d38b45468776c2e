//! The frame of the work on the protocol that operating systems speak by themselves.

use std::path::{Path, PathBuf};

use adit_core::IpNet;
use adit_pki::issue::Authority;
use time::OffsetDateTime;
use zeroize::Zeroizing;

use super::{DEFAULT_DEVICE, Directory, REVOKED, SERVER};
use crate::authority;
use crate::files;
use crate::index::{Index, Kind, Owner};
use crate::names::SERVER_NAME;
use crate::passphrase::passphrase;
use crate::{
    ClientName, Endpoint, Layout, Login, NativeClient, NativeServer, Protocols, Renewed, Second, SetupError,
    SetupFile,
};

/// The tunnel that a new server of the protocol shares.
pub(super) struct SharedTunnel {
    /// `server.conf`, whose device has a fixed name.
    pub(super) text: Zeroizing<String>,
    pub(super) device: String,
    layout: Layout,
}

impl SharedTunnel {
    pub(super) fn tunnel(&self) -> Tunnel<'_> {
        Tunnel { device: &self.device, layout: &self.layout, is_alone: false }
    }
}

/// The tunnel of a new server.
pub(super) struct Tunnel<'a> {
    pub(super) device: &'a str,
    pub(super) layout: &'a Layout,
    /// No other protocol is in it.
    pub(super) is_alone: bool,
}

/// The values of a new server's files beside those of its tunnel.
pub(super) struct ServerFacts<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) authority: &'a Authority,
    /// The list of revoked certificates as PEM.
    pub(super) revoked: &'a str,
    pub(super) now: OffsetDateTime,
}

/// A client that was made.
pub struct MadeNative {
    /// The files and folders to hand over.
    pub paths: Vec<PathBuf>,
    /// The proof of the client's identity.
    pub login: Login,
}

impl Directory {
    /// Adds the protocol to the directory, and gives the path of its server's file.
    ///
    /// # Errors
    /// Why the directory does not have it.
    pub fn add_native_server(&mut self, device: Option<&str>) -> Result<PathBuf, SetupError> {
        let path = self.native_file();
        if path.exists() {
            return Err(SetupError::HasKeys(self.lacking_native()));
        }
        let host = self.index.endpoint.host.clone();
        if self.index.has(&host, None) {
            return Err(SetupError::ServersName(host));
        }
        let (server, protocols) = (self.dir.join(SERVER), self.protocols);
        let old = files::read(&server)?;
        let tunnel = shared_tunnel(protocols, (server.as_path(), old.as_str()), device)?;
        let authority = self.authority()?;
        let revoked = files::read(&self.dir.join(REVOKED))?;
        let facts = ServerFacts {
            endpoint: &self.index.endpoint.clone(),
            authority: &authority,
            revoked: &revoked,
            now: OffsetDateTime::now_utc(),
        };
        let new = server_files(protocols, &tunnel.tunnel(), &facts, &mut self.index)?;
        self.write_index()?;
        if *tunnel.text != *old {
            files::write(&server, tunnel.text.as_bytes(), files::Access::Owner, files::Existing::Replace)?;
            let device = &tunnel.device;
            self.note(format!("server.conf has `dev {device}` now: restart the server"));
        }
        // Its own file is the last: without it the directory does not have the protocol.
        new.iter().try_for_each(|file| files::write_below(&self.dir, file))?;
        Ok(path)
    }

    /// Makes a client with a certificate, or with a password.
    ///
    /// # Errors
    /// Why there is no such client now.
    pub fn add_native_client(
        &mut self,
        name: &ClientName,
        with_password: bool,
    ) -> Result<MadeNative, SetupError> {
        self.native_server()?;
        self.refuse_servers_name(name)?;
        let of = Some(self.protocols.native.name());
        let (index, word) = (&self.index, name.as_str());
        let is_begun = index.has_unfinished(word, of) || index.has_unfinished_user(word);
        let is_taken = index.has(word, of) || index.has_user(word);
        let left = self.native_paths(name).into_iter().next();
        if is_taken || left.is_some() && !is_begun {
            return Err(self.native_name_taken(name, left));
        }
        self.write_native_client(name, with_password)
    }

    /// Makes new certificates or passwords for clients, with their files. Certificates from before stay valid until they expire or are
    /// revoked; passwords do not. Gives the clients in the order of their names.
    ///
    /// # Errors
    /// Why not, or not for all.
    pub fn renew_native(&mut self, names: &[ClientName]) -> Result<Vec<MadeNative>, SetupError> {
        self.native_server()?;
        let of = Some(self.protocols.native.name());
        let is_client =
            |name: &ClientName| self.index.is_client(name.as_str(), of) || self.index.has_user(name.as_str());
        if let Some(unknown) = names.iter().find(|name| !is_client(name)) {
            return Err(SetupError::NoSuchClient(unknown.to_string()));
        }
        let renew = |name: &ClientName| {
            let has_password = self.index.has_user(name.as_str());
            self.write_native_client(name, has_password)
        };
        names.iter().map(renew).collect()
    }

    fn write_native_client(
        &mut self,
        name: &ClientName,
        with_password: bool,
    ) -> Result<MadeNative, SetupError> {
        let (protocol, now, authority) =
            (self.protocols.native, OffsetDateTime::now_utc(), self.authority()?);
        let of = Some(protocol.name());
        let password = passphrase()?;
        let login = if with_password {
            self.index.begin_user(name.as_str(), now);
            Login::Password(password)
        } else {
            let names = protocol.client_names(name);
            let owner = Owner { protocol: of, names: &names, ..Owner::new(Kind::Client, name.as_str()) };
            let issued = authority::issue(&authority, owner, now, &mut self.index)?;
            self.index.begin();
            Login::Certificate { issued, password }
        };
        let networks = self.native_networks()?;
        let endpoint = &self.index.endpoint;
        let made = protocol.client(&NativeClient {
            name,
            endpoint,
            networks: &networks,
            authority: &authority,
            login: &login,
        })?;
        // The index first: a certificate that is about must be known, or it could never be revoked.
        self.write_index()?;
        made.iter().try_for_each(|file| files::write_below(&self.dir, file))?;
        match with_password {
            true => self.index.finish_user(name.as_str()),
            false => self.index.finish(name.as_str(), of),
        }
        self.write_index()?;
        Ok(MadeNative { paths: self.native_paths(name), login })
    }

    /// Whether the directory has the protocol.
    pub fn has_native(&self) -> bool {
        self.native_file().exists()
    }

    /// The file of the protocol's server, in a directory that has one.
    ///
    /// # Errors
    /// The directory has none.
    pub fn native_server(&self) -> Result<PathBuf, SetupError> {
        let path = self.native_file();
        if path.exists() { Ok(path) } else { Err(SetupError::NoKeys(self.lacking_native())) }
    }

    fn native_file(&self) -> PathBuf {
        self.dir.join(self.protocols.native.file())
    }

    /// The networks that clients reach: those of the tunnel of `server.conf`, or of the server's own.
    fn native_networks(&self) -> Result<Vec<IpNet>, SetupError> {
        if self.is_alone() {
            let path = self.native_file();
            let networks = self.protocols.native.networks(&path, &files::read(&path)?);
            return networks.map_err(SetupError::KeyFile);
        }
        let path = self.dir.join(SERVER);
        layout(self.protocols, &path, &files::read(&path)?).map(|layout| layout.routes)
    }

    /// Refuses what needs `server.conf` in a directory without it.
    pub(super) fn refuse_alone(&self) -> Result<(), SetupError> {
        if self.is_alone() { Err(SetupError::Alone(self.lacking_native())) } else { Ok(()) }
    }

    /// The files and folders of a client that are there.
    pub(super) fn native_paths(&self, name: &ClientName) -> Vec<PathBuf> {
        let all = self.protocols.native.client_paths(name);
        all.into_iter().map(|path| self.dir.join(path)).filter(|path| path.exists()).collect()
    }

    /// Takes the password of a client from the server's files, if it has one.
    pub(super) fn remove_password(&self, name: &str) -> Result<(), SetupError> {
        let name = name.parse::<ClientName>();
        let path = name.map(|name| self.dir.join(self.protocols.native.password_file(&name)));
        match path {
            Ok(path) if path.exists() => files::remove(&path),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Brings the server's files to what the index and the list of revoked certificates say: a command was interrupted before it did.
    pub(super) fn complete_native(&mut self) -> Result<(), SetupError> {
        if !self.has_native() {
            return Ok(());
        }
        let list = files::read(&self.dir.join(REVOKED))?;
        for file in self.renewed(&Renewed { revoked: Some(list.as_str()), ..Renewed::default() }) {
            let written = files::read(&self.dir.join(&file.path));
            if !written.is_ok_and(|text| text.as_bytes() == file.content.as_slice()) {
                files::write_below(&self.dir, &file)?;
            }
        }
        let revoked: Vec<String> = self.index.revoked_users().map(str::to_owned).collect();
        revoked.iter().try_for_each(|name| self.remove_password(name))
    }

    /// The parts of the server's files that state what was made anew; none in a directory without the protocol.
    pub(super) fn renewed(&self, renewed: &Renewed<'_>) -> Vec<SetupFile> {
        if self.has_native() { self.protocols.native.renewed(renewed) } else { Vec::new() }
    }

    /// The parts of the server's files with a new certificate, which is noted in the index.
    pub(super) fn renewed_native_server(
        &mut self,
        authority: &Authority,
        now: OffsetDateTime,
    ) -> Result<Vec<SetupFile>, SetupError> {
        if !self.has_native() {
            return Ok(Vec::new());
        }
        let endpoint = self.index.endpoint.clone();
        let names = self.protocols.native.server_names(&endpoint);
        let issued = authority::issue(authority, server_owner(self.protocols, &names), now, &mut self.index)?;
        Ok(self.renewed(&Renewed { issued: Some(&issued), ..Renewed::default() }))
    }

    /// A client with the server's name could pass for the server.
    pub(super) fn refuse_servers_name(&self, name: &ClientName) -> Result<(), SetupError> {
        let is_servers = name.as_str().eq_ignore_ascii_case(&self.index.endpoint.host);
        if is_servers && self.has_native() { Err(SetupError::ServersName(name.to_string())) } else { Ok(()) }
    }

    fn lacking_native(&self) -> Second {
        let protocol = self.protocols.native;
        Second { dir: self.dir.clone(), title: protocol.title(), option: protocol.name() }
    }

    fn native_name_taken(&self, name: &ClientName, left: Option<PathBuf>) -> SetupError {
        let option = self.protocols.native.name();
        let advice = match left {
            Some(path) => format!("it has {}; choose another name for another client", path.display()),
            None => format!(
                "choose another name, or make new files for it: adit renew {} {name} --{option}",
                self.dir.display()
            ),
        };
        SetupError::NameTaken { name: name.to_string(), advice }
    }
}

/// The tunnel of the configuration `text`, which stands in `path` or is about to, with a device of a fixed name.
pub(super) fn shared_tunnel(
    protocols: Protocols,
    (path, text): (&Path, &str),
    device: Option<&str>,
) -> Result<SharedTunnel, SetupError> {
    let title = protocols.native.title();
    let failed = |why| SetupError::Server { title, why };
    let wanted = device.unwrap_or(DEFAULT_DEVICE);
    let text = protocols.certificate.with_device(path, text, wanted).map_err(failed)?;
    let layout = layout(protocols, path, &text)?;
    let found = layout.device.clone().unwrap_or_default();
    if found != wanted && device.is_some() {
        return Err(failed(format!(
            "it has `dev {found}`, and all protocols share the device: leave out --dev, or write `dev {wanted}` there"
        )));
    }
    Ok(SharedTunnel { text, device: found, layout })
}

/// The files of a new server, with a certificate that is noted in the index.
pub(super) fn server_files(
    protocols: Protocols,
    tunnel: &Tunnel<'_>,
    facts: &ServerFacts<'_>,
    index: &mut Index,
) -> Result<Vec<SetupFile>, SetupError> {
    let names = protocols.native.server_names(facts.endpoint);
    let issued = authority::issue(facts.authority, server_owner(protocols, &names), facts.now, index)?;
    protocols.native.server(&NativeServer {
        endpoint: facts.endpoint,
        layout: tunnel.layout,
        device: tunnel.device,
        is_alone: tunnel.is_alone,
        made: Renewed {
            issued: Some(&issued),
            authority: Some(facts.authority.certificate()),
            revoked: Some(facts.revoked),
        },
    })
}

fn server_owner<'a>(protocols: Protocols, names: &'a [adit_pki::issue::IkeName]) -> Owner<'a> {
    Owner { protocol: Some(protocols.native.name()), names, ..Owner::new(Kind::Server, SERVER_NAME) }
}

fn layout(protocols: Protocols, path: &Path, text: &str) -> Result<Layout, SetupError> {
    let title = protocols.native.title();
    protocols.certificate.layout(path, text, None).map_err(|why| SetupError::Server { title, why })
}
