//! The directory that `adit init` makes, and that `adit add-client` and `adit revoke` change.
//!
//! ```text
//! server.conf          all a server needs, keys inline
//! clients/NAME.ovpn    all a client needs, keys inline
//! crl.pem              which certificates are revoked; public
//! pki/ca.crt, ca.key   the certificate authority
//! pki/tls-crypt-v2.key the server's key, which makes each client a key that hides its handshake
//! pki/index.json       every certificate issued
//! ```

mod authority;
mod endpoint;
mod files;
mod index;
mod names;
mod profile;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use adit_config::{KeyOwner, TlsCryptV2Key};
use adit_core::UnixTime;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::{Metadata, SERVER_KEY_LEN, ServerKey};
use rand_core::{OsRng, TryRngCore as _};
use thiserror::Error;
use time::OffsetDateTime;
use zeroize::Zeroizing;

pub(crate) use self::endpoint::{Endpoint, Proto};
pub(crate) use self::names::ClientName;

use self::authority::{Authority, Kind};
use self::files::NewDirectory;
use self::index::Index;

/// The common name of the server's certificate, which clients check.
const SERVER_NAME: &str = "adit-server";

/// The list of revoked certificates.
const REVOKED: &str = "crl.pem";

/// The server's key for tls-crypt-v2.
const SERVER_KEY: &str = "pki/tls-crypt-v2.key";

/// One tls-crypt key for all, in directories made before each client had its own.
const SHARED_KEY: &str = "pki/tls-crypt.key";

/// Why a server's directory could not be made or added to.
#[derive(Debug, Error)]
pub(crate) enum SetupError {
    /// `init` overwrites nothing.
    #[error("{} exists and is not empty; name another directory", .0.display())]
    Exists(PathBuf),
    /// There is such a client.
    #[error("there is a client {0} already; choose another name")]
    NameTaken(String),
    /// There is no such client.
    #[error("there is no client {0}, or it was revoked already")]
    NoSuchClient(String),
    /// The directory is none of ours.
    #[error("{} was not made by `adit init`: it has no pki/index.json", .0.display())]
    NotOurs(PathBuf),
    /// The index cannot be understood.
    #[error("{}: {why}; restore it from a copy", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A certificate could not be made or read.
    #[error("cannot {what}: {why}")]
    Certificate {
        /// What was tried.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// The system gave no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
    /// A file that was made does not read back: a fault of adit.
    #[error("adit made a configuration that it does not understand itself; please report this:\n{0}")]
    Unreadable(String),
}

/// Random bytes from the system.
fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, SetupError> {
    let mut bytes = Zeroizing::new([0; N]);
    OsRng.try_fill_bytes(bytes.as_mut_slice()).map_err(|error| SetupError::Random(error.to_string()))?;
    Ok(bytes)
}

fn new_server_key() -> Result<TlsCryptV2Key, SetupError> {
    let bytes = random::<SERVER_KEY_LEN>()?;
    TlsCryptV2Key::from_bytes(KeyOwner::Server, bytes.as_slice()).ok_or_else(|| SetupError::Certificate {
        what: "make a tls-crypt-v2 key",
        why: "wrong length".into(),
    })
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
    _lock: fs::File,
}

impl Workshop {
    /// Makes a server's directory: all of it, or nothing.
    pub(crate) fn create(dir: &Path, endpoint: &Endpoint, proto: Proto) -> Result<(), SetupError> {
        let now = OffsetDateTime::now_utc();
        let new = NewDirectory::beside(dir)?;
        let authority = Authority::create(now)?;
        let key = new_server_key()?;
        let mut index = Index::new(endpoint.clone(), proto, SERVER_NAME);
        let issued = authority.issue(Kind::Server, SERVER_NAME, now, &mut index)?;
        let networks = profile::Networks::choose()?;
        let revoked = authority.revocation_list(&mut index, now)?;
        // OpenVPN looks for the list from where it was started, so the path must be whole.
        let path = std::path::absolute(dir).unwrap_or_else(|_| dir.into()).join(REVOKED);
        let wrap = WrapKey { directive: "tls-crypt-v2", text: key.to_text() };
        let text = profile::server(&index, &networks, &path, &authority, &issued, &wrap);
        profile::check(&text, "server.conf")?;

        new.directory("pki")?;
        new.directory("clients")?;
        new.file("pki/ca.crt", authority.certificate.as_bytes())?;
        new.file("pki/ca.key", authority.key_pem().as_bytes())?;
        new.file(SERVER_KEY, key.to_text().as_bytes())?;
        new.file("pki/index.json", index.to_json().as_bytes())?;
        new.file(REVOKED, revoked.as_bytes())?;
        new.file("server.conf", text.as_bytes())?;
        new.settle(dir)
    }

