//! A server's directory: the work of commands on its certificates, and the frame of the work on its keys.

mod keys;
mod native;

use std::fs;
use std::path::{Path, PathBuf};

use adit_pki::inspect;
use adit_pki::issue::Authority;
use time::OffsetDateTime;
use zeroize::Zeroizing;

pub use self::native::MadeNative;
use self::native::ServerFacts;
use crate::authority;
use crate::files::{self, Access, Existing, NewDirectory};
use crate::index::{Index, Kind, Owner};
use crate::names::SERVER_NAME;
use crate::{
    ClientName, Endpoint, KeyOptions, Layout, Networks, NewClient, NewServer, Proto, Protocols, Reach,
    Renewed, SetupError, SystemUser,
};

/// The server's configuration.
pub const SERVER: &str = "server.conf";

/// The authority's certificate.
pub const AUTHORITY: &str = "pki/ca.crt";

/// The device of a tunnel with a second protocol, unless another is asked for.
pub const DEFAULT_DEVICE: &str = "adit0";

/// Every certificate issued.
const INDEX: &str = "pki/index.json";

/// The list of revoked certificates.
const REVOKED: &str = "crl.pem";

/// A server's directory, locked for the time it is open.
pub struct Directory {
    /// The path of the directory.
    pub dir: PathBuf,
    /// The certificates and keys. [`Directory::write_index`] keeps changes.
    pub index: Index,
    protocols: Protocols,
    notes: Vec<String>,
    _lock: fs::File,
}

/// The facts about a new server.
pub struct Wanted<'a> {
    /// The way by which clients reach the server.
    pub endpoint: &'a Endpoint,
    /// The transport.
    pub proto: Proto,
    /// The account that the server runs as.
    pub user: &'a SystemUser,
    /// The networks that clients reach beyond the server.
    pub reach: &'a Reach,
    /// The options of the second protocol, if the server has it.
    pub keys: Option<&'a KeyOptions>,
    /// The options of the protocol that operating systems speak by themselves, if the server has it.
    pub native: Option<&'a NativeOptions>,
}

/// The facts about a new server that has the protocol alone which operating systems speak by themselves.
pub struct WantedAlone<'a> {
    /// The way by which clients reach the server.
    pub endpoint: &'a Endpoint,
    /// The networks that clients reach beyond the server.
    pub reach: &'a Reach,
    /// The options of the protocol.
    pub native: &'a NativeOptions,
}

/// The options of a new server of a [`NativeProtocol`](crate::NativeProtocol).
#[derive(Clone, Debug, Default)]
pub struct NativeOptions {
    /// The device of the tunnel, where `server.conf` names none.
    pub device: Option<String>,
}

/// The outcome of [`Directory::renew_authority`].
pub struct RenewedAuthority {
    /// The files that were written.
    pub files: Vec<PathBuf>,
    /// The end of the old certificate.
    pub old_end: Option<OffsetDateTime>,
    /// The end of the new certificate.
    pub end: Option<OffsetDateTime>,
}

