//! A server with two workers, and clients of every kind that it has to divide between them.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use adit_testbed::{MAX_WAIT, Ping, can_run, transfer, wait_until_reachable};
use serde_json::Value;

use crate::admission::five_clients::each_pings_each;
use crate::bed::{Bed, PROGRAMS};
use crate::management::status::status_of;
use crate::options::{Options, Program, SERVER_INNER};

#[test]
fn two_workers_serve_clients_over_udp_and_tcp() {
    if !can_run("two_workers_serve_clients_over_udp_and_tcp", &PROGRAMS) {
        return;
    }
    let options = Options { client_to_client: true, ..Options::BASE };
    let clients = [Program::OpenVpn, Program::Adit, Program::OpenVpn, Program::Adit, Program::OpenVpn];
    let mut bed = Bed::build_with(&options, Program::Adit, &clients, |_, [server, client]| {
        // A renegotiation within the test.
        *server =
            server.replace("reneg-sec 10\n", "reneg-sec 3\n").replace("hand-window 5\n", "hand-window 20\n");
        if !server.contains("local ") {
            server.push_str("local 0.0.0.0 1194 udp4\nlocal 0.0.0.0 1195 tcp4-server\ntxqueuelen 321\n");
        }
        if client.contains("10.9.5.1 1194") {
            *client = client
                .replace("10.9.5.1 1194", "10.9.5.1 1195")
                .replace("proto udp4\n", "proto tcp4-client\n")
                .replace("explicit-exit-notify 1\n", "");
        }
    })
    .unwrap();
    bed.server.arguments(&["--workers", "2"]);
    let outcome = play(&mut bed);
    assert!(outcome.is_ok(), "{}\n{}", outcome.unwrap_err(), bed.logs());
}

fn play(bed: &mut Bed) -> Result<(), String> {
    let text = |error: adit_testbed::TestbedError| error.to_string();
    bed.server.start().map_err(text)?;
    let server: [IpAddr; 2] = SERVER_INNER.map(|address| address.parse().unwrap());
    let link = bed.server.namespace.ip(&["-oneline", "link", "show", "tun0"]).map_err(text)?;
    if !link.contains("qlen 321\\") {
        return Err(format!("txqueuelen did not reach the device: {link}"));
    }
    let mut addresses = Vec::new();
    for client in &mut bed.clients {
        client.start().map_err(text)?;
        // One after the other, so that the peer-ids are known: even and odd ones.
        for target in server {
            wait_until_reachable(&client.namespace, target, MAX_WAIT).map_err(text)?;
        }
        addresses.push(client.inner_addresses().map_err(text)?);
    }
    no_loss_across_renegotiations(bed, server[0])?;
    each_pings_each(bed, &addresses, 10)?;
    for (number, client) in bed.clients.iter().enumerate() {
        let moved = transfer(&client.namespace, &bed.server.namespace, server[0], 2_000_000).map_err(text)?;
        if !moved.intact {
            return Err(format!("the file of client {number} was changed: {moved:?}"));
        }
    }
    both_worked(&status_of(bed.server.process().id()))?;
    bed.clients.iter_mut().try_for_each(|client| client.stop())?;
    bed.server.stop()
}

/// All clients ping the server for four seconds, or, on a slow machine, again until every one has renegotiated.
fn no_loss_across_renegotiations(bed: &Bed, server: IpAddr) -> Result<(), String> {
    let ping = Ping::new(800, Duration::from_millis(5));
    let (before, end) = (bed.server.renegotiations(), Instant::now() + MAX_WAIT);
    while bed.server.renegotiations() - before < bed.clients.len() {
        if Instant::now() > end {
            return Err("not every client renegotiated in the meantime".to_owned());
        }
        no_loss(bed, ping, server)?;
    }
    Ok(())
}

fn no_loss(bed: &Bed, ping: Ping, server: IpAddr) -> Result<(), String> {
    std::thread::scope(|scope| {
        let running: Vec<_> =
            bed.clients.iter().map(|client| scope.spawn(|| ping.run(&client.namespace, server))).collect();
        for (number, thread) in running.into_iter().enumerate() {
            let report = thread.join().unwrap().map_err(|error| error.to_string())?;
            if !report.is_clean() {
                return Err(format!("client {number}: {} pings lost: {:?}", report.lost(), report.missing));
            }
        }
        Ok(())
    })
}

/// Each worker serves clients and moved their packets; nothing was lost.
fn both_worked(status: &Value) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{what}: {status:#}"));
    let Some([first, second]) = status["workers"].as_array().map(Vec::as_slice) else {
        return wrong("not two workers");
    };
    let number = |worker: &Value, name: &str| worker[name].as_u64().unwrap_or(0);
    if number(first, "peers") + number(second, "peers") != 5 || number(second, "peers") != 2 {
        return wrong("five peers, two of them with the second worker");
    }
    for worker in [first, second] {
        // Half of the files' packets, at least, came to the worker that serves the client.
        let (sent, received) = (number(worker, "packets_sent"), number(worker, "packets_received"));
        if sent < 1600 || received < 1600 || number(worker, "handed_over") > (sent + received) / 2 {
            return wrong("a worker did not do its part");
        }
    }
    if status["losses"]
        .as_object()
        .is_some_and(|losses| losses.contains_key("forwarding between workers full"))
    {
        return wrong("forwarded datagrams were lost");
    }
    Ok(())
}
