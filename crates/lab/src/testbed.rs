//! Two namespaces with a wire between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use adit_testbed::{
    Ends, FirstDatagram, Namespace, Probe, Process, Scratch, TestbedError, connect, program, wait_until,
};

pub(crate) use crate::layout::{INNER, OUTER, QUEUE, QUEUE_FRAMES, WIRE};
use crate::link::{Link, LinkInfo};
use crate::wire::{Counts, FRAMING, Wire};

/// The port of servers.
pub(crate) const PORT: u16 = 1194;
/// How long something may take to come up.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that no handshake exceeds, with all that is sent again.
const HANDSHAKE: u64 = 60_000;
/// While a tunnel comes up it is asked for an echo this often, or on a slow link as often as a quarter of it carries:
/// more would delay the handshake that is waited for, and the next measurement.
const PROBE_INTERVAL: Duration = Duration::from_micros(250);
const PROBE_SHARE: u64 = 4;
/// Bytes that an echo request takes of the wire in a tunnel, about.
const PROBE: u64 = 150;
/// Below so many bits a second a link is filled by packets that programs send of their own accord.
const SLOW: u64 = 100_000;
/// The client's address after it roamed.
pub(crate) const ROAMED: &str = "192.0.2.3";
/// A full frame on the wire (IEEE 802.3, with preamble and gap).
const FRAME: u64 = 1538;
/// How long a tunnel took to come up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Started {
    /// The time from the start of the client's process to the first reply.
    pub(crate) reply: Duration,
    /// The time from the first datagram to the server to the first reply.
    pub(crate) handshake: Option<Duration>,
}

/// ethtool's names of the offloads that make large pieces of small ones or leave them whole.
const OFFLOADS: [&str; 6] = [
    "tx-checksumming",
    "tcp-segmentation-offload",
    "tx-udp-segmentation",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "rx-gro-list",
];

/// Two namespaces with a wire, and the programs that run in them. All of it is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Testbed {
    /// The server's first.
    pub(crate) processes: Vec<Process>,
    /// Files outside the directory that programs leave behind.
    pub(crate) leftovers: Vec<PathBuf>,
    pub(crate) directory: Scratch,
    /// How long a tunnel may take to come up on this wire.
    pub(crate) timeout: Duration,
    /// The link's, in bits a second.
    rate: Option<u64>,
    /// Present where the kernel's own wire has not the effects of the link. Ends before its namespaces do.
    wire: Option<Wire>,
    pub(crate) server: Namespace,
    pub(crate) client: Namespace,
}

impl Testbed {
    /// Builds both and the wire.
    pub(crate) fn build(link: &Link) -> Result<Testbed, TestbedError> {
        let directory = Scratch::create("lab")?;
        let (server, client) = (Namespace::create("server")?, Namespace::create("client")?);
        for end in [&server, &client] {
            keep_still(end)?;
        }
        let wire = match link.is_in_user_space() {
            true => Some(Wire::lay(&server, &client, link)?),
            false => {
                connect_by_veth(&server, &client, link)?;
                None
            }
        };
        introduce(&server, &client)?;
        Ok(Testbed {
            processes: Vec::new(),
            leftovers: Vec::new(),
            directory,
            timeout: TIMEOUT + link.rate.map_or(Duration::ZERO, handshake_time),
            rate: link.rate,
            wire,
            server,
            client,
        })
    }

    /// Whether the link is one on which a program that was made for faster ones needs options to keep still.
    pub(crate) fn is_slow(&self) -> bool {
        self.rate.is_some_and(|rate| rate < SLOW)
    }

