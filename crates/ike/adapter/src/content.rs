//! The content of a file of swanctl, with the connections that the machine is to have.

use std::path::Path;

use adit_core::UnixTime;
use adit_core::configuration::{Failure as Unreadable, Problem};
use adit_guard::Gathered;
use adit_host::failure::Failure;
use adit_ike::machine::{Endpoint, Limits, Params, Sockets};
use adit_ike_config::{Files, Parsed, is_recognized};

use crate::files::Read;
use crate::names;
use crate::translate::{self, Planned};

/// The content of a file, and the connections that the machine is to have.
pub(crate) struct Content {
    pub(crate) parsed: Parsed,
    pub(crate) planned: Vec<Planned>,
}

/// The content of a file whose text is given.
///
/// # Errors
/// When the file is wrong: one problem a line.
pub(crate) fn parse(file: &Path, text: &[u8], files: &dyn Files) -> Result<Content, Unreadable> {
    let name = file.display().to_string();
    let mut parsed = adit_ike_config::parse(&name, text, files)?;
    parsed.warnings.extend(translate::without_effect(&parsed.config));
    let planned = translate::connections(&parsed.config);
    let empty = || {
        let text = "there is no connection: add `connections { NAME { … } }`".to_owned();
        vec![Problem { file: name.clone(), line: None, text }]
    };
    match planned.and_then(|planned| if planned.is_empty() { Err(empty()) } else { Ok(planned) }) {
        Ok(planned) => {
            translate::explain(&mut parsed.report, &planned);
            Ok(Content { parsed, planned })
        }
        Err(problems) => Err(Unreadable { problems, report: parsed.report }),
    }
}

/// The content of a file as the helper has read it.
///
/// # Errors
/// When the file is wrong: one problem a line.
pub(crate) fn parse_gathered(file: &Path, gathered: &Gathered) -> Result<Content, String> {
    if !is_recognized(&gathered.text) {
        return Err(format!("{}: it is no file of swanctl any more", file.display()));
    }
    parse(file, &gathered.text, &Read(gathered)).map_err(|failure| failure.to_string())
}

/// Whether the machine takes the connections. The address of a name stands open: in its place is one for documentation (RFC 5737).
pub(crate) fn check_machine(file: &Path, planned: &[Planned]) -> Result<(), Failure> {
    let params = Params {
        connections: names::with_stand_ins(planned),
        sockets: Sockets::default(),
        limits: Limits::default(),
        tunnel: None,
        wall_at_origin: UnixTime(0),
    };
    let made = Endpoint::new(params, adit_core::Instant::ORIGIN, [0; 32]);
    made.map(drop).map_err(|error| Failure::Configuration(format!("{}: {error}", file.display())))
}

/// Problems in one line. There are no lines of a file to name.
pub(crate) fn texts(problems: &[Problem]) -> String {
    let texts: Vec<&str> = problems.iter().map(|problem| problem.text.as_str()).collect();
    texts.join("; ")
}
