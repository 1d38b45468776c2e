//! Rights of processes: a tunnel's process gives its own up before it receives the first datagram, and a helper process
//! does the operations for which they are needed later.
//!
//! [`confine`] gives rights up. [`Helper`] is the process beside a tunnel, which gets its [`Policy`] once and refuses all else;
//! [`serve_helper`] is that process itself.
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod helper;
mod privileges;
mod replace;
mod unix_listener;

pub use helper::{
    ACCESS_FILE, Allowed, Dialect, Gather, Gathered, Helper, HelperAccess, HelperFiles, LookedUp,
    LookedUpOne, MOST_FOLLOWING, Mark, Policy, Revocations, Rewrite, ScriptCall, ScriptInput, ScriptLauncher,
    ScriptRun, Scripts, run_script, serve_helper,
};
pub use privileges::{
    Account, AccountError, ConfineError, Confined, Layer, Sandbox, confine, forbid_core_files, lock_memory,
    restrict_libraries, set_niceness, user_and_group,
};
pub use replace::replace_file;
pub use unix_listener::listen_at;
