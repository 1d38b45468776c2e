//! The commands of the management protocol, and their answers in the words of OpenVPN 2.6, which programs look for.
//!
//! Source: OpenVPN doc/management-notes.txt, and what 2.6.14 answers.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use adit_core::{Command, Severity, Transport};
use adit_openvpn::request::Reply;

use super::journal::Kind;
use super::session::{Next, Session};
use super::tunnel::{Load, Peer};
use super::{CommandContext, client_auth, client_commands, texts};
use crate::VERSION;
use crate::management::output::{Output, unsupported};
use crate::status_file::Form;

/// The output of `help`.
const HELP: &str = "Management Interface for adit
Commands:
auth-retry             : Show what happens after a refused password.
bytecount n            : Tell the bytes in and out every n seconds; 0 for no more.
certificate            : Give the certificate that is asked for, in the lines that follow until END.
client-auth CID KID    : Let a client in, with the lines that follow until END.
client-auth-nt CID KID : Let a client in.
client-deny CID KID R [M] : Send a client away: R for the log, M for the client.
client-kill CID [M]    : Disconnect the client of that number, with message M (RESTART).
client-pending-auth CID KID M S : Tell a client to do M first, within S seconds.
cr-response B64        : Answer the server's question, in base64.
echo [on|off] [N|all]  : Like log, for messages by echo.
env-filter [n]         : Tell less of clients' environments: 0 all, 1, 2, 3 least.
exit|quit              : Leave.
forget-passwords       : Forget the passwords that were given.
help                   : Show this.
hold [on|off|release]  : Show or set whether each connection waits, or let it go on.
kill CN                : Disconnect all clients of that name.
kill [proto:]IP:port   : Disconnect the client at that address.
load-stats             : Show the number of clients and the bytes in and out.
log [on|off] [N|all]   : Tell new lines of the log, or show the last N or all.
mute [n]               : Show or set how many lines that are alike are logged.
nclients               : Show the number of clients.
needok type ok|cancel  : Say whether what is asked for is done.
needstr type text      : Give a text that is asked for.
password type p        : Give a password that is asked for.
pid                    : Show the number of the process.
pkcs11-id-count        : Show how many certificates are on tokens, while one is asked for.
pkcs11-id-get n        : Show the n-th of them, from 0 on.
pk-sig                 : Give the signature that is asked for, in base64, in the lines that follow until END.
proxy NONE             : Connect to the remote that was asked about, as the file says.
proxy HTTP|SOCKS HOST PORT [nct] : Connect to it by that proxy.
push-update-broad O    : Change the options O (parted by commas) of all clients.
push-update-cid CID O  : Change those of one client.
remote ACCEPT          : Connect to the remote that was asked about.
remote MOD HOST PORT   : Connect to that one in its place.
remote SKIP [n]        : Go on with the next, or the n-th behind it.
signal s               : Do what the signal does: SIGHUP, SIGTERM, SIGINT, SIGUSR1 or SIGUSR2.
state [on|off] [N|all] : Like log, for what the tunnel is doing.
status [n]             : Show the state in form n: 1, 2 or 3.
username type u        : Give a username that is asked for.
verb [n]               : Show or set how much is logged.
version [n]            : Show the version, or tell that of the client.
END";

/// Longest message to a client that is disconnected.
const MAX_MESSAGE: usize = 256;