    /// Opens a directory that [`Workshop::create`] made, waiting until no other process has it open.
    pub(crate) fn open(dir: &Path) -> Result<Self, SetupError> {
        let path = dir.join("pki/index.json");
        if !path.exists() {
            return Err(SetupError::NotOurs(dir.into()));
        }
        let lock = files::lock(&dir.join("pki"))?;
        let index = Index::parse(&files::read(&path)?)
            .map_err(|why| SetupError::Index { path: path.clone(), why })?;
        Ok(Workshop { dir: dir.into(), index, _lock: lock })
    }

    /// Makes a client's certificate and profile, and gives the profile's path.
    pub(crate) fn add_client(&mut self, name: &ClientName) -> Result<PathBuf, SetupError> {
        let now = OffsetDateTime::now_utc();
        let profile = self.dir.join("clients").join(format!("{name}.ovpn"));
        if self.index.has(name.as_str()) || profile.exists() {
            return Err(SetupError::NameTaken(name.to_string()));
        }
        let authority = self.authority()?;
        let key = self.client_key(now)?;
        let before = self.index.to_json();
        let issued = authority.issue(Kind::Client, name.as_str(), now, &mut self.index)?;
        let text = profile::client(&self.index, name.as_str(), &authority, &issued, &key);
        profile::check(&text, &format!("{name}.ovpn"))?;
        // The index first: a certificate that is about must be known, or it could never be revoked.
        let index = self.dir.join("pki/index.json");
        files::replace(&index, self.index.to_json().as_bytes())?;
        if let Err(error) = files::create(&profile, text.as_bytes()) {
            // Nobody has the certificate: forget it, so that the name is free for another try.
            files::replace(&index, before.as_bytes())?;
            return Err(error);
        }
        Ok(profile)
    }

    /// Puts a client's certificate on the list of revoked ones and removes its profile. Gives a hint if the
    /// server does not look at the list.
    pub(crate) fn revoke(&mut self, name: &ClientName) -> Result<Option<String>, SetupError> {
        let now = OffsetDateTime::now_utc();
        if !self.index.revoke(name.as_str(), now) {
            return Err(SetupError::NoSuchClient(name.to_string()));
        }
        let list = self.authority()?.revocation_list(&mut self.index, now)?;
        let path = self.dir.join(REVOKED);
        // The index first: the next list is made from it.
        files::replace(&self.dir.join("pki/index.json"), self.index.to_json().as_bytes())?;
        files::replace(&path, list.as_bytes())?;
        // It may have been handed over and deleted.
        let _ = fs::remove_file(self.dir.join("clients").join(format!("{name}.ovpn")));
        let server = files::read(&self.dir.join("server.conf")).unwrap_or_default();
        let looks = server.lines().any(|line| line.trim_start().starts_with("crl-verify"));
        Ok((!looks).then(|| {
            let path = std::path::absolute(&path).unwrap_or(path);
            format!(
                "server.conf does not look at the list yet: add the line `crl-verify {}` to it and restart \
                 the server",
                profile::quoted(&path)
            )
        }))
    }

    fn authority(&self) -> Result<Authority, SetupError> {
        let certificate = files::read(&self.dir.join("pki/ca.crt"))?;
        let key = files::read(&self.dir.join("pki/ca.key"))?;
        Authority::load(&certificate, &key)
    }

    /// What hides a new client's handshake: a key of its own, or the key of all in a directory made before clients
    /// had their own, whose server knows no other.
    fn client_key(&self, now: OffsetDateTime) -> Result<WrapKey, SetupError> {
        let shared = self.dir.join(SHARED_KEY);
        if self.dir.join(SERVER_KEY).exists() || !shared.exists() {
            let text = self.new_client_key(now)?.to_text();
            return Ok(WrapKey { directive: "tls-crypt-v2", text });
        }
        let key = adit_config::StaticKey::parse(&files::read(&shared)?)
            .map_err(|why| SetupError::Certificate { what: "read pki/tls-crypt.key", why })?;
        Ok(WrapKey { directive: "tls-crypt", text: key.to_text() })
    }

    /// A client's key for tls-crypt-v2, which tells the server when it was made.
    fn new_client_key(&self, now: OffsetDateTime) -> Result<TlsCryptV2Key, SetupError> {
        let text = files::read(&self.dir.join(SERVER_KEY))?;
        let failed = |why| SetupError::Certificate { what: "read pki/tls-crypt-v2.key", why };
        let server = TlsCryptV2Key::parse(&text, KeyOwner::Server).map_err(failed)?;
        let server = server.bytes().try_into().map_err(|_| failed("its length is wrong".into()))?;
        let made = Metadata::Made(UnixTime(u64::try_from(now.unix_timestamp()).unwrap_or(0)));
        let key = StaticKey::from_bytes(&*random()?);
        let key = ServerKey::from_bytes(server).wrap(&key, &made).map_err(|why| failed(why.to_string()))?;
        TlsCryptV2Key::from_bytes(KeyOwner::Client, &key.to_bytes())
            .ok_or_else(|| failed("its clients' keys have another length".into()))
    }
}
