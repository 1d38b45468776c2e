//! A status report for people: who is connected, and what is not well.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use adit_core::escaped;

use super::columns::Columns;
use super::details;
use super::units::{bytes, duration};
use crate::adapters;
use adit_host::adapter::Adapter;
use adit_host::status::report::{Peer, Report, Switch, Unconnected};

/// Peers that are shown of those that are not connected.
const MOST_UNCONNECTED: usize = 20;
/// The roles with one peer, which is shown in lines of its own.
const SINGLE: [&str; 2] = ["client", "static key"];

/// The text about a tunnel, by the reports of its endpoints, without a line end at its end. With `with_details` it has all that the
/// reports say.
pub(super) fn tunnel(endpoints: &[&Report], with_details: bool) -> String {
    let mut out = String::new();
    let Some(first) = endpoints.first() else { return out };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}", title(endpoints, first));
    match SINGLE.contains(&first.role.as_str()) {
        true => endpoints.iter().for_each(|report| server(&mut out, report)),
        false => clients(&mut out, endpoints),
    }
    unconnected(&mut out, endpoints);
    expiring(&mut out, endpoints);
    match with_details {
        true => details::write(&mut out, endpoints),
        false => troubles(&mut out, endpoints),
    }
    out.truncate(out.trim_end().len());
    out
}

/// The first line. The counts are those of all endpoints.
fn title(endpoints: &[&Report], first: &Report) -> String {
    let [role, device] = [&first.role, &first.device].map(|text| escaped(text));
    let names: Vec<_> = endpoints.iter().map(|report| escaped(&report.name)).collect();
    let names = names.join(", ");
    let all: Vec<_> = first.endpoints.iter().map(|name| escaped(name)).collect();
    match (endpoints.len(), all.len()) {
        (1, 0..2) => format!("{names} ({role}, pid {}) on {device}", first.pid),
        (1, _) => format!("{names} ({role}, pid {}) on {device}, one of {}", first.pid, all.join(", ")),
        _ => format!("{names} ({role}, pid {}), endpoints of one tunnel on {device}", first.pid),
    }
}

/// Writes the server of a client, or the other end of a tunnel with a static key.
fn server(out: &mut String, report: &Report) {
    let Some(peer) = report.peers.first() else {
        let _ = writeln!(out, "  not connected");
        return;
    };
    let [name, transport] = [&peer.name, &peer.transport].map(|text| escaped(text));
    let _ = writeln!(out, "  connected to {name} at {transport} {}", peer.remote);
    let _ =
        writeln!(out, "    since      {} ago, last heard {}", duration(peer.connected_seconds), heard(peer));
    let _ = writeln!(out, "    addresses  {}", addresses(peer));
    let (sent, received) = (bytes(peer.bytes_sent), bytes(peer.bytes_received));
    let _ = writeln!(out, "    traffic    {sent} sent, {received} received");
}

/// Writes the clients of a server, or the peers of a protocol without servers, sorted by name.
fn clients(out: &mut String, endpoints: &[&Report]) {
    let mut all: Vec<(&Report, &Peer)> =
        endpoints.iter().flat_map(|report| report.peers.iter().map(move |peer| (*report, peer))).collect();
    if all.is_empty() {
        let who = if endpoints.iter().all(|report| by_role(report).is_some()) { "peers" } else { "clients" };
        let _ = writeln!(out, "  no {who} connected");
        return;
    }
    all.sort_by_key(|(_, peer)| (peer.name.to_lowercase(), peer.remote));
    let header = ["NAME", "PROTOCOL", "FROM", "ADDRESS", "SINCE", "LAST HEARD", "SENT", "RECEIVED"];
    let mut table = Columns::new(header, [false, false, false, false, false, false, true, true]);
    for (report, peer) in all {
        table.push([
            escaped(&peer.name).into_owned(),
            protocol(report, peer),
            peer.remote.to_string(),
            addresses(peer),
            format!("{} ago", duration(peer.connected_seconds)),
            heard(peer),
            bytes(peer.bytes_sent),
            bytes(peer.bytes_received),
        ]);
    }
    table.write(out);
}

