//! `remote` outside of `<connection>` blocks.

use adit_core::configuration::{Disposition, Kind};

use crate::draft::Draft;
use crate::parser::Parser;

/// Why such a remote is not used.
const REASON: &str = "it is not used, as `<connection>` blocks name the remotes: write a block for it, too";

/// Where there are blocks, the other remotes do not count (options.c, `options_postprocess_mutate`).
pub(super) fn prefer_blocks(draft: &mut Draft, parser: &mut Parser<'_>) {
    let remotes = &mut draft.client.remotes;
    if !remotes.iter().any(|(_, block)| block.is_some()) {
        return;
    }
    for (remote, _) in remotes.extract_if(.., |(_, block)| block.is_none()) {
        let is_it = |entry: &&mut Disposition| {
            entry.directive == "remote" && entry.line == remote.at.line && *entry.file == *remote.at.file
        };
        if let Some(entry) = parser.report.iter_mut().find(is_it) {
            (entry.kind, entry.reason) = (Kind::Ignored, REASON.into());
        }
        parser.warnings.push(remote.at.problem(format!("`remote {}`: {REASON}", remote.host)));
    }
}
