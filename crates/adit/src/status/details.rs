//! All that a status report says (`--details`): offloads, sandbox, counts, limits, and each peer's keys and handshakes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use adit_core::escaped;

use super::show::{drops, limited_destinations};
use super::units::{bytes, duration};
use adit_host::status::report::{Direction, Peer, Report, Session, Switch, Worker};

/// Writes it, a line each.
pub(super) fn write(out: &mut String, endpoints: &[&Report]) {
    let Some(first) = endpoints.first() else { return };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "  offloads   {}", switches(&first.offloads));
    limited_destinations(out, endpoints);
    if !first.sandbox.is_empty() {
        let _ = writeln!(out, "  sandbox    {}", switches(&first.sandbox));
    }
    line(out, "sent", &first.sent);
    line(out, "received", &first.received);
    if first.workers.len() > 1 {
        for (number, each) in first.workers.iter().enumerate() {
            worker(out, number, each);
        }
    }
    drops(out, "dropped sending", &first.sent.drops);
    drops(out, "dropped receiving", &first.received.drops);
    for report in endpoints {
        if endpoints.len() > 1 {
            let _ = writeln!(out, "  endpoint   {}", escaped(&report.name));
        }
        drops(out, "lost", &report.losses);
        for table in &report.tables {
            let _ = writeln!(out, "  limit      {}", escaped(&table.to_string()));
        }
        report.peers.iter().for_each(|each| peer(out, each));
    }
}

fn switches(states: &BTreeMap<String, Switch>) -> String {
    let word = |(name, state): (&String, &Switch)| match state {
        Switch::On => format!("{} on", escaped(name)),
        Switch::SwitchedOff => format!("{} switched off", escaped(name)),
        Switch::Failed { why } => format!("{} off ({})", escaped(name), escaped(why)),
    };
    states.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn line(out: &mut String, label: &str, direction: &Direction) {
    let _ = writeln!(out, "  {label:<10} {} packets, {}", direction.packets, bytes(direction.bytes));
}

fn worker(out: &mut String, number: usize, worker: &Worker) {
    let Worker { peers, packets_sent, packets_received, handed_over } = worker;
    let _ = writeln!(
        out,
        "  worker {number}   {peers} peers; {packets_sent} packets sent, {packets_received} received, \
         {handed_over} handed to other workers"
    );
}

fn peer(out: &mut String, peer: &Peer) {
    let _ = writeln!(out, "  {}", escaped(&peer.name));
    if let Some(key) = peer.public_key.as_ref().filter(|key| **key != peer.name) {
        let _ = writeln!(out, "    public key {}", escaped(key));
    }
    if !peer.networks.is_empty() {
        let _ = writeln!(out, "    networks   {}", escaped(&peer.networks.join(", ")));
    }
    let _ = writeln!(out, "    keys       {}, {}", escaped(&peer.cipher), escaped(&peer.tls));
    let ago = duration(peer.last_handshake_seconds_ago);
    let _ = writeln!(out, "    handshake  {ago} ago, {} renewed", peer.rekeys);
    let _ = writeln!(out, "    packets    {} sent, {} received", peer.packets_sent, peer.packets_received);
    peer.sessions.iter().for_each(|each| session(out, each));
}

fn session(out: &mut String, session: &Session) {
    let Session { name, id_in, id_out, cipher, local, remote, .. } = session;
    let [local, remote] = [local, remote].map(|side| side.join(", "));
    let text = format!("{name}: {local} to {remote}, {cipher}, {id_in} in, {id_out} out");
    let way = if session.in_udp { ", in UDP" } else { "" };
    let renewed = session.renewed_in_seconds.map(|left| format!(", renewed in {}", duration(left)));
    let use_of = if session.seals { "" } else { ", not in use" };
    let age = duration(session.age_seconds);
    let (text, renewed) = (escaped(&text), renewed.unwrap_or_default());
    let _ = writeln!(out, "    session    {text}{way}, {age} old{renewed}{use_of}");
    let Session { packets_in, bytes_in, packets_out, bytes_out, .. } = session;
    let _ = writeln!(
        out,
        "      carried  {packets_out} packets sent ({bytes_out} bytes), {packets_in} received ({bytes_in} bytes)"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_say_why_they_are_off() {
        let why = "the kernel refuses it".to_owned();
        let states = [
            ("tun-tso".to_owned(), Switch::On),
            ("tun-uso".to_owned(), Switch::Failed { why }),
            ("udp-gro".to_owned(), Switch::SwitchedOff),
        ];
        let text = switches(&states.into_iter().collect());
        assert_eq!(text, "tun-tso on, tun-uso off (the kernel refuses it), udp-gro switched off");
    }
}
