//! An attacker and a server of adit's in memory.

use std::convert::Infallible;

use adit_core::{Drive, Instant, Path, Protocol as _, drive};
use adit_openvpn::Server;
use adit_openvpn::credentials::client_tls;
use adit_openvpn::request::Event;
use adit_openvpn::testing::{Authority, WALL, environment, requirements, server_params};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};

use super::*;

/// The time of the server, which stands still.
const NOW: Instant = Instant::ORIGIN;

struct Ends {
    server: Server,
    channel: ControlChannel,
    path: Path,
    /// Texts that the server has for its log.
    log: Vec<String>,
    answers: Vec<Vec<u8>>,
}

impl Drive for Ends {
    type Protocol = Server;
    type Error = Infallible;

    fn protocol(&mut self) -> &mut Server {
        &mut self.server
    }

    fn event(&mut self, event: Event) -> Result<(), Infallible> {
        if let Event::Report(report) = event {
            self.log.push(report.text);
        }
        Ok(())
    }

    fn transmit(&mut self, _: Path, datagram: &[u8]) -> Result<(), Infallible> {
        self.answers.push(datagram.to_vec());
        Ok(())
    }
}

impl Ends {
    /// An attacker with a valid certificate.
    fn new(behaviour: Behaviour) -> Ends {
        let authority = Authority::new();
        let params = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
        let tls = client_tls(&authority.issue("attacker", ClientAuth), requirements(), &environment());
        let plan = Plan::new(behaviour, WrapConfig::Plain, TlsConfig::Client(tls.unwrap())).unwrap();
        Ends {
            server: Server::new(params, NOW, [1; 32]),
            channel: ControlChannel::new(&Arc::new(plan), 1, WALL),
            path: Path::Udp { socket: 0, remote: ([192, 0, 2, 2], 40_000).into() },
            log: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Delivers the attacker's datagrams, and then the server's answers. Gives how many datagrams the attacker sent.
    fn exchange(&mut self) -> usize {
        let datagrams = self.channel.take_output();
        for datagram in &datagrams {
            let _ = self.server.handle_datagram(NOW, self.path, datagram);
        }
        let Ok(()) = drive(self, &mut Vec::new());
        for answer in std::mem::take(&mut self.answers) {
            assert_ne!(self.channel.handle(&answer), Progress::Failed, "{:?}", self.log);
        }
        datagrams.len()
    }
}

#[test]
fn control_messages_follow_each_other_as_the_server_acknowledges_them() {
    let mut ends = Ends::new(Behaviour::ControlMessages);
    for _ in 0..50 {
        ends.exchange();
    }
    assert_eq!(ends.server.peers().len(), 1, "{:?}", ends.log);
    let before = ends.channel.rounds();
    assert!(before > 0, "{:?}", ends.log);
    let sent: usize = (0..10).map(|_| ends.exchange()).sum();
    let acknowledged = ends.channel.rounds() - before;
    // In each exchange the whole window, and each packet counts once.
    assert_eq!(acknowledged, 10 * u64::from(SEND_WINDOW));
    assert!(sent as u64 >= acknowledged);
    assert!(ends.channel.exchange.unacknowledged.len() <= SEND_WINDOW as usize);
    assert!(ends.log.iter().any(|line| line.contains("unprintable")), "{:?}", ends.log);
}
