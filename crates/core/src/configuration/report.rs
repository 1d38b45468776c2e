use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::hash::{Hash as _, Hasher as _};

use thiserror::Error;

/// The result of one directive of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// The file, as it was named.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
    /// The directive's name.
    pub directive: String,
    /// The kind of result.
    pub kind: Kind,
    /// Ignored: why that is safe. Refused: what to write instead. Used: a remark, or empty.
    pub reason: String,
    /// Tells whether a directive has the same arguments and block as another.
    pub fingerprint: Fingerprint,
}

/// A hash of a directive's arguments and block. It is not shown, as there are secrets among them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of these words and of this block.
    pub fn of(words: &[String], block: Option<&str>) -> Self {
        let mut hasher = DefaultHasher::new();
        (words, block).hash(&mut hasher);
        Fingerprint(hasher.finish())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}

/// The kinds of result that a directive can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// adit does as the directive says.
    Used,
    /// adit does without it, safely.
    Ignored,
    /// adit will not run with it.
    Refused,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Used => "used",
            Kind::Ignored => "ignored",
            Kind::Refused => "refused",
        })
    }
}

impl fmt::Display for Disposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} `{}`", self.file, self.line, self.kind, self.directive)?;
        if !self.reason.is_empty() {
            write!(f, ": {}", self.reason)?;
        }
        Ok(())
    }
}

/// A mistake or a doubtful point in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Problem {
    /// The file, as it was named.
    pub file: String,
    /// The line, counted from 1; `None` when it is about the file as a whole.
    pub line: Option<u32>,
    /// The fault, and what would be right. Never quotes a secret.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{}: {}", self.file, line, self.text),
            None => write!(f, "{}: {}", self.file, self.text),
        }
    }
}

/// A configuration that cannot be used: every problem found, and the result of each directive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Failure {
    /// All problems, in the order of the file; at least one.
    pub problems: Vec<Problem>,
    /// The result of each directive that was understood.
    pub report: Vec<Disposition>,
}

impl fmt::Display for Failure {
    /// One problem a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}
