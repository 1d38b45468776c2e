//! A directive of the dialect: how it is written, where it may stand, and what becomes of it.

pub(crate) mod args;
pub(crate) mod suggest;

use self::args::Args;
use adit_core::configuration::Kind;

use super::draft::Draft;

/// Why a directive is refused that makes the program do something else than to run a tunnel.
pub(crate) const COMMAND: &str = "it is a command, not a setting; remove it from the file";

/// One directive of the dialect.
#[derive(Debug)]
pub struct Directive {
    /// Its name, without `--`.
    pub name: &'static str,
    /// Its arguments: `[X]` may be left out, `...` may be repeated.
    pub usage: &'static str,
    /// The side it belongs to.
    pub side: Side,
    /// Whether it may stand in a `<connection>` block.
    pub in_connection: bool,
    /// Whether it may be a block `<name>…</name>`.
    pub inline: bool,
    pub(crate) action: Action,
}

/// The side a directive belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Both.
    Any,
    /// Only a client.
    Client,
    /// Only a server.
    Server,
    /// A client's own file at the server (`client-config-dir`).
    ClientFile,
}

pub(crate) type Handler = fn(&mut Draft, &Args<'_>) -> Result<Effect, String>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Use(Handler),
    /// Read and kept, as it may be used one day, but ignored.
    Keep(Handler, &'static str),
    Ignore(&'static str),
    Refuse(&'static str),
    /// Read where it belongs: in the file that a server has for one client.
    PerClient,
}

/// The effect of a handler.
pub(crate) struct Effect {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
    /// Whether the problem is logged at every start.
    pub(crate) warn: bool,
}

/// The directive holds as written.
pub(crate) fn done() -> Result<Effect, String> {
    Ok(Effect { kind: Kind::Used, reason: String::new(), warn: false })
}

/// The directive holds, with a remark.
pub(crate) fn done_but(reason: impl Into<String>) -> Result<Effect, String> {
    Ok(Effect { kind: Kind::Used, reason: reason.into(), warn: false })
}

/// The directive holds, and its owner should look at it again.
pub(crate) fn done_with_doubt(reason: impl Into<String>) -> Result<Effect, String> {
    Ok(Effect { kind: Kind::Used, reason: reason.into(), warn: true })
}

/// adit does without this one.
pub(crate) fn skip(reason: impl Into<String>) -> Result<Effect, String> {
    Ok(Effect { kind: Kind::Ignored, reason: reason.into(), warn: false })
}

impl Directive {
    /// The usual kind of its disposition.
    pub fn kind(&self) -> Kind {
        match self.action {
            Action::Use(_) | Action::PerClient => Kind::Used,
            Action::Keep(..) | Action::Ignore(_) => Kind::Ignored,
            Action::Refuse(_) => Kind::Refused,
        }
    }

    /// Why it is ignored, or what to write instead of it; empty if it is used.
    pub fn reason(&self) -> &'static str {
        match self.action {
            Action::Use(_) | Action::PerClient => "",
            Action::Keep(_, reason) | Action::Ignore(reason) | Action::Refuse(reason) => reason,
        }
    }

    /// Whether it makes the program do something else than to run a tunnel: on the command line alone.
    pub fn is_command(&self) -> bool {
        matches!(self.action, Action::Refuse(COMMAND))
    }

    /// How many arguments it takes: least, and most unless there is no limit.
    pub fn arity(&self) -> (usize, Option<usize>) {
        let words = self.usage.split_ascii_whitespace().filter(|word| *word != "...");
        let least = words.clone().filter(|word| !word.starts_with('[')).count();
        let most = if self.usage.ends_with("...") { None } else { Some(words.count()) };
        (least, most)
    }

    pub(crate) fn takes(&self) -> String {
        match self.usage {
            "" => format!("`{}` takes no argument", self.name),
            usage => format!("`{}` takes {usage}", self.name),
        }
    }
}
