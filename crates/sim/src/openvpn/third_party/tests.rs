//! A third-party client and a server of ours, over a wire that loses nothing and takes no time.

use std::time::Duration;

use adit_core::{Command, Instant, Path, PeerId, Protocol, Transport, drive_with};
use adit_openvpn::Server;
use adit_openvpn::codec::key_id_of;
use adit_openvpn::request::{DataEvent, Event};
use adit_openvpn::wrap::HmacDigest;

use super::{Implementation, ThirdPartyClient};
use crate::openvpn::scenario::{Scenario, Wrapping};
use crate::openvpn::settings;

const PEER: PeerId = PeerId(0);

struct Pair {
    client: ThirdPartyClient,
    server: Server,
    now: Instant,
    /// The server's events.
    events: Vec<Event>,
}

fn path() -> Path {
    Path::Udp { socket: 0, remote: ([192, 0, 2, 2], 40_000).into() }
}

fn scenario(wrapping: Wrapping, implementation: Implementation) -> Scenario {
    let mut scenario = Scenario::from_seed(0);
    scenario.control.wrapping = wrapping;
    (scenario.clients, scenario.remotes) = (1, vec![Transport::Udp]);
    (scenario.auth.passwords, scenario.server.client_configs, scenario.point_to_point) = (false, false, None);
    scenario.third_party.clients = vec![Some(implementation)];
    // No data passes.
    scenario.liveness.ping_restart = Duration::from_secs(1000);
    for timing in &mut scenario.control.timing {
        (timing.reneg, timing.hand_window) = (None, Duration::from_secs(60));
    }
    scenario
}

impl Pair {
    fn up(scenario: &Scenario, implementation: Implementation) -> Self {
        let now = Instant::ORIGIN + Duration::from_secs(1);
        crate::openvpn::crypto::seed_tls([3; 32]);
        crate::openvpn::crypto::set_clock(1);
        let client = settings::third_party(scenario, (1, implementation), 0).unwrap();
        let server = settings::server(scenario, 0, Vec::new()).unwrap();
        let mut pair = Pair {
            client: ThirdPartyClient::new(client, now, [1; 32]),
            server: Server::new(server, now, [2; 32]),
            now,
            events: Vec::new(),
        };
        pair.exchange();
        assert_eq!((pair.client.peers().len(), pair.server.peers().len()), (1, 1));
        pair
    }

    /// Delivers everything until both are silent.
    fn exchange(&mut self) {
        let mut idle = false;
        while !idle {
            idle = !self.drain_client();
            drive_with(
                &mut self.server,
                |_, event| self.events.push(event),
                |_, datagram| {
                    idle = false;
                    let _ = self.client.handle_datagram(self.now, path(), datagram);
                },
            );
        }
    }

    fn drain_client(&mut self) -> bool {
        let mut some = false;
        drive_with(
            &mut self.client,
            |client, event| {
                if let Event::Open { .. } = event {
                    client.handle_command(self.now, Command::Opened { path: path() });
                }
            },
            |_, datagram| {
                some = true;
                let _ = self.server.handle_datagram(self.now, path(), datagram);
            },
        );
        some
    }

    fn says(&self, words: &str) -> bool {
        let said = |event: &Event| matches!(event, Event::Report(report) if report.text.contains(words));
        self.events.iter().any(said)
    }

    fn installed(&self) -> usize {
        let install = |event: &&Event| matches!(event, Event::Data(DataEvent::Install(_)));
        self.events.iter().filter(install).count()
    }
}

const WRAPPINGS: [Wrapping; 4] = [
    Wrapping::Plain,
    Wrapping::TlsAuth(HmacDigest::Sha256),
    Wrapping::TlsCrypt,
    Wrapping::TlsCryptV2 { dated: false, force_cookie: true },
];

#[test]
fn each_of_them_answers_a_servers_renegotiation() {
    for implementation in [Implementation::OpenVpn3, Implementation::MirageVpn] {
        for wrapping in WRAPPINGS {
            let mut pair = Pair::up(&scenario(wrapping, implementation), implementation);
            pair.server.handle_command(pair.now, Command::Rekey { peer: PEER });
            pair.exchange();
            assert_eq!(pair.installed(), 2, "{implementation:?}, {wrapping:?}");
            assert!(pair.says("renegotiated keys (number 1)"), "{implementation:?}, {wrapping:?}");
        }
    }
}

/// OpenVPN 3 sends its exit notification on the first exchange, wrapped like a later one, until the new keys are its primary ones.
#[test]
fn an_exit_notice_that_is_wrapped_like_a_later_exchange_is_heard() {
    for wrapping in WRAPPINGS {
        let mut pair = Pair::up(&scenario(wrapping, Implementation::OpenVpn3), Implementation::OpenVpn3);
        pair.server.handle_command(pair.now, Command::Rekey { peer: PEER });
        pair.exchange();
        pair.client.handle_command(pair.now, Command::Shutdown);
        pair.exchange();
        assert!(pair.says("left (exit notice)"), "{wrapping:?}");
        assert!(pair.server.peers().is_empty());
    }
}

/// OpenVPN 3's own `reneg-sec` runs out in the middle of the server's exchange: it forgets that and begins the next.
#[test]
fn an_exchange_gives_way_to_the_next_one() {
    let mut scenario = scenario(Wrapping::TlsCrypt, Implementation::OpenVpn3);
    scenario.control.timing[1].reneg = Some(Duration::from_secs(80));
    let mut pair = Pair::up(&scenario, Implementation::OpenVpn3);
    pair.now += Duration::from_secs(80);
    pair.server.handle_command(pair.now, Command::Rekey { peer: PEER });
    // The client gets the first packet, and then its timer runs out.
    let mut buf = Vec::new();
    assert!(pair.server.poll_transmit(&mut buf).is_some());
    assert_eq!(buf.first().map(|first| first & 7), Some(1));
    let _ = pair.client.handle_datagram(pair.now, path(), &std::mem::take(&mut buf));
    pair.client.handle_timeout(pair.now);
    assert!(pair.client.poll_transmit(&mut buf).is_some());
    assert_eq!(buf.first().map(|first| first & 7), Some(2));
    let _ = pair.server.handle_datagram(pair.now, path(), &buf);
    pair.exchange();
    let ids = pair.events.iter().filter_map(|event| match event {
        Event::Data(DataEvent::Install(install)) => Some(key_id_of(install.session)),
        _ => None,
    });
    assert_eq!(ids.collect::<Vec<_>>(), [0, 2]);
}
