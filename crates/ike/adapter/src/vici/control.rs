//! The commands that bring SAs up, rekey and delete them.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use adit_core::{Command, PeerId, Severity};
use adit_ike::machine::{ChildSelection, Reply, Request, TrapOrder};
use adit_ike_config::Connection;
use adit_ike_vici::{Message, Value};

use super::caller::Caller;
use super::hub::{Notice, Subscription, Wants};
use super::look::{self, Filter};
use super::sas::IkeSa;
use super::view::{View, child_of};

/// The longest time that a program's command goes on without a look at the tunnel, and at whether the program is still there.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

const HAS_ENDED: &str = "the tunnel has ended";
const NO_ANSWER: &str = "the tunnel does not answer";

/// The outcome of a command that waits. The outer error: the program has gone.
type Outcome = io::Result<Result<Message, String>>;

/// Keeps out the peers of the names in the request, and no others.
///
/// # Errors
/// There is no list of names, or the tunnel has ended.
pub(super) fn block(message: &Message, view: &View) -> Result<Message, String> {
    let names = match message.get("names") {
        Some(Value::List(names)) => names.iter(),
        None => [].iter(),
        Some(_) => return Err("`names` is a list".to_owned()),
    };
    let names = names.map(|name| String::from_utf8(name.to_vec()));
    let names: BTreeSet<String> =
        names.collect::<Result<_, _>>().map_err(|_| "a name is not text".to_owned())?;
    order(view, Reply::Block(names)).map(|()| Message::new())
}

fn order(view: &View, reply: Reply) -> Result<(), String> {
    if view.handle.reply(reply) { Ok(()) } else { Err(HAS_ENDED.to_owned()) }
}

/// A child, or all children of a connection, that is to come up.
struct Initiation<'a> {
    connection: String,
    child: Option<&'a str>,
}

impl Initiation<'_> {
    fn of<'a>(message: &'a Message, view: &View) -> Result<Initiation<'a>, String> {
        let config = view.configured.config();
        let (ike, child) = (message.text("ike"), message.text("child"));
        let found: Option<&Connection> = match (ike, child) {
            (ike, Some(child)) => child_of(&config, ike, child).map(|(connection, _)| connection),
            (Some(ike), None) => config.connections.iter().find(|own| own.name == ike),
            (None, None) => return Err("missing configuration name".to_owned()),
        };
        let missing = || match (child, ike) {
            (Some(child), _) => format!("CHILD_SA config '{child}' not found"),
            (None, ike) => format!("IKE_SA config '{}' not found", ike.unwrap_or_default()),
        };
        let connection = found.ok_or_else(missing)?.name.clone();
        Ok(Initiation { connection, child })
    }

    fn is_up(&self, view: &View) -> bool {
        let is_up = |sa: &IkeSa| {
            let children = &sa.info.detail.children;
            let is_child_up = |child: &str| children.iter().any(|own| own.name == child);
            sa.info.detail.connection == self.connection && self.child.is_none_or(is_child_up)
        };
        look::established(view).is_some_and(|sas| sas.iter().any(is_up))
    }

    fn name(&self) -> String {
        match self.child {
            Some(child) => format!("CHILD_SA '{child}'"),
            None => format!("IKE_SA '{}'", self.connection),
        }
    }
}

/// Brings a child, or all children of a connection, up, and waits for that.
///
/// # Errors
/// The program has gone.
pub(super) fn initiate(message: &Message, view: &View, caller: &Caller) -> Outcome {
    let initiation = match Initiation::of(message, view) {
        Ok(initiation) => initiation,
        Err(why) => return Ok(Err(why)),
    };
    let (subscription, _subscribed) = view.hub.subscribe(Wants { requests: true, lines: true });
    let child = initiation.child.map(str::to_owned);
    if let Err(why) = order(view, Reply::Initiate { connection: initiation.connection.clone(), child }) {
        return Ok(Err(why));
    }
    let mut last_failure = String::new();
    let has_failed = |request: &Request| match request {
        Request::Failed { connection, reason } if *connection == initiation.connection => {
            last_failure.clone_from(reason);
            let name = connection.clone();
            // Another address of the peer may be tried.
            !view.look(move |endpoint, _| endpoint.is_initiating(&name)).unwrap_or_default()
        }
        _ => false,
    };
    let waiting = Waiting { message, caller, subscription: &subscription };
    let ended = waiting.until(|| initiation.is_up(view), has_failed)?;
    let name = initiation.name();
    Ok(match ended {
        Ended::Holds | Ended::NotWaited => Ok(Message::new()),
        Ended::Failed => Err(format!("establishing {name} failed: {last_failure}")),
        Ended::TimeOver(time) => Err(format!("{name} not established after {}ms", time.as_millis())),
    })
}

