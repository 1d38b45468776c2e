//! The commands.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use adit_core::{Command, Protocol as _};
use adit_ike::machine::{Endpoint, Reply};
use adit_ike_vici::{Message, Value};

use super::outcome;
use super::sas::IkeSa;
use super::view::View;

/// The time in which the tunnel must say how it stands.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time that `initiate` and `terminate` wait.
const LONGEST_WAIT: Duration = Duration::from_secs(120);
/// How often they look.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The command by which `adit block` gives the names of all peers that are kept out.
pub(super) const BLOCK: &str = "adit-block";

/// The answer to a command.
pub(super) struct Answer {
    /// Events in front of the response, with their names. A program gets those that it has registered for.
    pub(super) events: Vec<(&'static str, Message)>,
    pub(super) response: Message,
}

impl From<Message> for Answer {
    fn from(response: Message) -> Self {
        Answer { events: Vec::new(), response }
    }
}

/// Carries out a command. `None`: it is not known.
pub(super) fn run(name: &str, message: &Message, view: &View) -> Option<Answer> {
    Some(match name {
        "version" => version().into(),
        "stats" => stats(view).into(),
        "list-sas" => list_sas(message, view),
        "get-conns" => Message::new().with_list("conns", view.connections()).into(),
        BLOCK => outcome(block(message, view)).into(),
        "initiate" => outcome(initiate(message, view)).into(),
        "terminate" => outcome(terminate(message, view)).into(),
        "rekey" => outcome(rekey(message, view)).into(),
        "load-conn" | "unload-conn" | "load-cert" | "load-key" | "load-shared" | "load-token"
        | "load-pool" | "load-authority" | "unload-shared" | "unload-key" | "unload-pool"
        | "unload-authority" | "clear-creds" | "reload-settings" => {
            let way_out = "the configuration of this daemon is the file that it was started with: change it there, and send the process SIGHUP";
            outcome(Err(way_out.to_owned())).into()
        }
        _ => return None,
    })
}

fn version() -> Message {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Message::new()
        .with("daemon", "adit")
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("sysname", text(system.sysname()))
        .with("release", text(system.release()))
        .with("machine", text(system.machine()))
}

fn stats(view: &View) -> Message {
    let total = look(view).map_or(0, |sas| sas.len());
    let running = adit_io::clock() - adit_core::Instant::ORIGIN;
    Message::new()
        .with_section("uptime", Message::new().with("running", format_args!("{} seconds", running.as_secs())))
        .with_section("ikesas", Message::new().with("total", total))
}

/// The IKE SAs that are established. `None`: the tunnel does not answer.
fn look(view: &View) -> Option<Vec<IkeSa>> {
    let (tell, told) = mpsc::channel();
    view.handle.inspect(Box::new(move |endpoint: &Endpoint, snapshot, _| {
        let all = endpoint.peers().into_iter().map(|(peer, info)| IkeSa {
            peer,
            local: endpoint.local_address(info.path),
            traffic: snapshot.peers.iter().find(|traffic| traffic.peer == peer).cloned(),
            info,
        });
        let _ = tell.send(all.collect());
    }));
    told.recv_timeout(TIMEOUT).ok()
}

/// Whether a request's filters name that IKE SA: the connection by `ike`, the IKE SA by `ike-id`, a child by `child`. Numbers of child
/// SAs are not unique here, and name none.
fn is_asked(message: &Message, sa: &IkeSa) -> bool {
    if message.text("child-id").is_some() {
        return false;
    }
    let is = |name: &str, value: &str| message.text(name).is_none_or(|asked| asked == value);
    let has_child = message
        .text("child")
        .is_none_or(|asked| sa.info.detail.children.iter().any(|child| child.name == asked));
    is("ike", &sa.info.detail.connection) && is("ike-id", &sa.number().to_string()) && has_child
}

fn list_sas(message: &Message, view: &View) -> Answer {
    let now = adit_io::clock();
    let all = look(view).unwrap_or_default();
    let asked = all.iter().filter(|sa| is_asked(message, sa));
    let events = asked.map(|sa| ("list-sa", sa.message(now))).collect();
    Answer { events, response: Message::new() }
}

/// Keeps out the peers of the names in the request, and no others.
fn block(message: &Message, view: &View) -> Result<Message, String> {
    let names = match message.get("names") {
        Some(Value::List(names)) => names.iter(),
        None => [].iter(),
        Some(_) => return Err("`names` is a list".to_owned()),
    };
    let names = names.map(|name| String::from_utf8(name.to_vec()));
    let names: BTreeSet<String> =
        names.collect::<Result<_, _>>().map_err(|_| "a name is not text".to_owned())?;
    match view.handle.reply(Reply::Block(names)) {
        true => Ok(Message::new()),
        false => Err("the tunnel has ended".to_owned()),
    }
}

/// Brings a child, or all children of a connection, up, and waits for that.
fn initiate(message: &Message, view: &View) -> Result<Message, String> {
    let child = message.text("child");
    let connection = match (message.text("ike"), child) {
        (Some(ike), _) if view.connections().iter().any(|known| known == ike) => ike.to_owned(),
        (Some(ike), _) => return Err(format!("IKE_SA config '{ike}' not found")),
        (None, Some(child)) => {
            view.connection_of(child).ok_or_else(|| format!("CHILD_SA config '{child}' not found"))?
        }
        (None, None) => return Err("missing configuration name".to_owned()),
    };
    let reply = Reply::Initiate { connection: connection.clone(), child: child.map(str::to_owned) };
    if !view.handle.reply(reply) {
        return Err("the tunnel has ended".to_owned());
    }
    let is_up = |sa: &IkeSa| {
        let children = &sa.info.detail.children;
        sa.info.detail.connection == connection
            && child.is_none_or(|child| children.iter().any(|own| own.name == child))
    };
    match wait(message, || look(view).is_some_and(|sas| sas.iter().any(is_up))) {
        true => Ok(Message::new()),
        false => Err(format!("{connection}: not established in time; the log of the daemon has the reason")),
    }
}

/// Deletes IKE SAs, and waits until they are gone.
fn terminate(message: &Message, view: &View) -> Result<Message, String> {
    if message.text("child").is_some() {
        return Err(
            "this daemon deletes an IKE SA with all its child SAs: name it by `ike` or `ike-id`".to_owned()
        );
    }
    let found = named(message, view)?;
    for sa in &found {
        view.handle.command(Command::Disconnect { peer: sa.peer });
    }
    let is_gone = |sas: &[IkeSa]| !found.iter().any(|gone| sas.iter().any(|sa| is_same(sa, gone)));
    let all_gone = wait(message, || look(view).is_some_and(|sas| is_gone(&sas)));
    let counts = Message::new().with("matches", found.len());
    match all_gone {
        true => Ok(counts.with("terminated", found.len())),
        false => Err("the IKE SA is not gone in time".to_owned()),
    }
}

/// Rekeys IKE SAs, or the child SAs of those that have the child of that name.
fn rekey(message: &Message, view: &View) -> Result<Message, String> {
    if message.text("reauth") == Some("yes") {
        return Err("this daemon authenticates anew by `reauth_time` alone".to_owned());
    }
    let found = named(message, view)?;
    for sa in &found {
        match message.text("child") {
            Some(_) => view.handle.command(Command::Rekey { peer: sa.peer }),
            None => view.handle.reply(Reply::RekeyPeer(sa.peer)),
        };
    }
    Ok(Message::new().with("matches", found.len()))
}

/// The IKE SAs that a request names. It must name some.
fn named(message: &Message, view: &View) -> Result<Vec<IkeSa>, String> {
    if ["ike", "ike-id", "child", "child-id"].iter().all(|name| message.text(name).is_none()) {
        return Err("missing SA selector".to_owned());
    }
    if message.text("child-id").is_some() {
        return Err("this daemon has no numbers of child SAs: name an IKE SA by `ike` or `ike-id`".to_owned());
    }
    let all = look(view).ok_or("the tunnel does not answer")?;
    let found: Vec<IkeSa> = all.into_iter().filter(|sa| is_asked(message, sa)).collect();
    if found.is_empty() { Err("no matching SAs found".to_owned()) } else { Ok(found) }
}

fn is_same(sa: &IkeSa, other: &IkeSa) -> bool {
    (sa.peer, sa.info.detail.own_spi) == (other.peer, other.info.detail.own_spi)
}

/// Waits until something holds: as long as the request's `timeout` in milliseconds says (0, the default: until the longest time that
/// a request waits; negative: not at all).
fn wait(message: &Message, holds: impl Fn() -> bool) -> bool {
    let asked: i64 = message.text("timeout").and_then(|text| text.parse().ok()).unwrap_or_default();
    let time = match u64::try_from(asked) {
        Ok(0) => LONGEST_WAIT,
        Ok(milliseconds) => Duration::from_millis(milliseconds).min(LONGEST_WAIT),
        Err(_) => return true,
    };
    let deadline = Instant::now() + time;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
}
