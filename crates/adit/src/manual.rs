//! The definitions that the manual pages and the completions of shells are made of: those that the command lines are parsed by, and
//! pages of the protocols. `adit-manual` renders them.

pub use adit_host::manual::{Page, Part, Program};

use crate::adapters;

/// The programs.
pub fn programs() -> Vec<Program> {
    let own = Program { command: crate::command(), section: "1" };
    let others = adapters::ALL.iter().flat_map(|adapter| adapter.programs());
    std::iter::once(own).chain(others).collect()
}

/// The pages of other command lines.
pub fn pages() -> Vec<Page> {
    adapters::ALL.iter().flat_map(|adapter| adapter.pages()).collect()
}
