//! The cost of forged and replayed initiations to a server. While they come in, clients connect, and one that is
//! connected pings.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use adit_testbed::{Priority, SpoofedFlood, TestbedError, Usage};

use super::control::peer;
use super::testbed::{INNER, PORT, Peer, Running, Testbed, configured};
use super::{JUDGED, Measuring, initiators};
use crate::commands::attackers::keys::kinds_of;
use crate::commands::attackers::report::{Attempts, Measured};
use crate::commands::attackers::watch::{dropped_datagrams, memory, watch};
use crate::commands::load;
use crate::error::LabError;
use crate::say;
use crate::subjects::Tools;
use crate::subjects::wireguard::{self, Program};

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 2] = ["ip", "openssl"];

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    measuring: Measuring,
    /// Forged initiations a second
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// How many clients of adit connect, one after the other, without an attack and during it
    #[arg(long, default_value_t = 5)]
    clients: usize,
    /// Only the kinds whose names contain this: `replayed`. May be given again
    #[arg(long)]
    only: Vec<String>,
}

/// The kinds of initiations, as `adit-load-wireguard datagrams` names them.
const KINDS: [&str; 4] = ["no mac1", "mac1 right, cookie missing", "mac1 right, cookie wrong", "replayed"];
/// The initiators whose initiations are replayed, all of which the server knows.
const KNOWN: u32 = 256;
/// Source addresses of forged initiations.
const SPOOFED: u32 = 1_000_000_000;
/// The server as the attackers see it.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// How long a client tries: an initiation that was answered with a cookie is repeated after 5 s.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(15);
/// After so many clients in a row that did not get in, no other tries.
const SHUT_OUT: usize = 2;
/// How long an attack goes on before the first client comes.
const LEAD: Duration = Duration::from_secs(2);

/// Measures each kind at each server and writes a line of the table for each. True if adit's server withstood all.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    load::check(&tools.load_wireguard())?;
    let programs = args.measuring.programs(tools)?;
    let clients = wireguard::get(JUDGED, tools).map_err(LabError::Usage)?;
    let keys = initiators(&tools.load_wireguard(), KNOWN)?;
    let is_wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|only| name.contains(only));
    let mut withstood = true;
    say(Measured::HEADER);
    for round in 0..args.measuring.rounds {
        for kind in KINDS.into_iter().filter(|kind| is_wanted(kind)) {
            for program in args.measuring.order(round, &programs) {
                let measured = Scene::build(tools, program, clients, &keys)?.measure(args, kind)?;
                say(measured.line(kind, program.name()));
                withstood &= program.name() != JUDGED || measured.verdict() == "ok";
            }
        }
    }
    Ok(withstood)
}

/// A server, a client that is connected, one that connects again and again, and the attackers.
struct Scene<'a> {
    _connected: Running,
    client: Peer,
    attackers: Peer,
    resident: Peer,
    clients: Program,
    testbed: Testbed<'a>,
}

impl<'a> Scene<'a> {
    fn build(
        tools: &'a Tools,
        program: Program,
        clients: Program,
        keys: &[String],
    ) -> Result<Scene<'a>, TestbedError> {
        let testbed = Testbed::build(tools, program)?;
        let (client, attackers) = (testbed.join(0, "client")?, testbed.join(1, "attackers")?);
        let resident = testbed.join(2, "resident")?;
        let known: String = (0..).zip(keys).map(|(number, key)| peer(key, &configured(number))).collect();
        testbed.set(&known)?;
        SpoofedFlood::route(&attackers.namespace, &testbed.server)?;
        let connected = testbed.connect(&resident, clients)?;
        Ok(Scene { _connected: connected, client, attackers, resident, clients, testbed })
    }

    /// The datagrams of that kind for this server.
    fn datagrams(&self, kind: &str) -> Result<Vec<Vec<u8>>, TestbedError> {
        let key = format!("--key={}", self.testbed.key());
        let kinds = kinds_of(&self.testbed.tools.load_wireguard(), "datagrams", &[key])?;
        let found = kinds.into_iter().find(|one| one.name == kind);
        found.map(|kind| kind.datagrams).ok_or(TestbedError::Worker("an attack without datagrams"))
    }

    /// Lets clients connect without an attack and during it.
    fn measure(&self, args: &Args, kind: &str) -> Result<Measured, TestbedError> {
        let datagrams = self.datagrams(kind)?;
        let (server, process) = (&self.testbed.server, &self.testbed.process);
        let work = || Usage::of(&[process.id()]).processor_seconds;
        let idle_memory = memory(process.id())?;
        let connect = || self.connect_clients(args.clients);
        let (idle, before) = watch(&self.resident.namespace, INNER, process.id(), connect)?;
        let (mark, worked, dropped) = (process.mark(), work(), dropped_datagrams(server)?);
        let start = Instant::now();
        let target = SocketAddrV4::new(SERVER, PORT);
        let flood =
            SpoofedFlood::start(&self.attackers.namespace, target, Some(args.rate), SPOOFED, &datagrams)?;
        let ((lead, attacked), during) = watch(&self.resident.namespace, INNER, process.id(), || {
            std::thread::sleep(LEAD);
            Ok((flood.sent(), connect()?))
        })?;
        let (sent, seconds) = (flood.sent(), start.elapsed().as_secs_f64());
        drop(flood);
        Ok(Measured {
            idle,
            attacked,
            begun: sent,
            done: sent,
            wanted: Some(args.rate),
            let_in: 0,
            begun_at_first: lead,
            seconds,
            pings: [before, during],
            memory: during.memory - before.memory.max(idle_memory),
            lines: (process.mark() - mark) as f64,
            processor_seconds: work() - worked,
            dropped: dropped_datagrams(server)? - dropped,
        })
    }

    /// How long clients need from the start of their process to the first reply through the tunnel.
    fn connect_clients(&self, count: usize) -> Result<Attempts, TestbedError> {
        let _priority = Priority::raised();
        let mut attempts = Attempts::new(count);
        while attempts.tried() < count && !attempts.last_failed(SHUT_OUT) {
            let (_running, reply) = self.testbed.start(&self.client, self.clients, CLIENT_TIMEOUT)?;
            attempts.add(reply.ok());
        }
        Ok(attempts)
    }
}
