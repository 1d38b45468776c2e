//! The directory that `adit init` makes, and that `adit add-client`, `adit renew` and `adit revoke` change.
//!
//! ```text
//! server.conf          all a server needs, keys inline
//! clients/NAME.ovpn    all a client needs, keys inline
//! DEVICE.conf          all a WireGuard server needs, with its clients; if it has WireGuard
//! clients/NAME.conf    all a WireGuard client needs; beside it NAME.png and NAME.svg, its QR code
//! crl.pem              which certificates are revoked; public
//! pki/ca.crt, ca.key   the certificate authority
//! pki/tls-crypt-v2.key the server's key, which makes each client a key that hides its handshake
//! pki/index.json       every certificate issued, every WireGuard key
//! ```

mod authority;
mod endpoint;
mod error;
mod files;
mod index;
mod names;
mod profile;
mod qr;
mod reach;
mod read;
mod system_user;
#[cfg(test)]
mod tests;
mod wireguard;

use std::fs;
use std::path::{Path, PathBuf};

use adit_core::UnixTime;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::{ClientKey, Metadata, ServerKey};
use adit_pki::inspect;
use adit_pki::issue::Authority;
use rand_core::{OsRng, TryRngCore as _};
use time::OffsetDateTime;
use zeroize::Zeroizing;

pub(crate) use self::endpoint::{Endpoint, Proto};
pub(crate) use self::error::SetupError;
pub(crate) use self::names::ClientName;
pub(crate) use self::reach::{Reach, lan};
pub(crate) use self::system_user::{Consent, SystemUser};
pub(crate) use self::wireguard::{DEFAULT_DEVICE, DeviceName, MadeClient, WireGuardOptions};

use self::files::{Access, Existing, NewDirectory};
use self::index::{Index, Kind};

/// The common name of the server's certificate, which clients check.
const SERVER_NAME: &str = "adit-server";

/// The server's configuration.
const SERVER: &str = "server.conf";

/// The authority's certificate.
const AUTHORITY: &str = "pki/ca.crt";

/// Every certificate issued.
const INDEX: &str = "pki/index.json";

/// The list of revoked certificates.
const REVOKED: &str = "crl.pem";

/// The server's key for tls-crypt-v2.
const SERVER_KEY: &str = "pki/tls-crypt-v2.key";

/// One tls-crypt key for all, in directories made before each client had its own.
const SHARED_KEY: &str = "pki/tls-crypt.key";

/// Random bytes from the system.
fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, SetupError> {
    let mut bytes = Zeroizing::new([0; N]);
    OsRng.try_fill_bytes(bytes.as_mut_slice()).map_err(|error| SetupError::Random(error.to_string()))?;
    Ok(bytes)
}

fn new_server_key() -> Result<ServerKey, SetupError> {
    Ok(ServerKey::from_bytes(&*random()?))
}

/// What hides the handshake, as a configuration says it.
struct WrapKey {
    directive: &'static str,
    text: Zeroizing<String>,
}

/// A server's directory, locked for the time it is open.
pub(crate) struct Workshop {
    dir: PathBuf,
    index: Index,
    notes: Vec<String>,
    _lock: fs::File,
}

/// What [`Workshop::renew_authority`] did.
pub(crate) struct RenewedAuthority {
    /// The files that were written.
    pub(crate) files: Vec<PathBuf>,
    /// Until when the certificate was valid that was there before.
    pub(crate) old_end: Option<OffsetDateTime>,
    /// Until when the new one is valid.
    pub(crate) end: Option<OffsetDateTime>,
}

impl Workshop {
    /// Makes a server's directory: all of it, or nothing.
    pub(crate) fn create(
        dir: &Path,
        endpoint: &Endpoint,
        proto: Proto,
        (user, reach): (&SystemUser, &Reach),
        wireguard: Option<&WireGuardOptions>,
    ) -> Result<(), SetupError> {
        let now = OffsetDateTime::now_utc();
        let new = NewDirectory::beside(dir)?;
        let authority = authority::create(now)?;
        let key = new_server_key()?;
        let mut index = Index::new(endpoint.clone(), proto, SERVER_NAME);
        let issued = authority::issue(&authority, Kind::Server, SERVER_NAME, now, &mut index)?;
        let networks = profile::Networks::choose()?;
        let revoked = authority::revocation_list(&authority, &mut index, now)?;
        // OpenVPN looks for the list from where it was started, so the path must be whole.
        let path = std::path::absolute(dir).unwrap_or_else(|_| dir.into()).join(REVOKED);
        let wrap = WrapKey { directive: "tls-crypt-v2", text: key.to_text() };
        let mut text = profile::server((&index, &networks), (user, reach), &path, &authority, &issued, &wrap);
        let made = match wireguard {
            Some(options) => {
                Some(wireguard::new_server((Path::new(SERVER), text.as_str()), endpoint, options)?)
            }
            None => None,
        };
        if let Some(made) = &made {
            text.clone_from(&made.openvpn);
            index.begin_wireguard(&made.device);
            index.finish_wireguard();
        }
        profile::check(&text, SERVER)?;

        new.directory("pki")?;
        new.directory("clients")?;
        new.file(AUTHORITY, authority.certificate().as_bytes(), Access::Everybody)?;
        new.file("pki/ca.key", authority.key_pem().as_bytes(), Access::Owner)?;
        new.file(SERVER_KEY, key.to_text().as_bytes(), Access::Owner)?;
        new.file(INDEX, index.to_json().as_bytes(), Access::Owner)?;
        new.file(REVOKED, revoked.as_bytes(), Access::Everybody)?;
        new.file(SERVER, text.as_bytes(), Access::Owner)?;
        if let Some(made) = &made {
            new.file(&format!("{}.conf", made.device), made.wireguard.as_bytes(), Access::Owner)?;
        }
        new.settle(dir)
    }