/// Runs a command, its name and its arguments; none at all does nothing.
pub(super) fn run(
    words: &[&str],
    session: &mut Session,
    context: &mut CommandContext,
    out: &mut Output,
) -> Next {
    let Some((name, arguments)) = words.split_first() else { return Next::Stay };
    context.tell_command(name, arguments);
    match needed(name) {
        (least, _) if arguments.len() >= least => {}
        (least, or_more) => {
            let at_least = if or_more { "at least " } else { "" };
            let plural = if least == 1 { "" } else { "s" };
            out.line(&format!("ERROR: the '{name}' command requires {at_least}{least} parameter{plural}"));
            return Next::Stay;
        }
    }
    let first = arguments.first().copied();
    match *name {
        "exit" | "quit" => return Next::Leave,
        "help" => out.lines(HELP),
        "version" => version(first, session, context, out),
        "pid" => out.line(&format!("SUCCESS: pid={}", std::process::id())),
        "status" => status(first, context, out),
        "load-stats" => load_stats(context, out),
        "nclients" => count_clients(context, out),
        "bytecount" => bytecount(first.unwrap_or_default(), session, out),
        "kill" => kill(first.unwrap_or_default(), context, out),
        "client-kill" => client_kill(first.unwrap_or_default(), arguments.get(1).copied(), context, out),
        "signal" => signal(first.unwrap_or_default(), context, out),
        "log" => arguments.iter().take(2).for_each(|word| history(Kind::Log, word, session, context, out)),
        "echo" => arguments.iter().take(2).for_each(|word| history(Kind::Echo, word, session, context, out)),
        "state" if arguments.is_empty() => history(Kind::State, "1", session, context, out),
        "state" => {
            arguments.iter().take(2).for_each(|word| history(Kind::State, word, session, context, out))
        }
        "verb" => verb(first, context, out),
        "mute" => mute(first, context, out),
        "auth-retry" => auth_retry(first, context, out),
        "push-update-broad" => push_update(name, None, first.unwrap_or_default(), context, out),
        "push-update-cid" => match first.unwrap_or_default().parse() {
            Ok(client) => push_update(name, Some(client), at(arguments, 1), context, out),
            Err(_) => out.line("ERROR: push-update-cid fail during cid parsing"),
        },
        "hold" => client_commands::hold(first, context, out),
        "remote" => client_commands::remote(arguments, context, out),
        "proxy" => client_commands::proxy(arguments, context, out),
        "cr-response" => client_commands::respond(first.unwrap_or_default(), context, out),
        "forget-passwords" => client_commands::forget_passwords(context, out),
        "needok" => out.line(&context.questions.take_confirmation(at(arguments, 0), at(arguments, 1))),
        "needstr" => out.line(&context.questions.take_string(at(arguments, 0), at(arguments, 1))),
        "pkcs11-id-count" => out.line(&context.questions.count_certificates()),
        "pkcs11-id-get" => {
            let index = at(arguments, 0).parse().unwrap_or_default();
            out.line(&context.questions.certificate(index));
        }
        "pk-sig" | "rsa-sig" | "certificate" => texts::run(name, session, context, out),
        "username" => out.line(&context.questions.take_username(at(arguments, 0), at(arguments, 1))),
        "password" => out.line(&context.questions.take_password(at(arguments, 0), at(arguments, 1))),
        name @ ("client-auth" | "client-auth-nt" | "client-deny" | "client-pending-auth") => {
            client_auth::run(name, arguments, session, context, out);
        }
        "env-filter" => client_auth::env_filter(first, session, out),
        other => out.line(&absent(other)),
    }
    Next::Stay
}

fn at<'a>(arguments: &[&'a str], index: usize) -> &'a str {
    arguments.get(index).copied().unwrap_or_default()
}

/// How many arguments a command takes at least, and whether it may have more.
fn needed(name: &str) -> (usize, bool) {
    match name {
        "kill" | "signal" | "bytecount" | "cr-response" | "push-update-broad" | "pkcs11-id-get" => (1, false),
        "client-kill" | "log" | "echo" | "remote" | "proxy" => (1, true),
        "username" | "password" | "needok" | "needstr" | "push-update-cid" | "client-auth"
        | "client-auth-nt" => (2, false),
        "client-deny" => (3, true),
        "client-pending-auth" => (4, false),
        _ => (0, true),
    }
}

/// The answer to a command that OpenVPN has, or to one that there is not.
fn absent(name: &str) -> String {
    match name {
        "remote-entry-count" | "remote-entry-get" => unsupported(name),
        "net" => "ERROR: Sorry, this command is currently only implemented on Windows".to_owned(),
        _ => "ERROR: unknown command, enter 'help' for more options".to_owned(),
    }
}

