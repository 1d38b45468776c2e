//! The thread that speaks to the client at the management socket.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_core::{Command, Severity};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::Zeroizing;

use super::CommandContext;
use super::listener::{ManagementListener, Stream};
use super::session::{Next, Output, Session};

/// After a client that was turned away, the next one waits so long.
const REST: Duration = Duration::from_secs(1);
/// A client that takes nothing of what waits for it goes, so that others can come.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Why it goes.
const TOO_SLOW: &str = "it does not read what it is sent";
/// How long the last words may take.
const FAREWELL_TIMEOUT: Duration = Duration::from_millis(200);

struct ManagementClient {
    stream: Box<dyn Stream>,
    session: Session,
    out: Output,
    /// When something was last sent, or nothing waited.
    moved: Instant,
}

struct Server {
    listener: ManagementListener,
    woken: UnixStream,
    context: CommandContext,
    password: Option<Zeroizing<String>>,
    /// The tunnel connects anew when a client has left (`management-signal`).
    restarts: bool,
    client: Option<ManagementClient>,
    /// No connection is accepted before.
    rest_until: Option<Instant>,
}

/// Starts the thread, which ends when the journal is closed.
pub(super) fn start(
    listener: ManagementListener,
    woken: UnixStream,
    context: CommandContext,
    password: Option<Zeroizing<String>>,
    restarts: bool,
) -> io::Result<JoinHandle<()>> {
    let server = Server { listener, woken, context, password, restarts, client: None, rest_until: None };
    thread::Builder::new().name("adit-management".to_owned()).spawn(move || server.run())
}

impl Server {
    fn run(mut self) {
        while !self.context.journal.is_closing() {
            if let Err(error) = self.wait() {
                let text = format_args!("management: it ends, as it cannot wait for anything: {error}");
                return self.context.log.log(Severity::Error, text);
            }
            let mut bytes = [0; 64];
            while (&self.woken).read(&mut bytes).is_ok_and(|number| number > 0) {}
            self.rest_until = self.rest_until.filter(|until| *until > Instant::now());
            if self.client.is_some() {
                self.look_after_guest();
            } else if self.rest_until.is_none() {
                self.accept();
            }
        }
        self.send_exit_notice();
    }