impl Directory {
    /// Makes a server's directory: all of it, or nothing.
    ///
    /// # Errors
    /// Why there is none.
    pub fn create(dir: &Path, protocols: Protocols, wanted: &Wanted<'_>) -> Result<(), SetupError> {
        let now = OffsetDateTime::now_utc();
        let new = NewDirectory::beside(dir)?;
        let authority = authority::create(now)?;
        let secret = protocols.certificate.new_secret()?;
        let mut index = Index::new(wanted.endpoint.clone(), wanted.proto, SERVER_NAME, protocols.key.name());
        let issued = authority::issue(&authority, Owner::new(Kind::Server, SERVER_NAME), now, &mut index)?;
        let networks = Networks::choose()?;
        let revoked = authority::revocation_list(&authority, &mut index, now)?;
        // A server may look for the list from the directory where it was started, so the path must be whole.
        let path = std::path::absolute(dir).unwrap_or_else(|_| dir.into()).join(REVOKED);
        let mut text = protocols.certificate.server(&NewServer {
            index: &index,
            networks: &networks,
            user: wanted.user,
            reach: wanted.reach,
            revoked: &path,
            authority: &authority,
            issued: &issued,
            secret: &secret,
        });
        let made = match wanted.keys {
            Some(options) => Some(keys::both_servers(
                protocols,
                (Path::new(SERVER), text.as_str()),
                wanted.endpoint,
                options,
            )?),
            None => None,
        };
        if let Some(made) = &made {
            text.clone_from(&made.first);
            index.begin_keys(&made.device);
            index.finish_keys();
        }
        let native = match wanted.native {
            Some(options) => {
                let of = (Path::new(SERVER), text.as_str());
                let tunnel = native::shared_tunnel(protocols, of, options.device.as_deref())?;
                let endpoint = wanted.endpoint;
                let facts = ServerFacts { endpoint, authority: &authority, revoked: &revoked, now };
                let files = native::server_files(protocols, &tunnel.tunnel(), &facts, &mut index)?;
                text.clone_from(&tunnel.text);
                files
            }
            None => Vec::new(),
        };
        protocols.certificate.check(&text, SERVER)?;

        new.directory("pki")?;
        new.directory("clients")?;
        new.file(AUTHORITY, authority.certificate().as_bytes(), Access::Everybody)?;
        new.file("pki/ca.key", authority.key_pem().as_bytes(), Access::Owner)?;
        new.file(secret.file, secret.text.as_bytes(), Access::Owner)?;
        new.file(INDEX, index.to_json().as_bytes(), Access::Owner)?;
        new.file(REVOKED, revoked.as_bytes(), Access::Everybody)?;
        new.file(SERVER, text.as_bytes(), Access::Owner)?;
        if let Some(made) = &made {
            new.file(&format!("{}.conf", made.device), made.second.as_bytes(), Access::Owner)?;
        }
        native.iter().try_for_each(|file| new.file_below(file))?;
        new.settle(dir)
    }

    /// Makes a server's directory without `server.conf`: all of it, or nothing.
    ///
    /// # Errors
    /// Why there is none.
    pub fn create_alone(
        dir: &Path,
        protocols: Protocols,
        wanted: &WantedAlone<'_>,
    ) -> Result<(), SetupError> {
        let now = OffsetDateTime::now_utc();
        let new = NewDirectory::beside(dir)?;
        let authority = authority::create(now)?;
        let (endpoint, key) = (wanted.endpoint, protocols.key.name());
        let mut index = Index::new(endpoint.clone(), Proto::Udp, SERVER_NAME, key);
        let revoked = authority::revocation_list(&authority, &mut index, now)?;
        let device = wanted.native.device.as_deref().unwrap_or(DEFAULT_DEVICE);
        let layout = Layout::of_new(&Networks::choose()?, wanted.reach, device);
        let facts = ServerFacts { endpoint, authority: &authority, revoked: &revoked, now };
        let tunnel = native::Tunnel { device, layout: &layout, is_alone: true };
        let files = native::server_files(protocols, &tunnel, &facts, &mut index)?;
        new.directory("pki")?;
        new.directory("clients")?;
        new.file(AUTHORITY, authority.certificate().as_bytes(), Access::Everybody)?;
        new.file("pki/ca.key", authority.key_pem().as_bytes(), Access::Owner)?;
        new.file(INDEX, index.to_json().as_bytes(), Access::Owner)?;
        new.file(REVOKED, revoked.as_bytes(), Access::Everybody)?;
        files.iter().try_for_each(|file| new.file_below(file))?;
        new.settle(dir)
    }

    /// Whether the directory has no `server.conf`.
    pub fn is_alone(&self) -> bool {
        self.has_native() && !self.dir.join(SERVER).exists()
    }

    /// Opens a directory that [`Directory::create`] made, waiting until no other process has it open, and completes the
    /// work of an interrupted command.
    ///
    /// # Errors
    /// When it cannot be opened, read or completed.
    pub fn open(dir: &Path, protocols: Protocols) -> Result<Self, SetupError> {
        let path = dir.join(INDEX);
        if !Self::is_made(dir) {
            return Err(SetupError::NotOurs(dir.into()));
        }
        let lock = files::lock(&dir.join("pki"))?;
        for directory in [dir.to_owned(), dir.join("pki"), dir.join("clients")] {
            files::remove_temporary_files(&directory);
        }
        let index = Index::parse(&files::read(&path)?, protocols.key)
            .map_err(|why| SetupError::Index { path: path.clone(), why })?;
        let mut directory = Directory { dir: dir.into(), index, protocols, notes: Vec::new(), _lock: lock };
        directory.complete_revocations()?;
        directory.complete_keys()?;
        directory.complete_native()?;
        Ok(directory)
    }