/// The version that a client announces decides how it is asked for signatures. Only those of version 4 on expect an
/// answer.
fn version(given: Option<&str>, session: &Session, context: &CommandContext, out: &mut Output) {
    let given = given.map(str::parse::<u32>);
    if let (Some(Ok(version)), Some(program)) = (given.as_ref(), session.program()) {
        context.journal.set_version(program, *version);
    }
    match given {
        // Programs take the second word behind the colon as the version of OpenVPN that answers (openvpn-monitor).
        None => out.lines(&format!("OpenVPN Version: {VERSION}\nManagement Version: 5\nEND")),
        Some(Ok(version @ 4..)) => out.line(&format!("SUCCESS: Management client version set to {version}")),
        Some(Ok(_)) => {}
        Some(Err(_)) => out.line("ERROR: Invalid value specified for management client version"),
    }
}

fn status(given: Option<&str>, context: &CommandContext, out: &mut Output) {
    let tunnel = context.tunnel();
    let Some(tunnel) = tunnel.as_ref() else { return out.line(&unsupported("status")) };
    let form = match (tunnel.form(), given.map(str::parse)) {
        (form, None | Some(Ok(0))) => form,
        (Form::Statistics, Some(_)) => Form::Statistics,
        (Form::Clients(_), Some(Ok(version @ 1..=3))) => Form::Clients(version),
        (Form::Clients(_), Some(_)) => return out.line("ERROR: bad status format version number"),
    };
    match tunnel.status(form) {
        Some(text) => out.lines(&text),
        None => out.line(SILENT),
    }
}

/// The answer where the tunnel has ended, or has too much to do.
const SILENT: &str = "ERROR: the tunnel does not answer";

/// The traffic, or why it is not known.
fn load(name: &str, context: &CommandContext) -> Result<(Form, Load), String> {
    let tunnel = context.tunnel();
    let tunnel = tunnel.as_ref().ok_or_else(|| unsupported(name))?;
    Ok((tunnel.form(), tunnel.load().ok_or(SILENT)?))
}

fn clients((form, load): &(Form, Load)) -> usize {
    if matches!(form, Form::Clients(_)) { load.peers.len() } else { 0 }
}

fn load_stats(context: &CommandContext, out: &mut Output) {
    match load("load-stats", context) {
        Ok(found) => {
            let Load { received, sent, .. } = &found.1;
            out.line(&format!("SUCCESS: nclients={},bytesin={received},bytesout={sent}", clients(&found)));
        }
        // OpenVPN counts from the start on.
        Err(_) => out.line("SUCCESS: nclients=0,bytesin=0,bytesout=0"),
    }
}

fn count_clients(context: &CommandContext, out: &mut Output) {
    match load("nclients", context) {
        Ok(found) if matches!(found.0, Form::Clients(_)) => {
            out.line(&format!("SUCCESS: nclients={}", clients(&found)));
        }
        Ok(_) => out.line(&unsupported("nclients")),
        Err(why) => out.line(&why),
    }
}

fn bytecount(given: &str, session: &mut Session, out: &mut Output) {
    match given.parse::<u32>() {
        Ok(seconds) => {
            session.count_bytes(Duration::from_secs(seconds.into()));
            out.line("SUCCESS: bytecount interval changed");
        }
        Err(_) => out.line("ERROR: bytecount parameter must be a number of seconds"),
    }
}

/// Writes the lines that `bytecount` has every so often.
pub(super) fn tell_bytes(context: &CommandContext, out: &mut Output) {
    match load("bytecount", context) {
        Ok((Form::Clients(_), load)) => {
            for Peer { number, received, sent, .. } in &load.peers {
                out.line(&format!(">BYTECOUNT_CLI:{number},{received},{sent}"));
            }
        }
        Ok((Form::Statistics, load)) => out.line(&format!(">BYTECOUNT:{},{}", load.received, load.sent)),
        // There is nothing to count.
        Err(_) => {}
    }
}

/// A server's clients, or what to answer.
fn killable(name: &str, context: &CommandContext) -> Result<Vec<Peer>, String> {
    match load(name, context)? {
        (Form::Clients(_), load) => Ok(load.peers),
        (Form::Statistics, _) => Err(unsupported(name)),
    }
}