    /// Where load runs: the tunnel's addresses, or the wire's.
    pub(crate) fn ends(&self, tunnel: bool) -> Ends<'_> {
        let target = if tunnel { INNER[0] } else { OUTER[0] };
        let target = IpAddr::V4(target.parse().unwrap_or(Ipv4Addr::LOCALHOST));
        Ends { server: &self.server, client: &self.client, target }
    }

    /// Gives the tunnel's devices a queue of so many packets.
    pub(crate) fn set_queue(&self, packets: u32) -> Result<(), TestbedError> {
        for end in [&self.server, &self.client] {
            for device in end.devices()?.iter().filter(|device| *device != WIRE) {
                end.ip(&["link", "set", "dev", device, "txqueuelen", &packets.to_string()])?;
            }
        }
        Ok(())
    }

    /// The counts of the frames on the lab's own wire so far; nothing where the kernel's does.
    pub(crate) fn frames(&self) -> Option<Counts> {
        self.wire.as_ref().map(Wire::counts)
    }

    /// Takes the client's outer address away and gives it the other one, as a machine that changes its network
    /// does. The tunnel's programs have to notice it themselves.
    pub(crate) fn move_client(&self) -> Result<(), TestbedError> {
        let addresses = self.client.ip(&["-brief", "address", "show", "dev", WIRE])?;
        let has_roamed = addresses.split_whitespace().any(|word| word == format!("{ROAMED}/24"));
        let (old, new) = if has_roamed { (ROAMED, OUTER[1]) } else { (OUTER[1], ROAMED) };
        self.client.ip(&["address", "delete", &format!("{old}/24"), "dev", WIRE])?;
        self.client.ip(&["address", "add", &format!("{new}/24"), "dev", WIRE]).map(drop)
    }

    /// Waits until no packet of the measurement before waits in front of a rate limit, and the limit is as at first: on
    /// a slow link the next measurement would begin ten seconds late, and take its round trip for that long. A tunnel
    /// that never stops sending is not waited for.
    pub(crate) fn wait_until_idle(&self) {
        let Some(rate) = self.rate.filter(|_| self.wire.is_none()) else { return };
        let is_idle = || [&self.server, &self.client].iter().all(|end| backlog(end) == Some(0));
        let _ = wait_until("the link to be idle", self.timeout, is_idle);
        let bytes = (rate / 8).max(1);
        std::thread::sleep(Duration::from_secs_f64(burst(bytes) as f64 / bytes as f64));
    }

    /// The wire's device at the client's end.
    pub(crate) fn link_info(&self) -> Result<LinkInfo, TestbedError> {
        let text = self.client.ip(&["-json", "link", "show", "dev", WIRE])?;
        let links: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let mut ethtool = program("ethtool")?;
        ethtool.args(["--show-features", WIRE]);
        let offloads = offloads(&self.client.run(ethtool)?);
        Ok(LinkInfo { mtu: links.get(0).and_then(|link| link["mtu"].as_u64()).unwrap_or_default(), offloads })
    }

    /// The MTU and the queue's length of the tunnel's device at the client's end, if it has one.
    pub(crate) fn tunnel_device(&self) -> Result<Option<[u64; 2]>, TestbedError> {
        Ok(tunnel_device(&self.client.ip(&["-json", "address", "show"])?))
    }

    /// Packets that the tunnel's devices dropped in their queues so far, both ends together.
    pub(crate) fn dropped(&self) -> Result<u64, TestbedError> {
        let mut dropped = 0;
        for end in [&self.server, &self.client] {
            let text = end.ip(&["-json", "-statistics", "link", "show"])?;
            let links: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let links = links.as_array().map(Vec::as_slice).unwrap_or_default();
            let ours = links.iter().filter(|link| !matches!(link["ifname"].as_str(), Some("lo" | WIRE)));
            dropped += ours.filter_map(|link| link["stats64"]["tx"]["dropped"].as_u64()).sum::<u64>();
        }
        Ok(dropped)
    }

    /// Starts the server's program.
    pub(crate) fn start_server(&mut self, command: Command) -> Result<(), TestbedError> {
        self.processes.push(self.server.spawn("the server", command)?);
        Ok(())
    }

    /// Waits until the server's port is bound, of TCP or of UDP.
    pub(crate) fn wait_until_bound(&self, tcp: bool) -> Result<(), TestbedError> {
        let bound = || self.server.is_bound(tcp, PORT).unwrap_or(false);
        wait_until("the server to listen", TIMEOUT, bound)
    }

    /// Starts the client's program, makes the settings that it needs besides, and waits for the first reply through the
    /// tunnel. Gives how long all that took.
    pub(crate) fn start_client(
        &mut self,
        command: Command,
        set_up: impl FnOnce(&Namespace) -> Result<(), TestbedError> + Send,
    ) -> Result<Started, TestbedError> {
        let (process, started) = self.started_client(command, set_up)?;
        self.processes.push(process);
        Ok(started)
    }

    /// Starts a client for a subject that needs the testbed while setting up: the caller has to keep the
    /// process.
    pub(crate) fn started_client(
        &self,
        command: Command,
        set_up: impl FnOnce(&Namespace) -> Result<(), TestbedError> + Send,
    ) -> Result<(Process, Started), TestbedError> {
        let target = self.ends(true).target;
        let client = &self.client;
        let timeout = self.timeout;
        let started = client.enter(|| -> Result<_, TestbedError> {
            let probe = Probe::open(target)?.every(self.rate.map_or(PROBE_INTERVAL, probe_interval));
            let outer = FirstDatagram::open(OUTER[0].parse().unwrap_or(Ipv4Addr::LOCALHOST))?;
            let done = AtomicBool::new(false);
            let start = Instant::now();
            let process = Process::spawn("the client", command)?;
            let (reply, first) = std::thread::scope(|scope| {
                let first = scope.spawn(|| outer.wait(&done));
                let reply = set_up(client).and_then(|()| probe.first_reply(start, timeout));
                done.store(true, Ordering::Relaxed);
                (reply, first.join().ok().flatten())
            });
            let handshake = |reply: Duration| (start + reply).checked_duration_since(first?);
            Ok((process, reply.map(|reply| Started { reply, handshake: handshake(reply) })))
        })?;
        let (process, started) = started?;
        match started {
            Ok(started) => Ok((process, started)),
            Err(error) => Err(self.with_logs(&error, &process)),
        }
    }

    /// The first program that should run and does not, with its last words.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let mut ended = self.processes.iter_mut().filter_map(|process| {
            (!process.is_running()).then(|| format!("{} ended: {}", process.label(), process.log_tail()))
        });
        ended.next()
    }

    /// An error with the last words of the programs.
    fn with_logs(&self, error: &TestbedError, client: &Process) -> TestbedError {
        let server = self.processes.first().map(Process::log_tail).unwrap_or_default();
        let output =
            format!("{error}\nthe client's log:\n{}\nthe server's log:\n{server}", client.log_tail());
        TestbedError::Output { command: "the tunnel".to_owned(), output }
    }
}

