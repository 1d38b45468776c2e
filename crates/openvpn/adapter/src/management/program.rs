//! The name of a program at the management socket.

/// A program at the management socket, by the number of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProgramId(pub(super) u64);
