//! The protocols of a server's directory: the interface between the directory and their files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use adit_pki::issue::{Authority, Issued};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use crate::{
    ClientName, Code, Directory, Endpoint, Index, Keys, Layout, NativeProtocol, Networks, Reach, SetupError,
    SystemUser,
};

/// The protocols of a server.
#[derive(Clone, Copy)]
pub struct Protocols {
    /// The protocol of `server.conf`.
    pub certificate: &'static dyn CertificateProtocol,
    /// The protocol that may share the tunnel of `server.conf`.
    pub key: &'static dyn KeyProtocol,
    /// The protocol that operating systems speak by themselves, and that may share the tunnel of `server.conf`.
    pub native: &'static dyn NativeProtocol,
}

/// A protocol whose server and clients have certificates of the directory's authority. Its server's file is `server.conf`.
pub trait CertificateProtocol: Sync {
    /// The name of the protocol for people.
    fn title(&self) -> &'static str;

    /// A command of another program that runs `server.conf`, too.
    fn other_program(&self) -> &'static str;

    /// The ending of a client's file, without the dot.
    fn ending(&self) -> &'static str;

    /// A new secret of a server, which stands in a file of its own.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    fn new_secret(&self) -> Result<Secret, SetupError>;

    /// The text of a new server's file.
    fn server(&self, server: &NewServer<'_>) -> Zeroizing<String>;

    /// The text of a new client's file.
    ///
    /// # Errors
    /// When a secret of the directory `dir` cannot be used.
    fn client(&self, dir: &Path, client: &NewClient<'_>) -> Result<Zeroizing<String>, SetupError>;

    /// Reads a text that was made, to be called `file`: no file that adit itself would refuse leaves the program.
    ///
    /// # Errors
    /// When adit would refuse it.
    fn check(&self, text: &str, file: &str) -> Result<(), SetupError>;

    /// The certificate of a file's owner, as PEM; `None`: the file has none.
    fn certificate<'a>(&self, text: &'a str) -> Option<&'a str>;

    /// A file with another certificate and key in place of its own; `None`: it has none.
    fn with_certificate(&self, text: &str, issued: &Issued) -> Option<Zeroizing<String>>;

    /// A file with another certificate in place of that of the authority with the same name and key; `None`: it has none.
    fn with_authority(&self, text: &str, certificate: &str) -> Option<Zeroizing<String>>;

    /// Advice to the owner of a server's file that does not look at the list of revoked certificates in `list`.
    fn revocation_advice(&self, server: &str, list: &Path) -> Option<String>;

    /// The tunnel of a server's file, which is in `path` or about to be there. `other`: the protocol that needs addresses above its pool.
    ///
    /// # Errors
    /// Why another protocol cannot share it.
    fn layout(&self, path: &Path, text: &str, other: Option<&str>) -> Result<Layout, String>;

    /// A server's file, which is in `path` or about to be there, with that name of its device if it names none. All else stays.
    ///
    /// # Errors
    /// Why the file cannot be used.
    fn with_device(&self, path: &Path, text: &str, device: &str) -> Result<Zeroizing<String>, String>;

    /// A server's file, which is in `path` or about to be there, with room for clients of another protocol: the device has a fixed
    /// name, and the pool the lower half of the network. All that says so already stays, and all else.
    ///
    /// # Errors
    /// Why the file cannot be used.
    fn with_room(&self, path: &Path, text: &str, room: Room<'_>) -> Result<Zeroizing<String>, String>;
}

/// A secret of a server.
pub struct Secret {
    /// Its file in the directory.
    pub file: &'static str,
    /// The content of the file.
    pub text: Zeroizing<String>,
}

/// The facts about a new server that its file states.
pub struct NewServer<'a> {
    /// The index: the endpoint and the transport.
    pub index: &'a Index,
    /// The inner networks.
    pub networks: &'a Networks,
    /// The account that the server runs as.
    pub user: &'a SystemUser,
    /// The networks that clients reach beyond the server.
    pub reach: &'a Reach,
    /// The list of revoked certificates.
    pub revoked: &'a Path,
    /// The authority.
    pub authority: &'a Authority,
    /// The server's certificate and key.
    pub issued: &'a Issued,
    /// The secret.
    pub secret: &'a Secret,
}

/// The facts about a new client that its file states.
pub struct NewClient<'a> {
    /// The name.
    pub name: &'a ClientName,
    /// The index: the endpoint, the transport, and the server's name.
    pub index: &'a Index,
    /// The authority.
    pub authority: &'a Authority,
    /// The client's certificate and key.
    pub issued: &'a Issued,
    /// The time.
    pub now: OffsetDateTime,
}