impl Drop for Testbed {
    /// Lets the programs clean up after themselves, the client first; programs that stay are killed.
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.terminate(Duration::from_secs(3));
        }
        for path in &self.leftovers {
            // Most remove it themselves.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The time that a slow link needs for all bytes that a handshake may send.
fn handshake_time(rate: u64) -> Duration {
    Duration::from_secs_f64((HANDSHAKE * 8) as f64 / rate.max(1) as f64)
}

/// The features in `ethtool --show-features` that concern how large the pieces are that a device is handed or hands
/// over.
fn offloads(text: &str) -> BTreeMap<String, bool> {
    let lines = text.lines().filter_map(|line| line.trim().split_once(": "));
    let known = lines.filter(|(name, _)| OFFLOADS.contains(name));
    known.map(|(name, value)| (name.to_owned(), value.starts_with("on"))).collect()
}

/// The bytes of a device in `ip -json address`: of the devices that are up, the one with the tunnel's address, else any
/// but the wire's.
fn tunnel_device(json: &str) -> Option<[u64; 2]> {
    let links: serde_json::Value = serde_json::from_str(json).ok()?;
    let has = |list: &serde_json::Value, is: &dyn Fn(&serde_json::Value) -> bool| {
        list.as_array().is_some_and(|list| list.iter().any(is))
    };
    let up = links.as_array()?.iter().filter(|link| {
        !matches!(link["ifname"].as_str(), Some("lo" | WIRE)) && has(&link["flags"], &|flag| flag == "UP")
    });
    let link = up.max_by_key(|link| has(&link["addr_info"], &|address| address["local"] == INNER[1]))?;
    Some([link["mtu"].as_u64()?, link["txqlen"].as_u64().unwrap_or_default()])
}

/// Lets every TCP flow begin as if it were the first: else the second knows the path's round trip time from the first
/// one, and is a tenth faster over a slow link. And devices that come do not look for routers (IPv6), as they else would
/// again and again while a slow link is measured. Where /proc/sys cannot be written, it stays as it is.
fn keep_still(end: &Namespace) -> Result<(), TestbedError> {
    end.enter(|| {
        let _ = std::fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/router_solicitations", "0");
    })
}

/// How often a link of this rate is asked for an echo.
fn probe_interval(rate: u64) -> Duration {
    Duration::from_secs_f64((PROBE * 8 * PROBE_SHARE) as f64 / rate.max(1) as f64).max(PROBE_INTERVAL)
}

/// A pair of virtual devices, with the kernel's own rate limit.
fn connect_by_veth(server: &Namespace, client: &Namespace, link: &Link) -> Result<(), TestbedError> {
    let [left, right] = OUTER.map(|address| format!("{address}/24"));
    connect(server, &[&left], client, &[&right], WIRE)?;
    for end in [server, client] {
        if !link.segmentation {
            // The limit sees the pieces that the device is handed: without these, 64 KiB at once and one frame's
            // framing.
            let mut ethtool = program("ethtool")?;
            ethtool.args(["-K", WIRE]);
            for offload in ["tx-udp-segmentation", "tso", "gso"] {
                ethtool.args([offload, "off"]);
            }
            end.run(ethtool)?;
        }
        if let Some(rate) = link.rate {
            end.run(limit(rate)?)?;
        }
    }
    Ok(())
}

/// Gives a device its address as soon as it is there.
pub(crate) fn bring_up(
    namespace: &Namespace,
    device: &str,
    address: &str,
    mtu: u16,
) -> Result<(), TestbedError> {
    let there = || namespace.ip(&["link", "show", "dev", device]).is_ok();
    wait_until("the TUN device to appear", TIMEOUT, there)?;
    namespace.ip(&["address", "add", &format!("{address}/24"), "dev", device])?;
    namespace.ip(&["link", "set", device, "mtu", &mtu.to_string(), "up"]).map(drop)
}

/// Bytes that may leave at once of so many a second. Tokens come with the timer's tick: a bucket must hold the bytes
/// that are sent between two, and one frame.
fn burst(bytes: u64) -> u64 {
    (bytes / 250).max(2 * FRAME)
}

/// Bytes that wait in front of the wire.
fn backlog(end: &Namespace) -> Option<u64> {
    let mut tc = program("tc").ok()?;
    tc.args(["-statistics", "-json", "qdisc", "show", "dev", WIRE]);
    queued(&end.run(tc).ok()?)
}

/// Bytes that wait, as `tc -json` lists them.
fn queued(json: &str) -> Option<u64> {
    let all: serde_json::Value = serde_json::from_str(json).ok()?;
    all.as_array()?.iter().map(|one| one["backlog"].as_u64()).sum()
}

/// Fixes each end's entry for the other end's hardware address. An end would resolve it again after half a minute, and
/// on a slow link the answer waits behind the load for so long that the other end is taken for gone.
fn introduce(server: &Namespace, client: &Namespace) -> Result<(), TestbedError> {
    for (end, other, address) in [(server, client, OUTER[1]), (client, server, OUTER[0])] {
        let device = other.ip(&["-json", "link", "show", "dev", WIRE])?;
        let links: serde_json::Value = serde_json::from_str(&device).unwrap_or_default();
        let hardware = links[0]["address"].as_str().unwrap_or_default();
        end.ip(&["neighbour", "replace", address, "lladdr", hardware, "dev", WIRE, "nud", "permanent"])?;
    }
    Ok(())
}

/// A token bucket (tc-tbf(8)) in front of the wire.
///
/// It counts the bytes of frames, not the framing around them: its own `overhead` is added once to what the sender
/// handed over in one piece, and TCP and UDP hand over up to 64 KiB whatever offloads the device has (the kernel cuts
/// it up behind the queue). So the rate is less by the framing's share of full frames; see docs/measure/LAB.md for
/// smaller ones.
fn limit(rate: u64) -> Result<Command, TestbedError> {
    let mut tc = program("tc")?;
    let bytes = rate / 8;
    let counted = bytes * (FRAME - u64::from(FRAMING)) / FRAME;
    let [least, most] = QUEUE_FRAMES.map(|frames| u64::from(frames) * FRAME);
    let queue = ((bytes as f64 * QUEUE.as_secs_f64()) as u64).clamp(least, most);
    tc.args(["qdisc", "add", "dev", WIRE, "root", "tbf", "rate", &format!("{counted}bps")]);
    tc.args(["burst", &burst(bytes).to_string(), "limit", &queue.to_string()]);
    Ok(tc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ethtool_says_is_understood() {
        let text = "Features for wire:\nrx-checksumming: on\ntx-checksumming: on\n\ttx-checksum-ipv4: off [fixed]\n\
                    tcp-segmentation-offload: off\n\ttx-tcp-segmentation: off\ngeneric-receive-offload: on\n";
        let offloads = offloads(text);
        assert_eq!(offloads.len(), 3, "{offloads:?}");
        assert!(offloads["tx-checksumming"] && !offloads["tcp-segmentation-offload"]);
    }

    #[test]
    fn no_end_asks_for_addresses_or_routers() {
        if !adit_testbed::can_run("no_end_asks_for_addresses_or_routers", &["tc", "ethtool"]) {
            return;
        }
        let link = Link { rate: Some(10_300), segmentation: false, ..Link::plain("slow") };
        let testbed = Testbed::build(&link).unwrap();
        for (end, other) in [(&testbed.server, OUTER[1]), (&testbed.client, OUTER[0])] {
            let known = end.ip(&["neighbour", "show", other]).unwrap();
            assert!(known.contains("lladdr") && known.contains("PERMANENT"), "{known}");
            let asks =
                || std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{WIRE}/router_solicitations"));
            assert_eq!(end.enter(asks).unwrap().unwrap().trim(), "0");
        }
        testbed.wait_until_idle();
        assert_eq!(backlog(&testbed.client), Some(0));
    }

    #[test]
    fn the_tunnels_device_is_told_from_others() {
        let other = r#"{"ifname":"tunl0","flags":["NOARP"],"mtu":1480,"txqlen":1000,"addr_info":[]}"#;
        let wire = r#"{"ifname":"wire","flags":["UP"],"mtu":1500,"txqlen":1000,"addr_info":[{"local":"192.0.2.2"}]}"#;
        let of = |address: &str| {
            format!(r#"{{"ifname":"tun0","flags":["UP"],"mtu":1420,"txqlen":500,"addr_info":[{address}]}}"#)
        };
        let (with, without) = (of(r#"{"local":"10.8.0.2"}"#), of(""));
        assert_eq!(tunnel_device(&format!("[{wire},{other},{with}]")), Some([1420, 500]));
        assert_eq!(
            tunnel_device(&format!("[{without},{wire}]")),
            Some([1420, 500]),
            "the address is elsewhere"
        );
        assert_eq!(tunnel_device(&format!("[{wire},{other}]")), None);
        assert_eq!(tunnel_device("nothing"), None);
    }

    #[test]
    fn what_waits_is_told() {
        assert_eq!(
            queued(r#"[{"kind":"tbf","backlog":1514,"qlen":1},{"kind":"bfifo","backlog":86}]"#),
            Some(1600)
        );
        assert_eq!(queued(r#"[{"kind":"noqueue","backlog":0}]"#), Some(0));
        assert_eq!(queued("[{}]"), None);
    }

    #[test]
    fn a_slow_link_is_not_filled_with_questions() {
        assert_eq!(probe_interval(1_000_000_000), PROBE_INTERVAL);
        let slow = probe_interval(10_300);
        assert!(slow > Duration::from_millis(400) && slow < Duration::from_millis(500), "{slow:?}");
    }
}
