//! Forms of private keys and PKCS#12 files, as a client of OpenVPN's and of adit's uses them: the table in
//! `docs/use/CERTIFICATES.md`.

mod forms;

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use adit_testbed::{Namespace, Scratch, can_run};

use super::chains::issue::{Issuer, Made};
use super::chains::trial::{Trial, Verdict};
use super::revocation_lists::forms::Author;
use super::revocation_lists::identity;
use crate::bed::PROGRAMS;
use crate::options::{Part, Program};
use forms::{DSA, FORMS, Form, KEYS};

const WORKERS: usize = 4;
const PAGE: &str = include_str!("../../../../../docs/use/CERTIFICATES.md");
const LEGACY: &str = "-provider legacy -provider default";

/// Makes `NAME.key` and `NAME.crt` of each key.
fn make_keys(author: &Author, directory: &Scratch) {
    let openssl = Issuer(directory);
    directory.write("ca.crt", &author.ca).unwrap();
    directory.write("ca.key", &author.issuer.key().serialize_pem()).unwrap();
    directory.write("ext", "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n").unwrap();
    directory.write("dsa", DSA).unwrap();
    for (name, arguments) in KEYS {
        openssl.openssl(&format!("{arguments} -out {name}.key"));
        openssl.openssl(&format!("req -new -key {name}.key -subj /CN={name} -out {name}.csr"));
        openssl.openssl(&format!(
            "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 9000 -extfile ext -out {name}.crt"
        ));
    }
}

/// Makes a form of a key. Gives the lines for a client that has it.
fn lines(form: &Form, place: usize, author: &Author, directory: &Scratch) -> String {
    let openssl = Issuer(directory);
    let (key, out) = (form.key, format!("form{place}"));
    let filled = |arguments: &str| {
        let words = arguments.split_whitespace().map(|word| match word {
            "IN" => format!("{key}.key"),
            "OUT" => out.clone(),
            other => other.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let pack = |arguments: &str| {
        openssl.openssl(&format!("pkcs12 -export -inkey {key}.key -in {key}.crt {arguments} -out {out}"));
        directory.path().join(&out)
    };
    let certificate = openssl.read(&format!("{key}.crt"));
    let (trusted, password) = (format!("<ca>\n{}</ca>\n", author.ca), directory.path().join("password"));
    let password = format!("askpass {}\n", password.display());
    match form.made {
        forms::Made::Plain => {
            std::fs::copy(directory.path().join(format!("{key}.key")), directory.path().join(&out)).unwrap();
        }
        forms::Made::Key(arguments) => drop(openssl.openssl(&filled(arguments))),
        forms::Made::LegacyKey(arguments) => {
            let (command, rest) = arguments.split_once(' ').unwrap();
            openssl.openssl(&format!("{command} {LEGACY} {}", filled(rest)));
        }
        forms::Made::Text(change) => {
            let text = change(&openssl.read(&format!("{key}.key")), &certificate);
            // U+FFFD stands for a byte that is not UTF-8.
            let parts: Vec<&[u8]> = text.split('\u{fffd}').map(str::as_bytes).collect();
            std::fs::write(directory.path().join(&out), parts.join(&0xfc)).unwrap();
        }
        forms::Made::Pkcs12(arguments) => {
            return format!("{trusted}pkcs12 {}\n{password}", pack(arguments).display());
        }
        forms::Made::Pkcs12WithAuthority => {
            let packed = pack("-certfile ca.crt -passout pass:secret");
            return format!("pkcs12 {}\n{password}", packed.display());
        }
    }
    let file = directory.path().join(&out);
    format!("{trusted}<cert>\n{certificate}</cert>\nkey {}\n{password}", file.display())
}

/// Whether the client connects, and its message if not.
fn connects(
    client: Program,
    (own, server): (&Made, &Made),
    namespace: &Namespace,
) -> Result<(bool, String), String> {
    let directory = Scratch::create("key").unwrap();
    let trial = Trial { verifier: client, part: Part::Client, made: server, own };
    let outcome = trial.run(namespace, &directory)?;
    Ok((outcome.verdict == Verdict::Accepts, outcome.log))
}

struct Outcome {
    openvpn: bool,
    adit: bool,
    log: String,
}

fn outcomes() -> Vec<Result<Outcome, String>> {
    let (author, directory) = (Author::new(), Scratch::create("keys").unwrap());
    directory.write("password", "secret\n").unwrap();
    make_keys(&author, &directory);
    let server = Made { shows: identity(&author.server), verifying: String::new() };
    // The server believes the clients' authority; a client's authority is among its own lines.
    let trusted = format!("<ca>\n{}</ca>\n", author.ca);
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let namespace = Namespace::create("keys").unwrap();
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(form) = FORMS.get(place) else { return };
                    let own = lines(form, place, &author, &directory);
                    let own = Made { shows: own, verifying: trusted.clone() };
                    let of = |client| {
                        connects(client, (&own, &server), &namespace)
                            .map_err(|error| format!("{}, {client:?}: {error}", form.name))
                    };
                    let outcome = of(Program::OpenVpn).and_then(|(openvpn, _)| {
                        let (adit, log) = of(Program::Adit)?;
                        Ok(Outcome { openvpn, adit, log })
                    });
                    results.lock().unwrap().push((place, outcome));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The table of the page.
fn table(outcomes: &[Outcome]) -> String {
    let word = |connects: bool| if connects { "connects" } else { "refuses" };
    let mut table = String::from(
        "| Private key | OpenVPN client | adit client | Difference, or what adit says |\n|---|---|---|---|\n",
    );
    for (form, outcome) in FORMS.iter().zip(outcomes) {
        let note = if outcome.adit { form.note.to_owned() } else { format!("“{}”", form.note) };
        let _ = writeln!(
            table,
            "| {} | {} | {} | {note} |",
            form.name,
            word(outcome.openvpn),
            word(outcome.adit)
        );
    }
    table
}

/// A client of either program has its key in each form, before a server of OpenVPN's.
#[test]
fn every_key_connects_or_is_refused_as_the_page_says() {
    if !can_run("every_key_connects_or_is_refused_as_the_page_says", &PROGRAMS) {
        return;
    }
    let (outcomes, errors): (Vec<_>, Vec<_>) = outcomes().into_iter().partition(Result::is_ok);
    let errors: Vec<String> = errors.into_iter().filter_map(Result::err).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n\n"));
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    let table = table(&outcomes);
    let is_other = |form: &Form, outcome: &Outcome| {
        (form.openvpn, form.adit) != (outcome.openvpn, outcome.adit)
            || !outcome.adit && !outcome.log.contains(form.note)
    };
    let others: Vec<String> = FORMS
        .iter()
        .zip(&outcomes)
        .filter(|(form, outcome)| is_other(form, outcome))
        .map(|(form, outcome)| {
            let lines: Vec<&str> = outcome.log.lines().rev().take(4).collect();
            format!("{}: OpenVPN {}, adit {}: {lines:#?}", form.name, outcome.openvpn, outcome.adit)
        })
        .collect();
    assert!(others.is_empty(), "not as expected: {}\n\n{table}", others.join("\n"));
    assert!(PAGE.contains(&table), "docs/use/CERTIFICATES.md has to hold this table:\n{table}");
}
