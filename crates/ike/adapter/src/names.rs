//! The addresses of peers that the file names by a name.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;

use adit_core::{Severity, escaped};
use adit_guard::HelperFiles;
use adit_host::log::Logger;
use adit_ike::machine::Connection;

use crate::translate::{Planned, Target};

/// The way in which the addresses of names are looked up.
pub(crate) enum Resolver<'a> {
    /// This process, before it has given up its rights.
    System,
    /// This process, while the kill switch is on. The file has the name servers, in place of `/etc/resolv.conf`.
    Marked(Option<&'a Path>),
    /// The helper.
    Helper(&'a HelperFiles),
}

impl Resolver<'_> {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found: Vec<SocketAddr> = match self {
            Resolver::System => (name, 0).to_socket_addrs()?.collect(),
            Resolver::Marked(resolv_conf) => {
                adit_io::opener::look_up_marked(name, resolv_conf.map(Path::to_owned))?
            }
            Resolver::Helper(files) => files.look_up_one(name)?.map_err(io::Error::other)?,
        };
        if found.is_empty() {
            return Err(io::Error::other("the name has no address"));
        }
        Ok(found.into_iter().map(|address| address.ip().to_canonical()).collect())
    }
}

/// The connections with the addresses to initiate to. A name that cannot be resolved is left out, with a line in the log.
pub(crate) fn resolved(planned: &[Planned], by: &Resolver<'_>, log: &mut Logger) -> Vec<Connection> {
    planned.iter().map(|planned| with_remotes(planned, by, log)).collect()
}

fn with_remotes(planned: &Planned, by: &Resolver<'_>, log: &mut Logger) -> Connection {
    let mut connection = planned.connection.clone();
    let (remotes, failures) = remotes(planned, by);
    failures.iter().for_each(|failure| log.log(Severity::Error, failure));
    connection.remotes = remotes;
    connection
}

/// The addresses to initiate to, and the names that cannot be resolved, each with its line and the reason.
pub(crate) fn remotes(planned: &Planned, by: &Resolver<'_>) -> (Vec<SocketAddr>, Vec<String>) {
    let (mut remotes, mut failures) = (Vec::new(), Vec::new());
    for target in &planned.targets {
        match target {
            Target::Address(address) => remotes.push((*address, planned.port).into()),
            Target::Name(name) => match by.resolve(name) {
                Ok(found) => {
                    remotes.extend(found.into_iter().map(|address| SocketAddr::new(address, planned.port)));
                }
                Err(error) => failures.push(format!("{}: {}: {error}", planned.place, escaped(name))),
            },
        }
    }
    (remotes, failures)
}

/// The names of all connections.
pub(crate) fn names(planned: &[Planned]) -> Vec<String> {
    let targets = planned.iter().flat_map(|planned| &planned.targets);
    let names = targets.filter_map(|target| match target {
        Target::Name(name) => Some(name.clone()),
        Target::Address(_) => None,
    });
    names.collect()
}

/// The connections with an address in the place of each name.
pub(crate) fn with_stand_ins(planned: &[Planned]) -> Vec<Connection> {
    /// For documentation (RFC 5737).
    const STAND_IN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    let connection = |planned: &Planned| {
        let mut connection = planned.connection.clone();
        let address = |target: &Target| match target {
            Target::Address(address) => (*address, planned.port).into(),
            Target::Name(_) => (STAND_IN, planned.port).into(),
        };
        connection.remotes = planned.targets.iter().map(address).collect();
        connection
    };
    planned.iter().map(connection).collect()
}
