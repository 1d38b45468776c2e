//! `passtos`: the DSCP of a packet is on the datagram around it.

use std::time::Duration;

use adit_testbed::{MAX_WAIT, Namespace, Ping, can_run, program, wait_until_reachable};

use crate::bed::{Bed, PROGRAMS};
use crate::options::{Options, Program};

const WAIT: Duration = MAX_WAIT;
const SERVER: &str = "10.8.0.1";
/// How many echo requests are sent.
const COUNT: u16 = 10;

fn nft(namespace: &Namespace, words: &str) -> String {
    let mut nft = program("nft").unwrap();
    nft.arg(words);
    namespace.run(nft).unwrap()
}

/// Counts datagrams with DSCP EF that the tunnel sends from here, from now on. Those sent in one call are counted as one.
fn count(namespace: &Namespace) {
    nft(
        namespace,
        "add table inet passtos; add counter inet passtos ef; \
         add chain inet passtos out { type filter hook output priority 0; }; \
         add rule inet passtos out oifname wire1 meta l4proto udp ip dscp ef counter name ef",
    );
}

/// Packets counted so far.
fn counted(namespace: &Namespace) -> u64 {
    let text = nft(namespace, "list counter inet passtos ef");
    let mut words = text.split_whitespace().skip_while(|word| *word != "packets");
    words.nth(1).unwrap().parse().unwrap()
}

/// Requests and replies have DSCP EF, the replies as the system's answers do; so have the datagrams around them, of both
/// programs.
#[test]
fn the_dscp_is_on_the_datagrams_of_both_ends() {
    if !can_run("passtos", &[&PROGRAMS[..], &["nft"]].concat()) {
        return;
    }
    for [server, client] in [[Program::OpenVpn, Program::Adit], [Program::Adit, Program::OpenVpn]] {
        let mut bed = Bed::build_with(&Options::BASE, server, &[client], |_, texts| {
            texts.iter_mut().for_each(|text| text.push_str("passtos\n"));
        })
        .unwrap();
        bed.server.start().unwrap();
        bed.clients[0].start().unwrap();
        let (server, client) = (&bed.server.namespace, &bed.clients[0].namespace);
        wait_until_reachable(client, SERVER.parse().unwrap(), WAIT)
            .unwrap_or_else(|error| panic!("{error}\n{}", bed.logs()));
        nft(
            client,
            "add table inet application; \
             add chain inet application out { type route hook output priority -150; }; \
             add rule inet application out icmp type echo-request ip dscp set ef",
        );
        count(server);
        count(client);
        let ping = Ping::new(COUNT, Duration::from_millis(50));
        assert!(ping.run(client, SERVER.parse().unwrap()).unwrap().is_clean());
        for (name, namespace) in [("server", server), ("client", client)] {
            // How many go in one call depends on how busy the machine is.
            assert!(counted(namespace) > 0, "{name}\n{}", bed.logs());
        }
        bed.clients[0].stop().unwrap();
        bed.server.stop().unwrap();
    }
}
