//! PUSH_UPDATE at a server: connected clients are told of other settings.

use adit_core::{Instant, PeerId, Severity};
use thiserror::Error;

use super::Server;
use super::peer::Peer;
use crate::control_message::{PushError, encode_push_update};
use crate::pushed::Change;

/// Why an update is sent to no client.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PushUpdateError {
    /// It is empty.
    #[error("the update names no option")]
    Empty,
    /// An option that clients would refuse, and connect anew for.
    #[error("{0}")]
    NotUpdatable(String),
    /// The addresses of clients are the pool's.
    #[error(
        "\"{0}\" would change a client's address, which the pool gives; change it by `client-config-dir` or a script"
    )]
    Address(String),
    /// An option that does not fit a message.
    #[error(transparent)]
    Encoding(#[from] PushError),
}

impl Server {
    /// Sends changes to the options, parted by commas (`-OPTION` removes, `?OPTION` need not be understood), to the client of
    /// that number ([`crate::request::PeerDetail::number`]), or to all. Gives the number of clients that it was sent to:
    /// those that are up and understand it (`IV_PROTO` bit 12).
    ///
    /// What clients are pushed when they connect stays as it was.
    ///
    /// # Errors
    /// Nothing is sent when a client would refuse part of it.
    pub fn push_update(
        &mut self,
        now: Instant,
        client: Option<u64>,
        changes: &str,
    ) -> Result<usize, PushUpdateError> {
        self.now = now;
        let messages = messages(changes)?;
        let is_meant = |peer: &Peer| {
            client.is_none_or(|number| peer.number() == number) && peer.is_up() && !peer.is_refused()
        };
        let meant: Vec<PeerId> =
            self.peers.iter().filter(|(_, peer)| is_meant(peer)).map(|(id, _)| *id).collect();
        let mut sent = 0;
        for id in meant {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            if !peer.understands_updates() {
                let text = format!("{} understands no PUSH_UPDATE; nothing is sent to it", peer.name());
                let path = peer.path();
                self.report(Severity::Debug, Some(path), text);
                continue;
            }
            messages.iter().for_each(|message| peer.send_message(now, message));
            sent += 1;
            self.settle(id);
        }
        Ok(sent)
    }
}

/// The control messages of an update.
fn messages(changes: &str) -> Result<Vec<String>, PushUpdateError> {
    let mut options = Vec::new();
    for text in changes.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let change = Change::parse(text);
        change.check().map_err(PushUpdateError::NotUpdatable)?;
        if change.is_address() {
            return Err(PushUpdateError::Address(text.to_owned()));
        }
        options.push(text.to_owned());
    }
    if options.is_empty() {
        return Err(PushUpdateError::Empty);
    }
    Ok(encode_push_update(&options)?)
}
