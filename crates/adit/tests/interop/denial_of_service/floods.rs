//! Clients connect while a server is flooded with datagrams of forged source addresses.
//!
//! Any machine bears that rate beside other tests; `adit-lab attackers` measures at 150,000 datagrams a
//! second.

use std::cell::RefCell;

use adit_core::UnixTime;
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::WrapConfig;
use adit_openvpn::wrap::v2::ClientKey;
use adit_testbed::{MAX_WAIT, SpoofedFlood, can_run, wait_until, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program, SERVER_INNER, Wrap};

/// Datagrams a second.
const RATE: u32 = 10_000;
/// Addresses that they seem to come from.
const SOURCES: u32 = 250;
/// Memory that the server's heap may take for all else, in KiB.
const LITTLE: u64 = 8 << 10;

/// First packets of clients with that wrapping.
fn resets(config: &WrapConfig) -> Vec<Vec<u8>> {
    let opcode = match config {
        WrapConfig::Plain => Opcode::HardResetClientV2,
        _ => Opcode::HardResetClientV3,
    };
    let mut wrap = config.instantiate(UnixTime(1_700_000_000));
    let mut body = Vec::new();
    ControlBody { packet_id: Some(0), ..ControlBody::default() }.encode(&mut body);
    let reset = |number| {
        let mut datagram = Vec::new();
        let sid = Sid([number, 1, 2, 3, 4, 5, 6, 7]);
        wrap.seal(Header { opcode, key_id: 0 }, sid, &body, &mut datagram).unwrap();
        datagram
    };
    (0..=255).map(reset).collect()
}

/// As they are; damaged; and as data packets of no session.
fn with_variants(resets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let variants = resets.into_iter().flat_map(|reset| {
        let (mut damaged, mut data) = (reset.clone(), reset.clone());
        *damaged.last_mut().unwrap() ^= 1;
        data[0] = (Opcode::DataV2 as u8) << 3;
        [reset, damaged, data]
    });
    variants.collect()
}

fn resident(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn withstand(name: &str, wrap: Wrap) {
    if !can_run(name, &PROGRAMS) {
        return;
    }
    let options = Options { wrap, ..Options::BASE };
    let client_text = RefCell::new(String::new());
    let clients = [Program::Adit, Program::OpenVpn];
    let mut bed = Bed::build_with(&options, Program::Adit, &clients, |_, texts| {
        client_text.borrow_mut().clone_from(&texts[1]);
    })
    .unwrap();
    let config = match wrap {
        Wrap::TlsCryptV2 => {
            let text = client_text.borrow();
            let (_, block) = text.split_once("<tls-crypt-v2>\n").unwrap();
            let (block, _) = block.split_once("</tls-crypt-v2>").unwrap();
            WrapConfig::tls_crypt_v2(&ClientKey::parse(block).unwrap())
        }
        _ => WrapConfig::Plain,
    };
    bed.server.start().unwrap();
    // It listens before its lines are read.
    bed.server.process().wait_for_line(0, "tunnel up", MAX_WAIT).unwrap();
    let attackers = &bed.clients[0].namespace;
    SpoofedFlood::route(attackers, &bed.server.namespace).unwrap();
    let (mark, memory) = (bed.server.process().mark(), resident(bed.server.process().id()));
    let target = "10.9.1.1:1194".parse().unwrap();
    let flood =
        SpoofedFlood::start(attackers, target, Some(RATE), SOURCES, &with_variants(resets(&config))).unwrap();
    // On a busy machine its sender gets little of a processor.
    wait_until("a flood", MAX_WAIT, || flood.sent() > u64::from(RATE)).unwrap();
    let process = bed.server.process();
    let (lines, log) = (process.mark() - mark, process.log_tail());
    assert!(lines <= 2, "{name}: {lines} lines:\n{log}");
    for index in 0..clients.len() {
        bed.clients[index].start().unwrap();
        let inner = SERVER_INNER[0].parse().unwrap();
        wait_until_reachable(&bed.clients[index].namespace, inner, MAX_WAIT)
            .unwrap_or_else(|error| panic!("{name}: {error}\n{}", bed.logs()));
    }
    let more = resident(bed.server.process().id()).saturating_sub(memory);
    assert!(more < LITTLE, "{name}: {more} KiB more");
}

#[test]
fn forged_datagrams_do_not_keep_clients_out_plain() {
    withstand("forged_datagrams_do_not_keep_clients_out_plain", Wrap::Plain);
}

#[test]
fn forged_datagrams_do_not_keep_clients_out_tls_crypt_v2() {
    withstand("forged_datagrams_do_not_keep_clients_out_tls_crypt_v2", Wrap::TlsCryptV2);
}
