//! MirageVPN's client at an OpenVPN server and at an adit server.
//!
//! It is in no package: an environment variable names the directory that holds it. Its own server has no TUN device, so
//! that it cannot be measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::openvpn::{self, Shape, start_between};
use super::{Availability, Subject, Tools, Tunnel, adit, lacks_tun, version_at};
use crate::error::LabError;
use crate::testbed::Testbed;

/// Names the directory that holds [`CLIENT`].
pub(crate) const VARIABLE: &str = "ADIT_MIRAGEVPN";
/// The client with a TUN device.
const CLIENT: &str = "miragevpn_client_lwt";

/// The program at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    OpenVpn,
    Adit,
}

/// MirageVPN's client, and a server.
#[derive(Debug)]
struct MirageVpn {
    server: Server,
    shape: Shape,
}

/// All that are measured.
pub(super) fn all() -> Vec<Box<dyn Subject>> {
    let shapes = [(false, "AES-256-GCM"), (true, "AES-256-GCM"), (true, "AES-128-GCM")];
    let mut all: Vec<Box<dyn Subject>> = Vec::new();
    for server in [Server::OpenVpn, Server::Adit] {
        for (tcp, cipher) in shapes {
            all.push(Box::new(MirageVpn { server, shape: Shape { tcp, cipher, lz4: false, kernel: false } }));
        }
    }
    all
}

/// The client's file without `data-ciphers`: it takes its one cipher from `cipher`.
fn configuration(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with("data-ciphers ")).collect()
}

impl MirageVpn {
    /// The subject with the same server and that server's own client.
    fn counterpart(&self) -> Box<dyn Subject> {
        match self.server {
            Server::OpenVpn => Box::new(openvpn::OpenVpn(self.shape)),
            Server::Adit => Box::new(adit::Adit(self.shape)),
        }
    }

    fn client(tools: &Tools) -> Option<PathBuf> {
        tools.miragevpn.as_ref().map(|directory| directory.join(CLIENT)).filter(|path| path.is_file())
    }
}

/// Its version, where its build wrote one into it.
fn version(client: &Path) -> String {
    let version = version_at(client, &["--version"]).filter(|version| !version.contains('%'));
    version.unwrap_or_else(|| "of unknown version".to_owned())
}

impl Subject for MirageVpn {
    fn name(&self) -> String {
        format!("miragevpn-{}", self.counterpart().name())
    }

    fn about(&self) -> String {
        let server = if self.server == Server::Adit { "an adit" } else { "an OpenVPN" };
        format!("MirageVPN's client at {server} server {}", self.shape.words())
    }

    fn availability(&self, tools: &Tools) -> Availability {
        let Some(client) = Self::client(tools) else {
            return Availability::Impossible(format!("{VARIABLE} names no directory that holds {CLIENT}"));
        };
        match self.counterpart().availability(tools) {
            Availability::Installed(server) => lacks_tun()
                .unwrap_or_else(|| Availability::Installed(format!("{}; {server}", version(&client)))),
            lacking => lacking,
        }
    }

    fn start(&self, testbed: &mut Testbed, tools: &Tools) -> Result<Tunnel, LabError> {
        let program = Self::client(tools).ok_or_else(|| LabError::Usage(format!("there is no {CLIENT}")))?;
        let server = |file: &Path| match self.server {
            Server::OpenVpn => openvpn::OpenVpn(self.shape).command(file),
            Server::Adit => Ok(adit::command(tools, file)),
        };
        let client = |file: &Path| {
            let mut command = Command::new(&program);
            command.arg(file);
            Ok(command)
        };
        start_between(self.shape, testbed, [&server, &client], &|text| configuration(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_of_the_server_and_its_shape() {
        let names: Vec<String> = all().iter().map(|subject| subject.name()).collect();
        assert_eq!(names[0], "miragevpn-openvpn-udp");
        assert_eq!(names[5], "miragevpn-adit-tcp-aes128");
    }

    #[test]
    fn the_cipher_is_said_once() {
        let text = configuration("client\ncipher AES-256-GCM\ndata-ciphers AES-256-GCM\nverb 3\n");
        assert_eq!(text, "client\ncipher AES-256-GCM\nverb 3\n");
    }

    #[test]
    fn without_its_directory_it_cannot_run() {
        let tools = Tools {
            directory: "/".into(),
            load: "/".into(),
            adit: "/".into(),
            lab: "/".into(),
            external: "/".into(),
            miragevpn: None,
        };
        let said = all()[0].availability(&tools);
        assert!(matches!(&said, Availability::Impossible(why) if why.contains(VARIABLE)), "{said:?}");
    }
}
