//! Scripts, as the tunnel that has them run sees them.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use adit_core::Script;
use serde::de::DeserializeOwned;

use super::channel::Channel;
use super::request::{Refusal, Request, ScriptCall, ScriptInput, ScriptRequest};

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

    /// Makes a script's files and begins it, with `dev` in its environment. The environment also names the files of
    /// `beside`.
    ///
    /// # Errors
    /// When the configuration has no such script, or it cannot be run.
    pub fn run(&self, script: &Script, device: &str, beside: Option<&ScriptRun>) -> io::Result<ScriptRun> {
        let input = |file: &adit_core::ScriptFile| ScriptInput {
            content: file.content.to_vec(),
            is_argument: file.is_argument,
            variable: file.variable.map(str::to_owned),
        };
        let call = ScriptCall {
            argv: script.argv.clone(),
            env: script.env.clone(),
            secrets: script
                .secrets
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            device: device.to_owned(),
            files: script.files.iter().map(input).collect(),
            beside: beside.map(|run| run.number),
        };
        let number = self.ask(ScriptRequest::Run(call))?;
        Ok(ScriptRun { launcher: self.clone(), number })
    }
}

impl ScriptRun {
    /// Its exit code, or why it has none; `None` while it runs.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn poll(&self) -> io::Result<Option<Result<i32, String>>> {
        self.launcher.ask(ScriptRequest::Poll(self.number))
    }

    /// Tells it, and what it started, to end (SIGTERM).
    pub fn terminate(&self) {
        self.signal(false);
    }

    /// Ends it and what it started (SIGKILL).
    pub fn kill(&self) {
        self.signal(true);
    }

    fn signal(&self, kill: bool) {
        // A helper that is gone has ended it.
        let _ = self.launcher.ask::<()>(ScriptRequest::Signal { run: self.number, kill });
    }

    /// What its files hold now, in their order; nothing for one that cannot be read.
    pub fn files(&self) -> Vec<Vec<u8>> {
        self.launcher.ask(ScriptRequest::Files(self.number)).unwrap_or_default()
    }

    /// What the first of them holds now.
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
