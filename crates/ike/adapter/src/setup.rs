//! IKEv2 in a server's directory: `adit init --ikev2`, `adit add-client --ikev2`, and the part of `adit revoke` and `adit renew`.
//!
//! The server is a file of swanctl with its folders, which joins the tunnel of `server.conf`. A client gets a file for each kind of
//! device; the server knows it by the authority of its certificate, or by its password in the folder `users`.

mod android;
mod apple;
mod client_file;
mod facts;
mod made;
mod plist;
mod server_file;
#[cfg(test)]
mod tests;
mod uuid;
mod windows;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use adit_core::IpNet;
use adit_pki::issue::IkeName;
use adit_setup::{
    ClientName, Endpoint, NativeClient, NativeProtocol, NativeServer, Renewed, SetupError, SetupFile,
};

use self::facts::Facts;
use crate::adapter::Ipsec;
use crate::content::parse;
use crate::files::Disk;

/// The folder of the files of clients.
const CLIENTS: &str = "clients";

impl NativeProtocol for Ipsec {
    fn name(&self) -> &'static str {
        "ikev2"
    }

    fn title(&self) -> &'static str {
        "IKEv2"
    }

    fn file(&self) -> &'static str {
        server_file::FILE
    }

    fn server_names(&self, endpoint: &Endpoint) -> Vec<IkeName> {
        // Windows looks for an address among the host names.
        let address = endpoint.host.parse().map(IkeName::Address).ok();
        std::iter::once(IkeName::Dns(endpoint.host.clone())).chain(address).collect()
    }

    fn client_names(&self, name: &ClientName) -> Vec<IkeName> {
        let name = name.as_str();
        // Apple's devices send a mail address as a host name.
        let mail = name.contains('@').then(|| IkeName::Mail(name.to_owned()));
        let address = name.parse::<IpAddr>().map(IkeName::Address).ok();
        std::iter::once(IkeName::Dns(name.to_owned())).chain(mail).chain(address).collect()
    }

    fn server(&self, server: &NativeServer<'_>) -> Result<Vec<SetupFile>, SetupError> {
        let mut files = server_file::renewed(&server.made);
        files.push(SetupFile::new(server_file::FILE, server_file::text(server)));
        made::check(&files, Path::new(server_file::FILE))?;
        Ok(files)
    }

    fn networks(&self, path: &Path, text: &str) -> Result<Vec<IpNet>, String> {
        let content =
            parse(path, text.as_bytes(), &Disk::default()).map_err(|failure| failure.to_string())?;
        let networks =
            content.planned.iter().find(|planned| planned.connection.name == server_file::BY_CERTIFICATE);
        networks.map(|planned| planned.local_networks().collect()).ok_or_else(|| {
            let (path, name) = (path.display(), server_file::BY_CERTIFICATE);
            format!("{path}: there is no connection `{name}`, whose `local_ts` says what clients reach")
        })
    }

    fn renewed(&self, renewed: &Renewed<'_>) -> Vec<SetupFile> {
        server_file::renewed(renewed)
    }

    fn client(&self, client: &NativeClient<'_>) -> Result<Vec<SetupFile>, SetupError> {
        let facts = Facts::of(client)?;
        let named = |ending: &str| Path::new(CLIENTS).join(format!("{}.{ending}", client.name));
        let mut files = client_file::files(&facts);
        let [apple, windows, android] = ["mobileconfig", "ps1", "sswan"].map(named);
        made::check(&files, &client_file::path(client.name))?;
        files.extend([
            SetupFile { content: apple::profile(&facts), ..SetupFile::new(apple, "") },
            SetupFile { content: windows::script(&facts), ..SetupFile::new(windows, "") },
            SetupFile { content: android::profile(&facts), ..SetupFile::new(android, "") },
        ]);
        files.extend(
            server_file::user(&facts).map(|text| SetupFile {
                content: text,
                ..SetupFile::new(self.password_file(client.name), "")
            }),
        );
        Ok(files)
    }

    fn client_paths(&self, name: &ClientName) -> Vec<PathBuf> {
        let endings = ["mobileconfig", "ps1", "sswan", client_file::FOLDER_ENDING];
        endings.map(|ending| Path::new(CLIENTS).join(format!("{name}.{ending}"))).to_vec()
    }

    fn password_file(&self, name: &ClientName) -> PathBuf {
        Path::new(server_file::USERS).join(format!("{name}.conf"))
    }
}
