//! openvpn(8): the options of `adit openvpn`, which are the directives of its files.

use adit_core::configuration::Kind;
use adit_openvpn_config::{Directive, directives};

use adit_host::manual::{Page, Part};

const DESCRIPTION: &[&str] = &[
    "adit takes the command line of OpenVPN 2.6 as `adit openvpn`, and where it is called by a name that begins with \
     `openvpn`. Each option may stand in a file, too: one a line, without `--`. A lone word is such a file.",
    "Options apply in order. --config FILE is read where it stands. An option that is refused, or that adit does not know, is \
     an error: nothing that changes a tunnel is ignored in silence.",
    "Signals: SIGTERM and SIGINT end it; SIGHUP reads the files anew and drops no client; SIGUSR1 connects anew; SIGUSR2 \
     writes the state to the log.",
];

const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "The end by a signal, ping-exit, inactive or session-timeout; a command that did its work."),
    (
        "1",
        "Everything else, wrong usage too: then a line of the standard output begins with `Options error: `.",
    ),
];

/// The page.
pub(crate) fn page() -> Page {
    let is = |kind| move |known: &&Directive| known.kind() == kind && !known.is_command();
    Page {
        names: &["adit-openvpn", "openvpn"],
        section: "8",
        about: "OpenVPN's command line, run by adit",
        synopsis: &[
            ("openvpn", "FILE"),
            ("openvpn", "--OPTION [ARGUMENT ...] ..."),
            ("adit openvpn", "--OPTION [ARGUMENT ...] ..."),
        ],
        parts: vec![
            Part { title: "DESCRIPTION", paragraphs: owned(DESCRIPTION), entries: Vec::new() },
            part("OPTIONS", "", is(Kind::Used)),
            part("COMMANDS", "They run no tunnel.", |known| known.is_command()),
            part("OPTIONS WITHOUT EFFECT", "adit does without these, safely.", is(Kind::Ignored)),
            part("REFUSED OPTIONS", "adit does not run with these.", is(Kind::Refused)),
            Part {
                title: "EXIT STATUS",
                paragraphs: Vec::new(),
                entries: EXIT_STATUS
                    .iter()
                    .map(|(code, text)| ((*code).to_owned(), (*text).to_owned()))
                    .collect(),
            },
        ],
        also: &[("adit", "1"), ("adit-check", "1"), ("adit-status", "1")],
    }
}

fn owned(paragraphs: &[&str]) -> Vec<String> {
    paragraphs.iter().map(|text| (*text).to_owned()).collect()
}

/// The directives of which `holds` is true.
fn part(title: &'static str, introduction: &str, holds: impl Fn(&&Directive) -> bool) -> Part {
    let entry = |known: &Directive| {
        // The name of a command says what it does; the table's reason is for files.
        let reason = if known.is_command() { "" } else { known.reason() };
        (format!("--{} {}", known.name, known.usage).trim_end().to_owned(), reason.to_owned())
    };
    Part {
        title,
        paragraphs: owned(&[introduction]).into_iter().filter(|text| !text.is_empty()).collect(),
        entries: directives().iter().filter(holds).map(entry).collect(),
    }
}