    /// Opens a directory that [`Workshop::create`] made, waiting until no other process has it open, and completes
    /// what an interrupted command has left to do.
    pub(crate) fn open(dir: &Path) -> Result<Self, SetupError> {
        let path = dir.join(INDEX);
        if !Self::is_made(dir) {
            return Err(SetupError::NotOurs(dir.into()));
        }
        let lock = files::lock(&dir.join("pki"))?;
        for directory in [dir.to_owned(), dir.join("pki"), dir.join("clients")] {
            files::remove_temporary_files(&directory);
        }
        let index = Index::parse(&files::read(&path)?)
            .map_err(|why| SetupError::Index { path: path.clone(), why })?;
        let mut workshop = Workshop { dir: dir.into(), index, notes: Vec::new(), _lock: lock };
        workshop.complete_revocations()?;
        workshop.complete_wireguard()?;
        Ok(workshop)
    }

    /// What the user should know besides the outcome; each is said once.
    pub(crate) fn notes(&mut self) -> Vec<String> {
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

    /// Takes what the index has as revoked out of the WireGuard server: a command was interrupted before it did.
    fn complete_wireguard(&mut self) -> Result<(), SetupError> {
        for name in self.remove_revoked_peers()? {
            self.shut_out_of_interface(&name)?;
            self.notes.push(format!(
                "an earlier command was interrupted before WireGuard's file lost a revoked key of {name}; it has now"
            ));
        }
        Ok(())
    }

    /// Makes a client's certificate and profile, and gives the profile's path.
    pub(crate) fn add_client(&mut self, name: &ClientName) -> Result<PathBuf, SetupError> {
        let now = OffsetDateTime::now_utc();
        let profile = self.profile(name);
        if self.is_interrupted(name, &profile) {
            self.notes.push("an earlier `adit add-client` was interrupted after it made the profile".into());
            return self.finish(name, profile);
        }
        if self.index.has(name.as_str()) || profile.exists() {
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
        let serial = files::read(profile).ok().and_then(|text| read::serial_in(&text));
        serial.is_some_and(|serial| self.index.is_unfinished(name.as_str(), &serial))
    }

    fn finish(&mut self, name: &ClientName, profile: PathBuf) -> Result<PathBuf, SetupError> {
        self.index.finish(name.as_str());
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
        let key = self.client_key(now)?;
        let issued = authority::issue(authority, Kind::Client, name.as_str(), now, &mut self.index)?;
        let text = profile::client(&self.index, name.as_str(), authority, &issued, &key);
        profile::check(&text, &format!("{name}.ovpn"))?;
        Ok(text)
    }

    /// Shuts a client out: puts all its certificates on the list of revoked ones, takes its WireGuard keys out of the
    /// server's file and the running interface, and removes its files. False if all that was revoked before.
    pub(crate) fn revoke(&mut self, name: &ClientName) -> Result<bool, SetupError> {
        let now = OffsetDateTime::now_utc();
        if !self.index.knows(name.as_str()) {
            return Err(SetupError::NoSuchClient(name.to_string()));
        }
        let new = self.index.revoke(name.as_str(), now);
        let authority = self.authority()?;
        self.publish(&authority, now)?;
        self.remove_revoked_peers()?;
        self.shut_out_of_interface(name.as_str())?;
        let [png, svg] = self.images(name);
        // They may have been handed over and deleted.
        for path in [self.profile(name), self.client_file(name), png, svg] {
            if let Err(error) = files::remove(&path) {
                self.notes.push(format!("it is revoked, but {error}; delete that file"));
            }
        }
        if self.index.has_had_certificate(name.as_str()) {
            self.notes.extend(self.hint_to_verify());
        }
        Ok(new)
    }

    /// Issues a new certificate, with a new key, for the server if no client is named and else for these clients, and
    /// makes the list of revoked certificates anew. Gives the files that were written. Certificates from before stay
    /// valid until they expire or are revoked.
    pub(crate) fn renew(&mut self, names: &[ClientName]) -> Result<Vec<PathBuf>, SetupError> {
        let now = OffsetDateTime::now_utc();
        if let Some(unknown) = names.iter().find(|name| !self.index.is_client(name.as_str())) {
            return Err(match self.index.peer(unknown.as_str()) {
                Some(_) => SetupError::NoCertificate(unknown.to_string()),
                None => SetupError::NoSuchClient(unknown.to_string()),
            });
        }
        let authority = self.authority()?;
        let mut files = Vec::new();
        if names.is_empty() {
            files.push((self.dir.join(SERVER), self.renewed_server(&authority, now)?));
        }
        for name in names {
            files.push((self.profile(name), self.new_profile(name, &authority, now)?));
        }
        // The index first: see `add_client`.
        self.publish(&authority, now)?;
        for (path, text) in &files {
            files::write(path, text.as_bytes(), Access::Owner, Existing::Replace)?;
        }
        names.iter().for_each(|name| self.index.finish(name.as_str()));
        self.write_index()?;
        Ok(files.into_iter().map(|(path, _)| path).collect())
    }

    /// Gives the authority a new certificate with the same name and key and a later end: in pki/ca.crt, in server.conf,
    /// and in the profiles that are still in clients/. All certificates stay valid.
    pub(crate) fn renew_authority(&mut self) -> Result<RenewedAuthority, SetupError> {
        let now = OffsetDateTime::now_utc();
        let mut authority = self.authority()?;
        let old_end = inspect::not_after(authority.certificate());
        authority::renew(&mut authority, now)?;
        let end = inspect::not_after(authority.certificate());
        let server = self.dir.join(SERVER);
        let mut files = vec![(server.clone(), self.with_authority(&server, &authority)?)];
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
        let files = std::iter::once(path).chain(files.into_iter().map(|(path, _)| path)).collect();
        Ok(RenewedAuthority { files, old_end, end })
    }

    /// A configuration with the authority's new certificate.
    fn with_authority(&self, path: &Path, authority: &Authority) -> Result<Zeroizing<String>, SetupError> {
        let text = profile::with_authority(&files::read(path)?, authority.certificate());
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
        let issued = authority::issue(authority, Kind::Server, SERVER_NAME, now, &mut self.index)?;
        profile::with_certificate(&old, &issued).ok_or_else(|| SetupError::Certificate {
            what: "renew the server's certificate in server.conf",
            why: "it must have a <cert> and a <key> block, as `adit init` made it".into(),
        })
    }

    /// Writes the index, and then the list of revoked certificates that follows from it. In this order: the next list
    /// is made from the index, and one that is missing is made by the next command.
    fn publish(&mut self, authority: &Authority, now: OffsetDateTime) -> Result<(), SetupError> {
        let list = authority::revocation_list(authority, &mut self.index, now)?;
        self.write_index()?;
        files::write(&self.dir.join(REVOKED), list.as_bytes(), Access::Everybody, Existing::Replace)
    }

    fn write_index(&self) -> Result<(), SetupError> {
        let text = self.index.to_json();
        files::write(&self.dir.join(INDEX), text.as_bytes(), Access::Owner, Existing::Replace)
    }

    fn profile(&self, name: &ClientName) -> PathBuf {
        self.dir.join("clients").join(format!("{name}.ovpn"))
    }

    /// What to do if the server does not look at the list.
    fn hint_to_verify(&self) -> Option<String> {
        let path = self.dir.join(REVOKED);
        let server = files::read(&self.dir.join(SERVER)).unwrap_or_default();
        let looks = server.lines().any(|line| line.trim_start().starts_with("crl-verify"));
        (!looks).then(|| {
            let path = std::path::absolute(&path).unwrap_or(path);
            format!(
                "server.conf does not look at the list yet: add the line `crl-verify {}` to it and restart \
                 the server",
                profile::quoted(&path)
            )
        })
    }

    fn authority(&self) -> Result<Authority, SetupError> {
        let certificate = files::read(&self.dir.join(AUTHORITY))?;
        let key = files::read(&self.dir.join("pki/ca.key"))?;
        authority::load(&certificate, &key)
    }

    /// What hides a new client's handshake: a key of its own, or the key of all in a directory made before clients
    /// had their own, whose server knows no other.
    fn client_key(&self, now: OffsetDateTime) -> Result<WrapKey, SetupError> {
        let shared = self.dir.join(SHARED_KEY);
        if self.dir.join(SERVER_KEY).exists() || !shared.exists() {
            let text = self.new_client_key(now)?.to_text();
            return Ok(WrapKey { directive: "tls-crypt-v2", text });
        }
        let key = StaticKey::parse(&files::read(&shared)?)
            .map_err(|why| SetupError::Certificate { what: "read pki/tls-crypt.key", why })?;
        Ok(WrapKey { directive: "tls-crypt", text: key.to_text() })
    }

    /// A client's key for tls-crypt-v2, which tells the server when it was made.
    fn new_client_key(&self, now: OffsetDateTime) -> Result<ClientKey, SetupError> {
        let text = files::read(&self.dir.join(SERVER_KEY))?;
        let failed = |why| SetupError::Certificate { what: "read pki/tls-crypt-v2.key", why };
        let server = ServerKey::parse(&text).map_err(failed)?;
        let made = Metadata::Made(UnixTime(u64::try_from(now.unix_timestamp()).unwrap_or(0)));
        let key = StaticKey::from_bytes(&*random()?);
        server.wrap(&key, &made).map_err(|why| failed(why.to_string()))
    }
}