    /// Whether there is a directory that [`Directory::create`] made.
    pub fn is_made(dir: &Path) -> bool {
        dir.join(INDEX).exists()
    }

    /// The way by which clients reach the server.
    pub fn endpoint(&self) -> &Endpoint {
        &self.index.endpoint
    }

    /// Keeps a note for the user.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The notes for the user besides the outcome. Each is given once.
    pub fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Makes the list of revoked certificates anew if the index knows of one that is not in it: `adit revoke` was
    /// interrupted between the two.
    fn complete_revocations(&mut self) -> Result<(), SetupError> {
        let listed = files::read(&self.dir.join(REVOKED)).map(|list| inspect::serials_listed(&list));
        let missing = self.index.revoked_but_not_in(&listed.unwrap_or_default());
        if missing.is_empty() {
            return Ok(());
        }
        let names = missing.into_iter().collect::<Vec<_>>().join(", ");
        let authority = self.authority()?;
        self.publish(&authority, OffsetDateTime::now_utc())?;
        self.notes.push(format!(
            "an earlier `adit revoke` was interrupted before {REVOKED} listed {names}; it does now"
        ));
        Ok(())
    }

    /// Takes the keys that the index has as revoked out of the server of the second protocol: a command was interrupted before it did.
    fn complete_keys(&mut self) -> Result<(), SetupError> {
        let protocol = self.protocols.key;
        for name in protocol.remove_revoked(self)? {
            protocol.shut_out(self, &name)?;
            self.notes.push(format!(
                "an earlier command was interrupted before {}'s file lost a revoked key of {name}; it has now",
                protocol.title()
            ));
        }
        Ok(())
    }

    /// Makes a client's certificate and profile, and gives the profile's path.
    ///
    /// # Errors
    /// Why there is no such client now.
    pub fn add_client(&mut self, name: &ClientName) -> Result<PathBuf, SetupError> {
        let now = OffsetDateTime::now_utc();
        self.refuse_alone()?;
        let profile = self.profile(name);
        self.refuse_servers_name(name)?;
        if self.is_interrupted(name, &profile) {
            self.notes.push("an earlier `adit add-client` was interrupted after it made the profile".into());
            return self.finish(name, profile);
        }
        if self.index.has(name.as_str(), None) || profile.exists() {
            return Err(self.name_taken(name, &profile));
        }
        let authority = self.authority()?;
        let text = self.new_profile(name, &authority, now)?;
        self.index.begin();
        // The index first: a certificate that is about must be known, or it could never be revoked.
        self.write_index()?;
        files::write(&profile, text.as_bytes(), Access::Owner, Existing::Keep)?;
        self.finish(name, profile)
    }

    /// Whether an earlier attempt came as far as the profile, but not to its end.
    fn is_interrupted(&self, name: &ClientName, profile: &Path) -> bool {
        let serial = files::read(profile).ok().and_then(|text| self.serial_in(&text));
        serial.is_some_and(|serial| self.index.is_unfinished(name.as_str(), &serial))
    }

    /// The serial number of the certificate in a configuration.
    fn serial_in(&self, text: &str) -> Option<String> {
        inspect::serial(self.protocols.certificate.certificate(text)?)
    }

    fn finish(&mut self, name: &ClientName, profile: PathBuf) -> Result<PathBuf, SetupError> {
        self.index.finish(name.as_str(), None);
        self.write_index()?;
        Ok(profile)
    }

    fn name_taken(&self, name: &ClientName, profile: &Path) -> SetupError {
        let advice = if profile.exists() {
            format!("its profile is {}; choose another name for another client", profile.display())
        } else {
            format!(
                "choose another name, or make a new profile for it: adit renew {} {name}",
                self.dir.display()
            )
        };
        SetupError::NameTaken { name: name.to_string(), advice }
    }

    /// A client's profile with a new certificate, which is noted in the index.
    fn new_profile(
        &mut self,
        name: &ClientName,
        authority: &Authority,
        now: OffsetDateTime,
    ) -> Result<Zeroizing<String>, SetupError> {
        let issued =
            authority::issue(authority, Owner::new(Kind::Client, name.as_str()), now, &mut self.index)?;
        let protocol = self.protocols.certificate;
        let client = NewClient { name, index: &self.index, authority, issued: &issued, now };
        let text = protocol.client(&self.dir, &client)?;
        protocol.check(&text, &format!("{name}.{}", protocol.ending()))?;
        Ok(text)
    }

