//! Subcommands beside the plans: the demo, and measurements of adit that need more than two ends.

pub(crate) mod attackers;
pub(crate) mod demo;
mod load;
pub(crate) mod measure;
pub(crate) mod narrow_path;
