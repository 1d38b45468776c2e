//! The state of the tunnel, in the states of OpenVPN (doc/management-notes.txt, "COMMAND -- state").

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use adit_core::{Ended, IpNet, Severity, Transport, UnixTime};
use adit_io::unix_now;
use adit_openvpn::request::{ClientEvent, Event, Progress, Reply, Request, ServerNotice};

use super::journal::{Journal, Kind};
use super::pending_auths::{PendingAuths, Told};
use super::pending_queries::{PendingQueries, Topic, refusal};
use super::up_down::UpDown;

/// Hears what happens in the tunnel and notes its states.
pub(crate) struct Watcher {
    journal: Journal,
    /// A server is connected as soon as it is set up.
    server: bool,
    /// The tunnel opens paths to others, and closing one is the end of an attempt.
    connects: bool,
    doing: Doing,
    /// The last event was a failure.
    failed: bool,
    /// The server refused the user.
    refused: bool,
    addresses: Vec<IpNet>,
    /// Where the other end is.
    remote: Option<SocketAddr>,
    pending_auths: PendingAuths,
    questions: Arc<PendingQueries>,
    /// A server's clients that are up.
    clients: usize,
    /// When the tunnel was set up.
    since: UnixTime,
    up_down: Option<UpDown>,
    /// Of a remote only the proxy is asked for.
    asks_for_proxy: bool,
}

/// The state that was noted last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// The tunnel starts, or will try again.
    Starting,
    /// The tunnel tries.
    Trying,
    Connected,
    /// The tunnel lost the other end, and perhaps ends. Its state then shows how the other end was lost.
    Lost {
        connected: bool,
    },
}

impl Watcher {
    pub(super) fn new(
        journal: Journal,
        (pending_auths, questions): (PendingAuths, Arc<PendingQueries>),
        server: bool,
        up_down: Option<UpDown>,
    ) -> Self {
        let mut watcher = Watcher {
            journal,
            server,
            connects: false,
            doing: Doing::Starting,
            failed: false,
            refused: false,
            addresses: Vec::new(),
            remote: None,
            pending_auths,
            questions,
            clients: 0,
            since: unix_now(),
            up_down,
            asks_for_proxy: false,
        };
        watcher.note("CONNECTING", "", false, None);
        watcher
    }

    /// From now on only the proxy is asked for when the client asks where to connect (`management-query-proxy`).
    pub(super) fn ask_for_proxies(&mut self) {
        self.asks_for_proxy = true;
    }

    /// The protocol asks something of its adapter; `device` is the tunnel's. Gives the answer, if it is known at once.
    pub(crate) fn request(&mut self, request: &Request, device: &str) -> Option<Reply> {
        // For the log alone.
        if matches!(
            request,
            Request::ConnectionFailed(_) | Request::ClientFailed(_) | Request::ExitNotice { .. }
        ) {
            return None;
        }
        self.failed = false;
        if matches!(request, Request::MayGoOn { .. }) {
            self.lose();
        }
        // It stands before the failure that it belongs to.
        if !matches!(request, Request::ServerNotice(_) | Request::AuthFailed(_)) {
            self.come_back();
        }
        if let Some(up_down) = &mut self.up_down {
            up_down.request(request, device);
        }
        match request {
            Request::Client(event) => {
                self.pending_auths.note(event);
                let (event, device) = (ClientEvent::clone(event), device.to_owned());
                self.journal.tell(Told { event, clients: self.clients, device, since: self.since });
            }
            Request::Progress(progress) => self.note_progress(*progress),
            Request::MayGoOn { wait } if self.questions.hold_attempt(*wait) => {}
            Request::MayGoOn { .. } => return Some(Reply::GoOn { at_once: false }),
            Request::Remote(query) if self.asks_for_proxy => self.questions.ask_for_proxy((**query).clone()),
            Request::Remote(query) => self.questions.ask_for_remote((**query).clone()),
            Request::ServerInfo(text) => self.journal.say(&format!(">INFOMSG:{text}")),
            Request::AuthFailed(reason) => {
                self.refused = true;
                self.journal.say(&refusal(Topic::Auth, reason));
            }
            Request::ServerNotice(ServerNotice { kind, text }) => {
                self.journal.say(&format!(">NOTIFY:info,{kind},{text}"));
            }
            Request::Echo(text) => self.journal.note(Kind::Echo, text),
            _ => {}
        }
        None
    }

    /// The states between the start and the settings.
    fn note_progress(&mut self, progress: Progress) {
        match progress {
            Progress::Opening { named, transport } => {
                if named {
                    self.note("RESOLVE", "", false, None);
                }
                if transport == Transport::Tcp {
                    self.note("TCP_CONNECT", "", false, None);
                }
            }
            Progress::Waiting => self.note("WAIT", "", false, None),
            Progress::Authenticating => self.note("AUTH", "", false, None),
            Progress::AskingForSettings => self.note("GET_CONFIG", "", false, None),
            Progress::Pending(None) => self.note("AUTH_PENDING", "", false, None),
            Progress::Pending(Some(seconds)) => {
                self.note("AUTH_PENDING", &format!("timeout {seconds}"), false, None);
            }
        }
    }

    /// Something happened.
    pub(crate) fn event(&mut self, event: &Event) {
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
                if let Some(up_down) = &mut self.up_down {
                    up_down.connecting();
                }
            }
            Event::Close { .. } if self.connects => {
                self.lose();
                // A failure is reported when there will be a next attempt; an end has words of its own.
                if had_failed {
                    self.come_back();
                }
            }
            Event::Up(settings) => {
                if let Some(up_down) = &mut self.up_down {
                    up_down.up(settings);
                }
                self.addresses.clone_from(&settings.addresses);
                self.note("ASSIGN_IP", "", true, None);
                if !settings.routes.is_empty() || settings.redirect.is_some() {
                    self.note("ADD_ROUTES", "", false, None);
                }
                // A connected client whose settings the server changed is connected again (OpenVPN init.c, `do_update`).
                if self.server || self.doing == Doing::Connected {
                    self.connected(self.remote);
                }
            }
            Event::PeerUp { info, .. } if !self.server => self.connected(Some(info.path.remote())),
            Event::PeerDown { .. } if !self.server => self.lose(),
            Event::PeerUp { .. } => self.clients += 1,
            Event::PeerDown { .. } => self.clients = self.clients.saturating_sub(1),
            Event::Down => {
                if let Some(up_down) = &mut self.up_down {
                    up_down.down();
                }
            }
            Event::Ended(Ended::Shutdown) => self.note("EXITING", "SIGTERM", false, None),
            Event::Ended(Ended::Failed(why)) => {
                self.note("EXITING", "error", false, None);
                self.journal.say(&format!(">FATAL:{why}"));
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
        if let Some(up_down) = self.up_down.as_mut().filter(|_| connected) {
            up_down.lost();
        }
        let why = match (std::mem::take(&mut self.refused), connected) {
            // OpenVPN push.c, `receive_auth_failed`.
            (true, _) => "auth-failure",
            (false, true) => "connection-lost",
            (false, false) => "connection-failed",
        };
        self.note("RECONNECTING", why, false, None);
    }

    fn connected(&mut self, remote: Option<SocketAddr>) {
        (self.doing, self.remote) = (Doing::Connected, remote);
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