    /// Shuts a client out: puts all its certificates on the list of revoked ones, takes its keys out of the file and the running
    /// server of the second protocol, and removes its files. False if all that was revoked before.
    ///
    /// # Errors
    /// Why it is not shut out.
    pub fn revoke(&mut self, name: &ClientName) -> Result<bool, SetupError> {
        let now = OffsetDateTime::now_utc();
        if !self.index.knows(name.as_str()) {
            return Err(SetupError::NoSuchClient(name.to_string()));
        }
        let new = self.index.revoke(name.as_str(), now);
        let authority = self.authority()?;
        self.publish(&authority, now)?;
        let protocol = self.protocols.key;
        protocol.remove_revoked(self)?;
        protocol.shut_out(self, name.as_str())?;
        self.remove_password(name.as_str())?;
        // The files may have been handed over and deleted.
        let files = std::iter::once(self.profile(name)).chain(protocol.files(self, name));
        for path in files.chain(self.native_paths(name)).collect::<Vec<_>>() {
            let removed = if path.is_dir() { files::remove_folder(&path) } else { files::remove(&path) };
            if let Err(error) = removed {
                self.notes.push(format!("it is revoked, but {error}; delete that file"));
            }
        }
        if self.index.has_had_certificate(name.as_str()) && !self.is_alone() {
            self.notes.extend(self.revocation_advice());
        }
        Ok(new)
    }

    /// Issues a new certificate, with a new key, for the server if no client is named and else for these clients, and
    /// makes the list of revoked certificates anew. Gives the files that were written. Certificates from before stay
    /// valid until they expire or are revoked.
    ///
    /// # Errors
    /// Why there are no new certificates.
    pub fn renew(&mut self, names: &[ClientName]) -> Result<Vec<PathBuf>, SetupError> {
        let now = OffsetDateTime::now_utc();
        if let Some(unknown) = names.iter().find(|name| !self.index.is_client(name.as_str(), None)) {
            return Err(self.no_profile(unknown));
        }
        let authority = self.authority()?;
        let (mut files, mut native) = (Vec::new(), Vec::new());
        if names.is_empty() {
            if !self.is_alone() {
                files.push((self.dir.join(SERVER), self.renewed_server(&authority, now)?));
            }
            native = self.renewed_native_server(&authority, now)?;
        }
        for name in names {
            files.push((self.profile(name), self.new_profile(name, &authority, now)?));
        }
        // The index first: see `add_client`.
        self.publish(&authority, now)?;
        for (path, text) in &files {
            files::write(path, text.as_bytes(), Access::Owner, Existing::Replace)?;
        }
        native.iter().try_for_each(|file| files::write_below(&self.dir, file))?;
        names.iter().for_each(|name| self.index.finish(name.as_str(), None));
        self.write_index()?;
        let native = native.into_iter().map(|file| self.dir.join(file.path));
        Ok(files.into_iter().map(|(path, _)| path).chain(native).collect())
    }

    /// The error that a client has no profile of the protocol of `server.conf`.
    fn no_profile(&self, name: &ClientName) -> SetupError {
        let (key, native, client) = (self.protocols.key, self.protocols.native, name.to_string());
        if self.index.peer(name.as_str()).is_some() {
            return SetupError::NoCertificate { client, title: key.title(), option: key.name() };
        }
        let is_native =
            self.index.is_client(name.as_str(), Some(native.name())) || self.index.has_user(name.as_str());
        match is_native {
            true => SetupError::NoProfile { client, title: native.title(), option: native.name() },
            false => SetupError::NoSuchClient(client),
        }
    }

