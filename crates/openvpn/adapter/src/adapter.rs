//! OpenVPN as the program knows it.

use std::path::Path;

use adit_host::adapter::{Adapter, Configuration, Unreadable};
use adit_host::adoption::Adoption;
use adit_host::bench::Row;
use adit_host::commands::{CommandOf, Group, Personality, Subcommand};
use adit_host::manual::Page;

use crate::file::OpenVpnConfiguration;
use crate::{NAME, TITLE, adopt, bench, command, configuration, manual, pkcs11};

/// OpenVPN.
#[derive(Debug)]
pub struct OpenVpn;

const COMMANDS: &[&dyn Subcommand] = &[
    &CommandOf::new(command::NAME, Group::Programs, command::run),
    &CommandOf::new(pkcs11::NAME, Group::Internal, pkcs11::run),
];

const PERSONALITIES: &[Personality] = &[Personality { is_called: command::is_called, main: command::main }];

impl Adapter for OpenVpn {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        TITLE
    }

    /// Any text may be a configuration of OpenVPN's: a file has no mark.
    fn recognizes(&self, _text: &[u8]) -> bool {
        true
    }

    fn read(&self, file: &Path, text: &[u8]) -> Result<Box<dyn Configuration>, Unreadable> {
        let parsed = Box::new(configuration::parse(file, text)?);
        Ok(Box::new(OpenVpnConfiguration::new(file.to_owned(), parsed)))
    }

    fn helper_files(&self) -> adit_guard::Dialect {
        configuration::HELPER
    }

    fn use_command_line(&self, options: String) {
        configuration::use_command_line(options);
    }

    fn commands(&self) -> &'static [&'static dyn Subcommand] {
        COMMANDS
    }

    fn personalities(&self) -> &'static [Personality] {
        PERSONALITIES
    }

    fn pages(&self) -> Vec<Page> {
        vec![manual::page()]
    }

    fn directives(&self) -> Option<String> {
        Some(adit_openvpn_config::documentation())
    }

    fn adoption(&self) -> Option<&'static dyn Adoption> {
        Some(&adopt::OpenVpnUnits)
    }

    fn bench(&self) -> Vec<Row> {
        bench::rows()
    }
}
