//! WireGuard as the program knows it.

use std::path::Path;
use std::sync::Arc;

use adit_host::adapter::{Adapter, Configuration, Unreadable};
use adit_host::bench::Row;
use adit_host::blocking::{BlockError, BlockOrder};
use adit_host::commands::{CommandOf, Group, Personality, Subcommand};
use adit_host::manual::Program;
use adit_wireguard_config::is_recognized;

use crate::file::WireGuardConfiguration;
use crate::{NAME, TITLE, bench, block, command, configuration};

/// WireGuard.
#[derive(Debug)]
pub struct WireGuard;

const COMMANDS: &[&dyn Subcommand] = &[&CommandOf::new(NAME, Group::Programs, command::run)];

const PERSONALITIES: &[Personality] = &[Personality { is_called: command::is_called, main: command::main }];

impl Adapter for WireGuard {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        TITLE
    }

    fn recognizes(&self, text: &[u8]) -> bool {
        is_recognized(text)
    }

    fn read(&self, file: &Path, text: &[u8]) -> Result<Box<dyn Configuration>, Unreadable> {
        let parsed = Arc::new(configuration::parse(file, text)?);
        Ok(Box::new(WireGuardConfiguration::new(file.to_owned(), parsed)))
    }

    fn helper_files(&self) -> adit_guard::Dialect {
        configuration::HELPER
    }

    fn commands(&self) -> &'static [&'static dyn Subcommand] {
        COMMANDS
    }

    fn personalities(&self) -> &'static [Personality] {
        PERSONALITIES
    }

    fn set_blocked(&self, order: &BlockOrder<'_>) -> Option<Result<String, BlockError>> {
        // Interfaces have names, and a file that cannot be read may be one of theirs.
        Some(block::set(order))
    }

    fn programs(&self) -> Vec<Program> {
        vec![Program { command: command::command(), section: "8" }]
    }

    fn bench(&self) -> Vec<Row> {
        bench::rows()
    }
}
