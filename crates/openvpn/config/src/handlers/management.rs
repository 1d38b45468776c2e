//! Directives on the management socket.

use crate::directives::args::Args;
use crate::directives::{Effect, done};
use crate::draft::{Draft, ManagementDraft};
use crate::model::ManagementAddress;

type Done = Result<Effect, String>;

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
