//! Forms of revocation lists, as adit's server and OpenVPN's take them: the table in `docs/use/CERTIFICATES.md`.

#[path = "../../../../pki/tests/support/revocation_forms.rs"]
pub(super) mod forms;

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use adit_testbed::{Namespace, Scratch, can_run};

use super::chains::issue::Made;
use super::chains::trial::{Trial, Verdict};
use crate::bed::PROGRAMS;
use crate::options::{Part, Program};
use forms::{Author, Effect, FORMS, Form};

const WORKERS: usize = 4;
const PAGE: &str = include_str!("../../../../../docs/use/CERTIFICATES.md");

/// The lines of a certificate and its key.
pub(super) fn identity([certificate, key]: &[String; 2]) -> String {
    format!("<cert>\n{certificate}</cert>\n<key>\n{key}</key>\n")
}

/// The effect of a list of this form in a server of this program.
fn effect(author: &Author, form: &Form, server: Program, namespace: &Namespace) -> Result<Effect, String> {
    let directory = Scratch::create("lists").unwrap();
    let file = directory.path().join("list.pem");
    std::fs::write(&file, author.write(form)).unwrap();
    let trusted = format!("<ca>\n{}</ca>\n", author.ca);
    let own = Made { shows: identity(&author.server), verifying: trusted.clone() };
    let mut verdicts = Vec::new();
    for client in [&author.good, &author.revoked] {
        let verifying = format!("{trusted}crl-verify {}\n", file.display());
        let made = Made { shows: identity(client), verifying };
        let trial = Trial { verifier: server, part: Part::Server, made: &made, own: &own };
        let outcome = trial.run(namespace, &directory);
        verdicts.push(outcome.map_err(|error| format!("{}, {server:?}: {error}", form.name))?.verdict);
        if verdicts == [Verdict::DoesNotStart] {
            return Ok(Effect::DoesNotStart);
        }
    }
    match verdicts[..] {
        [Verdict::Accepts, Verdict::Refuses] => Ok(Effect::Holds),
        [Verdict::Accepts, Verdict::Accepts] => Ok(Effect::RevokesNothing),
        [Verdict::Refuses, Verdict::Refuses] => Ok(Effect::RefusesAll),
        _ => Err(format!("{}, {server:?}: {verdicts:?}", form.name)),
    }
}

fn effects() -> Result<Vec<[Effect; 2]>, String> {
    let author = Author::new();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let namespace = Namespace::create("lists").unwrap();
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(form) = FORMS.get(place) else { return };
                    let of = |server| effect(&author, form, server, &namespace);
                    let both = of(Program::OpenVpn).and_then(|openvpn| Ok([openvpn, of(Program::Adit)?]));
                    results.lock().unwrap().push((place, both));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, effects)| effects).collect()
}

/// The table of the page.
fn table(effects: &[[Effect; 2]]) -> String {
    let mut table =
        String::from("| Revocation list | OpenVPN server | adit server | Difference |\n|---|---|---|---|\n");
    for (form, [openvpn, adit]) in FORMS.iter().zip(effects) {
        let note = match adit {
            Effect::DoesNotStart => format!("`{}`", form.note),
            _ => form.note.to_owned(),
        };
        let _ = writeln!(table, "| {} | {} | {} | {note} |", form.name, openvpn.words(), adit.words());
    }
    table
}

/// A server of either program has a list in each form, with a client that it revokes and one that it does not.
#[test]
fn every_form_has_the_effect_that_the_page_says() {
    if !can_run("every_form_has_the_effect_that_the_page_says", &PROGRAMS) {
        return;
    }
    let effects = effects().unwrap_or_else(|error| panic!("{error}"));
    let table = table(&effects);
    let others: Vec<&str> = FORMS
        .iter()
        .zip(&effects)
        .filter(|(form, effects)| **effects != [form.openvpn, form.adit])
        .map(|(form, _)| form.name)
        .collect();
    assert!(others.is_empty(), "not as expected: {others:#?}\n\n{table}");
    assert!(PAGE.contains(&table), "docs/use/CERTIFICATES.md has to hold this table:\n{table}");
}
