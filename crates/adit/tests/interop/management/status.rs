//! `adit status`, asked of a server with two clients.

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use adit_testbed::{MAX_WAIT, Ping, can_run, wait_until, wait_until_reachable};
use serde_json::Value;

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER};

fn status(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_adit")).arg("status").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The status of the tunnel of that process; other tests' tunnels are there too.
pub(crate) fn status_of(pid: u32) -> Value {
    let all: Value = serde_json::from_str(&status(&["--json"])).unwrap();
    all.as_array().unwrap().iter().find(|tunnel| tunnel["pid"] == pid).unwrap().clone()
}

#[test]
fn it_shows_each_peer() {
    if !can_run("it_shows_each_peer", &PROGRAMS) {
        return;
    }
    let clients = [Program::OpenVpn, Program::Adit];
    let mut bed = Bed::build(&Options::BASE, Program::Adit, &clients).unwrap();
    bed.server.start().unwrap();
    let target: IpAddr = SERVER_INNER[0].parse().unwrap();
    let mut connected = Vec::new();
    for client in &mut bed.clients {
        client.start().unwrap();
        wait_until_reachable(&client.namespace, target, MAX_WAIT).unwrap();
        connected.push(Instant::now());
    }
    let ping = Ping::new(100, Duration::from_millis(2));
    assert!(ping.run(&bed.clients[0].namespace, target).unwrap().is_clean());
    let (server, mut ours) = (bed.server.process().id(), Value::Null);
    let renegotiated = wait_until("a renegotiation of each", MAX_WAIT, || {
        std::thread::sleep(Duration::from_millis(200));
        ours = status_of(server);
        ours["peers"]
            .as_array()
            .is_some_and(|peers| peers.iter().all(|peer| peer["rekeys"].as_u64() >= Some(1)))
    });
    assert!(renegotiated.is_ok(), "{ours:#}");
    assert_eq!((&ours["role"], &ours["device"]), (&Value::from("server"), &Value::from("tun0")));
    for offload in ["tun-tso", "tun-uso", "udp-gso", "udp-gro"] {
        assert_eq!(ours["offloads"][offload]["state"], "on", "{ours:#}");
    }
    let peers = ours["peers"].as_array().unwrap();
    assert_eq!(peers.len(), 2, "{ours:#}");
    for ((peer, client), connected) in peers.iter().zip(&bed.clients).zip(connected) {
        let inner = client.inner_addresses().unwrap();
        let reported: Vec<IpAddr> = serde_json::from_value(peer["addresses"].clone()).unwrap();
        assert_eq!(reported, inner, "{ours:#}");
        assert_eq!(peer["cipher"], "AES-256-GCM");
        assert!(peer["rekeys"].as_u64().unwrap() >= 1, "{ours:#}");
        // The renegotiation, 9 s after the first handshake or later, and not that.
        let ago = peer["last_handshake_seconds_ago"].as_u64().unwrap();
        assert!(ago + 5 <= connected.elapsed().as_secs(), "{ours:#}");
    }
    assert_eq!((&peers[0]["name"], &peers[1]["name"]), (&Value::from("client1"), &Value::from("client2")));
    // 100 echo requests of 84 bytes, and the packets that the systems send themselves.
    let (packets, bytes) = (&peers[0]["packets_received"], &peers[0]["bytes_received"]);
    assert!(packets.as_u64().unwrap() >= 100 && bytes.as_u64().unwrap() >= 8400, "{ours:#}");

    // Tunnels of other tests may have the same name; none of these has these clients.
    let text = status(&["server"]);
    for (name, client) in ["client1", "client2"].iter().zip(&bed.clients) {
        let inner: Vec<String> = client.inner_addresses().unwrap().iter().map(ToString::to_string).collect();
        let is_its = |line: &&str| line.split_whitespace().next() == Some(name) && line.contains(&inner[0]);
        let row = text.lines().find(is_its).unwrap_or_else(|| panic!("no row of {name} in:\n{text}"));
        assert!(row.contains(" OpenVPN udp ") && row.contains(&inner.join(", ")), "{row}");
        assert!(row.contains(" s ago  "), "{text}");
    }
    let details = status(&["--details", "server"]);
    for word in ["AES-256-GCM", "  offloads   ", "  limit      ", "  sandbox    "] {
        assert!(details.contains(word) && !text.contains(word), "'{word}':\n{text}\n{details}");
    }
}
