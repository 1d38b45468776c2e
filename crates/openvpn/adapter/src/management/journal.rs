//! The history of log lines, states and echo messages, for the management client: on request, or at once.

use std::collections::VecDeque;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_core::Severity;
use adit_io::unix_now;
use adit_openvpn::request::ClientStep;

use super::pending_auths::Told;

/// Lines that wait to be sent, at most. Further ones are lost: who does not read must not make us remember.
const MOST_WAITING: usize = 1024;
/// Client events that wait to be sent, at most, in bytes. More than all clients make that may connect at once.
const MOST_CLIENT_EVENTS: usize = 8 << 20;
/// Longest remembered entry in bytes.
const MAX_ENTRY: usize = 1000;
/// States that are remembered, and messages by `echo` (OpenVPN options.c).
const STATES: usize = 100;

/// A kind of entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Lines of the log.
    Log,
    /// The state of the tunnel.
    State,
    /// The words of `echo`.
    Echo,
}

impl Kind {
    /// Its name, as commands and answers have it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Log => "log",
            Kind::State => "state",
            Kind::Echo => "echo",
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Kind::Log => ">LOG:",
            Kind::State => ">STATE:",
            Kind::Echo => ">ECHO:",
        }
    }
}

/// Shared by those who note what happens and the thread that tells of it. None of its calls waits.
#[derive(Clone)]
pub(super) struct Journal {
    history: Arc<Mutex<History>>,
    waker: Arc<UnixStream>,
}

struct History {
    pages: [Page; 3],
    /// Whether a client is connected.
    attended: bool,
    waiting: VecDeque<String>,
    /// The events of clients, and about how many bytes they are.
    client_events: VecDeque<Told>,
    client_events_size: usize,
    /// Some of it was lost.
    overrun: bool,
    closing: bool,
}

impl History {
    /// Takes back what was to be told of a client that has left, if that begins with its first appearance: the program has not
    /// heard of it. So clients that come and leave do not fill the memory of a program that reads slowly. Whether it was so.
    fn withdraw(&mut self, client: u64) -> bool {
        let of_it = |told: &Told| told.event.client == client;
        let appears = |told: &Told| {
            of_it(told) && matches!(told.event.step, ClientStep::AuthRequest { again: false, .. })
        };
        let unheard = self.client_events.iter().any(appears);
        if unheard {
            let freed: usize = self.client_events.iter().filter(|told| of_it(told)).map(Told::size).sum();
            self.client_events.retain(|told| !of_it(told));
            self.client_events_size = self.client_events_size.saturating_sub(freed);
        }
        unheard
    }
}

/// The entries of one kind, the last of them at the end.
struct Page {
    entries: VecDeque<String>,
    most: usize,
    /// Whether new entries are sent at once.
    followed: bool,
}

impl Page {
    fn new(most: usize) -> Self {
        Page { entries: VecDeque::new(), most, followed: false }
    }
}

impl Journal {
    /// A journal of so many lines of the log. `waker` becomes readable at its other end when there is something
    /// to send; it must not block.
    pub(super) fn new(log_cache: usize, waker: UnixStream) -> Self {
        let pages = [Page::new(log_cache), Page::new(STATES), Page::new(STATES)];
        let history = History {
            pages,
            attended: false,
            waiting: VecDeque::new(),
            client_events: VecDeque::new(),
            client_events_size: 0,
            overrun: false,
            closing: false,
        };
        Journal { history: Arc::new(Mutex::new(history)), waker: Arc::new(waker) }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // If the pipe is full, the other end has enough to wake for.
        let _ = (&*self.waker).write(&[0]);
    }

    /// Adds an entry; the time is put before it.
    pub(super) fn note(&self, kind: Kind, entry: &str) {
        let mut entry = format!("{},{entry}", unix_now().0);
        if entry.len() > MAX_ENTRY {
            let end = (0..=MAX_ENTRY).rev().find(|end| entry.is_char_boundary(*end));
            entry.truncate(end.unwrap_or_default());
        }
        let mut history = self.history();
        let page = &mut history.pages[kind as usize];
        let followed = page.followed;
        let line = if followed { format!("{}{entry}", kind.prefix()) } else { String::new() };
        if page.entries.len() >= page.most {
            page.entries.pop_front();
        }
        if page.most > 0 {
            page.entries.push_back(entry);
        }
        if followed {
            history.post(line);
            drop(history);
            self.wake();
        }
    }

