//! Certificates for the servers and clients of a command, and configuration files with them.

use std::path::{Path, PathBuf};

use adit_testbed::{Authority, Identity, KeyKind, Purpose, Scratch, TestbedError, Validity};

/// An authority, a server's certificate and one that all clients show (`duplicate-cn`), in a directory of files.
pub(super) struct Identities {
    authority: Authority,
    /// The blocks of a server's file, and of a client's.
    server: String,
    client: String,
    /// The authority's certificate, and the clients' certificate and key.
    files: [PathBuf; 3],
    directory: Scratch,
}

fn blocks(authority: &Authority, identity: &Identity) -> String {
    format!(
        "<ca>\n{}</ca>\n<cert>\n{}</cert>\n<key>\n{}</key>\n",
        authority.certificate, identity.certificate, identity.key
    )
}

impl Identities {
    /// Makes identities with P-256, as `adit init` makes them. The directory is removed when this is dropped.
    pub(super) fn create(label: &str) -> Result<Identities, TestbedError> {
        let authority = Authority::create(KeyKind::Ecdsa)?;
        let server = authority.issue("server", Purpose::Server, Validity::Now)?;
        let client = authority.issue("client", Purpose::Client, Validity::Now)?;
        let directory = Scratch::create(label)?;
        let files = [
            directory.write("ca.pem", &authority.certificate)?,
            directory.write("client.pem", &client.certificate)?,
            directory.write("client.key", &client.key)?,
        ];
        let (server, client) = (blocks(&authority, &server), blocks(&authority, &client));
        Ok(Identities { authority, server, client, files, directory })
    }

    /// Another certificate for the server, as the blocks of its file.
    pub(super) fn another_server(&self) -> Result<String, TestbedError> {
        let identity = self.authority.issue("another-server", Purpose::Server, Validity::Now)?;
        Ok(blocks(&self.authority, &identity))
    }

    /// Where the files are.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a server's file of these lines.
    pub(super) fn server(&self, name: &str, lines: &str) -> Result<PathBuf, TestbedError> {
        self.write(name, lines, &self.server)
    }

    /// Writes a client's file of these lines.
    pub(super) fn client(&self, name: &str, lines: &str) -> Result<PathBuf, TestbedError> {
        self.write(name, lines, &self.client)
    }

    /// Writes a file of these lines and blocks.
    pub(super) fn write(&self, name: &str, lines: &str, blocks: &str) -> Result<PathBuf, TestbedError> {
        self.directory.write(name, &format!("{lines}{blocks}"))
    }

    /// The arguments that give `adit-load-openvpn` the identities of its clients, after the server's address.
    pub(super) fn load_arguments(&self) -> Vec<String> {
        let [ca, certificate, key] = self.files.each_ref().map(|path| path.display().to_string());
        ["--ca", &ca, "--certificate", &certificate, "--key", &key].map(str::to_owned).into()
    }
}
