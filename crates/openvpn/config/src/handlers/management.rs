//! Directives on the management socket.

use std::path::{Path, PathBuf};

use crate::directives::args::Args;
use crate::directives::{Effect, done};
use crate::draft::Draft;
use crate::lexer::At;
use crate::model::{Management, ManagementAddress};
use crate::parser::Parser;
use crate::plan::placed;

type Done = Result<Effect, String>;

/// The directives on the management socket.
#[derive(Default)]
pub(crate) struct ManagementDraft {
    address: Option<ManagementAddress>,
    password: Option<PathBuf>,
    log_cache: Option<u32>,
    hold: bool,
    query_passwords: bool,
    signal: bool,
    query_remote: bool,
    query_proxy: bool,
    up_down: bool,
    forget_disconnect: bool,
    as_client: bool,
    client_user: Option<String>,
    client_group: Option<String>,
    /// The first line that means nothing without a socket.
    modifier: Option<(String, At)>,
    /// The line that restricts the processes that may connect.
    client_at: Option<At>,
}

pub(super) fn modify<'d>(draft: &'d mut Draft, args: &Args<'_>) -> &'d mut ManagementDraft {
    let draft = &mut draft.management;
    draft.modifier.get_or_insert_with(|| (args.name().to_owned(), args.entry.at.clone()));
    draft
}

pub(crate) fn management(draft: &mut Draft, args: &Args<'_>) -> Done {
    let (place, port) = (args.get(0)?, args.get(1)?);
    let address = match (place, port) {
        ("", _) => return Err(args.usage()),
        (path, "unix") => ManagementAddress::Unix(path.into()),
        ("tunnel", _) => {
            return Err(
                "`management tunnel`: adit listens before there is a tunnel; write an address of this \
                        machine, or `PATH unix`"
                    .into(),
            );
        }
        (host, _) => ManagementAddress::Tcp(host.to_owned(), args.number(1, 0..=u16::MAX)?),
    };
    let password = match args.opt(2) {
        None => None,
        Some("stdin") => {
            return Err(
                "`management`: adit takes the password from a file; name it in place of `stdin`".into()
            );
        }
        Some("") => return Err(args.usage()),
        Some(path) => Some(path.into()),
    };
    draft.management.address = Some(address);
    draft.management.password = password;
    done()
}

pub(crate) fn log_cache(draft: &mut Draft, args: &Args<'_>) -> Done {
    let lines = args.number(0, 1..=100_000)?;
    modify(draft, args).log_cache = Some(lines);
    done()
}

pub(crate) fn hold(draft: &mut Draft, args: &Args<'_>) -> Done {
    modify(draft, args).hold = true;
    done()
}

pub(crate) fn query_passwords(draft: &mut Draft, args: &Args<'_>) -> Done {
    modify(draft, args).query_passwords = true;
    done()
}

pub(crate) fn signal(draft: &mut Draft, args: &Args<'_>) -> Done {
    modify(draft, args).signal = true;
    done()
}

pub(crate) fn query_remote(draft: &mut Draft, args: &Args<'_>) -> Done {
    modify(draft, args).query_remote = true;
    done()
}

pub(crate) fn query_proxy(draft: &mut Draft, args: &Args<'_>) -> Done {
    modify(draft, args).query_proxy = true;
    done()
}

pub(crate) fn up_down(draft: &mut Draft, args: &Args<'_>) -> Done {
    modify(draft, args).up_down = true;
    done()
}

pub(crate) fn forget_disconnect(draft: &mut Draft, args: &Args<'_>) -> Done {
    modify(draft, args).forget_disconnect = true;
    done()
}

pub(crate) fn as_client(draft: &mut Draft, args: &Args<'_>) -> Done {
    modify(draft, args).as_client = true;
    done()
}

pub(crate) fn client_auth(draft: &mut Draft, args: &Args<'_>) -> Done {
    modify(draft, args);
    draft.access.management = true;
    done()
}

pub(crate) fn client_user(draft: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?.to_owned();
    let draft = modify(draft, args);
    (draft.client_user, draft.client_at) = (Some(name), Some(args.entry.at.clone()));
    done()
}

pub(crate) fn client_group(draft: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?.to_owned();
    let draft = modify(draft, args);
    (draft.client_group, draft.client_at) = (Some(name), Some(args.entry.at.clone()));
    done()
}

/// The socket, if there is to be one.
pub(crate) fn plan(
    draft: ManagementDraft,
    directory: &Path,
    file: &str,
    parser: &mut Parser<'_>,
) -> Option<Management> {
    let Some(address) = draft.address else {
        if let Some((name, at)) = draft.modifier {
            let text = format!(
                "`{name}` says something of `management`, which is missing; write that, or remove it"
            );
            parser.problems.push(at.problem(text));
        }
        return None;
    };
    if let (ManagementAddress::Tcp(..), Some(at)) = (&address, &draft.client_at) {
        parser.problems.push(at.problem(
            "the user who comes by TCP is not known: write `management PATH unix` for a Unix socket, or name a file \
             with a password behind the port",
        ));
    }
    let mut from = |path: PathBuf| placed(directory, path, file, parser);
    Some(Management {
        address: match address {
            ManagementAddress::Unix(path) => ManagementAddress::Unix(from(path)),
            tcp @ ManagementAddress::Tcp(..) => tcp,
        },
        password: draft.password.map(&mut from),
        log_cache: draft.log_cache.unwrap_or(Management::LOG_CACHE),
        hold: draft.hold,
        query_passwords: draft.query_passwords,
        signal: draft.signal,
        query_remote: draft.query_remote,
        query_proxy: draft.query_proxy,
        up_down: draft.up_down,
        forget_disconnect: draft.forget_disconnect,
        as_client: draft.as_client,
        client_user: draft.client_user,
        client_group: draft.client_group,
    })
}