    /// Adds a line of the log.
    pub(super) fn note_line(&self, severity: Severity, text: &str) {
        let flag = match severity {
            Severity::Debug => 'D',
            Severity::Info => 'I',
            Severity::Warning => 'W',
            Severity::Error => 'N',
        };
        self.note(Kind::Log, &format!("{flag},{text}"));
    }

    /// Queues a line for the connected client.
    pub(super) fn say(&self, line: String) {
        self.history().post(line);
        self.wake();
    }

    /// Queues a client event for the connected client.
    pub(super) fn tell(&self, told: Told) {
        let mut history = self.history();
        let has_left = matches!(told.event.step, ClientStep::Disconnected);
        if !history.attended || has_left && history.withdraw(told.event.client) {
            return;
        }
        let size = history.client_events_size + told.size();
        if size > MOST_CLIENT_EVENTS {
            history.overrun = true;
        } else {
            history.client_events_size = size;
            history.client_events.push_back(told);
        }
        drop(history);
        self.wake();
    }

    /// Whether there is something to tell of clients.
    pub(super) fn has_client_event(&self) -> bool {
        !self.history().client_events.is_empty()
    }

    /// The next event of clients.
    pub(super) fn next_client_event(&self) -> Option<Told> {
        let mut history = self.history();
        let told = history.client_events.pop_front()?;
        history.client_events_size = history.client_events_size.saturating_sub(told.size());
        Some(told)
    }

    /// Whether client events were lost because the connected client reads too slowly.
    pub(super) fn is_overrun(&self) -> bool {
        self.history().overrun
    }

    /// Sends new entries at once from now on, or not any more.
    pub(super) fn follow(&self, kind: Kind, follow: bool) {
        self.history().pages[kind as usize].followed = follow;
    }

    /// The last entries, all if no number is given.
    pub(super) fn last(&self, kind: Kind, number: Option<usize>) -> Vec<String> {
        let history = self.history();
        let entries = &history.pages[kind as usize].entries;
        let skipped = number.map_or(0, |number| entries.len().saturating_sub(number));
        entries.iter().skip(skipped).cloned().collect()
    }

    /// A client connected or left: nothing is queued or followed until it is asked for.
    pub(super) fn attend(&self, attended: bool) {
        let mut history = self.history();
        history.attended = attended;
        history.waiting.clear();
        history.client_events.clear();
        (history.client_events_size, history.overrun) = (0, false);
        history.pages.iter_mut().for_each(|page| page.followed = false);
    }

    /// The lines that wait to be sent.
    pub(super) fn take(&self) -> VecDeque<String> {
        std::mem::take(&mut self.history().waiting)
    }

    /// The tunnel has ended: what waits is sent, and then the connection closes.
    pub(super) fn close(&self) {
        self.history().closing = true;
        self.wake();
    }

    /// Whether the tunnel has ended.
    pub(super) fn is_closing(&self) -> bool {
        self.history().closing
    }
}