/// The room that a second protocol needs.
#[derive(Clone, Copy, Debug)]
pub struct Room<'a> {
    /// The name of the device, if the file names none.
    pub device: &'a str,
    /// The name of the second protocol for people.
    pub other: &'a str,
}

/// The options of a new server of a [`KeyProtocol`].
#[derive(Clone, Debug)]
pub struct KeyOptions {
    /// The device of the tunnel, where `server.conf` names none. [`KeyProtocol::check_device`] has accepted it.
    pub device: Option<String>,
    /// The UDP port.
    pub port: u16,
}

/// A client's file of a [`KeyProtocol`], and its QR code if that was asked for.
pub struct MadeClient {
    /// The file.
    pub path: PathBuf,
    /// The content of the file.
    pub text: Zeroizing<String>,
    /// The QR code.
    pub code: Option<Code>,
}

/// A protocol whose clients have keys, and which shares the tunnel of `server.conf`. Its server's file is `DEVICE.conf`.
pub trait KeyProtocol: Sync {
    /// The name of the protocol in the index and in options of commands.
    fn name(&self) -> &'static str;

    /// The name of the protocol for people.
    fn title(&self) -> &'static str;

    /// Whether a tunnel's device can have that name.
    ///
    /// # Errors
    /// Why not.
    fn check_device(&self, name: &str) -> Result<(), String>;

    /// Whether a part of an index that was read is sound.
    ///
    /// # Errors
    /// The fault of the part, whose values go into names of files and into configurations.
    fn check(&self, keys: &Keys) -> Result<(), String>;

    /// The text of a new server's file.
    ///
    /// # Errors
    /// When the system gives no random numbers, or adit would refuse the file.
    fn server(
        &self,
        endpoint: &Endpoint,
        layout: &Layout,
        options: &KeyServer<'_>,
    ) -> Result<Zeroizing<String>, SetupError>;

    /// Makes a client's keys and file, and lets the client in: by the server's file, and at once if the server runs.
    ///
    /// # Errors
    /// Why there is no such client now.
    fn add_client(
        &self,
        directory: &mut Directory,
        name: &ClientName,
        with_code: bool,
    ) -> Result<MadeClient, SetupError>;

    /// Makes new keys for clients. Their addresses stay; the old keys are shut out. Gives the files that were written.
    ///
    /// # Errors
    /// Why not, or not for all.
    fn renew(&self, directory: &mut Directory, names: &[ClientName]) -> Result<Vec<PathBuf>, SetupError>;

    /// Takes the keys that the index has as revoked out of the server's file, and gives the names of the clients that were in it.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    fn remove_revoked(&self, directory: &Directory) -> Result<BTreeSet<String>, SetupError>;

    /// Has the running server forget all revoked keys of a client.
    ///
    /// # Errors
    /// When it runs and does not.
    fn shut_out(&self, directory: &mut Directory, name: &str) -> Result<(), SetupError>;

    /// The files of a client, whether they exist or not.
    fn files(&self, directory: &Directory, name: &ClientName) -> Vec<PathBuf>;
}

/// The facts about a new server of a [`KeyProtocol`] that its file states.
#[derive(Clone, Copy, Debug)]
pub struct KeyServer<'a> {
    /// The device.
    pub device: &'a str,
    /// The UDP port.
    pub port: u16,
}
