//! The push is there: the options of it that hold, and the tunnel that follows.

use adit_core::{Cipher, Instant, IpNet, Ipv4Net, Ipv6Net, PeerConfig, PeerId, PeerOrder, Severity};

use super::{Connection, Outcome, Terms, Up, retry};
use crate::codec::{DataHeader, Payloads};
use crate::control_message::redacted;
use crate::data_keys::Agreement;
use crate::key_state::KeyStateError;
use crate::lifetime::Lifetime;
use crate::liveness::Liveness;
use crate::negotiate::{client_cipher, doubtful_fragments};
use crate::outbox::Outbox;
use crate::params::PullAction;
use crate::pushed::{Pushed, Refused};
use crate::request::{DataEvent, Event, Request};

impl Connection {
    /// The push is complete: the tunnel can come up.
    pub(super) fn establish(
        &mut self,
        now: Instant,
        options: &[String],
        events: &mut Outbox,
    ) -> Result<(), KeyStateError> {
        let mut pushed = Pushed::accepting(self.params.max_pushed_mtu, self.params.data.pushed_compression);
        let is_token = |option: &&String| option.starts_with("auth-token");
        self.take_tokens(options.iter().filter(is_token).map(String::as_str));
        for option in options.iter().filter(|option| !is_token(option)) {
            match self.filter(option) {
                PullAction::Accept => {}
                PullAction::Ignore => continue,
                PullAction::Reject => {
                    self.verdict = Some(retry(&format!(
                        "pull-filter rejects the pushed option \"{}\"",
                        redacted(option)
                    )));
                    return Ok(());
                }
            }
            Connection::tell_echo(option, events);
            match pushed.apply(option) {
                Ok(()) => {}
                Err(Refused::Ignored(reason)) => {
                    let option = redacted(option);
                    let text = format!("pushed option \"{option}\" is ignored: {reason}");
                    self.tell(Severity::Warning, text, events);
                }
                Err(Refused::Fatal(reason)) => {
                    self.verdict = Some(Outcome::Fatal(reason));
                    return Ok(());
                }
            }
        }
        let Some(cipher) = self.accept_cipher(pushed.cipher) else { return Ok(()) };
        let data = &self.params.data;
        if let Some(reason) = pushed.refused_epochs(data, cipher) {
            self.verdict = Some(Outcome::Fatal(reason.to_owned()));
            return Ok(());
        }
        let own = (data.compression, data.decompress);
        let (compression, decompress) = pushed.compression.unwrap_or(own);
        let header = pushed.peer_id.map_or(DataHeader::V1, |peer_id| DataHeader::V2 { peer_id });
        let mtu = pushed.tun_mtu.unwrap_or(data.tun_mtu);
        let agreement = Agreement {
            cipher,
            digest: data.digest,
            header,
            compression,
            exporter: pushed.exporter,
            epoch: pushed.epoch,
            replay_window: data.replay_window,
            fragment: data.fragment_over(self.path.transport()),
            payloads: Payloads::default(),
        }
        // An update (PUSH_UPDATE) may set any MTU up to `tun-mtu-max` while these keys are in use.
        .with_payloads(self.path, mtu.max(self.params.max_pushed_mtu), decompress);
        let server = self.path.remote().ip();
        let (local, nopull) = (&self.params.local, self.params.route_nopull);
        let settings = pushed.settings(local, nopull, mtu, server);
        let facts = local.scripts.as_ref().map(|scripts| pushed.facts(scripts, (local, &settings), nopull));
        let terms = Terms {
            agreement,
            dynamic: pushed.dynamic_tls_crypt,
            keepalive: pushed.keepalive(self.params.keepalive),
            limits: self.params.limits.merged(pushed.limits),
            cc_exit: pushed.cc_exit,
            exit_notify: self.remote.exit_notify || pushed.exit_notify,
            settings,
            facts: facts.map(Box::new),
            pushed,
        };
        self.enter(now, terms, events)
    }

    /// The tunnel comes up on these terms.
    pub(super) fn enter(
        &mut self,
        now: Instant,
        terms: Terms,
        events: &mut Outbox,
    ) -> Result<(), KeyStateError> {
        let Terms { agreement, settings, facts, pushed, .. } = terms;
        let doubt = doubtful_fragments(agreement.fragment.is_some(), self.channel.peer_options());
        if let Some(doubt) = doubt {
            self.tell(Severity::Warning, doubt.to_owned(), events);
        }
        let max_mss = self.max_mss_of(settings.mtu, &agreement);
        events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Add(self.peer_config(max_mss)))));
        self.channel.agreed(now, terms.dynamic)?;
        self.data_keys.agree(agreement, &self.channel, events)?;
        self.liveness = Liveness::new(now, terms.keepalive);
        self.lifetime = Lifetime::new(now, terms.limits);
        self.up = Some(Up {
            name: self.channel.peer_name().unwrap_or("server").to_owned(),
            addresses: settings.addresses.iter().map(IpNet::addr).collect(),
            cipher: agreement.cipher,
            epochs: agreement.epoch,
            since: now,
            cc_exit: terms.cc_exit,
            exit_notify: terms.exit_notify,
            pushed,
            settings: settings.clone(),
        });
        (self.ask_at, self.push_deadline) = (None, None);
        events.extend(facts.map(|facts| Event::Request(Request::TunnelFacts(facts))));
        events.push_back(Event::Up(settings));
        if let Some(info) = self.peer_info() {
            events.push_back(Event::PeerUp { peer: PeerId::SERVER, info: Box::new(info) });
        }
        Ok(())
    }

    /// The server in the data plane.
    pub(super) fn peer_config(&self, max_mss: Option<u16>) -> PeerConfig {
        PeerConfig {
            peer: PeerId::SERVER,
            path: Some(self.path),
            routes: vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())],
            selectors: Default::default(),
            max_mss,
            roams: self.params.float,
            staging: false,
            device: Default::default(),
            by_path: true,
            identity: Default::default(),
        }
    }

    pub(super) fn filter(&self, option: &str) -> PullAction {
        let mut filters = self.params.pull_filters.iter();
        filters
            .find(|filter| option.starts_with(filter.prefix.as_str()))
            .map_or(PullAction::Accept, |filter| filter.action)
    }

    /// The cipher that both ends will use; none, and the end of this connection, if there is none.
    fn accept_cipher(&mut self, pushed: Option<Cipher>) -> Option<Cipher> {
        let found = client_cipher(&self.params.data, pushed, self.channel.peer_options());
        found.map_err(|reason| self.verdict = Some(Outcome::Fatal(reason))).ok()
    }
}
