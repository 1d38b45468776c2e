//! A protocol that operating systems speak by themselves: the interface between the directory and its files.

use std::path::{Path, PathBuf};

use adit_core::IpNet;
use adit_pki::issue::{Authority, IkeName, Issued};
use zeroize::Zeroizing;

use crate::files::Access;
use crate::{ClientName, Endpoint, Layout, SetupError};

/// A protocol that operating systems speak by themselves. Its server shares the tunnel of `server.conf`, or is the only one of the
/// directory, and has a certificate of the directory's authority; a client has a certificate or a password, and a file to import for each operating system.
pub trait NativeProtocol: Sync {
    /// The name of the protocol in the index and in options of commands.
    fn name(&self) -> &'static str;

    /// The name of the protocol for people.
    fn title(&self) -> &'static str;

    /// The server's file in the directory.
    fn file(&self) -> &'static str;

    /// The alternative names of the server's certificate.
    fn server_names(&self, endpoint: &Endpoint) -> Vec<IkeName>;

    /// The alternative names of a client's certificate.
    fn client_names(&self, name: &ClientName) -> Vec<IkeName>;

    /// The files of a new server, its own last.
    ///
    /// # Errors
    /// When adit would refuse them.
    fn server(&self, server: &NativeServer<'_>) -> Result<Vec<SetupFile>, SetupError>;

    /// The networks that clients reach, by the text of the server's file, which is in `path`.
    ///
    /// # Errors
    /// The file is wrong, or does not say.
    fn networks(&self, path: &Path, text: &str) -> Result<Vec<IpNet>, String>;

    /// The files of a server that state what was made anew.
    fn renewed(&self, renewed: &Renewed<'_>) -> Vec<SetupFile>;

    /// The files of a client, and that by which the server knows its password, if it has one.
    ///
    /// # Errors
    /// When a file cannot be made, or adit would refuse one.
    fn client(&self, client: &NativeClient<'_>) -> Result<Vec<SetupFile>, SetupError>;

    /// The files and folders to hand over to a client, in the directory, whether they exist or not.
    fn client_paths(&self, name: &ClientName) -> Vec<PathBuf>;

    /// The file in the directory by which the server knows the password of a client, whether it exists or not.
    fn password_file(&self, name: &ClientName) -> PathBuf;
}

/// A file that is to be written.
pub struct SetupFile {
    /// Its path in the directory. Folders that are not there are made.
    pub path: PathBuf,
    /// Its content.
    pub content: Zeroizing<Vec<u8>>,
    /// The accounts that may read it.
    pub access: Access,
}

impl SetupFile {
    /// A file that its owner alone may read.
    pub fn new(path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        SetupFile { path: path.into(), content: Zeroizing::new(content.into()), access: Access::Owner }
    }
}

/// The facts about a new server of a [`NativeProtocol`].
pub struct NativeServer<'a> {
    /// The way by which clients reach the server. The port is that of `server.conf`.
    pub endpoint: &'a Endpoint,
    /// The tunnel.
    pub layout: &'a Layout,
    /// Its device.
    pub device: &'a str,
    /// There is no `server.conf`: the tunnel is this server's own.
    pub is_alone: bool,
    /// The authority's and the server's certificates, as the server's files have them.
    pub made: Renewed<'a>,
}

/// The parts of a server's files that `adit renew` and `adit revoke` make anew. `None`: the part stays as it is.
#[derive(Clone, Copy, Default)]
pub struct Renewed<'a> {
    /// The server's certificate and key.
    pub issued: Option<&'a Issued>,
    /// The authority's certificate as PEM.
    pub authority: Option<&'a str>,
    /// The list of revoked certificates as PEM.
    pub revoked: Option<&'a str>,
}

/// The facts about a new client of a [`NativeProtocol`].
pub struct NativeClient<'a> {
    /// The name.
    pub name: &'a ClientName,
    /// The way by which clients reach the server.
    pub endpoint: &'a Endpoint,
    /// The networks that the client reaches through the server.
    pub networks: &'a [IpNet],
    /// The authority.
    pub authority: &'a Authority,
    /// The proof of the client's identity.
    pub login: &'a Login,
}

/// The proof of a client's identity.
pub enum Login {
    /// A certificate, whose key is in files of the form PKCS#12 under the password.
    Certificate {
        /// The certificate and its key.
        issued: Issued,
        /// The password of the file.
        password: Zeroizing<String>,
    },
    /// A password.
    Password(Zeroizing<String>),
}

impl Login {
    /// The password: of the user, or of the file with the certificate.
    pub fn password(&self) -> &str {
        match self {
            Login::Certificate { password, .. } | Login::Password(password) => password,
        }
    }
}
