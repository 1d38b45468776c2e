//! Changes at run time. SIGHUP reads the file again, and programs load connections and credentials by VICI: the connections that
//! changed are made anew. The others keep their SAs. Addresses and routes follow. A file with a mistake changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::{iter, slice};

use adit_core::{IpNet, Severity, TunnelSettings, escaped};
use adit_host::log::Logger;
use adit_host::place::place_in;
use adit_ike::machine::{Connection, Endpoint, Reply};
use adit_ike_config::{self as model, Config, Credentials};
use adit_io::Handle;

use crate::content::{check_machine, parse_gathered, texts};
use crate::loaded::Change;
use crate::names::{self, Resolver};
use crate::orders::Holds;
use crate::translate::{self, Planned};
use crate::{addresses, driver, settings};

/// Reads the file and has the endpoint take what it says.
///
/// # Errors
/// Why nothing was changed: one reason a line.
pub(crate) fn reload(handle: &Handle<Endpoint>, holds: &mut Holds, log: &mut Logger) -> Result<(), String> {
    let file = holds.file.clone();
    let gathered = holds.files.configuration();
    let gathered = gathered.map_err(|error| format!("{}: it cannot be read: {error}", file.display()))?;
    let content = parse_gathered(&file, &gathered)?;
    let mut loaded = holds.loaded.clone();
    loaded.file_was_read(&content.parsed.config);
    let config = loaded.merged(&content.parsed.config);
    let mut planned = content.planned;
    holds.devices.check(&planned)?;
    if !holds.has_programs && planned.iter().any(|planned| planned.programs().next().is_some()) {
        return Err(format!("{}: programs of `updown` where there were none need a restart", file.display()));
    }
    planned.extend(beside_the_file(&config, &planned, log));
    check_machine(&file, &planned).map_err(|failure| failure.why().to_owned())?;
    let mut connections = names::resolved(&planned, &Resolver::Helper(&holds.files), log);
    holds.devices.assign(planned.iter().zip(&mut connections));
    let no_helper = |error| format!("{}: the helper process does not take it: {error}", file.display());
    holds.files.adopt(None).map_err(no_helper)?;
    if content.parsed.config.forward != holds.from_file.forward {
        let place = place_in(&content.parsed.report, &file, &["forward"]);
        log.log(Severity::Warning, format_args!("{place}: forward changes at the next start"));
    }
    (holds.from_file, holds.loaded, holds.is_stale) = (content.parsed.config, loaded, false);
    holds.config = Arc::new(config);
    let (gone, new) = take(handle, holds, planned, connections);
    let text = format_args!("SIGHUP: {} holds: {gone} connections ended, {new} began", file.display());
    log.log(Severity::Info, text);
    Ok(())
}

/// The connections that programs have loaded, beside those of the file. One that lacks its secret now is left out, with a line in the
/// log.
fn beside_the_file(config: &Config, of_file: &[Planned], log: &mut Logger) -> Vec<Planned> {
    let credentials = Arc::new(config.credentials.clone());
    let is_further = |name: &str| of_file.iter().all(|planned| planned.connection.name != name);
    let further = config.connections.iter().filter(|of| is_further(&of.name));
    let planned = further.filter_map(|of| {
        let left_out = |why: &String| {
            log.log(Severity::Error, format_args!("{} is left out: {why}", of.name));
        };
        plan(config, &credentials, of).inspect_err(left_out).ok()
    });
    planned.collect()
}

/// A connection with the secrets, pools and certificates of `config`.
///
/// # Errors
/// A pool or a secret is missing, or a setting is not carried out: all reasons in one line.
fn plan(config: &Config, credentials: &Arc<Credentials>, of: &model::Connection) -> Result<Planned, String> {
    match of.pools.iter().find(|pool| config.pool(pool).is_none()) {
        Some(pool) => Err(format!("`pools`: there is no pool {pool}: load it before the connection")),
        None => translate::connection(config, credentials, of).map_err(|problems| texts(&problems)),
    }
}

