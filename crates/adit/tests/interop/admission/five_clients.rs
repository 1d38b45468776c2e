//! Five clients at once on one server.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use adit_testbed::{MAX_WAIT, Ping, can_run, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER, Wrap};

#[test]
fn five_clients_reach_each_other_with_client_to_client() {
    check(true);
}

#[test]
fn five_clients_do_not_reach_each_other_without_client_to_client() {
    check(false);
}

fn check(client_to_client: bool) {
    if can_run("five clients at once", &PROGRAMS) {
        share_a_server(Program::Adit, Program::OpenVpn, client_to_client);
    }
}

/// Five clients at a server of that program: two of adit, and three of `other`.
pub(crate) fn share_a_server(server: Program, other: Program, client_to_client: bool) {
    let options = Options { client_to_client, wrap: Wrap::TlsCrypt, ..Options::BASE };
    let clients = [other, Program::Adit, other, Program::Adit, other];
    let mut bed = Bed::build(&options, server, &clients).unwrap();
    let outcome = play(&mut bed, client_to_client);
    assert!(outcome.is_ok(), "{}\n{}", outcome.unwrap_err(), bed.logs());
}

fn play(bed: &mut Bed, client_to_client: bool) -> Result<(), String> {
    bed.server.start().map_err(|e| e.to_string())?;
    for client in &mut bed.clients {
        client.start().map_err(|e| e.to_string())?;
    }
    let server: [IpAddr; 2] = SERVER_INNER.map(|address| address.parse().unwrap());
    let mut addresses = Vec::new();
    for client in &bed.clients {
        for target in server {
            wait_until_reachable(&client.namespace, target, MAX_WAIT).map_err(|e| e.to_string())?;
        }
        addresses.push(client.inner_addresses().map_err(|e| e.to_string())?);
    }
    let distinct: BTreeSet<IpAddr> = addresses.iter().flatten().chain(&server).copied().collect();
    if distinct.len() != 2 * (bed.clients.len() + 1) {
        return Err(format!("not each its own IPv4 and IPv6 address: {addresses:?}"));
    }
    bed.check_kernel_data_channels()?;
    each_pings_each(bed, &addresses, if client_to_client { 10 } else { 0 })
}

/// Every client pings every other, in both families, ten times. So many of each ten must be answered.
pub(crate) fn each_pings_each(bed: &Bed, addresses: &[Vec<IpAddr>], expected: u32) -> Result<(), String> {
    let mut ping = Ping::new(10, Duration::from_millis(10));
    if expected == 0 {
        ping.timeout = Duration::from_secs(2);
    }
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (from, client) in bed.clients.iter().enumerate() {
            for (_, targets) in addresses.iter().enumerate().filter(|(to, _)| *to != from) {
                for target in targets {
                    let thread = scope.spawn(move || ping.run(&client.namespace, *target));
                    running.push((from, *target, thread));
                }
            }
        }
        for (from, target, thread) in running {
            let report = thread.join().unwrap().map_err(|e| e.to_string())?;
            if report.received != expected {
                return Err(format!("client {from} to {target}: {expected} answers expected, {report:?}"));
            }
        }
        Ok(())
    })
}
