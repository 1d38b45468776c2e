//! `adit block` and `adit allow`: whether a WireGuard peer may be connected, at a running interface.

use std::io;
use std::path::Path;

use adit_host::blocking::{BlockError, BlockOrder};
use adit_wireguard::PublicKey;
use adit_wireguard_config as wireguard;

use zeroize::Zeroizing;

use crate::configuration;
use crate::interface::{blocked_list, socket_path};
use crate::running::{Told, tell_blocked};
use adit_host::configuration::Unusable;

/// Keeps a peer out of a running interface, or lets it in again. The peer has the name of `#adit: name =`, or is a public key. The
/// tunnel is the interface's file, or the name of an interface whose file is in /etc/wireguard. Gives the sentence for the person who
/// asked.
///
/// # Errors
/// The order was not carried out.
pub(crate) fn set(order: &BlockOrder<'_>) -> Result<String, BlockError> {
    let (device, key) = find(order.tunnel, order.peer).map_err(BlockError::NoTunnel)?;
    let (peer, blocked) = (adit_core::printable(order.peer), order.is_blocked);
    match tell_blocked(&socket_path(&device), key, blocked) {
        Ok(Told::Done) => {
            if let Err(why) = blocked_list(&device).set(&key.to_string(), blocked) {
                return Err(BlockError::Failed(format!(
                    "{peer} is {} at {device}, but only until the interface starts anew: {why}",
                    if blocked { "blocked" } else { "allowed" }
                )));
            }
            Ok(match blocked {
                true => format!("{peer} is blocked at {device}."),
                false => format!("{peer} may connect to {device}."),
            })
        }
        Ok(Told::NotRunning) => Err(BlockError::Failed(format!("no interface {device} runs here"))),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let why = format!("the interface {device} is not run by adit: it cannot block peers");
            Err(BlockError::Failed(why))
        }
        Err(error) => Err(BlockError::Failed(format!("the interface {device} did not do it: {error}"))),
    }
}

/// The interface's name and the peer's key.
fn find(interface: &Path, peer: &str) -> Result<(String, PublicKey), String> {
    let is_file = interface.components().count() > 1 || interface.extension().is_some();
    let file = match is_file {
        true => interface.to_owned(),
        false => Path::new("/etc/wireguard").join(interface).with_extension("conf"),
    };
    let device = file.to_str().and_then(wireguard::interface_name);
    let device = device.ok_or_else(|| format!("{}: no interface has such a name", file.display()))?;
    if let Some(key) = PublicKey::from_base64(peer) {
        return Ok((device.to_owned(), key));
    }
    let parsed = parse(&file)?;
    let named = |known: &&wireguard::Peer| known.name.as_deref() == Some(peer);
    let found = parsed.config.peers.iter().find(named);
    let key = found.map(|known| known.public_key).ok_or_else(|| {
        let name = adit_core::printable(peer);
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
