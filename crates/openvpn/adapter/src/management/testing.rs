//! A command context without a tunnel, or with one that is played.

use std::sync::{Arc, Mutex};

use adit_core::{Command, Transport};
use adit_host::log::{LogPlace, LogSettings};
use adit_io::Proxy;
use adit_openvpn::request::Reply;
#[cfg(test)]
use adit_openvpn_config::{Management, ManagementAddress};

use super::journal::Journal;
use super::pending_auths::PendingAuths;
use super::pending_queries::PendingQueries;
use super::tunnel::{Load, Peer, Tunnel};
use super::{CommandContext, Place, pipe};
use crate::status_file::Form;
use adit_host::log::Logger;

/// An order to a tunnel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    Command(Command),
    Reply(Reply),
    Reload,
    ReplaceRemote(usize, Option<(String, u16)>),
    ReplaceProxy(usize, Option<Proxy>),
}

/// A tunnel whose clients are `anna` twice, by UDP and by TCP, and `bert`.
pub(super) struct Played {
    pub(super) form: Form,
    /// The orders that it got.
    pub(super) told: Arc<Mutex<Vec<Order>>>,
}

impl Tunnel for Played {
    fn form(&self) -> Form {
        self.form
    }

    fn status(&self, form: Form) -> Option<String> {
        Some(format!("{form:?}\nEND\n"))
    }

    fn load(&self) -> Option<Load> {
        let peer = |id: u64, name: &str, remote: &str, transport| Peer {
            number: id + 40,
            name: name.to_owned(),
            remote: remote.parse().expect("an address"),
            transport,
            received: id + 100,
            sent: id + 200,
        };
        let peers = vec![
            peer(0, "anna", "[::ffff:192.0.2.1]:4000", Transport::Udp),
            peer(1, "anna", "192.0.2.2:4000", Transport::Tcp),
            peer(2, "bert", "[2001:db8::1]:5000", Transport::Udp),
        ];
        Some(Load { received: 1000, sent: 2000, peers })
    }

    fn command(&self, command: Command) -> bool {
        self.told.lock().expect("no thread panicked").push(Order::Command(command));
        true
    }

    fn reply(&self, reply: Reply) -> bool {
        self.told.lock().expect("no thread panicked").push(Order::Reply(reply));
        true
    }

    fn replace_remote(&self, remote: usize, instead: Option<(String, u16)>) -> bool {
        self.told.lock().expect("no thread panicked").push(Order::ReplaceRemote(remote, instead));
        true
    }

    fn replace_proxy(&self, remote: usize, proxy: Option<Proxy>) -> bool {
        self.told.lock().expect("no thread panicked").push(Order::ReplaceProxy(remote, proxy));
        true
    }

    fn push_update(&self, client: Option<u64>, changes: &str) -> Option<Result<usize, String>> {
        if self.form == Form::Statistics {
            return None;
        }
        if changes == "bad" {
            return Some(Err("\"bad\" cannot be changed by an update".to_owned()));
        }
        Some(Ok(client.map_or(2, |client| usize::from(client == 40))))
    }

    fn reload(&self) -> bool {
        self.told.lock().expect("no thread panicked").push(Order::Reload);
        true
    }

    fn tell_status(&mut self) {}
}

/// A log that is not read.
pub(super) fn no_log() -> Logger {
    let nowhere = LogPlace::File { path: "/dev/null".into(), append: true };
    Logger::new(&LogSettings { place: Some(nowhere), ..LogSettings::default() }).expect("a log")
}

/// A context without a tunnel.
#[cfg(test)]
pub(super) fn context() -> CommandContext {
    desk_with(no_log())
}

fn desk_with(log: Logger) -> CommandContext {
    let (waker, _woken) = pipe().expect("a pipe");
    let journal = Journal::new(10, waker);
    CommandContext {
        questions: Arc::new(PendingQueries::new(false, journal.clone())),
        journal,
        pending_auths: PendingAuths::default(),
        tunnel: Place::default(),
        log,
        auth_retry: "none",
    }
}

/// A context with a tunnel, and the orders that the tunnel gets.
#[cfg(test)]
pub(super) fn desk_of(form: Form) -> (CommandContext, Arc<Mutex<Vec<Order>>>) {
    desk_of_with(form, no_log())
}

/// A context with a tunnel and that log.
pub(super) fn desk_of_with(form: Form, log: Logger) -> (CommandContext, Arc<Mutex<Vec<Order>>>) {
    let (context, told) = (desk_with(log), Arc::default());
    let tunnel: Box<dyn Tunnel> = Box::new(Played { form, told: Arc::clone(&told) });
    *context.tunnel.lock().expect("no thread panicked") = Some(tunnel);
    (context, told)
}

/// Settings of a Unix socket whose name ends so.
#[cfg(test)]
pub(super) fn settings(name: &str) -> Management {
    let path = std::env::temp_dir().join(format!("adit-management-{name}-{}", std::process::id()));
    Management {
        address: ManagementAddress::Unix(path),
        password: None,
        log_cache: 1,
        hold: false,
        query_passwords: false,
        signal: false,
        query_remote: false,
        up_down: false,
        query_proxy: false,
        forget_disconnect: false,
        as_client: false,
        client_user: None,
        client_group: None,
    }
}
