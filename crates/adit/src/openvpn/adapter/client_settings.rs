//! Settings of one client, from its file or from a program, as the machine takes them.

use adit_core::configuration::{Failure, Problem};
use adit_openvpn::request::{PeerSettings, PushChange};
use adit_openvpn_config::{self as file, parse_client_file};

/// Reads settings in the form of the configuration. `file` is the name to use in messages. Gives them, and points
/// that their owner should look at.
///
/// # Errors
/// All problems found, each with its file and line.
pub(crate) fn parse(file: &str, text: &[u8]) -> Result<(PeerSettings, Vec<Problem>), Failure> {
    parse_client_file(file, text).map(|(settings, doubts)| (translated(settings), doubts))
}

fn translated(settings: file::ClientSettings) -> PeerSettings {
    let file::ClientSettings { disabled, ipv4, ipv6, routes, push, limits, username } = settings;
    let push = push.into_iter().map(|change| match change {
        file::PushChange::Add(option) => PushChange::Add(option),
        file::PushChange::Reset => PushChange::Reset,
        file::PushChange::Remove(prefix) => PushChange::Remove(prefix),
    });
    PeerSettings { disabled, ipv4, ipv6, routes, push: push.collect(), limits, username }
}