impl History {
    fn post(&mut self, line: String) {
        if self.attended && self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use adit_openvpn::request::ClientEvent;
    use zeroize::Zeroizing;

    use super::*;

    fn journal(lines: usize) -> (Journal, UnixStream) {
        let (waker, woken) = UnixStream::pair().expect("a pair of sockets");
        for end in [&waker, &woken] {
            end.set_nonblocking(true).expect("a socket that does not block");
        }
        (Journal::new(lines, waker), woken)
    }

    #[test]
    fn the_last_entries_are_kept() {
        let (journal, _woken) = journal(3);
        for text in ["a", "b", "c", "d"] {
            journal.note_line(Severity::Info, text);
        }
        let last = |number| -> Vec<String> {
            let entries = journal.last(Kind::Log, number);
            entries.iter().filter_map(|entry| Some(entry.split_once(',')?.1.to_owned())).collect()
        };
        assert_eq!(last(None), ["I,b", "I,c", "I,d"]);
        assert_eq!(last(Some(1)), ["I,d"]);
        assert_eq!(last(Some(9)).len(), 3);
        assert!(journal.last(Kind::Echo, None).is_empty());
        journal.note(Kind::Echo, "x");
        assert_eq!(journal.last(Kind::Echo, None).len(), 1);
    }

    #[test]
    fn who_follows_hears_and_others_do_not() {
        let (journal, mut woken) = journal(3);
        journal.say("no client".to_owned());
        journal.attend(true);
        journal.note_line(Severity::Info, "not followed");
        assert!(journal.take().is_empty());
        journal.follow(Kind::Log, true);
        journal.note_line(Severity::Warning, "followed");
        let waiting = journal.take();
        assert_eq!(waiting.len(), 1);
        assert!(waiting[0].starts_with(">LOG:") && waiting[0].ends_with(",W,followed"), "{waiting:?}");
        assert!(woken.read(&mut [0; 8]).is_ok());
        journal.attend(false);
        journal.attend(true);
        journal.note_line(Severity::Warning, "another client");
        assert!(journal.take().is_empty());
    }

    #[test]
    fn what_clients_do_is_told_in_order_and_not_without_end() {
        let (journal, _woken) = journal(3);
        let told = |client| Told {
            event: ClientEvent {
                client,
                step: ClientStep::Disconnected,
                env: vec![("x".to_owned(), "y".repeat(1000))],
            },
            clients: 0,
            device: String::new(),
            since: unix_now(),
        };
        journal.tell(told(1));
        assert!(!journal.has_client_event(), "no client");
        journal.attend(true);
        journal.tell(told(1));
        journal.tell(told(2));
        let order = [journal.next_client_event(), journal.next_client_event(), journal.next_client_event()];
        assert_eq!(order.map(|told| told.map(|told| told.event.client)), [Some(1), Some(2), None]);
        let most = u64::try_from(MOST_CLIENT_EVENTS / 1000).expect("a number");
        (0..most).for_each(|client| journal.tell(told(client)));
        assert!(journal.is_overrun());
        assert!(std::iter::from_fn(|| journal.next_client_event()).count() < MOST_CLIENT_EVENTS / 1000);
        assert!(journal.is_overrun(), "what is lost stays lost");
        journal.attend(true);
        assert!(!journal.is_overrun());
        journal.tell(told(3));
        assert!(journal.has_client_event());
    }

    #[test]
    fn clients_that_come_and_leave_fill_no_memory() {
        let (journal, _woken) = journal(3);
        journal.attend(true);
        let tell = |client, step| {
            let env = vec![("x".to_owned(), "y".repeat(1000))];
            let event = ClientEvent { client, step, env };
            journal.tell(Told { event, clients: 0, device: String::new(), since: unix_now() });
        };
        let asks = |again| ClientStep::AuthRequest { key: 0, again, password: Zeroizing::default() };
        tell(1, asks(false));
        assert_eq!(journal.next_client_event().map(|told| told.event.client), Some(1), "it is heard of");
        tell(1, asks(true));
        tell(1, ClientStep::Disconnected);
        for client in 2..20_000 {
            tell(client, asks(false));
            tell(client, ClientStep::Disconnected);
        }
        assert!(!journal.is_overrun());
        let left: Vec<u64> =
            std::iter::from_fn(|| journal.next_client_event()).map(|told| told.event.client).collect();
        assert_eq!(left, [1, 1], "the end of what was heard of, and no other");
    }

    #[test]
    fn what_is_not_read_does_not_grow() {
        let (journal, _woken) = journal(3);
        journal.attend(true);
        journal.follow(Kind::Log, true);
        for _ in 0..2 * MOST_WAITING {
            journal.note_line(Severity::Info, &"ä".repeat(MAX_ENTRY));
        }
        let waiting = journal.take();
        assert_eq!(waiting.len(), MOST_WAITING);
        assert!(waiting.iter().all(|line| line.len() <= MAX_ENTRY + 5));
    }
}
