//! Splits files into directives, looks each up in the table, and runs its handler.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use adit_core::configuration::own_settings;
use adit_core::configuration::{Disposition, Fingerprint, Kind, Problem};
use zeroize::Zeroizing;

use super::Loader;
use super::directive_table::{DIRECTIVES, find};
use super::directives::args::{Args, check_form};
use super::directives::{Action, Directive, Effect, suggest};
use super::draft::Draft;
use super::lexer::{Entry, OWN, lex};

/// Configuration files may name others (`config FILE`) to this depth, as in OpenVPN.
const MAX_DEPTH: usize = 10;
/// Hints for misspelt names are looked for until there are this many problems: each look costs.
const MAX_HINTS: usize = 50;
/// Most directives in all files together.
const MAX_ENTRIES: usize = 20_000;

/// Reads one configuration and collects its problems.
pub(crate) struct Parser<'a> {
    pub(crate) load: Loader<'a>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) report: Vec<Disposition>,
}

/// The unknown directives that a file tolerates (`ignore-unknown-option`, `setenv FORWARD_COMPATIBLE`).
pub(crate) struct Tolerance {
    names: BTreeSet<String>,
    all: bool,
}

impl Tolerance {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let mut tolerance = Tolerance { names: BTreeSet::new(), all: false };
        for entry in entries {
            match entry.name.as_str() {
                "ignore-unknown-option" => tolerance.names.extend(entry.words.iter().cloned()),
                "setenv" if entry.words.first().is_some_and(|word| word == "FORWARD_COMPATIBLE") => {
                    tolerance.all = entry.words.get(1).is_none_or(|value| value != "0");
                }
                _ => {}
            }
        }
        tolerance
    }
}

