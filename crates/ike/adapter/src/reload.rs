//! SIGHUP: the file is read again, and the connections that changed in it are made anew. The others keep their SAs. Addresses and
//! routes follow. A file with a mistake changes nothing.

use adit_core::{IpNet, Severity, TunnelSettings};
use adit_host::log::Logger;
use adit_ike::machine::{Connection, Endpoint, Reply};
use adit_io::Handle;

use crate::content::{check_machine, parse_gathered};
use crate::names::{self, Resolver};
use crate::orders::Holds;
use crate::translate::Planned;
use crate::{driver, settings};

/// Reads the file and has the endpoint take what it says.
///
/// # Errors
/// Why nothing was changed: one reason a line.
pub(crate) fn reload(handle: &Handle<Endpoint>, holds: &mut Holds, log: &mut Logger) -> Result<(), String> {
    let file = holds.file.clone();
    let gathered = holds.files.configuration();
    let gathered = gathered.map_err(|error| format!("{}: it cannot be read: {error}", file.display()))?;
    let planned = parse_gathered(&file, &gathered)?.planned;
    check_machine(&file, &planned).map_err(|failure| failure.why().to_owned())?;
    let connections = names::resolved(&planned, &Resolver::Helper(&holds.files), log);
    let no_helper = |error| format!("{}: the helper process does not take it: {error}", file.display());
    holds.files.adopt(None).map_err(no_helper)?;
    let settings = new_settings(holds, &planned, &connections);
    let (gone, new) = differences(holds, &planned, &connections);
    let counts = (gone.len(), new.len());
    for name in gone {
        handle.reply(Reply::Remove(name));
    }
    holds.keeper.iter().for_each(|keeper| keeper.keep(settings::hosts(&planned)));
    if settings != holds.settings {
        handle.reply(Reply::Tunnel(settings.clone()));
    }
    for connection in new {
        handle.reply(Reply::Add(Box::new(connection)));
    }
    (holds.planned, holds.connections, holds.settings) = (planned, connections, settings);
    let (gone, new) = counts;
    let text = format_args!("SIGHUP: {} holds: {gone} connections ended, {new} began", file.display());
    log.log(Severity::Info, text);
    Ok(())
}

/// The MTU stays as it was at the start.
fn new_settings(holds: &Holds, planned: &[Planned], connections: &[Connection]) -> TunnelSettings {
    if holds.keeper.is_some() {
        return settings::settings(planned, connections, Vec::new(), holds.settings.mtu);
    }
    let networks: Vec<IpNet> = planned.iter().flat_map(Planned::local_networks).collect();
    // The system may not tell its addresses to a process without rights.
    let addresses = driver::inner_addresses(&networks).unwrap_or_else(|_| holds.settings.addresses.clone());
    settings::settings(planned, connections, addresses, holds.settings.mtu)
}

/// The names of the connections that are gone or have changed, and the connections that are new or have changed.
fn differences(
    holds: &Holds,
    planned: &[Planned],
    connections: &[Connection],
) -> (Vec<String>, Vec<Connection>) {
    let old = || holds.planned.iter().zip(&holds.connections);
    let new = || planned.iter().zip(connections);
    let is_same = |one: (&Planned, &Connection), other: (&Planned, &Connection)| {
        one.0.is_same_as(other.0) && one.1.remotes == other.1.remotes
    };
    let gone = old().filter(|one| !new().any(|other| is_same(*one, other)));
    let added = new().filter(|one| !old().any(|other| is_same(*one, other)));
    (gone.map(|(_, connection)| connection.name.clone()).collect(), added.map(|(_, it)| it.clone()).collect())
}
