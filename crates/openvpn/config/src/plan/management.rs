//! The management socket.

use std::path::{Path, PathBuf};

use super::process::placed;
use crate::draft::ManagementDraft;
use crate::model::{Management, ManagementAddress};
use crate::parser::Parser;

/// The socket, if there is to be one.
pub(super) fn management(
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