/// Disconnects the clients with these numbers, and tells them to come back. (OpenVPN's `kill` leaves them to find out.)
fn kill_clients(context: &CommandContext, clients: impl Iterator<Item = u64>, message: &str) -> usize {
    let tunnel = context.tunnel();
    let Some(tunnel) = tunnel.as_ref() else { return 0 };
    let order = |client| Reply::KillClient { client, message: message.to_owned() };
    clients.filter(|client| tunnel.reply(order(*client))).count()
}

/// The numbers of the peers for which that holds.
fn numbers(peers: &[Peer], holds: impl Fn(&Peer) -> bool) -> impl Iterator<Item = u64> {
    peers.iter().filter(move |peer| holds(peer)).map(|peer| peer.number)
}

fn kill(victim: &str, context: &CommandContext, out: &mut Output) {
    let peers = match killable("kill", context) {
        Ok(peers) => peers,
        Err(why) => return out.line(&why),
    };
    let of_name = kill_clients(context, numbers(&peers, |peer| peer.name == victim), "RESTART");
    if of_name > 0 {
        return out.line(&format!("SUCCESS: common name '{victim}' found, {of_name} client(s) killed"));
    }
    if victim.is_empty() || victim == ":" {
        return out.line("ERROR: kill parse");
    }
    if !victim.contains(':') {
        return out.line(&format!("ERROR: common name '{victim}' not found"));
    }
    let (transport, address) = match place(victim) {
        Ok(place) => place,
        Err(why) => return out.line(&why),
    };
    let is_there = |peer: &Peer| {
        let (ip, port) = (peer.remote.ip().to_canonical(), peer.remote.port());
        (ip, port) == (address.ip(), address.port()) && transport.is_none_or(|it| it == peer.transport)
    };
    match kill_clients(context, numbers(&peers, is_there), "RESTART") {
        0 => out.line(&format!("ERROR: client at address {victim} not found")),
        number => out.line(&format!("SUCCESS: {number} client(s) at address {victim} killed")),
    }
}

/// `[PROTOCOL:]ADDRESS:PORT`, an IPv6 address in brackets. OpenVPN 2.6 has it without the protocol, 2.7 with it.
fn place(text: &str) -> Result<(Option<Transport>, SocketAddr), String> {
    let (transport, rest) = match text.split_once(':') {
        Some(("udp", rest)) => (Some(Transport::Udp), rest),
        Some(("tcp", rest)) => (Some(Transport::Tcp), rest),
        _ => (None, text),
    };
    let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let address: IpAddr = bare.parse().map_err(|_| format!("ERROR: error parsing IP address: {host}"))?;
    let port = port.parse().ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| format!("ERROR: port number is out of range: {rest}"))?;
    Ok((transport, SocketAddr::new(address.to_canonical(), port)))
}

fn client_kill(number: &str, message: Option<&str>, context: &CommandContext, out: &mut Output) {
    let message = message.unwrap_or("RESTART");
    let peers = match killable("client-kill", context) {
        Ok(peers) => peers,
        Err(why) => return out.line(&why),
    };
    let Ok(number) = number.parse::<u64>() else { return out.line("ERROR: cannot parse CID") };
    // The clients that are in, and those that a program judges.
    let is_there = peers.iter().any(|peer| peer.number == number) || context.pending_auths.knows(number);
    let victim = Some(number).filter(|_| is_there && message.len() <= MAX_MESSAGE);
    match kill_clients(context, victim.into_iter(), message) {
        0 => out.line("ERROR: client-kill command failed"),
        _ => out.line("SUCCESS: client-kill command succeeded"),
    }
}

