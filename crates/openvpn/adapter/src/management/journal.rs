//! The history of log lines, states and echo messages, for the programs at the management socket: on request, or at once.

mod mailbox;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use adit_core::Severity;
use adit_io::unix_now;

use super::pending_auths::Told;
use super::program::ProgramId;
use mailbox::Mailbox;

/// The version of a program that has not told its own (OpenVPN manage.h, `MCV_DEFAULT`).
pub(super) const DEFAULT_VERSION: u32 = 1;
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
    /// The programs that are connected, and know the password.
    programs: BTreeMap<ProgramId, Mailbox>,
    /// How many programs there were.
    number: u64,
    closing: bool,
}

impl History {
    /// Queues a line for each program that `line` makes one for.
    fn post(&mut self, line: impl Fn(&Mailbox) -> Option<String>) -> bool {
        let mut posted = false;
        for mailbox in self.programs.values_mut() {
            if let Some(line) = line(mailbox) {
                mailbox.post(line);
                posted = true;
            }
        }
        posted
    }
}

/// The entries of one kind, the last of them at the end.
struct Page {
    entries: VecDeque<String>,
    most: usize,
}

impl Page {
    fn new(most: usize) -> Self {
        Page { entries: VecDeque::new(), most }
    }
}

impl Journal {
    /// A journal of so many lines of the log. `waker` becomes readable at its other end when there is something
    /// to send; it must not block.
    pub(super) fn new(log_cache: usize, waker: UnixStream) -> Self {
        let pages = [Page::new(log_cache), Page::new(STATES), Page::new(STATES)];
        let history = History { pages, programs: BTreeMap::new(), number: 0, closing: false };
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
        let line = |mailbox: &Mailbox| mailbox.follows(kind).then(|| format!("{}{entry}", kind.prefix()));
        let posted = history.post(line);
        let page = &mut history.pages[kind as usize];
        if page.entries.len() >= page.most {
            page.entries.pop_front();
        }
        if page.most > 0 {
            page.entries.push_back(entry);
        }
        drop(history);
        if posted {
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

    /// Queues a line for all programs.
    pub(super) fn say(&self, line: &str) {
        self.say_by_version(|_| line.to_owned());
    }

    /// Queues a line for each program, as the version that it has announced knows it.
    pub(super) fn say_by_version(&self, line: impl Fn(u32) -> String) {
        self.history().post(|mailbox| Some(line(mailbox.version())));
        self.wake();
    }

    /// Queues a client event for all programs.
    pub(super) fn tell(&self, told: Told) {
        let told = Arc::new(told);
        let mut history = self.history();
        let mut posted = false;
        for mailbox in history.programs.values_mut() {
            posted |= mailbox.tell(&told);
        }
        drop(history);
        if posted {
            self.wake();
        }
    }

    /// A program has connected, and knows the password. Nothing is followed until it is asked for.
    pub(super) fn enter(&self) -> ProgramId {
        let mut history = self.history();
        history.number += 1;
        let program = ProgramId(history.number);
        history.programs.insert(program, Mailbox::new(DEFAULT_VERSION));
        program
    }

    /// A program has left: what waits for it is forgotten.
    pub(super) fn leave(&self, program: ProgramId) {
        self.history().programs.remove(&program);
    }

    /// Whether any program is connected.
    pub(super) fn has_programs(&self) -> bool {
        !self.history().programs.is_empty()
    }

    /// Does something with what waits for a program; nothing if that has left.
    fn with<T: Default>(&self, program: ProgramId, act: impl FnOnce(&mut Mailbox) -> T) -> T {
        self.history().programs.get_mut(&program).map(act).unwrap_or_default()
    }

    /// Whether there is something to tell a program of clients.
    pub(super) fn has_client_event(&self, program: ProgramId) -> bool {
        self.with(program, |mailbox| mailbox.has_client_event())
    }

    /// The next event of clients for a program.
    pub(super) fn next_client_event(&self, program: ProgramId) -> Option<Arc<Told>> {
        self.with(program, Mailbox::next_client_event)
    }

    /// Whether client events were lost because the program reads too slowly.
    pub(super) fn is_overrun(&self, program: ProgramId) -> bool {
        self.with(program, |mailbox| mailbox.is_overrun())
    }

    /// Sends new entries to a program at once from now on, or not any more.
    pub(super) fn follow(&self, program: ProgramId, kind: Kind, follow: bool) {
        self.with(program, |mailbox| mailbox.follow(kind, follow));
    }

    /// `version`: a program says what it knows.
    pub(super) fn set_version(&self, program: ProgramId, version: u32) {
        self.with(program, |mailbox| mailbox.set_version(version));
    }

    /// The version that a program has announced.
    pub(super) fn version(&self, program: ProgramId) -> u32 {
        self.with(program, |mailbox| mailbox.version())
    }

    /// The lines that wait to be sent to a program.
    pub(super) fn take(&self, program: ProgramId) -> VecDeque<String> {
        self.with(program, Mailbox::take)
    }

    /// The last entries, all if no number is given.
    pub(super) fn last(&self, kind: Kind, number: Option<usize>) -> Vec<String> {
        let history = self.history();
        let entries = &history.pages[kind as usize].entries;
        let skipped = number.map_or(0, |number| entries.len().saturating_sub(number));
        entries.iter().skip(skipped).cloned().collect()
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use adit_openvpn::request::{ClientEvent, ClientStep};
    use zeroize::Zeroizing;

    use super::mailbox::{MOST_CLIENT_EVENTS, MOST_WAITING};
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
        journal.say("no program");
        let program = journal.enter();
        let other = journal.enter();
        journal.note_line(Severity::Info, "not followed");
        assert!(journal.take(program).is_empty());
        journal.follow(program, Kind::Log, true);
        journal.note_line(Severity::Warning, "followed");
        let waiting = journal.take(program);
        assert_eq!(waiting.len(), 1);
        assert!(waiting[0].starts_with(">LOG:") && waiting[0].ends_with(",W,followed"), "{waiting:?}");
        assert!(woken.read(&mut [0; 8]).is_ok());
        assert!(journal.take(other).is_empty(), "it follows nothing");
        journal.say("said to all");
        assert_eq!(journal.take(program), ["said to all"]);
        assert_eq!(journal.take(other), ["said to all"]);
        journal.leave(program);
        journal.note_line(Severity::Warning, "it has left");
        assert!(journal.take(program).is_empty());
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
        let program = journal.enter();
        assert!(!journal.has_client_event(program), "it was not there");
        journal.tell(told(1));
        journal.tell(told(2));
        let order = [
            journal.next_client_event(program),
            journal.next_client_event(program),
            journal.next_client_event(program),
        ];
        assert_eq!(order.map(|told| told.map(|told| told.event.client)), [Some(1), Some(2), None]);
        let most = u64::try_from(MOST_CLIENT_EVENTS / 1000).expect("a number");
        (0..most).for_each(|client| journal.tell(told(client)));
        assert!(journal.is_overrun(program));
        assert!(
            std::iter::from_fn(|| journal.next_client_event(program)).count() < MOST_CLIENT_EVENTS / 1000
        );
        assert!(journal.is_overrun(program), "what is lost stays lost");
        let other = journal.enter();
        assert!(!journal.is_overrun(other));
        journal.tell(told(3));
        assert!(journal.has_client_event(other), "what one program does not read is not lost to another");
    }

    #[test]
    fn clients_that_come_and_leave_fill_no_memory() {
        let (journal, _woken) = journal(3);
        let program = journal.enter();
        let tell = |client, step| {
            let env = vec![("x".to_owned(), "y".repeat(1000))];
            let event = ClientEvent { client, step, env };
            journal.tell(Told { event, clients: 0, device: String::new(), since: unix_now() });
        };
        let asks = |again| ClientStep::AuthRequest { key: 0, again, password: Zeroizing::default() };
        tell(1, asks(false));
        assert_eq!(
            journal.next_client_event(program).map(|told| told.event.client),
            Some(1),
            "it is heard of"
        );
        tell(1, asks(true));
        tell(1, ClientStep::Disconnected);
        for client in 2..20_000 {
            tell(client, asks(false));
            tell(client, ClientStep::Disconnected);
        }
        assert!(!journal.is_overrun(program));
        let left: Vec<u64> =
            std::iter::from_fn(|| journal.next_client_event(program)).map(|told| told.event.client).collect();
        assert_eq!(left, [1, 1], "the end of what was heard of, and no other");
    }

    #[test]
    fn what_is_not_read_does_not_grow() {
        let (journal, _woken) = journal(3);
        let program = journal.enter();
        journal.follow(program, Kind::Log, true);
        for _ in 0..2 * MOST_WAITING {
            journal.note_line(Severity::Info, &"ä".repeat(MAX_ENTRY));
        }
        let waiting = journal.take(program);
        assert_eq!(waiting.len(), MOST_WAITING);
        assert!(waiting.iter().all(|line| line.len() <= MAX_ENTRY + 5));
    }
}
