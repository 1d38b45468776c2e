//! The settings of the process: paths from where `cd` leads, log, status file and management socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::management::management;
use crate::draft::Draft;
use crate::lexer::MAX_WORD;
use crate::model::*;
use crate::parser::Parser;

/// A path of the file, from where `cd` leads.
pub(crate) fn placed(directory: &Path, path: PathBuf, file: &str, parser: &mut Parser<'_>) -> PathBuf {
    let path = directory.join(path);
    if path.as_os_str().len() > MAX_WORD {
        parser.problem_in(file, format!("`cd` makes a path longer than {MAX_WORD} bytes"));
    }
    path
}

pub(super) fn process(draft: Draft, file: &str, parser: &mut Parser<'_>) -> Process {
    let directory = draft.directory;
    let mut from = |path: PathBuf| placed(&directory, path, file, parser);
    let mut process = draft.process;
    process.log = process.log.or(draft.daemon.map(Log::Syslog)).map(|log| match log {
        Log::File { path, append } => Log::File { path: from(path), append },
        Log::Syslog(name) => Log::Syslog(name),
    });
    process.pid_file = process.pid_file.map(&mut from);
    process.tmp_dir = process.tmp_dir.map(&mut from);
    process.status = draft.status.map(|(path, every)| StatusFile {
        path: from(path),
        every: every.unwrap_or(Duration::from_secs(60)),
        version: draft.status_version.unwrap_or(1),
    });
    process.management = management(draft.management, &directory, file, parser);
    process
}
