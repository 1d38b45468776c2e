//! The thread that speaks to the programs at the management socket.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use adit_core::{Command, Severity};
use adit_openvpn::request::Reply;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zeroize::Zeroizing;

use super::CommandContext;
use super::listener::{ManagementListener, Stream};
use super::session::{Next, Session};
use crate::management::output::Output;

/// Programs that may be connected at once. Further ones wait until one leaves.
const MOST_PROGRAMS: usize = 16;
/// Programs that may be connected at once and have not given the password. They leave room for those that know it.
const MOST_WITHOUT_PASSWORD: usize = 4;
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

/// The steps when the last management client has left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OnLeave {
    /// The tunnel connects anew (`management-signal`).
    pub(super) restart: bool,
    /// A client forgets its passwords (`management-forget-disconnect`).
    pub(super) forget: bool,
}

struct Server {
    listener: ManagementListener,
    woken: UnixStream,
    context: CommandContext,
    password: Option<Zeroizing<String>>,
    on_leave: OnLeave,
    clients: Vec<ManagementClient>,
    /// No connection is accepted before.
    rest_until: Option<Instant>,
}

/// Starts the thread, which ends when the journal is closed.
pub(super) fn start(
    listener: ManagementListener,
    woken: UnixStream,
    context: CommandContext,
    password: Option<Zeroizing<String>>,
    on_leave: OnLeave,
) -> io::Result<JoinHandle<()>> {
    let server =
        Server { listener, woken, context, password, on_leave, clients: Vec::new(), rest_until: None };
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
            self.serve_all();
            if self.accepts() {
                self.accept();
            }
        }
        self.send_exit_notice();
    }

    /// Whether another client may connect now.
    fn accepts(&self) -> bool {
        let unknown = self.clients.iter().filter(|client| client.session.program().is_none()).count();
        self.rest_until.is_none() && self.clients.len() < MOST_PROGRAMS && unknown < MOST_WITHOUT_PASSWORD
    }

    /// Waits until there is something to do.
    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        let mut due = self.rest_until;
        if self.accepts() {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        for client in &self.clients {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, client.session.room(&client.out) > 0);
            flags.set(PollFlags::OUT, !client.out.waiting().is_empty());
            fds.push(PollFd::from_borrowed_fd(client.stream.as_fd(), flags));
            due = [due, client.due(&self.context)].into_iter().flatten().min();
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
                let client = ManagementClient { stream, session, out, moved: now };
                if let Some(client) = self.serve(client) {
                    self.clients.push(client);
                }
            }
            Ok(Err(why)) => {
                self.context
                    .log
                    .log(Severity::Warning, format_args!("management: a client was refused: {why}"));
                self.rest_until = Some(Instant::now() + REST);
                self.end_if_outgoing();
            }
            Err(error) if is_passing(&error) => {}
            // Descriptors may be short for a while.
            Err(_) => self.rest_until = Some(Instant::now() + REST),
        }
    }

    fn serve_all(&mut self) {
        for client in std::mem::take(&mut self.clients) {
            if let Some(client) = self.serve(client) {
                self.clients.push(client);
            }
        }
    }

    /// Does all for a client that can be done without waiting. Gives it back if it stays.
    fn serve(&mut self, mut client: ManagementClient) -> Option<ManagementClient> {
        match client.serve(&mut self.context) {
            Ok(Next::Stay) => return Some(client),
            Ok(Next::Leave) => self.left(client, "has left"),
            Ok(Next::Reject) => self.close(client, "a client did not know the password"),
            Ok(Next::SpeaksHttp) => {
                self.close(
                    client,
                    "a client was closed: it speaks HTTP, as a browser that a web page sends here",
                );
            }
            Err(error) => self.left(client, &format!("is gone: {error}")),
        }
        None
    }

    /// Closes the connection of a client that must not be here.
    fn close(&mut self, mut client: ManagementClient, why: &str) {
        self.context.log.log(Severity::Warning, format_args!("management: {why}"));
        self.rest_until = Some(Instant::now() + REST);
        client.session.leave(&self.context);
        self.end_if_outgoing();
    }

    fn left(&mut self, mut client: ManagementClient, how: &str) {
        self.context.log.log(Severity::Debug, format_args!("management: the client {how}"));
        let was_program = client.session.program().is_some();
        client.session.leave(&self.context);
        self.end_if_outgoing();
        // A program that only looks in every minute does not decide for the one that stays.
        if !was_program || self.context.journal.has_programs() {
            return;
        }
        if let Some(tunnel) = self.context.tunnel().as_ref() {
            if self.on_leave.forget {
                tunnel.reply(Reply::ForgetPasswords);
            }
            if self.on_leave.restart {
                tunnel.command(Command::Restart);
            }
        }
    }

    /// The program that we connected to is gone: that is the end of the tunnel (OpenVPN's manual, `management-client`).
    fn end_if_outgoing(&self) {
        if !self.listener.is_outgoing() {
            return;
        }
        match self.context.tunnel().as_ref() {
            Some(tunnel) => drop(tunnel.command(Command::Shutdown)),
            None => drop(self.context.end_process()),
        }
    }

    /// The tunnel has ended: what there is to say of it is said.
    fn send_exit_notice(mut self) {
        self.clients.iter_mut().for_each(|client| client.take_notices(&self.context));
        let until = Instant::now() + FAREWELL_TIMEOUT;
        loop {
            self.clients.retain_mut(|client| client.send().is_ok() && !client.out.waiting().is_empty());
            if self.clients.is_empty() || Instant::now() >= until {
                return;
            }
            let mut fds: Vec<PollFd<'_>> = self
                .clients
                .iter()
                .map(|client| PollFd::from_borrowed_fd(client.stream.as_fd(), PollFlags::OUT))
                .collect();
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
        if self.session.program().is_some_and(|program| context.journal.is_overrun(program)) {
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

    /// When there is something to do for it, whether or not bytes come.
    fn due(&self, context: &CommandContext) -> Option<Instant> {
        let unwritten = (!self.out.waiting().is_empty()).then(|| self.moved + WRITE_TIMEOUT);
        let busy = self.has_work(context).then(Instant::now);
        [busy, unwritten, self.session.due()].into_iter().flatten().min()
    }

    /// There is work that waits for nothing.
    fn has_work(&self, context: &CommandContext) -> bool {
        let told = |program| context.journal.has_client_event(program);
        self.session.is_busy(&self.out) || (!self.out.is_full() && self.session.program().is_some_and(told))
    }

    /// Takes the lines that came meanwhile. While there is no room, they are lost, but not those about
    /// clients.
    fn take_notices(&mut self, context: &CommandContext) {
        let Some(program) = self.session.program() else { return };
        for line in context.journal.take(program) {
            if !self.out.is_full() {
                self.out.line(&line);
            }
        }
        while !self.out.is_full()
            && let Some(told) = context.journal.next_client_event(program)
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::Shutdown;
    use std::sync::Mutex;

    use super::super::pipe;
    use super::super::testing::{Order, desk_of, settings};
    use super::*;
    use crate::status_file::Form;
    use adit_openvpn_config::{Management, ManagementAddress};
    use adit_testbed::stop_listening;

    fn wait_for(told: &Mutex<Vec<Order>>, orders: usize) {
        for _ in 0..20_000 {
            if told.lock().expect("no thread panicked").len() >= orders {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// angristan's installer pipes `kill NAME` to the socket and is gone at once, without reading the greeting.
    #[test]
    fn a_command_is_carried_out_though_its_sender_is_gone() {
        let settings = settings("gone");
        let ManagementAddress::Unix(path) = &settings.address else { panic!("a Unix socket") };
        let listener = ManagementListener::open(&settings).unwrap_or_else(|(_, why)| panic!("{why}"));
        let (context, told) = desk_of(Form::Clients(1));
        let (waker, woken) = pipe().expect("a pipe");
        let journal = context.journal.clone();
        // The client has left before the server looks at the socket.
        let mut client = UnixStream::connect(path).expect("a connection");
        client.write_all(b"kill bert\nkill anna\n").expect("two commands");
        client.shutdown(Shutdown::Both).expect("an end");
        drop(client);
        let thread = start(listener, woken, context, None, OnLeave::default()).expect("a thread");
        let victims = [42, 40, 41]
            .map(|client| Order::Reply(Reply::KillClient { client, message: "RESTART".to_owned() }));
        wait_for(&told, victims.len());
        journal.close();
        drop(waker);
        thread.join().expect("the thread ends");
        assert_eq!(*told.lock().expect("no thread panicked"), victims);
    }

    /// `management-client` with a program that listens, and is gone after its first command.
    #[test]
    fn a_tunnel_ends_with_the_program_that_it_connected_to() {
        let program = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = program.local_addr().expect("its address").port();
        let settings = Management {
            address: ManagementAddress::Tcp("127.0.0.1".to_owned(), port),
            as_client: true,
            ..settings("unused")
        };
        let listener = ManagementListener::open(&settings).unwrap_or_else(|(_, why)| panic!("{why}"));
        drop(program.accept().expect("a connection"));
        let (context, told) = desk_of(Form::Statistics);
        let (waker, woken) = pipe().expect("a pipe");
        let journal = context.journal.clone();
        let on_leave = OnLeave { forget: true, restart: false };
        let thread = start(listener, woken, context, None, on_leave).expect("a thread");
        let orders = [Order::Command(Command::Shutdown), Order::Reply(Reply::ForgetPasswords)];
        wait_for(&told, orders.len());
        journal.close();
        drop(waker);
        thread.join().expect("the thread ends");
        assert_eq!(*told.lock().expect("no thread panicked"), orders);
        stop_listening(program);
        let (_, why) = ManagementListener::open(&settings).err().expect("no program listens");
        assert!(why.contains("a program must listen there"), "{why}");
    }

    /// `management-client` with a program of another user than `management-client-user` names.
    #[test]
    fn a_tunnel_ends_where_another_user_listens() {
        let settings =
            Management { as_client: true, client_user: Some("nobody".to_owned()), ..settings("other-user") };
        let ManagementAddress::Unix(path) = &settings.address else { panic!("a Unix socket") };
        let program = std::os::unix::net::UnixListener::bind(path).expect("a socket");
        let listener = ManagementListener::open(&settings);
        std::fs::remove_file(path).expect("the socket");
        let listener = listener.unwrap_or_else(|(_, why)| panic!("{why}"));
        let (context, told) = desk_of(Form::Statistics);
        let (waker, woken) = pipe().expect("a pipe");
        let journal = context.journal.clone();
        let thread = start(listener, woken, context, None, OnLeave::default()).expect("a thread");
        wait_for(&told, 1);
        journal.close();
        drop(waker);
        thread.join().expect("the thread ends");
        assert_eq!(*told.lock().expect("no thread panicked"), [Order::Command(Command::Shutdown)]);
        drop(program);
    }
}
