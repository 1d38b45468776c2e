//! Revocation lists in the forms that are in use: which certificates each revokes. `docs/use/CERTIFICATES.md` has OpenVPN's
//! verdicts beside them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/revocation_forms.rs"]
mod forms;

use std::time::Duration;

use adit_pki::{
    Authorities, PeerRequirements, Purpose, Refusal, Revocations, SIGNATURE_ALGORITHMS, Verifier, pem,
};
use forms::{Author, Effect, FORMS};
use rustls_pki_types::UnixTime;

/// 2027-01-01.
const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_798_761_600));

fn verdict(author: &Author, lists: &Revocations, purpose: Purpose, certificate: &str) -> Result<(), Refusal> {
    let authorities = Authorities::new(pem::certificates(author.ca.as_bytes()).unwrap()).unwrap();
    let requirements = PeerRequirements { revocations: Some(lists.clone()), ..PeerRequirements::default() };
    let verifier = Verifier::new(purpose, Some(authorities), requirements, SIGNATURE_ALGORITHMS);
    let certificate = &pem::certificates(certificate.as_bytes()).unwrap()[0];
    verifier.verify(certificate, &[], NOW)
}

fn effect(author: &Author, file: &[u8]) -> (Effect, String) {
    let lists = match Revocations::from_lists(file) {
        Ok(lists) => lists,
        Err(error) => return (Effect::DoesNotStart, error.to_string()),
    };
    let verdict = |purpose, certificate| verdict(author, &lists, purpose, certificate);
    let [good, revoked] = [&author.good, &author.revoked].map(|it| verdict(Purpose::Client, &it[0]));
    assert_eq!(verdict(Purpose::Server, &author.server[0]), Ok(()));
    let is_named = lists.current().names(&pem::certificates(author.revoked[0].as_bytes()).unwrap()[0]);
    assert_eq!(is_named, revoked.is_err(), "connections that are up are judged as new ones");
    match (good, revoked) {
        (Ok(()), Err(Refusal::Revoked)) => (Effect::Holds, String::new()),
        (Ok(()), Ok(())) => (Effect::RevokesNothing, String::new()),
        other => (Effect::RefusesAll, format!("{other:?}")),
    }
}

#[test]
fn every_form_has_its_effect() {
    let author = Author::new();
    assert!(FORMS.len() >= 15);
    for form in FORMS {
        let (found, error) = effect(&author, &author.write(form));
        assert_eq!(found, form.adit, "{}: {} {error}", form.name, found.words());
        assert!(form.adit == form.openvpn || !form.note.is_empty(), "{}: no reason", form.name);
        if found == Effect::DoesNotStart {
            assert!(error.contains(form.note), "{}: {error}", form.name);
        }
    }
}
