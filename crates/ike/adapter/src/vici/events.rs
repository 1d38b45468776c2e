//! Events that come by themselves: IKE SAs and child SAs that come up, are rekeyed or go, and lines of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::RecvError;
use std::thread;

use adit_core::{Instant, PeerId};
use adit_ike::machine::{ChildDetail, Request};
use adit_ike_vici::Message;

use super::caller::Caller;
use super::control::log_message;
use super::hub::{Notice, Subscribed, Subscription, Wants};
use super::look;
use super::numbers::ChildNumbers;
use super::sas::{IkeSa, unique_name};
use super::view::View;

/// The events that come by themselves.
pub(super) const LIVE: [&str; 6] =
    ["log", "ike-updown", "ike-rekey", "ike-update", "child-updown", "child-rekey"];

/// Sends events to a program until it is dropped.
pub(super) struct Live {
    _subscribed: Subscribed,
}

/// Begins to send the events that a program registers for. The IKE SAs are taken as they are now.
///
/// # Errors
/// The tunnel does not answer, or the system has no thread.
pub(super) fn start(view: &View, caller: &Caller) -> io::Result<Live> {
    let (subscription, subscribed) = view.hub.subscribe(Wants { requests: true, lines: true });
    let known = look::established(view).ok_or(io::ErrorKind::TimedOut)?;
    let known = known.into_iter().map(|sa| (sa.peer, sa)).collect();
    let sender = Sender { view: view.clone(), caller: caller.clone(), known, replaced: BTreeSet::new() };
    thread::Builder::new().name("adit-vici".to_owned()).spawn(move || sender.run(&subscription))?;
    Ok(Live { _subscribed: subscribed })
}

struct Sender {
    view: View,
    caller: Caller,
    /// The IKE SAs as the program knows them.
    known: BTreeMap<PeerId, IkeSa>,
    replaced: BTreeSet<u32>,
}

impl Sender {
    /// Sends events until the subscription or the connection ends.
    fn run(mut self, subscription: &Subscription) {
        while let Ok(notices) = next(subscription) {
            if self.send(notices, subscription.has_lost()).is_err() {
                return self.caller.leave();
            }
        }
    }

    fn send(&mut self, notices: Vec<Notice>, has_lost: bool) -> io::Result<()> {
        let mut changed = BTreeSet::new();
        for notice in notices {
            match notice {
                Notice::Line(severity, line) => self.caller.event("log", log_message(severity, &line))?,
                Notice::Request(Request::SasChanged(peer)) => drop(changed.insert(peer)),
                Notice::Request(_) => {}
            }
        }
        if has_lost {
            changed.extend(self.known.keys());
            changed.extend(self.view.look(|endpoint, _| peers(endpoint)).unwrap_or_default());
        }
        if changed.is_empty() {
            return Ok(());
        }
        let now = adit_io::clock();
        let mut found = look::of_peers(&self.view, changed.clone()).ok_or(io::ErrorKind::TimedOut)?;
        for peer in changed {
            let (before, after) = (self.known.remove(&peer), found.remove(&peer));
            for (name, message) in differences(before.as_ref(), after.as_ref(), &mut self.replaced, now) {
                self.caller.event(name, message)?;
            }
            self.known.extend(after.map(|after| (peer, after)));
        }
        Ok(())
    }
}

fn peers(endpoint: &adit_ike::machine::Endpoint) -> Vec<PeerId> {
    use adit_core::Protocol as _;
    endpoint.peers().into_iter().map(|(peer, _)| peer).collect()
}

/// The next notices: those that wait, one at least.
fn next(subscription: &Subscription) -> Result<Vec<Notice>, RecvError> {
    let first = subscription.notices.recv()?;
    Ok([first].into_iter().chain(subscription.notices.try_iter()).collect())
}

