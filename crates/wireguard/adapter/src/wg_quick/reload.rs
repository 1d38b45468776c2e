//! SIGHUP: the file is read again, and what it says now holds at once, as by `wg syncconf`: peers that stay keep their
//! sessions. Addresses, routes and name servers follow. A file with a mistake changes nothing.

use std::collections::BTreeSet;
use std::path::Path;

use adit_core::{RouteTable, Severity, TunnelSettings};
use adit_guard::HelperFiles;
use adit_wireguard::{Changes, PeerChange, PublicKey, Reply, Status};
use adit_wireguard_config::{Config, Parsed, Table};

use super::access::Words;
use super::changes;
use super::names::{self, Families, NamedPeers, Resolver};
use crate::network;
use crate::network::Routes;
use crate::streams::Streams;
use crate::{configuration, interface as wireguard};
use adit_host::access::AccessRules;
use adit_host::failure::Failure;
use adit_host::log::Logger;
use adit_host::place::place_in;

/// The settings that hold.
pub(super) struct Holds {
    /// The file as it was read last.
    pub(super) config: Config,
    /// The system's settings.
    pub(super) settings: TunnelSettings,
    /// How allowed IPs become routes.
    pub(super) routes: Routes,
    /// The part that decides on the peers that may be connected.
    pub(super) access: Words,
    /// The peers whose endpoints are resolved again.
    pub(super) named: NamedPeers,
    /// The peers that are reached over TCP.
    pub(super) streams: Streams,
    /// The firewall mark is that of the start: routing or the kill switch goes by it.
    pub(super) keeps_mark: bool,
    /// Reads and writes the file.
    pub(super) files: HelperFiles,
    /// The access rules beside the file.
    pub(super) rules: AccessRules,
}

/// Reads the file and has the interface take what it says.
///
/// # Errors
/// Why nothing was changed: one reason a line.
pub(super) fn reload(
    file: &Path,
    interface: &wireguard::Orders,
    holds: &mut Holds,
    log: &mut Logger,
) -> Result<(), String> {
    let gathered = holds.files.configuration();
    let gathered = gathered.map_err(|error| format!("{}: it cannot be read: {error}", file.display()))?;
    let parsed = configuration::parse_gathered(file, &gathered)?;
    for why in fixed(file, holds, &parsed) {
        log.log(Severity::Warning, why);
    }
    let resolver = Resolver::Helper(&holds.files);
    let sockets = interface.sockets().ok_or("the tunnel has ended")?;
    let by = (&resolver, Families::of(sockets));
    let endpoints = names::look_up(file, &parsed, by, log).map_err(|failure| match failure {
        Failure::World(why) | Failure::Configuration(why) => why,
    })?;
    let status = interface.status().ok_or("the tunnel has ended")?;
    let all = changes(&parsed.config, &endpoints, &holds.streams);
    let changes = differences(all, &parsed.config, &status, holds.keeps_mark);
    let outcome = interface.configure(Box::new(changes)).ok_or("the tunnel has ended")?;
    outcome.map_err(|error| error.to_string())?;
    let no_helper = |error| format!("{}: the helper process does not take it: {error}", file.display());
    holds.files.adopt(None).map_err(no_helper)?;
    let mut config = parsed.config;
    // They hold until the next start.
    config.interface.table = holds.config.interface.table.clone();
    config.interface.mtu = holds.config.interface.mtu;
    config.interface.full_tunnel = holds.config.interface.full_tunnel;
    let mut settings = network::settings(&config, holds.settings.mtu, holds.routes);
    if !holds.routes.go_by_mark() {
        settings.routes.retain(|route| !is_new_default(&holds.settings, route.destination.prefix_len()));
    }
    if settings != holds.settings {
        interface.handle().reply(Reply::Tunnel(settings.clone()));
    }
    holds.access.config(&config);
    holds.named.replace(&config);
    (holds.config, holds.settings) = (config, settings);
    log.log(Severity::Info, format_args!("SIGHUP: {} holds", file.display()));
    Ok(())
}

/// A default route in the main table would lead the tunnel's own datagrams into it.
fn is_new_default(settings: &TunnelSettings, prefix_len: u8) -> bool {
    settings.table == RouteTable::Main && prefix_len == 0
}

/// The changes in the file that hold from the next start on, in words with their lines.
fn fixed(file: &Path, holds: &Holds, parsed: &Parsed) -> Vec<String> {
    let (old, new) = (&holds.config.interface, &parsed.config.interface);
    let by_mark = holds.routes.go_by_mark();
    let has_default = |config: &Config| network::allowed_ips(config).iter().any(|net| net.prefix_len() == 0);
    // A mark, and rules by it, are there from the start on or never.
    let first_default = new.table == Table::Auto && !by_mark && has_default(&parsed.config);
    // The part that runs programs is there from the start on or never.
    let first_program = configuration::programs(old).is_none();
    let changed = [
        ("MTU", old.mtu != new.mtu),
        ("Table", old.table != new.table),
        ("FwMark", holds.keeps_mark && old.fwmark != new.fwmark),
        ("PreUp", old.pre_up != new.pre_up),
        ("PostUp", old.post_up != new.post_up),
        ("PreDown", old.pre_down != new.pre_down),
        ("PostDown", old.post_down != new.post_down),
        ("client-connect", first_program && new.client_connect.is_some()),
        ("client-disconnect", first_program && new.client_disconnect.is_some()),
        ("full-tunnel", old.full_tunnel.unwrap_or_default() != new.full_tunnel.unwrap_or_default()),
        ("forward", old.forward != new.forward),
        ("listen-tcp", old.listen_tcp != new.listen_tcp),
        ("tcp", holds.streams.differ(&parsed.config)),
        ("AllowedIPs", first_default && !has_default(&holds.config)),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    changed
        .map(|(key, _)| {
            let what = if key == "AllowedIPs" { "a first default route" } else { key };
            format!("{}: {what} changes at the next start", place_in(&parsed.report, file, &[key]))
        })
        .collect()
}

/// The changes that make a running interface that of the file.
fn differences(mut all: Changes, config: &Config, status: &Status, keeps_mark: bool) -> Changes {
    let stays: BTreeSet<PublicKey> = all.peers.iter().map(|peer| peer.public_key).collect();
    let current = |key: &PublicKey| status.peers.iter().find(|peer| peer.detail.public_key == *key);
    for peer in &mut all.peers {
        peer.persistent_keepalive = Some(peer.persistent_keepalive.unwrap_or_default());
        // Where a peer is already, it need not be moved to.
        peer.endpoint = peer
            .endpoint
            .filter(|new| current(&peer.public_key).and_then(|it| it.detail.endpoint) != Some(*new));
    }
    let gone = status.peers.iter().map(|peer| peer.detail.public_key).filter(|key| !stays.contains(key));
    let gone = gone.map(|key| PeerChange { remove: true, ..PeerChange::new(key) });
    all.peers = gone.chain(std::mem::take(&mut all.peers)).collect();
    all.replace_peers = false;
    // One port that the system chose is as good as another.
    all.listen_port = all.listen_port.filter(|port| *port != 0);
    all.fwmark = (!keeps_mark).then(|| config.interface.fwmark.unwrap_or_default());
    all
}
