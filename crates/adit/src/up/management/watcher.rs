//! What the tunnel is doing, in the states of OpenVPN (doc/management-notes.txt, "COMMAND -- state").

use std::net::{IpAddr, SocketAddr};

use adit_core::{Ended, IpNet, Severity, UnixTime};
use adit_io::unix_now;
use adit_openvpn::request::{ClientEvent, Event, Request};

use super::journal::{Journal, Kind};
use super::pending_auths::{PendingAuths, Told};

/// Hears what happens in the tunnel and notes its states.
pub(in crate::up) struct Watcher {
    journal: Journal,
    /// A server is connected as soon as it is set up.
    server: bool,
    /// It opens paths to others, and closing one is the end of an attempt.
    connects: bool,
    doing: Doing,
    /// The last event was a failure.
    failed: bool,
    addresses: Vec<IpNet>,
    pending_auths: PendingAuths,
    /// A server's clients that are up.
    clients: usize,
    /// When the tunnel was set up.
    since: UnixTime,
}

/// What was noted last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// It starts, or will try again.
    Starting,
    /// It tries.
    Trying,
    Connected,
    /// It lost the other end, and perhaps ends. What it was doing then: for how it was lost.
    Lost {
        connected: bool,
    },
}

impl Watcher {
    pub(super) fn new(journal: Journal, pending_auths: PendingAuths, server: bool) -> Self {
        let mut watcher = Watcher {
            journal,
            server,
            connects: false,
            doing: Doing::Starting,
            failed: false,
            addresses: Vec::new(),
            pending_auths,
            clients: 0,
            since: unix_now(),
        };
        watcher.note("CONNECTING", "", false, None);
        watcher
    }

    /// The protocol asks something of its adapter; `device` is the tunnel's.
    pub(in crate::up) fn request(&mut self, request: &Request, device: &str) {
        self.failed = false;
        self.come_back();
        if let Request::Client(event) = request {
            self.pending_auths.note(event);
            let (event, device) = (ClientEvent::clone(event), device.to_owned());
            self.journal.tell(Told { event, clients: self.clients, device, since: self.since });
        }
    }

    /// Something happened.
    pub(in crate::up) fn event(&mut self, event: &Event) {
        let is_failure = matches!(event, Event::Report(report) if report.severity == Severity::Error);
        let had_failed = std::mem::replace(&mut self.failed, is_failure);
        // Whether it ends is clear by the next event.
        if !matches!(event, Event::Close { .. } | Event::Down | Event::Ended(_)) {
            self.come_back();
        }
        match event {
            Event::Open { .. } => {
                self.connects = true;
                self.lose();
                self.come_back();
                self.doing = Doing::Trying;
                self.note("WAIT", "", false, None);
            }
            Event::Close { .. } if self.connects => {
                self.lose();
                // A failure is told when there will be a next attempt; an end has words of its own.
                if had_failed {
                    self.come_back();
                }
            }
            Event::Up(settings) => {
                self.addresses.clone_from(&settings.addresses);
                self.note("ASSIGN_IP", "", true, None);
                if !settings.routes.is_empty() || settings.redirect.is_some() {
                    self.note("ADD_ROUTES", "", false, None);
                }
                if self.server {
                    self.connected(None);
                }
            }
            Event::PeerUp { info, .. } if !self.server => self.connected(Some(info.path.remote())),
            Event::PeerDown { .. } if !self.server => self.lose(),
            Event::PeerUp { .. } => self.clients += 1,
            Event::PeerDown { .. } => self.clients = self.clients.saturating_sub(1),
            Event::Ended(Ended::Shutdown) => self.note("EXITING", "SIGTERM", false, None),
            Event::Ended(Ended::Failed(why)) => {
                // The client's own words (its `auth_failed`).
                if why.contains("(AUTH_FAILED)") {
                    self.journal.say(">PASSWORD:Verification Failed: 'Auth'".to_owned());
                }
                self.note("EXITING", "error", false, None);
                self.journal.say(format!(">FATAL:{why}"));
            }
            _ => {}
        }
    }

    /// The other end is gone, or was not there.
    fn lose(&mut self) {
        if matches!(self.doing, Doing::Trying | Doing::Connected) {
            self.doing = Doing::Lost { connected: self.doing == Doing::Connected };
        }
    }

    /// Where the other end was lost, it will be looked for again.
    fn come_back(&mut self) {
        let Doing::Lost { connected } = self.doing else { return };
        self.doing = Doing::Starting;
        let why = if connected { "connection-lost" } else { "connection-failed" };
        self.note("RECONNECTING", why, false, None);
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