fn protocol(report: &Report, peer: &Peer) -> String {
    let adapter = by_role(report).or(adapters::ALL.last());
    let name = adapter.map_or("", |adapter| adapter.title());
    format!("{name} {}", escaped(&peer.transport))
}

/// The protocol whose name is the role of the tunnel: its ends have no roles of their own.
fn by_role(report: &Report) -> Option<&'static &'static dyn Adapter> {
    adapters::ALL.iter().find(|adapter| adapter.name() == report.role)
}

/// The inner addresses of a peer, or the networks behind it if it has no address.
fn addresses(peer: &Peer) -> String {
    match peer.addresses.as_slice() {
        [] if peer.networks.is_empty() => "-".to_owned(),
        [] => escaped(&peer.networks.join(", ")).into_owned(),
        addresses => addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The time since a peer was last heard; `-` for a tunnel that an older adit runs, which does not report it.
fn heard(peer: &Peer) -> String {
    peer.last_heard_seconds_ago.map_or_else(|| "-".to_owned(), |ago| format!("{} ago", duration(ago)))
}

fn unconnected(out: &mut String, endpoints: &[&Report]) {
    let all: Vec<&Unconnected> = endpoints.iter().flat_map(|report| &report.unconnected).collect();
    for peer in all.iter().take(MOST_UNCONNECTED) {
        let state = match (peer.blocked, peer.unanswered) {
            (true, _) => "blocked".to_owned(),
            (false, 0) => "no handshake yet".to_owned(),
            (false, 1) => "1 initiation without an answer".to_owned(),
            (false, count) => format!("{count} initiations without an answer"),
        };
        let remote = peer.remote.map_or_else(|| "no endpoint".to_owned(), |remote| format!("at {remote}"));
        let _ = writeln!(out, "  not connected: {} {remote}: {state}", escaped(&peer.name));
    }
    if let Some(more @ 1..) = all.len().checked_sub(MOST_UNCONNECTED) {
        let _ = writeln!(out, "  and {more} more that are not connected; --json shows all");
    }
}

fn expiring(out: &mut String, endpoints: &[&Report]) {
    for expiring in endpoints.iter().flat_map(|report| &report.expiring) {
        let _ = writeln!(out, "  warning: {}", escaped(&expiring.to_string()));
    }
}

/// Writes a line for each trouble of a tunnel: parts that are limited, are switched off or do not work, packets that were lost or
/// dropped, and tables that were full.
fn troubles(out: &mut String, endpoints: &[&Report]) {
    let Some(first) = endpoints.first() else { return };
    off(out, "offload", &first.offloads);
    off(out, "sandbox", &first.sandbox);
    limited_destinations(out, endpoints);
    drops(out, "dropped sending", &first.sent.drops);
    drops(out, "dropped receiving", &first.received.drops);
    for report in endpoints {
        drops(out, "lost", &report.losses);
        for table in report.tables.iter().filter(|table| table.evicted > 0 || table.refused > 0) {
            let _ = writeln!(out, "  limit: {}", escaped(&table.to_string()));
        }
    }
}

fn off(out: &mut String, what: &str, switches: &BTreeMap<String, Switch>) {
    for (name, state) in switches {
        let name = escaped(name);
        let _ = match state {
            Switch::On => Ok(()),
            Switch::SwitchedOff => writeln!(out, "  {what}: {name} is switched off"),
            Switch::Failed { why } => writeln!(out, "  {what}: {name} is off ({})", escaped(why)),
        };
    }
}

/// Writes the number of destinations whose paths do not take the datagrams that UDP_SEGMENT makes.
pub(super) fn limited_destinations(out: &mut String, endpoints: &[&Report]) {
    let limited: usize = endpoints.iter().map(|report| report.gso_limited_destinations).sum();
    if limited > 0 {
        let _ = writeln!(out, "  udp-gso: limited for {limited} of the destinations, whose path is narrow");
    }
}

/// Writes a line for each reason, with its count.
pub(super) fn drops(out: &mut String, label: &str, reasons: &BTreeMap<String, u64>) {
    for (reason, count) in reasons {
        let _ = writeln!(out, "  {label}: {count} ({})", escaped(reason));
    }
}

#[cfg(test)]
pub(super) mod tests;