/// Carries out a change that a program orders by VICI. Connections change at once, those that use changed secrets and certificates with
/// [`settle`].
///
/// # Errors
/// Why nothing was changed.
pub(crate) fn load(
    handle: &Handle<Endpoint>,
    holds: &mut Holds,
    change: Change,
    log: &mut Logger,
) -> Result<(), String> {
    if is_there(holds, &change) {
        return Ok(());
    }
    match change {
        Change::Connection(connection) => {
            settle(handle, holds, log);
            load_connection(handle, holds, *connection, log)
        }
        Change::RemoveConnection(name) => {
            holds.loaded.apply(Change::RemoveConnection(name.clone()), &holds.from_file)?;
            merge(holds);
            replace(handle, holds, &name, None);
            log.log(Severity::Info, format_args!("VICI: connection {name} was unloaded"));
            Ok(())
        }
        other => {
            holds.loaded.apply(other, &holds.from_file)?;
            merge(holds);
            holds.is_stale = true;
            Ok(())
        }
    }
}

/// Whether a change changes nothing: most of `swanctl --load-all` is so.
fn is_there(holds: &Holds, change: &Change) -> bool {
    let config = &holds.config;
    match change {
        Change::Connection(connection) => {
            let is_planned = |planned: &Planned| planned.connection.name == connection.name;
            config.connections.contains(connection) && holds.planned.iter().any(is_planned)
        }
        Change::Secret(kind, secret) => kind.of(config).contains(secret),
        Change::Certificate(kind, document) => kind.of(&config.credentials).contains(document),
        Change::Pool(pool) => config.pools.contains(pool),
        Change::Authority(authority) => config.authorities.contains(authority),
        _ => false,
    }
}

fn merge(holds: &mut Holds) {
    holds.config = Arc::new(holds.loaded.merged(&holds.from_file));
}

fn load_connection(
    handle: &Handle<Endpoint>,
    holds: &mut Holds,
    connection: model::Connection,
    log: &mut Logger,
) -> Result<(), String> {
    let name = connection.name.clone();
    let credentials = Arc::new(holds.config.credentials.clone());
    let planned = plan(&holds.config, &credentials, &connection)?;
    check_fixed(holds, &planned)?;
    let others = holds.planned.iter().filter(|other| other.connection.name != name);
    let all: Vec<Planned> = others.cloned().chain([planned.clone()]).collect();
    check_machine(&holds.file, &all).map_err(|failure| failure.why().to_owned())?;
    holds.loaded.apply(Change::Connection(Box::new(connection)), &holds.from_file)?;
    merge(holds);
    let before = holds.planned.iter().find(|other| other.connection.name == name);
    if before.is_some_and(|before| before.is_same_as(&planned)) {
        return Ok(());
    }
    let mut resolved = names::resolved(slice::from_ref(&planned), &Resolver::Helper(&holds.files), log);
    holds.devices.assign(iter::once(&planned).zip(&mut resolved));
    let resolved = resolved.pop().ok_or("it has no addresses")?;
    replace(handle, holds, &name, Some((planned, resolved)));
    log.log(Severity::Info, format_args!("VICI: connection {name} was loaded"));
    Ok(())
}

/// Whether a connection that a program loads is content with the devices and the programs of the start, which are the file's.
///
/// # Errors
/// The device or the program that the connection would need.
fn check_fixed(holds: &Holds, planned: &Planned) -> Result<(), String> {
    holds.devices.check(slice::from_ref(planned))?;
    let is_known =
        |program: &str| holds.planned.iter().any(|other| other.programs().any(|own| own == program));
    planned.programs().find(|program| !is_known(program)).map_or(Ok(()), |program| {
        let file = holds.file.display();
        Err(format!("`updown`: the programs of {file} alone are run, and {} is none", escaped(program)))
    })
}

/// Has the endpoint take changed secrets and certificates: the connections that use them are made anew. A connection that cannot be
/// without what was unloaded stays as it was, with a line in the log.
pub(crate) fn settle(handle: &Handle<Endpoint>, holds: &mut Holds, log: &mut Logger) {
    if !std::mem::take(&mut holds.is_stale) {
        return;
    }
    let config = Arc::clone(&holds.config);
    let credentials = Arc::new(config.credentials.clone());
    let before: BTreeMap<&str, usize> = indexes(&holds.planned);
    let (mut planned, mut connections) = (Vec::new(), Vec::new());
    for of in &config.connections {
        let Some(index) = before.get(of.name.as_str()).copied() else { continue };
        let (Some(old), Some(resolved)) = (holds.planned.get(index), holds.connections.get(index)) else {
            continue;
        };
        let new = plan(&config, &credentials, of).unwrap_or_else(|why| {
            log.log(Severity::Warning, format_args!("{} stays as it was: {why}", of.name));
            old.clone()
        });
        let (remotes, device) = (resolved.remotes.clone(), resolved.device);
        connections.push(Connection { remotes, device, ..new.connection.clone() });
        planned.push(new);
    }
    take(handle, holds, planned, connections);
}

