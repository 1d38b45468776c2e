//! A process beside the tunnel that does the work for which files, programs or rights are needed.
//!
//! The tunnel's own process gives up its rights, all files and most system calls before it receives the first datagram
//! (`privileges.rs`). It later requests from this process the operations for which it needs them; this process receives
//! no datagram, is started before, gets its work once (a [`Policy`], from the configuration), and refuses all else.
//! Requests and answers are typed messages over a socket pair; sockets that it makes come as descriptors. When the
//! tunnel is gone, however it ended, the helper undoes its changes of the system, and ends.

mod channel;
mod client;
mod files;
mod gathered;
mod launcher;
#[cfg(any(test, feature = "fuzzing"))]
mod played;
mod policy;
mod pool;
mod request;
mod scripts;
mod serve;
mod sockets;
mod within_process;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    pub(crate) use super::played::play;
    pub(crate) use super::request::message;
}

use std::io;
use std::os::fd::AsFd as _;

pub use self::client::{Helper, HelperAccess, HelperFiles};
pub use self::files::ACCESS_FILE;
pub use self::gathered::{Allowed, Dialect, Gather, Gathered, Rewrite};
pub use self::launcher::{ScriptLauncher, ScriptRun};
pub use self::policy::{MOST_FOLLOWING, Policy, Revocations, Scripts};
pub use self::request::{LookedUp, LookedUpOne, Mark, ScriptCall, ScriptInput};
pub use self::scripts::run_script;

/// Serves a tunnel that started this process by [`Helper::start`], until it is gone. `dialect` is that of its configuration.
///
/// # Errors
/// When the standard input is not the tunnel's.
pub fn serve_helper(dialect: Dialect) -> io::Result<()> {
    let stream = io::stdin().as_fd().try_clone_to_owned()?;
    serve::serve(channel::Channel::from(stream), serve::Rights::OfThePolicy, dialect)
}