    /// Waits until there is something to do.
    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        let mut due = self.rest_until;
        match &self.client {
            None if self.rest_until.is_none() => fds.push(PollFd::new(&self.listener, PollFlags::IN)),
            None => {}
            Some(client) => {
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, client.session.room(&client.out) > 0);
                flags.set(PollFlags::OUT, !client.out.waiting().is_empty());
                fds.push(PollFd::from_borrowed_fd(client.stream.as_fd(), flags));
                let unwritten = (!client.out.waiting().is_empty()).then(|| client.moved + WRITE_TIMEOUT);
                let busy = client.has_work(&self.context).then(Instant::now);
                due = [due, busy, unwritten, client.session.due()].into_iter().flatten().min();
            }
        }
        let timeout = due.map(|due| {
            // Not too early, or it would not be due yet.
            let left = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
            Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn accept(&mut self) {
        match self.listener.accept() {
            Ok(Ok(stream)) => {
                self.context.log.log(Severity::Debug, "management: a client has come");
                let (now, mut out) = (Instant::now(), Output::default());
                let session = Session::new(self.password.clone(), now, &self.context, &mut out);
                self.client = Some(ManagementClient { stream, session, out, moved: now });
                self.look_after_guest();
            }
            Ok(Err(why)) => {
                self.context
                    .log
                    .log(Severity::Warning, format_args!("management: a client was refused: {why}"));
                self.rest_until = Some(Instant::now() + REST);
            }
            Err(error) if is_passing(&error) => {}
            // Descriptors may be short for a while.
            Err(_) => self.rest_until = Some(Instant::now() + REST),
        }
    }

    fn look_after_guest(&mut self) {
        let Some(mut client) = self.client.take() else { return };
        match client.serve(&mut self.context) {
            Ok(Next::Stay) => self.client = Some(client),
            Ok(Next::Leave) => self.left(&client, "has left"),
            Ok(Next::Reject) => {
                self.context.log.log(Severity::Warning, "management: a client did not know the password");
                self.rest_until = Some(Instant::now() + REST);
                self.context.journal.attend(false);
            }
            Ok(Next::SpeaksHttp) => {
                let why = "it speaks HTTP, as a browser that a web page sends here";
                self.context
                    .log
                    .log(Severity::Warning, format_args!("management: a client was closed: {why}"));
                self.rest_until = Some(Instant::now() + REST);
                self.context.journal.attend(false);
            }
            Err(error) => self.left(&client, &format!("is gone: {error}")),
        }
    }

    fn left(&mut self, client: &ManagementClient, how: &str) {
        self.context.journal.attend(false);
        self.context.log.log(Severity::Debug, format_args!("management: the client {how}"));
        if self.restarts
            && client.session.is_admitted()
            && let Some(tunnel) = self.context.tunnel().as_ref()
        {
            tunnel.command(Command::Restart);
        }
    }

    /// The tunnel has ended: what there is to say of it is said.
    fn send_exit_notice(mut self) {
        let Some(mut client) = self.client.take() else { return };
        client.take_notices(&self.context);
        let until = Instant::now() + FAREWELL_TIMEOUT;
        while !client.out.waiting().is_empty() && Instant::now() < until {
            if client.send().is_err() {
                return;
            }
            let mut fds = [PollFd::from_borrowed_fd(client.stream.as_fd(), PollFlags::OUT)];
            let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
        }
    }
}

impl ManagementClient {
    /// Does all that can be done without waiting.
    fn serve(&mut self, context: &mut CommandContext) -> io::Result<Next> {
        if self.out.waiting().is_empty() {
            self.moved = Instant::now();
        }
        if context.journal.is_overrun() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, TOO_SLOW));
        }
        let next = self.session.look_at_time(Instant::now(), context, &mut self.out);
        if next != Next::Stay {
            return Ok(next);
        }
        // Each round takes a line or bytes that were there; a client that never stops talking shall not keep us from
        // the rest.
        for _ in 0..64 {
            let read = self.receive()?;
            let next = self.session.work(context, &mut self.out);
            self.take_notices(context);
            self.send()?;
            if next != Next::Stay {
                return Ok(next);
            }
            if !read && !self.has_work(context) {
                break;
            }
        }
        if !self.out.waiting().is_empty() && self.moved.elapsed() > WRITE_TIMEOUT {
            return Err(io::Error::new(io::ErrorKind::TimedOut, TOO_SLOW));
        }
        Ok(Next::Stay)
    }

    /// True if there was anything.
    fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = Zeroizing::new([0u8; 1024]);
        let room = self.session.room(&self.out).min(bytes.len());
        if room == 0 {
            return Ok(false);
        }
        match self.stream.read(bytes.get_mut(..room).unwrap_or_default()) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
            Ok(number) => {
                self.session.receive(bytes.get(..number).unwrap_or_default());
                Ok(true)
            }
            Err(error) if is_passing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// There is work that waits for nothing.
    fn has_work(&self, context: &CommandContext) -> bool {
        self.session.is_busy(&self.out) || (!self.out.is_full() && context.journal.has_client_event())
    }

    /// What happened meanwhile. While there is no room, it is lost, but not what happens to clients.
    fn take_notices(&mut self, context: &CommandContext) {
        for line in context.journal.take() {
            if !self.out.is_full() {
                self.out.line(&line);
            }
        }
        while !self.out.is_full()
            && let Some(told) = context.journal.next_client_event()
        {
            told.print(self.session.env_filter(), &mut self.out);
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while !self.out.waiting().is_empty() {
            match self.stream.write(self.out.waiting()) {
                Ok(number) => {
                    self.out.sent(number);
                    self.moved = Instant::now();
                }
                Err(error) if is_passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// There is nothing to read, or no room to write, now.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