impl Parser<'_> {
    pub(crate) fn problem_in(&mut self, file: &str, text: impl Into<String>) {
        self.problems.push(Problem { file: file.into(), line: None, text: text.into() });
    }

    pub(crate) fn warn_in(&mut self, file: &str, text: impl Into<String>) {
        self.warnings.push(Problem { file: file.into(), line: None, text: text.into() });
    }

    /// Splits a file into directives, with those of files it names in their place.
    pub(crate) fn expand(
        &mut self,
        file: &Rc<str>,
        text: &[u8],
        depth: usize,
        dir: &mut PathBuf,
        into: &mut Vec<Entry>,
    ) {
        if adit_core::configuration::is_utf_16(text) {
            let text = adit_core::configuration::IS_UTF_16.to_owned();
            return self.problems.push(Problem { file: file.to_string(), line: None, text });
        }
        let is_utf8 = std::str::from_utf8(text).is_ok();
        let text = Zeroizing::new(String::from_utf8_lossy(text).into_owned());
        for entry in lex(file, &text, 1, &mut self.problems) {
            // Comments, and the text around certificates, may hold any bytes.
            if let Some(line) = (!is_utf8).then(|| entry.garbled_line()).flatten() {
                let text = "this is not UTF-8 text; save the file as UTF-8".into();
                self.problems.push(Problem { file: file.to_string(), line: Some(line), text });
                return;
            }
            if into.len() >= MAX_ENTRIES {
                self.problems.push(entry.at.problem(format!("more than {MAX_ENTRIES} directives")));
                return;
            }
            let first = entry.words.first().cloned();
            let at = entry.at.clone();
            let name = entry.name.clone();
            into.push(entry);
            match (name.as_str(), first) {
                ("cd", Some(path)) => *dir = dir.join(path),
                ("config", Some(_)) if depth + 1 >= MAX_DEPTH => {
                    let text =
                        format!("`config` files are nested deeper than {MAX_DEPTH}; does one name itself?");
                    self.problems.push(at.problem(text));
                }
                ("config", Some(path)) => match (self.load)(&dir.join(&path)) {
                    Ok(bytes) => self.expand(&path.into(), &Zeroizing::new(bytes), depth + 1, dir, into),
                    Err(why) => {
                        self.problems.push(at.problem(format!("`config`: cannot read `{path}`: {why}")))
                    }
                },
                _ => {}
            }
        }
    }

    /// Applies one directive to the draft and records the result.
    pub(crate) fn directive(&mut self, draft: &mut Draft, mut entry: Entry, tolerant: &Tolerance) {
        if let Some(key) = entry.name.strip_prefix(OWN) {
            return self.own_setting(draft, &entry, key);
        }
        let mut optional = false;
        if entry.name == "setenv" && entry.words.first().is_some_and(|word| word == "opt") {
            if entry.words.len() < 2 {
                // As OpenVPN: a line that says nothing is no reason to stop.
                self.warnings
                    .push(entry.at.problem("`setenv opt` without a directive says nothing; remove it"));
                return self.record(&entry, Kind::Ignored, "it names no directive");
            }
            entry.name = entry.words.remove(1);
            entry.words.remove(0);
            optional = true;
        }
        // OpenVPN would load it: a judge of passwords is not left out.
        let optional = (optional || tolerant.names.contains(&entry.name)) && entry.name != "plugin";
        let Some(directive) = find(&entry.name) else {
            if optional || tolerant.all {
                self.record(&entry, Kind::Ignored, "unknown, and the file says to go on without it");
            } else {
                let known = DIRECTIVES.iter().map(|known| known.name);
                let nearest =
                    (self.problems.len() < MAX_HINTS).then(|| suggest::nearest(&entry.name, known)).flatten();
                let hint = nearest.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
                let name = suggest::shown(&entry.name);
                self.problems.push(entry.at.problem(format!("there is no directive `{name}`{hint}")));
            }
            return;
        };
        match directive.action {
            Action::Ignore(reason) => self.record(&entry, Kind::Ignored, reason),
            Action::Refuse(reason) if optional => {
                let reason = format!("the file says to go on without it; {reason}");
                self.record(&entry, Kind::Ignored, &reason);
            }
            Action::Refuse(reason) => {
                self.record(&entry, Kind::Refused, reason);
                self.problems.push(entry.at.problem(format!("`{}` cannot be used: {reason}", entry.name)));
            }
            Action::PerClient => {
                let reason =
                    "it belongs into a client's own file, in the directory that `client-config-dir` names";
                self.record(&entry, Kind::Refused, reason);
                self.problems.push(entry.at.problem(format!("`{}`: {reason}", entry.name)));
            }
            Action::Use(handler) | Action::Keep(handler, _) => {
                let args = Args { directive, table: DIRECTIVES, entry: &entry };
                let result = check_form(&args, draft.block.is_some()).and_then(|()| handler(draft, &args));
                self.handled(&entry, directive, result, optional);
                if entry.name == "connection" {
                    self.connection(draft, &entry, tolerant);
                }
            }
        }
    }

    /// Takes a setting of adit's own, which OpenVPN passes over.
    fn own_setting(&mut self, draft: &mut Draft, entry: &Entry, key: &str) {
        let taken = match (key.to_ascii_lowercase().as_str(), entry.words.first()) {
            _ if draft.block.is_some() => {
                Err("it cannot stand in a `<connection>` block; move it outside".to_owned())
            }
            ("forward", Some(value)) => {
                draft.server.forward_at.get_or_insert_with(|| entry.at.clone());
                own_settings::add_forward(&mut draft.server.forward, value)
            }
            (_, None) => Err("a setting of adit is `#adit: key = value`".to_owned()),
            _ => Err("adit has no such setting; there is forward".to_owned()),
        };
        let shown = Entry { name: suggest::shown(key), ..entry.clone() };
        match taken {
            Ok(()) => self.record(&shown, Kind::Used, ""),
            Err(why) => {
                self.record(&shown, Kind::Refused, &why);
                self.problems.push(entry.at.problem(format!("{}: {why}", shown.name)));
            }
        }
    }

    /// Records a handler's result for a directive.
    fn handled(
        &mut self,
        entry: &Entry,
        directive: &Directive,
        result: Result<Effect, String>,
        optional: bool,
    ) {
        match (result, directive.action) {
            (Ok(effect), Action::Keep(_, why)) if effect.kind == Kind::Used => {
                self.record(entry, Kind::Ignored, why);
            }
            (Ok(effect), _) => {
                if effect.warn {
                    self.warnings.push(entry.at.problem(format!("`{}`: {}", entry.name, effect.reason)));
                }
                self.record(entry, effect.kind, &effect.reason);
            }
            (Err(text), _) if optional => {
                self.warnings.push(entry.at.problem(text.clone()));
                self.record(entry, Kind::Ignored, &text);
            }
            (Err(text), _) => {
                self.record(entry, Kind::Refused, &text);
                self.problems.push(entry.at.problem(text));
            }
        }
    }

    /// Reads the lines of a `<connection>` block into a scope of their own, which begins with the settings before the
    /// block (OpenVPN's options.c, `connection` in `add_option`).
    fn connection(&mut self, draft: &mut Draft, entry: &Entry, tolerant: &Tolerance) {
        let Some(inline) = &entry.inline else { return };
        if draft.block.is_some() {
            self.problems.push(entry.at.problem("a `<connection>` block cannot stand in another"));
            return;
        }
        draft.block = Some(draft.general.clone());
        for inner in lex(&entry.at.file, &inline.text, inline.first_line, &mut self.problems) {
            self.directive(draft, inner, tolerant);
        }
        let mut block = draft.block.take().unwrap_or_default();
        match block.remote.take() {
            Some(remote) => draft.client.remotes.push((remote, Some(block))),
            None => self.problems.push(entry.at.problem("the `<connection>` block has no `remote HOST`")),
        }
    }

    fn record(&mut self, entry: &Entry, kind: Kind, reason: &str) {
        self.report.push(Disposition {
            file: entry.at.file.to_string(),
            line: entry.at.line,
            directive: suggest::shown(&entry.name),
            kind,
            reason: reason.into(),
            fingerprint: Fingerprint::of(
                &entry.words,
                entry.inline.as_ref().map(|block| block.text.as_ref()),
            ),
        });
    }
}