/// Deletes IKE SAs, or child SAs of them, and waits until they are gone.
///
/// # Errors
/// The program has gone.
pub(super) fn terminate(message: &Message, view: &View, caller: &Caller) -> Outcome {
    let filter = Filter::of(message);
    if filter.is_empty() {
        return Ok(Err("missing terminate selector".to_owned()));
    }
    let (subscription, _subscribed) = view.hub.subscribe(Wants { requests: true, lines: true });
    let found = match named(&filter, view, "terminate") {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let mut matches = 0;
    for sa in &found {
        if !filter.names_children() {
            matches += 1;
            view.handle.command(Command::Disconnect { peer: sa.peer });
            continue;
        }
        for (child, _) in filter.children(sa) {
            matches += 1;
            view.handle.reply(Reply::DeleteChild(ChildSelection { peer: sa.peer, spi: child.own_spi }));
        }
    }
    let peers: BTreeSet<PeerId> = found.iter().map(|sa| sa.peer).collect();
    let is_gone = || {
        let now = look::of_peers(view, peers.clone()).unwrap_or_default();
        found.iter().all(|before| now.get(&before.peer).is_none_or(|after| is_gone(before, after, &filter)))
    };
    let waiting = Waiting { message, caller, subscription: &subscription };
    let ended = match message.text("force") {
        Some("yes") => Ended::NotWaited,
        _ => waiting.until(is_gone, |_| false)?,
    };
    Ok(match ended {
        Ended::Holds | Ended::NotWaited => {
            Ok(Message::new().with("matches", matches).with("terminated", matches))
        }
        Ended::TimeOver(_) | Ended::Failed => Err("terminating SA failed: it is not gone in time".to_owned()),
    })
}

/// Whether the SAs that a request names are gone.
fn is_gone(before: &IkeSa, after: &IkeSa, filter: &Filter<'_>) -> bool {
    if !filter.names_children() {
        return before.info.detail.own_spi != after.info.detail.own_spi;
    }
    let is_there = |spi| after.info.detail.children.iter().any(|child| child.own_spi == spi);
    !filter.children(before).any(|(child, _)| is_there(child.own_spi))
}

/// Rekeys IKE SAs, or child SAs of them.
///
/// # Errors
/// No SA is named, or none is there.
pub(super) fn rekey(message: &Message, view: &View) -> Result<Message, String> {
    let filter = Filter::of(message);
    if filter.is_empty() {
        return Err("missing rekey selector".to_owned());
    }
    let is_new_authentication = message.text("reauth") == Some("yes");
    let config = view.configured.config();
    let mut matches = 0;
    for sa in named(&filter, view, "rekey")? {
        let name = &sa.info.detail.connection;
        if is_new_authentication && !filter.names_children() {
            let can_initiate = config.connections.iter().any(|own| own.name == *name && has_address(own));
            if !can_initiate {
                let text = "the peer authenticates anew: this end has no address to initiate to";
                return Err(format!("{name}: {text}"));
            }
        }
        if !filter.names_children() {
            matches += 1;
            order(
                view,
                match is_new_authentication {
                    true => Reply::ReauthenticatePeer(sa.peer),
                    false => Reply::RekeyPeer(sa.peer),
                },
            )?;
            continue;
        }
        for (child, _) in filter.children(&sa) {
            matches += 1;
            order(view, Reply::RekeyChild(ChildSelection { peer: sa.peer, spi: child.own_spi }))?;
        }
    }
    Ok(Message::new().with("matches", matches))
}

fn has_address(connection: &Connection) -> bool {
    use adit_ike_config::Host;
    connection.remote_addrs.iter().any(|host| matches!(host, Host::Address(_) | Host::Name(_)))
}

/// IKE SAs are not redirected (RFC 5685).
///
/// # Errors
/// Always.
pub(super) fn redirect(message: &Message) -> Result<Message, String> {
    Err(match message.text("gateway") {
        None => "missing target gateway".to_owned(),
        Some(_) => "this daemon redirects no IKE SAs (RFC 5685)".to_owned(),
    })
}

/// Has packets bring a child up, or no longer.
///
/// # Errors
/// There is no such child, or packets cannot bring it up.
pub(super) fn install(message: &Message, view: &View, is_installed: bool) -> Result<Message, String> {
    let child = message.text("child").ok_or("missing configuration name")?;
    let config = view.configured.config();
    let found = child_of(&config, message.text("ike"), child);
    let policy = (found.map(|(own, _)| own.name.clone()), child.to_owned());
    let is_there = |view: &View| {
        let traps = view.look(|endpoint, _| endpoint.traps()).ok_or(NO_ANSWER)?;
        Ok::<_, &str>(traps.iter().any(|(ike, child)| policy.0.as_ref() == Some(ike) && policy.1 == *child))
    };
    let (connection, _) = match found {
        Some(found) => found,
        None if is_installed => return Err("configuration name not found".to_owned()),
        None => return Err(format!("policy '{child}' not found")),
    };
    if is_installed && !(has_address(connection) && connection.vips.is_empty() && connection.pools.is_empty())
    {
        let text =
            "packets bring a child up where the peer has an address, and neither end asks for an inner one";
        return Err(format!("installing policy '{child}' failed: {text}"));
    }
    if !is_installed && !is_there(view)? {
        return Err(format!("policy '{child}' not found"));
    }
    let order_of = TrapOrder { connection: connection.name.clone(), child: child.to_owned(), is_installed };
    order(view, Reply::SetTrap(order_of))?;
    match is_there(view)? == is_installed {
        true => Ok(Message::new()),
        false => Err(format!("installing policy '{child}' failed")),
    }
}

/// The IKE SAs that a filter names, for an order.
fn named(filter: &Filter<'_>, view: &View, order: &str) -> Result<Vec<IkeSa>, String> {
    let all = look::established(view).ok_or(NO_ANSWER)?;
    let found: Vec<IkeSa> = all.into_iter().filter(|sa| filter.has(sa)).collect();
    if found.is_empty() { Err(format!("no matching SAs to {order} found")) } else { Ok(found) }
}

/// The end of a wait.
enum Ended {
    Holds,
    Failed,
    /// After this time.
    TimeOver(Duration),
    /// The program does not want to wait.
    NotWaited,
}

/// A command that waits for a change, and sends lines of the log meanwhile.
struct Waiting<'a> {
    message: &'a Message,
    caller: &'a Caller,
    subscription: &'a Subscription,
}

