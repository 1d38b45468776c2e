//! The events of a tunnel, for the programs that wait for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_core::Severity;
use adit_host::log::Logger;
use adit_ike::machine::Request;

/// Notices that a subscriber may leave waiting. Further ones are lost, and the subscriber sees that some were.
const MOST_NOTICES: usize = 1024;

/// Passes notices on to subscribers. Copies have the same subscribers. Those that pass notices never wait.
#[derive(Clone, Default)]
pub(crate) struct Hub(Arc<Shared>);

#[derive(Default)]
struct Shared {
    subscribers: Mutex<Subscribers>,
    /// The number of subscribers, by which a tunnel without any does nothing.
    count: AtomicUsize,
}

#[derive(Default)]
struct Subscribers {
    next: u64,
    all: BTreeMap<u64, Subscriber>,
}

struct Subscriber {
    wants: Wants,
    sender: SyncSender<Notice>,
    has_lost: Arc<AtomicBool>,
}

/// The notices that a subscriber wants.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    /// Those of the endpoint.
    pub(super) requests: bool,
    /// Lines of the log.
    pub(super) lines: bool,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    Request(Request),
    /// A line of the log.
    Line(Severity, String),
}

/// The end at which notices come.
pub(super) struct Subscription {
    pub(super) notices: Receiver<Notice>,
    has_lost: Arc<AtomicBool>,
}

/// Ends a subscription when it is dropped.
pub(super) struct Subscribed {
    hub: Hub,
    number: u64,
}

impl Hub {
    /// A hub that passes on the lines of that log.
    pub(crate) fn of(log: &Logger) -> Self {
        let hub = Hub::default();
        let lines = hub.clone();
        log.listen(Box::new(move |severity, line| {
            lines.publish(|wants| wants.lines, || Notice::Line(severity, line.to_owned()));
        }));
        hub
    }

    /// Passes a message of the endpoint on.
    pub(crate) fn notify(&self, request: Request) {
        self.publish(|wants| wants.requests, || Notice::Request(request.clone()));
    }

    pub(super) fn subscribe(&self, wants: Wants) -> (Subscription, Subscribed) {
        let (sender, notices) = mpsc::sync_channel(MOST_NOTICES);
        let has_lost = Arc::new(AtomicBool::new(false));
        let mut subscribers = self.lock();
        let number = subscribers.next;
        subscribers.next += 1;
        subscribers.all.insert(number, Subscriber { wants, sender, has_lost: Arc::clone(&has_lost) });
        self.0.count.store(subscribers.all.len(), Ordering::Relaxed);
        drop(subscribers);
        (Subscription { notices, has_lost }, Subscribed { hub: self.clone(), number })
    }

    fn publish(&self, wants: impl Fn(&Wants) -> bool, notice: impl Fn() -> Notice) {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for subscriber in self.lock().all.values().filter(|subscriber| wants(&subscriber.wants)) {
            if subscriber.sender.try_send(notice()).is_err() {
                subscriber.has_lost.store(true, Ordering::Relaxed);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Subscribers> {
        self.0.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// Whether notices were lost since this was asked last.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        let mut subscribers = self.hub.lock();
        subscribers.all.remove(&self.number);
        self.hub.0.count.store(subscribers.all.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use adit_core::PeerId;

    use super::*;

    const CHANGE: Request = Request::SasChanged(PeerId(1));

    #[test]
    fn a_subscriber_that_reads_nothing_has_a_bounded_number_of_notices_and_sees_that_some_are_lost() {
        let hub = Hub::default();
        let (subscription, subscribed) = hub.subscribe(Wants { requests: true, lines: false });
        hub.publish(|wants| wants.lines, || Notice::Line(Severity::Info, "a line".to_owned()));
        (0..MOST_NOTICES).for_each(|_| hub.notify(CHANGE));
        assert!(!subscription.has_lost());
        hub.notify(CHANGE);
        assert!(subscription.has_lost() && !subscription.has_lost());
        assert_eq!(subscription.notices.try_iter().count(), MOST_NOTICES, "no line among them");
        drop(subscribed);
        hub.notify(CHANGE);
        assert!(subscription.notices.recv().is_err(), "the subscription has ended");
    }
}
