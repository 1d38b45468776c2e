//! What the tunnel is doing, in the states of OpenVPN (doc/management-notes.txt, "COMMAND -- state").

use std::net::{IpAddr, SocketAddr};

use adit_core::{Ended, Event, IpNet};

use super::journal::{Journal, Kind};

/// Hears what happens in the tunnel and notes its states.
pub(in crate::up) struct Watcher {
    journal: Journal,
    /// A server is connected as soon as it is set up.
    server: bool,
    doing: Doing,
    addresses: Vec<IpNet>,
}

/// What was noted last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// It starts, or will try again.
    Starting,
    /// It tries.
    Trying,
    Connected,
    /// It lost the other end, and perhaps ends.
    Lost,
}

impl Watcher {
    pub(super) fn new(journal: Journal, server: bool) -> Self {
        let mut watcher = Watcher { journal, server, doing: Doing::Starting, addresses: Vec::new() };
        watcher.note("CONNECTING", "", false, None);
        watcher
    }

    /// Something happened.
    pub(in crate::up) fn event(&mut self, event: &Event) {
        // Whether it ends is clear by the next event.
        if self.doing == Doing::Lost && !matches!(event, Event::Ended(_)) {
            self.doing = Doing::Starting;
            self.note("RECONNECTING", "connection-lost", false, None);
        }
        match event {
            Event::Open { .. } => {
                if self.doing == Doing::Trying {
                    self.note("RECONNECTING", "connection-failed", false, None);
                }
                self.doing = Doing::Trying;
                self.note("WAIT", "", false, None);
            }
            Event::Up(settings) => {
                self.addresses.clone_from(&settings.addresses);
                self.note("ASSIGN_IP", "", true, None);
                if !settings.routes.is_empty() || settings.redirect_gateway.is_some() {
                    self.note("ADD_ROUTES", "", false, None);
                }
                if self.server {
                    self.connected(None);
                }
            }
            Event::PeerUp { info, .. } if !self.server => self.connected(Some(info.path.remote())),
            Event::PeerDown { .. } if !self.server => self.doing = Doing::Lost,
            Event::Down if self.doing == Doing::Connected => self.doing = Doing::Lost,
            Event::Ended(Ended::Shutdown) => self.note("EXITING", "SIGTERM", false, None),
            Event::Ended(Ended::Failed(why)) => {
                self.note("EXITING", "error", false, None);
                self.journal.say(format!(">FATAL:{why}"));
            }
            _ => {}
        }
    }

    fn connected(&mut self, remote: Option<SocketAddr>) {
        self.doing = Doing::Connected;
        self.note("CONNECTED", "SUCCESS", true, remote);
    }

    /// Name, detail, our IPv4 address, address and port of the other end, our own outer end (which is not told), and
    /// our IPv6 address if there is one.
    fn note(&mut self, name: &str, detail: &str, with_addresses: bool, remote: Option<SocketAddr>) {
        let address = |v4: bool| {
            let found = self.addresses.iter().map(IpNet::addr).find(|address| address.is_ipv4() == v4);
            found.filter(|_| with_addresses).map(|address: IpAddr| address.to_string())
        };
        let (host, port) = remote.map_or_else(Default::default, |remote| {
            (remote.ip().to_canonical().to_string(), remote.port().to_string())
        });
        let ipv6 = address(false).map(|address| format!(",{address}")).unwrap_or_default();
        let ipv4 = address(true).unwrap_or_default();
        self.journal.note(Kind::State, &format!("{name},{detail},{ipv4},{host},{port},,{ipv6}"));
    }
}
