//! Commands, events without a question, and a client's front end.

mod commands;
mod events;
mod front_end;
mod programs;

use std::time::Instant;

use super::session::{Next, Session};
use super::watcher::Watcher;
use super::*;
use crate::management::output::Output;

/// The answer to the command, line by line.
fn answers(context: &mut CommandContext, command: &str) -> Vec<String> {
    let mut out = Output::default();
    let mut session = Session::new(None, Instant::now(), context, &mut out);
    out.sent(usize::MAX);
    session.receive(command.as_bytes());
    session.receive(b"\n");
    assert_eq!(session.work(context, &mut out), Next::Stay, "{command}");
    session.leave(context);
    let text = String::from_utf8_lossy(out.waiting()).into_owned();
    assert!(text.is_empty() || text.ends_with("\r\n"), "{command}: {text:?}");
    text.lines().map(str::to_owned).collect()
}

fn watcher(context: &CommandContext, server: bool) -> Watcher {
    let asked = (context.pending_auths.clone(), Arc::clone(&context.questions));
    Watcher::new(context.journal.clone(), asked, server, None)
}
