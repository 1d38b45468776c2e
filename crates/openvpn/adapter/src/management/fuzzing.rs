//! Bytes at the management socket, for the fuzz target.

use std::sync::LazyLock;
use std::time::Instant;

use adit_core::is_unprintable;
use zeroize::Zeroizing;

use super::session::{Next, Session};
use super::testing::{desk_of_with, no_log};
use crate::management::output::MOST_WAITING;
use crate::management::output::Output;
use crate::status_file::Form;
use adit_host::log::Logger;

/// The longest answer to one command, and more.
const LONGEST_ANSWER: usize = 64 << 10;

/// One for all inputs: a log may have a thread. No line in it may command a terminal.
static LOG: LazyLock<Logger> = LazyLock::new(|| {
    let log = no_log();
    log.listen(Box::new(|_, line| {
        assert!(!line.contains(|c| c != '\t' && is_unprintable(c)), "{line:?}");
    }));
    log
});

/// Has a client send `input` in pieces of `piece` bytes, to a server's tunnel or another one, behind a password or
/// without one. Gives how much it was answered.
///
/// # Panics
///
/// If an answer is not in lines, or holds what a terminal would obey; if a line of the log does; if answers that no client
/// reads grow without limit.
pub(crate) fn session(input: &[u8], piece: usize, server: bool, password: bool) -> usize {
    // Inputs may have changed it.
    LOG.set_verb(7);
    LOG.set_mute(None);
    let form = if server { Form::Clients(1) } else { Form::Statistics };
    let (mut context, _told) = desk_of_with(form, LOG.clone());
    let password = password.then(|| Zeroizing::new("secret".to_owned()));
    let mut out = Output::default();
    let mut session = Session::new(password, Instant::now(), &context, &mut out);
    let mut answered = 0;
    let mut rest = input;
    loop {
        let (now, later) = rest.split_at(rest.len().min(session.room(&out)).min(piece.max(1)));
        session.receive(now);
        rest = later;
        let next = session.work(&mut context, &mut out);
        let is_full = out.is_full();
        if is_full || next != Next::Stay || rest.is_empty() {
            check(out.waiting());
            answered += out.waiting().len();
            out.sent(usize::MAX);
        }
        if next != Next::Stay || (rest.is_empty() && !is_full) {
            return answered;
        }
    }
}

fn check(answer: &[u8]) {
    assert!(answer.len() <= MOST_WAITING + LONGEST_ANSWER);
    let text = std::str::from_utf8(answer).expect("answers are text");
    // The prompt alone has no end of the line.
    let lines = text.strip_suffix("ENTER PASSWORD:").unwrap_or(text).replace("\r\n", "\n");
    let wild = |c: char| c.is_control() && !matches!(c, '\t' | '\n');
    assert!(!lines.contains(wild), "{lines:?}");
}
