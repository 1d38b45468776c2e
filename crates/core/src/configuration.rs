//! Nouns of configuration files in every dialect: the report on a file's lines, its problems, adit's own settings in the files
//! of other programs, the words of a line.

mod encoding;
pub mod own_settings;
mod report;
pub mod words;

pub use encoding::{IS_UTF_16, is_utf_16};
pub use report::{Disposition, Failure, Fingerprint, Kind, Problem};
