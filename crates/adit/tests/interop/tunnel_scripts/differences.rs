//! What is not the same, and why: the rows of docs/SCRIPTS.md.

/// A difference that is meant.
#[derive(Debug)]
pub(super) struct Difference {
    /// What differs: `order`, `calls`, `words`, `user`, or variables; `*` at the end stands for any text.
    pub(super) what: &'static str,
    /// At which scripts; empty for all.
    pub(super) scripts: &'static [&'static str],
    /// In which situations; empty for all.
    pub(super) situations: &'static [&'static str],
    /// How the page names it.
    pub(super) shown: &'static str,
    pub(super) reason: &'static str,
}

#[rustfmt::skip]
pub(super) const DIFFERENCES: &[Difference] = &[
    Difference { what: "PATH", scripts: &[], situations: &[], shown: "`PATH`",
        reason: "adit sets it, as scripts find their programs by it; OpenVPN sets none, and shells take one of their own" },
];
