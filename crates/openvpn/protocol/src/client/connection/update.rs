//! PUSH_UPDATE at a client: the tunnel changes while it is up.

use adit_core::{Instant, IpNet, PeerOrder, Severity};

use super::{Connection, Outcome};
use crate::control_message::redacted;
use crate::outbox::Outbox;
use crate::params::PullAction;
use crate::pushed::{Change, Pushed, Refused, Update};
use crate::request::{DataEvent, Event, Request};

impl Connection {
    /// An update is complete. All of it holds, or the connection is over.
    pub(super) fn update(&mut self, now: Instant, options: &[String], events: &mut Outbox) {
        let Some(up) = &self.up else {
            let text =
                "an update of settings (PUSH_UPDATE) came before the settings; it is ignored".to_owned();
            return self.tell(Severity::Warning, text, events);
        };
        let mut pushed = up.pushed.clone();
        match self.changed(options, &mut pushed, events) {
            Ok(()) => self.take_update(now, pushed, events),
            // As OpenVPN (push_util.c, `process_push_update`).
            Err(why) => {
                let reason = format!("the server's update of settings (PUSH_UPDATE) is refused: {why}");
                self.verdict = Some(Outcome::Retry { reason, advance: false });
            }
        }
    }

    fn changed(&self, options: &[String], pushed: &mut Pushed, events: &mut Outbox) -> Result<(), String> {
        let mut update = Update::default();
        for option in options {
            let Some(change) = Change::parse(option).check()? else { continue };
            match self.filter(change.option) {
                PullAction::Accept => {}
                PullAction::Ignore => continue,
                PullAction::Reject if change.is_optional() => continue,
                PullAction::Reject => {
                    return Err(format!("pull-filter rejects \"{}\"", redacted(change.option)));
                }
            }
            match update.apply(change, pushed) {
                Ok(()) => {}
                Err(Refused::Ignored(reason) | Refused::Fatal(reason)) if change.is_optional() => {
                    self.tell_ignored(option, &reason, events);
                }
                Err(Refused::Ignored(reason)) => self.tell_ignored(option, &reason, events),
                Err(Refused::Fatal(reason)) => return Err(reason),
            }
        }
        Ok(())
    }

    fn tell_ignored(&self, option: &str, reason: &str, events: &mut Outbox) {
        let text = format!("updated option \"{}\" is ignored: {reason}", redacted(option));
        self.tell(Severity::Warning, text, events);
    }

    /// The new settings hold. Sessions, and packets on their way, stay.
    fn take_update(&mut self, now: Instant, pushed: Pushed, events: &mut Outbox) {
        self.liveness.set_keepalive(pushed.keepalive(self.params.keepalive));
        let Some(up) = &mut self.up else { return };
        up.pushed = pushed;
        self.change_settings(now, events);
    }

    /// The tunnel follows the options that the server has pushed; later, if it has changed often.
    pub(super) fn change_settings(&mut self, now: Instant, events: &mut Outbox) {
        let Some(up) = &self.up else { return };
        let (params, pushed) = (&self.params, &up.pushed);
        let mtu = pushed.tun_mtu.unwrap_or(params.data.tun_mtu);
        let (local, nopull) = (&params.local, params.route_nopull);
        let settings = pushed.settings(local, nopull, mtu, self.path.remote().ip());
        if up.settings == settings {
            events.changes().withdraw();
            let text = "the server's update changes no setting (PUSH_UPDATE)".to_owned();
            return self.tell(Severity::Info, text, events);
        }
        if !events.changes().admits(now) {
            let text = "the server changes settings often (PUSH_UPDATE); the last of them hold in a moment";
            return self.tell(Severity::Warning, text.to_owned(), events);
        }
        let facts = local.scripts.as_ref().map(|scripts| pushed.facts(scripts, (local, &settings), nopull));
        let other_mtu = up.settings.mtu != settings.mtu;
        if let Some(up) = &mut self.up {
            up.addresses = settings.addresses.iter().map(IpNet::addr).collect();
            up.settings = settings.clone();
        }
        if other_mtu {
            let max_mss = self.max_mss();
            events.push_back(Event::Data(DataEvent::Peer(PeerOrder::Add(self.peer_config(max_mss)))));
        }
        self.tell(Severity::Info, "the server changed settings (PUSH_UPDATE)".to_owned(), events);
        // Scripts run as for a device that is closed and opened (OpenVPN init.c, `do_update`).
        events.extend(facts.map(|facts| Event::Request(Request::TunnelFacts(Box::new(facts)))));
        events.push_back(Event::Up(settings));
    }
}
