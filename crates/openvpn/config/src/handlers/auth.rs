//! Directives on usernames and passwords.

use std::path::PathBuf;

use adit_openvpn::params::{AuthRetry, StaticChallenge};

use crate::Secret;
use crate::directives::args::Args;
use crate::directives::{Effect, done, skip};
use crate::draft::Draft;
use crate::model::UserPass;

type Done = Result<Effect, String>;

/// The word that older tools write beside an inline block.
const BLOCK_FOLLOWS: &str = "[inline]";

pub(crate) fn user_pass(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.client.auth = Some(match (args.inline(), args.opt(0)) {
        (Some(inline), _) => {
            if inline.text.lines().next().is_none_or(str::is_empty) {
                return Err("`<auth-user-pass>` wants the username on its first line, the password on its \
                            second"
                    .into());
            }
            UserPass::Inline(Secret::new(&inline.text))
        }
        (None, Some(BLOCK_FOLLOWS)) => return skip("the block gives it"),
        (None, Some("")) => return Err(args.usage()),
        (None, Some(path)) => UserPass::File(PathBuf::from(path)),
        (None, None) => UserPass::Prompt,
    });
    done()
}

pub(crate) fn retry(draft: &mut Draft, args: &Args<'_>) -> Done {
    let modes =
        [("none", AuthRetry::None), ("nointeract", AuthRetry::NoInteract), ("interact", AuthRetry::Interact)];
    draft.client.auth_retry = args.choice(0, &modes)?;
    done()
}

pub(crate) fn nocache(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.client.auth_nocache = true;
    done()
}

pub(crate) fn static_challenge(draft: &mut Draft, args: &Args<'_>) -> Done {
    let text = args.get(0)?;
    if text.is_empty() {
        return Err(args.usage());
    }
    let echo = args.choice(1, &[("0", false), ("1", true)])?;
    let formats = [("scrv1", false), ("concat", true)];
    let concat = if args.opt(2).is_some() { args.choice(2, &formats)? } else { false };
    draft.client.auth_challenge = Some(StaticChallenge { text: text.to_owned(), echo, concat });
    done()
}
