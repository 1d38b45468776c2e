//! Scripts, as the tunnel that has them run sees them.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;

use super::channel::Channel;
use super::request::{Refusal, Request, ScriptCall, ScriptRequest};

/// Has the helper run scripts.
#[derive(Clone, Debug)]
pub struct ScriptLauncher(Arc<Mutex<Channel>>);

/// A script that runs or has ended. When this is dropped, it ends, and its files go.
#[derive(Debug)]
pub struct ScriptRun {
    launcher: ScriptLauncher,
    number: u64,
}

impl ScriptLauncher {
    pub(super) fn new(channel: Channel) -> Self {
        ScriptLauncher(Arc::new(Mutex::new(channel)))
    }

    fn ask<T: DeserializeOwned>(&self, request: ScriptRequest) -> io::Result<T> {
        let channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer: Result<T, Refusal> = channel.call(&Request::Script(request))?;
        Ok(answer?)
    }

    /// Makes a script's files and starts it.
    ///
    /// # Errors
    /// When the configuration has no such script, or it cannot be run.
    pub fn run(&self, call: ScriptCall) -> io::Result<ScriptRun> {
        let number = self.ask(ScriptRequest::Run(call))?;
        Ok(ScriptRun { launcher: self.clone(), number })
    }

    /// Has scripts run as the account of the policy from now on, for good.
    ///
    /// # Errors
    /// When the helper is gone.
    pub fn give_up_rights(&self) -> io::Result<()> {
        let channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(&Request::Script(ScriptRequest::GiveUpRights))
    }
}

impl ScriptRun {
    /// Its number, for [`ScriptCall::beside`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its exit code, or why it has none; `None` while it runs.
    ///
    /// # Errors
    /// The state of the process cannot be read.
    pub fn poll(&self) -> io::Result<Option<Result<i32, String>>> {
        self.launcher.ask(ScriptRequest::Poll(self.number))
    }

    /// Sends SIGTERM to it and to the processes that it started.
    pub fn terminate(&self) {
        self.signal(false);
    }

    /// Sends SIGKILL to it and to the processes that it started.
    pub fn kill(&self) {
        self.signal(true);
    }

    fn signal(&self, kill: bool) {
        // A helper that is gone has ended it.
        let _ = self.launcher.ask::<()>(ScriptRequest::Signal { run: self.number, kill });
    }

    /// The content of its files now, in their order; empty for one that cannot be read.
    pub fn files(&self) -> Vec<Vec<u8>> {
        self.launcher.ask(ScriptRequest::Files(self.number)).unwrap_or_default()
    }

    /// The content of its first file now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn first_file(&self) -> io::Result<Vec<u8>> {
        self.launcher.ask(ScriptRequest::FirstFile(self.number))
    }
}

impl Drop for ScriptRun {
    fn drop(&mut self) {
        let channel = self.launcher.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A helper that is gone has ended it.
        let _ = channel.send(&Request::Script(ScriptRequest::Release(self.number)));
    }
}
