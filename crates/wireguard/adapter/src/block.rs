//! `adit block` and `adit allow`: whether a WireGuard peer may be connected, at a running interface.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_wireguard::PublicKey;
use adit_wireguard_config as wireguard;

use zeroize::Zeroizing;

use crate::configuration;
use crate::interface::{BlockedFile, socket_path};
use crate::running::{Told, tell_blocked};
use adit_host::configuration::Unusable;
use adit_host::exit;

/// Disconnect a WireGuard peer and keep it out until `adit allow`, over restarts of the interface, too
#[derive(clap::Args)]
pub(crate) struct Block {
    #[command(flatten)]
    which: Which,
}

/// Let a WireGuard peer connect again that `adit block`, or its session limit, has kept out
#[derive(clap::Args)]
pub(crate) struct Allow {
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Args)]
struct Which {
    /// The interface's file, or the name of an interface whose file is in /etc/wireguard
    interface: PathBuf,
    /// The peer: what `#adit: name =` calls it, or its public key
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

fn run(which: &Which, blocked: bool) -> ExitCode {
    let (device, key) = match find(which) {
        Ok(found) => found,
        Err(why) => return exit::usage(why),
    };
    let peer = adit_core::printable(&which.peer);
    match tell_blocked(&socket_path(&device), key, blocked) {
        Ok(Told::Done) => {
            if let Err(why) = BlockedFile::of(&device).set(key, blocked) {
                return exit::failure(format!(
                    "{peer} is {} at {device}, but only until the interface starts anew: {why}",
                    if blocked { "blocked" } else { "allowed" }
                ));
            }
            exit::say(match blocked {
                true => format!("{peer} is blocked at {device}."),
                false => format!("{peer} may connect to {device}."),
            });
            ExitCode::SUCCESS
        }
        Ok(Told::NotRunning) => exit::failure(format!("no interface {device} runs here")),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            exit::failure(format!("the interface {device} is not run by adit: it cannot block peers"))
        }
        Err(error) => exit::failure(format!("the interface {device} did not do it: {error}")),
    }
}

/// The interface's name and the peer's key.
fn find(which: &Which) -> Result<(String, PublicKey), String> {
    let is_file = which.interface.components().count() > 1 || which.interface.extension().is_some();
    let file = match is_file {
        true => which.interface.clone(),
        false => Path::new("/etc/wireguard").join(&which.interface).with_extension("conf"),
    };
    let device = file.to_str().and_then(wireguard::interface_name);
    let device = device.ok_or_else(|| format!("{}: no interface has such a name", file.display()))?;
    if let Some(key) = PublicKey::from_base64(&which.peer) {
        return Ok((device.to_owned(), key));
    }
    let parsed = parse(&file)?;
    let named = |peer: &&wireguard::Peer| peer.name.as_deref() == Some(which.peer.as_str());
    let peer = parsed.config.peers.iter().find(named);
    let key = peer.map(|peer| peer.public_key).ok_or_else(|| {
        let name = adit_core::printable(&which.peer);
        format!(
            "{}: no peer has the name {name} (`#adit: name = {name}`), and it is no public key",
            file.display()
        )
    })?;
    Ok((device.to_owned(), key))
}

/// The WireGuard file of an interface.
fn parse(file: &Path) -> Result<wireguard::Parsed, String> {
    let text = std::fs::read(file).map(Zeroizing::new);
    let text = text.map_err(|error| Unusable::Unreadable(file.display().to_string(), error).to_string())?;
    match wireguard::is_recognized(&text) {
        true => configuration::parse(file, &text).map_err(|failure| failure.to_string()),
        false => Err(format!("{}: it is no WireGuard file", file.display())),
    }
}
