//! Directives on a private key that is held elsewhere.

use super::management::modify;
use crate::openvpn::directives::args::Args;
use crate::openvpn::directives::{Effect, done};
use crate::openvpn::draft::Draft;
use crate::openvpn::lexer::At;
use crate::openvpn::model::SignatureForms;

type Done = Result<Effect, String>;

/// Who holds our key, if it is not here.
#[derive(Default)]
pub(crate) struct ExternalDraft {
    /// `management-external-key`.
    pub(crate) key: Option<(SignatureForms, At)>,
    /// `management-external-cert`.
    pub(crate) certificate: Option<(String, At)>,
}

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