    /// Gives the authority a new certificate with the same name and key and a later end: in pki/ca.crt, in server.conf,
    /// and in the profiles that are still in clients/. All certificates stay valid.
    ///
    /// # Errors
    /// Why the authority has no new certificate.
    pub fn renew_authority(&mut self) -> Result<RenewedAuthority, SetupError> {
        let now = OffsetDateTime::now_utc();
        let mut authority = self.authority()?;
        let old_end = inspect::not_after(authority.certificate());
        authority::renew(&mut authority, now)?;
        let end = inspect::not_after(authority.certificate());
        let mut files = Vec::new();
        if !self.is_alone() {
            let server = self.dir.join(SERVER);
            files.push((server.clone(), self.with_authority(&server, &authority)?));
        }
        for profile in files::list(&self.dir.join("clients"))? {
            // A profile that adit did not make stays as it is.
            files.extend(self.with_authority(&profile, &authority).ok().map(|text| (profile, text)));
        }
        let path = self.dir.join(AUTHORITY);
        files::write(&path, authority.certificate().as_bytes(), Access::Everybody, Existing::Replace)?;
        self.publish(&authority, now)?;
        for (path, text) in &files {
            files::write(path, text.as_bytes(), Access::Owner, Existing::Replace)?;
        }
        let native =
            self.renewed(&Renewed { authority: Some(authority.certificate()), ..Renewed::default() });
        native.iter().try_for_each(|file| files::write_below(&self.dir, file))?;
        let native = native.into_iter().map(|file| self.dir.join(file.path));
        let files =
            std::iter::once(path).chain(files.into_iter().map(|(path, _)| path)).chain(native).collect();
        Ok(RenewedAuthority { files, old_end, end })
    }

    /// A configuration with the authority's new certificate.
    fn with_authority(&self, path: &Path, authority: &Authority) -> Result<Zeroizing<String>, SetupError> {
        let text = self.protocols.certificate.with_authority(&files::read(path)?, authority.certificate());
        text.ok_or_else(|| SetupError::Certificate {
            what: "put the authority's new certificate into server.conf",
            why: format!("it has no <ca> block with the certificate of {AUTHORITY}, as `adit init` made it"),
        })
    }

    /// server.conf with a new certificate and key in place of the old ones; all else stays as its owner has it.
    fn renewed_server(
        &mut self,
        authority: &Authority,
        now: OffsetDateTime,
    ) -> Result<Zeroizing<String>, SetupError> {
        let old = files::read(&self.dir.join(SERVER))?;
        let issued =
            authority::issue(authority, Owner::new(Kind::Server, SERVER_NAME), now, &mut self.index)?;
        self.protocols.certificate.with_certificate(&old, &issued).ok_or_else(|| SetupError::Certificate {
            what: "renew the server's certificate in server.conf",
            why: "it must have a <cert> and a <key> block, as `adit init` made it".into(),
        })
    }

    /// Writes the index, and then the list of revoked certificates that follows from it. In this order: the next list
    /// is made from the index, and one that is missing is made by the next command.
    fn publish(&mut self, authority: &Authority, now: OffsetDateTime) -> Result<(), SetupError> {
        let list = authority::revocation_list(authority, &mut self.index, now)?;
        self.write_index()?;
        files::write(&self.dir.join(REVOKED), list.as_bytes(), Access::Everybody, Existing::Replace)?;
        let native = self.renewed(&Renewed { revoked: Some(list.as_str()), ..Renewed::default() });
        native.iter().try_for_each(|file| files::write_below(&self.dir, file))
    }

    /// Writes the index.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_index(&self) -> Result<(), SetupError> {
        let text = self.index.to_json();
        files::write(&self.dir.join(INDEX), text.as_bytes(), Access::Owner, Existing::Replace)
    }

    /// The path of a client's file with that ending, whether it exists or not.
    pub fn client_file(&self, name: &ClientName, ending: &str) -> PathBuf {
        self.dir.join("clients").join(format!("{name}.{ending}"))
    }

    fn profile(&self, name: &ClientName) -> PathBuf {
        self.client_file(name, self.protocols.certificate.ending())
    }

    /// Advice for a server that does not look at the list of revoked certificates.
    fn revocation_advice(&self) -> Option<String> {
        let path = self.dir.join(REVOKED);
        let path = std::path::absolute(&path).unwrap_or(path);
        let server = files::read(&self.dir.join(SERVER)).unwrap_or_default();
        self.protocols.certificate.revocation_advice(&server, &path)
    }

    fn authority(&self) -> Result<Authority, SetupError> {
        let certificate = files::read(&self.dir.join(AUTHORITY))?;
        let key = files::read(&self.dir.join("pki/ca.key"))?;
        authority::load(&certificate, &key)
    }
}
