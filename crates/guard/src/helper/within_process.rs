//! The helper on a thread, for tests.

use std::{io, thread};

use super::channel::Channel;
use super::client::{Helper, Place};
use super::gathered::Dialect;
use super::policy::Policy;
use super::serve;

impl Helper {
    /// Starts the helper on a thread of this process, which keeps its rights: for tests.
    ///
    /// # Errors
    /// As with [`Helper::start`].
    pub fn within_process(policy: Policy) -> io::Result<Self> {
        let (ours, theirs) = Channel::pair()?;
        let work = move || {
            // The other end sees that it ended.
            let _ = serve::serve(theirs, serve::Rights::OfTheProcess, Dialect::none());
        };
        let thread = thread::Builder::new().name("adit-helper".to_owned()).spawn(work)?;
        Helper::greet(ours, Place::Thread(Some(thread)), policy)
    }
}