type Events = Vec<(&'static str, Message)>;

/// The events of a peer's IKE SA, of which a program knows how it was before. `replaced` has the child SAs that rekeys have replaced,
/// whose end is no event.
fn differences(
    before: Option<&IkeSa>,
    after: Option<&IkeSa>,
    replaced: &mut BTreeSet<u32>,
    now: Instant,
) -> Events {
    match (before, after) {
        (None, None) => Vec::new(),
        (Some(before), None) => went(before, replaced, now),
        (None, Some(after)) => came(after, now),
        (Some(before), Some(after)) if is_other(before, after) => {
            let mut events = went(before, replaced, now);
            events.extend(came(after, now));
            events
        }
        (Some(before), Some(after)) => changed(before, after, replaced, now),
    }
}

/// Whether an IKE SA is no successor of the other one: a rekey keeps the child SAs.
fn is_other(before: &IkeSa, after: &IkeSa) -> bool {
    let (old, new) = (&before.info.detail, &after.info.detail);
    let is_kept = |child: &ChildDetail| new.children.iter().any(|other| other.own_spi == child.own_spi);
    let has_kept = old.children.is_empty() || old.children.iter().any(is_kept);
    old.own_spi != new.own_spi && !has_kept
}

fn went(before: &IkeSa, replaced: &mut BTreeSet<u32>, now: Instant) -> Events {
    let mut events = vec![("ike-updown", ike(before, false, now))];
    for (numbers, child) in before.children() {
        if !replaced.remove(&child.own_spi) {
            events.push(("child-updown", child_updown(before, (numbers, child), false, now)));
        }
    }
    events
}

fn came(after: &IkeSa, now: Instant) -> Events {
    let mut events = vec![("ike-updown", ike(after, true, now))];
    events.extend(after.children().map(|child| ("child-updown", child_updown(after, child, true, now))));
    events
}

fn changed(before: &IkeSa, after: &IkeSa, replaced: &mut BTreeSet<u32>, now: Instant) -> Events {
    let mut events = Vec::new();
    let name = &after.info.detail.connection;
    if before.info.detail.own_spi != after.info.detail.own_spi {
        let both =
            Message::new().with_section("old", before.section(now)).with_section("new", after.section(now));
        events.push(("ike-rekey", Message::new().with_section(name, both)));
    }
    if (before.info.path.remote(), before.local) != (after.info.path.remote(), after.local) {
        let addresses = super::sas::addresses(after);
        events.push(("ike-update", addresses.with_section(name, before.section(now))));
    }
    let is_in = |sa: &IkeSa, spi: u32| sa.info.detail.children.iter().any(|child| child.own_spi == spi);
    for new in after.children().filter(|(_, child)| !is_in(before, child.own_spi)) {
        let mut old = before
            .children()
            .filter(|(_, child)| child.name == new.1.name && !replaced.contains(&child.own_spi));
        match old.next() {
            Some(old) => {
                replaced.insert(old.1.own_spi);
                let both = Message::new()
                    .with_section("old", before.child(old.0, old.1, now))
                    .with_section("new", after.child(new.0, new.1, now));
                let children = Message::new().with_section(&new.1.name, both);
                let section = after.section(now).with_section("child-sas", children);
                events.push(("child-rekey", Message::new().with_section(name, section)));
            }
            None => events.push(("child-updown", child_updown(after, new, true, now))),
        }
    }
    for old in before.children().filter(|(_, child)| !is_in(after, child.own_spi)) {
        if !replaced.remove(&old.1.own_spi) {
            events.push(("child-updown", child_updown(before, old, false, now)));
        }
    }
    events
}

fn with_up(is_up: bool) -> Message {
    if is_up { Message::new().with("up", "yes") } else { Message::new() }
}

fn ike(sa: &IkeSa, is_up: bool, now: Instant) -> Message {
    with_up(is_up).with_section(&sa.info.detail.connection, sa.section(now))
}

fn child_updown(sa: &IkeSa, child: (ChildNumbers, &ChildDetail), is_up: bool, now: Instant) -> Message {
    let (numbers, child) = child;
    let children = Message::new().with_section(&unique_name(child, numbers), sa.child(numbers, child, now));
    let section = sa.section(now).with_section("child-sas", children);
    with_up(is_up).with_section(&sa.info.detail.connection, section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vici::sas::testing;

    fn names(
        before: Option<&IkeSa>,
        after: Option<&IkeSa>,
        replaced: &mut BTreeSet<u32>,
    ) -> Vec<&'static str> {
        differences(before, after, replaced, Instant::ORIGIN).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn an_ike_sa_that_comes_and_goes_takes_its_child_sas_along() {
        let (sa, mut replaced) = (testing::sa(1, &[10, 11]), BTreeSet::new());
        let both = ["ike-updown", "child-updown", "child-updown"];
        assert_eq!(names(None, Some(&sa), &mut replaced), both);
        assert_eq!(names(Some(&sa), None, &mut replaced), both);
        assert_eq!(names(Some(&sa), Some(&sa), &mut replaced), [""; 0]);
        let [(_, up), ..] = &differences(None, Some(&sa), &mut replaced, Instant::ORIGIN)[..] else {
            panic!()
        };
        assert_eq!((up.text("up"), up.section("office").is_some()), (Some("yes"), true));
        let other = testing::sa(2, &[20]);
        let again = ["ike-updown", "child-updown", "child-updown", "ike-updown", "child-updown"];
        assert_eq!(names(Some(&sa), Some(&other), &mut replaced), again, "authenticated anew");
    }

    #[test]
    fn a_rekey_is_one_event_also_while_both_child_sas_are_there() {
        let mut replaced = BTreeSet::new();
        let (old, both, new) = (testing::sa(1, &[10]), testing::sa(1, &[10, 11]), testing::sa(1, &[11]));
        assert_eq!(names(Some(&old), Some(&both), &mut replaced), ["child-rekey"]);
        assert_eq!(names(Some(&both), Some(&new), &mut replaced), [""; 0]);
        assert_eq!(names(Some(&old), Some(&new), &mut replaced), ["child-rekey"], "seen late");
        let successor = testing::sa(2, &[11]);
        assert_eq!(names(Some(&new), Some(&successor), &mut replaced), ["ike-rekey"]);
        let without = testing::sa(2, &[]);
        assert_eq!(names(Some(&successor), Some(&without), &mut replaced), ["child-updown"]);
        assert!(replaced.is_empty());
    }

    #[test]
    fn another_address_is_an_update() {
        let (before, mut after) = (testing::sa(1, &[10]), testing::sa(1, &[10]));
        after.info.path = testing::path("192.0.2.99:4500");
        let events = differences(Some(&before), Some(&after), &mut BTreeSet::new(), Instant::ORIGIN);
        let [("ike-update", message)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(message.text("remote-host"), Some("192.0.2.99"));
        let before = message.section("office").and_then(|sa| sa.text("remote-host"));
        assert_eq!(before, Some("192.0.2.1"));
    }
}
