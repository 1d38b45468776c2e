//! OpenVPN in a server's directory: `server.conf`, and the profiles of clients.

mod layout;
mod profile;
mod reach;
mod read;
mod secrets;

use std::path::Path;

use adit_pki::issue::Issued;
use adit_setup::{CertificateProtocol, Layout, NewClient, NewServer, Room, Secret, SetupError};
use zeroize::Zeroizing;

use crate::adapter::OpenVpn;
use crate::command;

impl CertificateProtocol for OpenVpn {
    fn title(&self) -> &'static str {
        crate::TITLE
    }

    fn other_program(&self) -> &'static str {
        command::NAME
    }

    fn ending(&self) -> &'static str {
        "ovpn"
    }

    fn new_secret(&self) -> Result<Secret, SetupError> {
        secrets::new_server()
    }

    fn server(&self, server: &NewServer<'_>) -> Zeroizing<String> {
        profile::server(server)
    }

    fn client(&self, dir: &Path, client: &NewClient<'_>) -> Result<Zeroizing<String>, SetupError> {
        Ok(profile::client(client, &secrets::of_client(dir, client.now)?))
    }

    fn check(&self, text: &str, file: &str) -> Result<(), SetupError> {
        profile::check(text, file)
    }

    fn certificate<'a>(&self, text: &'a str) -> Option<&'a str> {
        read::block(text, "cert")
    }

    fn with_certificate(&self, text: &str, issued: &Issued) -> Option<Zeroizing<String>> {
        profile::with_certificate(text, issued)
    }

    fn with_authority(&self, text: &str, certificate: &str) -> Option<Zeroizing<String>> {
        profile::with_authority(text, certificate)
    }

    fn revocation_advice(&self, server: &str, list: &Path) -> Option<String> {
        let looks = server.lines().any(|line| line.trim_start().starts_with("crl-verify"));
        (!looks).then(|| {
            format!(
                "server.conf does not look at the list yet: add the line `crl-verify {}` to it and restart \
                 the server",
                profile::quoted(list)
            )
        })
    }

    fn layout(&self, path: &Path, text: &str, other: Option<&str>) -> Result<Layout, String> {
        layout::of(&layout::parse(path, text)?, other)
    }

    fn with_device(&self, path: &Path, text: &str, device: &str) -> Result<Zeroizing<String>, String> {
        Ok(layout::with_device(text, &layout::parse(path, text)?, device))
    }

    fn with_room(&self, path: &Path, text: &str, room: Room<'_>) -> Result<Zeroizing<String>, String> {
        Ok(layout::with_room(text, &layout::parse(path, text)?, room))
    }
}