/// Other settings for one client, or all, as OpenVPN 2.7 answers (push_util.c, manage.c `man_push_update`).
fn push_update(
    name: &str,
    client: Option<u64>,
    changes: &str,
    context: &mut CommandContext,
    out: &mut Output,
) {
    let outcome = context.tunnel().as_ref().and_then(|tunnel| tunnel.push_update(client, changes));
    match outcome {
        None => out.line(&unsupported(name)),
        Some(Ok(clients @ 1..)) => {
            out.line(&format!("SUCCESS: {clients} client(s) updated"));
            out.line("SUCCESS: push-update command succeeded");
        }
        Some(outcome) => {
            if let Err(why) = outcome {
                context.log.log(Severity::Warning, format_args!("management: {name}: {why}"));
            }
            out.line("ERROR: no client updated");
            out.line("ERROR: push-update command failed");
        }
    }
}

fn signal(name: &str, context: &CommandContext, out: &mut Output) {
    if !matches!(name, "SIGTERM" | "SIGINT" | "SIGUSR1" | "SIGHUP" | "SIGUSR2") {
        return out.line(&format!("ERROR: signal '{name}' is not a known signal type"));
    }
    let thrown = match (context.tunnel().as_mut(), name) {
        // As OpenVPN (manage.c, `MANSIG_IGNORE_USR1_HUP`).
        (_, "SIGUSR1" | "SIGHUP") if context.questions.is_held() => false,
        (Some(tunnel), "SIGUSR1") => tunnel.command(Command::Restart),
        (Some(tunnel), "SIGHUP") => tunnel.reload(),
        (Some(tunnel), "SIGUSR2") => {
            tunnel.tell_status();
            true
        }
        (Some(tunnel), _) => tunnel.command(Command::Shutdown),
        // Nothing runs yet: the process ends, or waits on.
        (None, "SIGTERM" | "SIGINT") => context.end_process(),
        (None, _) => false,
    };
    match thrown {
        true => out.line(&format!("SUCCESS: signal {name} thrown")),
        false => out.line(&format!("ERROR: signal '{name}' is currently ignored")),
    }
}

/// `log`, `state` and `echo`.
fn history(kind: Kind, word: &str, session: &Session, context: &CommandContext, out: &mut Output) {
    let name = kind.name();
    let number = match word {
        "on" | "off" => {
            if let Some(program) = session.program() {
                context.journal.follow(program, kind, word == "on");
            }
            let now = word.to_uppercase();
            return out.line(&format!("SUCCESS: real-time {name} notification set to {now}"));
        }
        "all" => None,
        number => match number.parse() {
            Ok(number @ 1..) => Some(number),
            _ => {
                let text = "parameter must be 'on' or 'off' or some number n or 'all'";
                return out.line(&format!("ERROR: {name} {text}"));
            }
        },
    };
    context.journal.last(kind, number).iter().for_each(|entry| out.line(entry));
    out.line("END");
}

fn verb(given: Option<&str>, context: &CommandContext, out: &mut Output) {
    match given.map(str::parse) {
        None => out.line(&format!("SUCCESS: verb={}", context.log.verb())),
        Some(Ok(level @ 0..=15)) => {
            context.log.set_verb(level);
            out.line("SUCCESS: verb level changed");
        }
        Some(_) => out.line("ERROR: verb level is out of range"),
    }
}

fn mute(given: Option<&str>, context: &CommandContext, out: &mut Output) {
    match given.map(str::parse::<u32>) {
        None => out.line(&format!("SUCCESS: mute={}", context.log.mute().unwrap_or_default())),
        Some(Ok(lines)) => {
            context.log.set_mute(Some(lines).filter(|lines| *lines > 0));
            out.line("SUCCESS: mute level changed");
        }
        Some(Err(_)) => out.line("ERROR: mute level is out of range"),
    }
}

fn auth_retry(given: Option<&str>, context: &CommandContext, out: &mut Output) {
    match given {
        None => out.line(&format!("SUCCESS: auth-retry={}", context.auth_retry)),
        Some(mode) if mode == context.auth_retry => out.line("SUCCESS: auth-retry parameter changed"),
        Some("none" | "nointeract" | "interact") => {
            out.line("ERROR: adit cannot change auth-retry while it runs: write it into the configuration");
        }
        Some(_) => out.line("ERROR: bad auth-retry parameter"),
    }
}
