//! `adit block` and `adit allow`: whether a peer may be connected to a tunnel.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_host::adapter::Adapter;
use adit_host::blocking::{BlockError, BlockOrder};
use adit_host::exit;

use crate::adapters::{ALL, SERVER, help};

/// The arguments of `adit block`.
#[derive(clap::Args)]
#[command(about = help::BLOCK)]
pub(crate) struct Block {
    #[command(flatten)]
    which: Which,
}

/// The arguments of `adit allow`.
#[derive(clap::Args)]
#[command(about = help::ALLOW)]
pub(crate) struct Allow {
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Args)]
struct Which {
    #[arg(help = help::BLOCK_TUNNEL)]
    interface: PathBuf,
    #[arg(help = help::BLOCK_PEER)]
    peer: String,
}

/// Runs `adit block`.
pub(crate) fn block(Block { which }: Block) -> ExitCode {
    run(&which, true)
}

/// Runs `adit allow`.
pub(crate) fn allow(Allow { which }: Allow) -> ExitCode {
    run(&which, false)
}

fn run(which: &Which, is_blocked: bool) -> ExitCode {
    let order = BlockOrder { tunnel: &which.interface, peer: &which.peer, is_blocked, is_known: false };
    match set(&order, |_| true) {
        Some(Ok(said)) => {
            exit::say(said);
            ExitCode::SUCCESS
        }
        Some(Err(BlockError::NoSuchPeer(why) | BlockError::NoTunnel(why))) => exit::usage(why),
        Some(Err(BlockError::Failed(why))) => exit::failure(why),
        None => exit::usage(format!("{}: its peers cannot be blocked", which.interface.display())),
    }
}

/// Has the protocol of the tunnel carry out an order, of those that `may`. Protocols whose tunnels have names beside their files take every
/// tunnel; they stand first in the table, and are asked last.
fn set(order: &BlockOrder<'_>, may: impl Fn(&dyn Adapter) -> bool) -> Option<Result<String, BlockError>> {
    let asked = ALL.iter().rev().filter(|adapter| may(**adapter));
    asked.copied().find_map(|adapter| adapter.set_blocked(order))
}

/// Lets a client that was added anew into the tunnel of a file, where its name was revoked before. Gives notes for the user.
pub(crate) fn let_in(file: &Path, name: &str) -> Vec<String> {
    let order = BlockOrder { tunnel: file, peer: name, is_blocked: false, is_known: true };
    match set(&order, |adapter| adapter.name() != SERVER.key.name()) {
        Some(Err(BlockError::NoTunnel(why) | BlockError::Failed(why) | BlockError::NoSuchPeer(why))) => {
            vec![why]
        }
        Some(Ok(_)) | None => Vec::new(),
    }
}

/// Keeps a client that was revoked out of the tunnels of a server's directory whose protocols have no certificates or keys of
/// `adit init`: those of its further files that know the name. Gives a sentence for each.
///
/// # Errors
/// A running tunnel did not do it, or a file is wrong: the client is not shut out.
pub(crate) fn shut_out(dir: &Path, name: &str) -> Result<Vec<String>, String> {
    let mut said = Vec::new();
    let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let files = entries.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "conf")).collect();
    files.sort();
    for file in files {
        let order = BlockOrder { tunnel: &file, peer: name, is_blocked: true, is_known: true };
        match set(&order, |adapter| adapter.name() != SERVER.key.name()) {
            Some(Ok(sentence)) => said.push(sentence),
            None | Some(Err(BlockError::NoSuchPeer(_))) => {}
            Some(Err(BlockError::NoTunnel(why) | BlockError::Failed(why))) => return Err(why),
        }
    }
    Ok(said)
}