impl Waiting<'_> {
    /// Waits until something holds or has failed, for the `timeout` of the request in milliseconds at most. With 0, the default, there
    /// is no limit; a negative one does not wait.
    ///
    /// # Errors
    /// The program has gone.
    fn until(
        &self,
        holds: impl Fn() -> bool,
        mut has_failed: impl FnMut(&Request) -> bool,
    ) -> io::Result<Ended> {
        let asked: i64 = self.message.text("timeout").and_then(|text| text.parse().ok()).unwrap_or_default();
        let Ok(limit) = u64::try_from(asked).map(Duration::from_millis) else { return Ok(Ended::NotWaited) };
        let deadline = (!limit.is_zero()).then(|| Instant::now() + limit);
        if holds() {
            self.lines_so_far()?;
            return Ok(Ended::Holds);
        }
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Ended::TimeOver(limit));
            }
            let wait = left.map_or(LONGEST_WAIT, |left| left.min(LONGEST_WAIT));
            match self.subscription.notices.recv_timeout(wait) {
                Ok(Notice::Line(severity, line)) => self.line(severity, &line)?,
                Ok(Notice::Request(request)) if has_failed(&request) => {
                    self.lines_so_far()?;
                    return Ok(Ended::Failed);
                }
                Ok(Notice::Request(_)) | Err(_) if holds() => {
                    self.lines_so_far()?;
                    return Ok(Ended::Holds);
                }
                Ok(_) => {}
                Err(_) if self.caller.has_gone() => return Err(io::ErrorKind::BrokenPipe.into()),
                Err(_) => {}
            }
        }
    }

    /// Sends the lines that wait.
    fn lines_so_far(&self) -> io::Result<()> {
        for notice in self.subscription.notices.try_iter() {
            if let Notice::Line(severity, line) = notice {
                self.line(severity, &line)?;
            }
        }
        Ok(())
    }

    fn line(&self, severity: Severity, line: &str) -> io::Result<()> {
        let wanted = self.message.text("loglevel").and_then(|text| text.parse().ok()).unwrap_or(1);
        match level(severity) <= wanted {
            true => self.caller.event("control-log", log_message(severity, line)),
            false => Ok(()),
        }
    }
}

/// strongSwan's level of a line: 0 for what must be seen, 1 for the steps of SAs, 2 for details.
const fn level(severity: Severity) -> i32 {
    match severity {
        Severity::Error | Severity::Warning => 0,
        Severity::Info => 1,
        Severity::Debug => 2,
    }
}

/// A line of the log as an event.
pub(super) fn log_message(severity: Severity, line: &str) -> Message {
    Message::new().with("group", "IKE").with("level", level(severity)).with("thread", 0).with("msg", line)
}
