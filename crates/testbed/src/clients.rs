//! Many programs in one namespace.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::{Namespace, TestbedError};

/// The bytes of a log that an error shows.
const SHOWN: usize = 600;

/// Running programs, each with a log in a directory. Killed on drop.
#[derive(Debug)]
pub struct Clients {
    children: Vec<Child>,
    logs: PathBuf,
}

fn log(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("{number}.log"))
}

impl Clients {
    /// Starts all of them inside the namespace, one right after the other.
    pub fn start(
        namespace: &Namespace,
        commands: Vec<Command>,
        logs: &Path,
    ) -> Result<Clients, TestbedError> {
        let mut clients = Clients { children: Vec::new(), logs: logs.to_owned() };
        let started = namespace.enter(|| -> Result<(), TestbedError> {
            for (number, mut command) in commands.into_iter().enumerate() {
                let path = log(&clients.logs, number);
                let streams = File::create(&path).and_then(|file| Ok((file.try_clone()?, file)));
                let (out, err) = streams.map_err(|source| TestbedError::File { path, source })?;
                command.stdin(Stdio::null()).stdout(out).stderr(err);
                let child = command.spawn().map_err(|source| {
                    let command = command.get_program().to_string_lossy().into_owned();
                    TestbedError::Start { command, source }
                })?;
                clients.children.push(child);
            }
            Ok(())
        })?;
        started.map(|()| clients)
    }

    /// Their process ids.
    pub fn processes(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// How many have ended, and the last line of the first of them.
    pub fn ended(&mut self) -> Option<(usize, String)> {
        let ended = self
            .children
            .iter_mut()
            .enumerate()
            .filter_map(|(number, child)| matches!(child.try_wait(), Ok(Some(_))).then_some(number));
        let ended: Vec<usize> = ended.collect();
        let text = std::fs::read(log(&self.logs, *ended.first()?)).unwrap_or_default();
        let tail = text.get(text.len().saturating_sub(SHOWN)..).unwrap_or_default();
        Some((ended.len(), String::from_utf8_lossy(tail).trim().to_owned()))
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}