/// Puts a connection in the place of the one of that name, or ends that one.
fn replace(handle: &Handle<Endpoint>, holds: &mut Holds, name: &str, new: Option<(Planned, Connection)>) {
    let place = holds.planned.iter().position(|planned| planned.connection.name == name);
    if let Some(place) = place {
        holds.planned.remove(place);
        holds.connections.remove(place);
        handle.reply(Reply::Remove(name.to_owned()));
    }
    let added = new.map(|(planned, connection)| {
        let place = place.unwrap_or(holds.planned.len());
        holds.planned.insert(place, planned);
        holds.connections.insert(place, connection.clone());
        connection
    });
    set_tunnel(handle, holds);
    if let Some(connection) = added {
        handle.reply(Reply::Add(Box::new(connection)));
    }
}

/// Has the endpoint take these connections in place of those that it has. Gives the number of those that ended, and of those that began.
fn take(
    handle: &Handle<Endpoint>,
    holds: &mut Holds,
    planned: Vec<Planned>,
    connections: Vec<Connection>,
) -> (usize, usize) {
    let (gone, new) = differences(holds, &planned, &connections);
    let counts = (gone.len(), new.len());
    for name in gone {
        handle.reply(Reply::Remove(name));
    }
    (holds.planned, holds.connections) = (planned, connections);
    set_tunnel(handle, holds);
    for connection in new {
        handle.reply(Reply::Add(Box::new(connection)));
    }
    counts
}

fn set_tunnel(handle: &Handle<Endpoint>, holds: &mut Holds) {
    look_at_addresses(handle, holds);
    let settings = new_settings(holds);
    holds.keeper.iter().for_each(|keeper| keeper.keep(settings::hosts(&holds.planned)));
    if settings != holds.settings {
        handle.reply(Reply::Tunnel(settings.clone()));
        holds.settings = settings;
    }
}

/// The addresses from which the peers are reached are known before this end initiates to them.
fn look_at_addresses(handle: &Handle<Endpoint>, holds: &mut Holds) {
    let sources = addresses::sources(&mut holds.netlink, &holds.connections);
    if sources != holds.sources {
        holds.sources.clone_from(&sources);
        handle.reply(Reply::Sources(sources));
    }
}

/// The MTU stays as it was at the start.
fn new_settings(holds: &mut Holds) -> TunnelSettings {
    let Holds { planned, connections, netlink, .. } = holds;
    if holds.keeper.is_some() {
        return settings::settings(planned, connections, Vec::new(), holds.settings.mtu);
    }
    let by_policy = planned.iter().filter(|planned| planned.is_policy_based());
    let networks: Vec<IpNet> = by_policy.flat_map(Planned::local_networks).collect();
    let addresses = driver::inner_addresses(netlink, &networks);
    let addresses = addresses.unwrap_or_else(|_| holds.settings.addresses.clone());
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
    let (old_places, new_places) = (indexes(&holds.planned), indexes(planned));
    let same = |one, places: &BTreeMap<&str, usize>, all: &[Planned], resolved: &[Connection]| {
        let (of, _): (&Planned, &Connection) = one;
        let place = places.get(of.connection.name.as_str()).copied();
        let other = place.and_then(|place| all.get(place).zip(resolved.get(place)));
        other.is_some_and(|other| is_same(one, other))
    };
    let gone = old().filter(|one| !same(*one, &new_places, planned, connections));
    let added = new().filter(|one| !same(*one, &old_places, &holds.planned, &holds.connections));
    (gone.map(|(_, connection)| connection.name.clone()).collect(), added.map(|(_, it)| it.clone()).collect())
}

/// The places of connections, by their names.
fn indexes(planned: &[Planned]) -> BTreeMap<&str, usize> {
    planned.iter().enumerate().map(|(place, planned)| (planned.connection.name.as_str(), place)).collect()
}
