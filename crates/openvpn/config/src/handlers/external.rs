//! Directives on a private key that is held elsewhere.

use std::path::PathBuf;

use super::management::modify;
use crate::directives::args::Args;
use crate::directives::{Effect, done};
use crate::draft::Draft;
use crate::model::SignatureForms;

type Done = Result<Effect, String>;

pub(crate) fn key(draft: &mut Draft, args: &Args<'_>) -> Done {
    let mut forms = SignatureForms::default();
    for word in args.all() {
        match forms.words().into_iter().find(|(name, _)| name == word) {
            Some((_, form)) => *form = true,
            None => return Err(args.bad(word, "any of `nopadding`, `pkcs1`, `pss` and `digest`")),
        }
    }
    // OpenVPN options.c, `management-external-key`.
    forms.pkcs1 |= !forms.nopadding;
    modify(draft, args);
    draft.tls.external.key = Some((forms, args.entry.at.clone()));
    done()
}

pub(crate) fn certificate(draft: &mut Draft, args: &Args<'_>) -> Done {
    let hint = args.get(0)?.to_owned();
    modify(draft, args);
    draft.tls.external.certificate = Some((hint, args.entry.at.clone()));
    done()
}

pub(crate) fn providers(draft: &mut Draft, args: &Args<'_>) -> Done {
    args.get(0)?;
    if args.all().iter().any(|path| path.is_empty()) {
        return Err(args.usage());
    }
    draft.tls.external.providers =
        Some((args.all().iter().map(PathBuf::from).collect(), args.entry.at.clone()));
    done()
}

pub(crate) fn id(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.external.id = Some((args.get(0)?.to_owned(), args.entry.at.clone()));
    done()
}

pub(crate) fn id_by_management(draft: &mut Draft, args: &Args<'_>) -> Done {
    modify(draft, args);
    draft.tls.external.id_by_management = Some(args.entry.at.clone());
    done()
}

pub(crate) fn protected(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.external.protected = switches(args)?;
    done()
}

pub(crate) fn private_certificates(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.external.private_certificates = switches(args)?;
    done()
}

/// One for each provider.
fn switches(args: &Args<'_>) -> Result<Vec<bool>, String> {
    args.get(0)?;
    let switch = |index| args.choice(index, &[("0", false), ("1", true)]);
    (0..args.all().len()).map(switch).collect()
}

pub(crate) fn pin_cache(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.external.pin_cache = match args.get(0)? {
        "-1" => None,
        _ => Some(args.seconds(0)?),
    };
    done()
}
