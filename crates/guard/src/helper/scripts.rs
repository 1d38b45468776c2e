//! Runs a configuration's scripts, and keeps their files.

mod directory;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use adit_system::Netlink;
use rustix::process::{Pid, Signal, kill_process_group};

use self::directory::{Directory, RunDirectory, remove_abandoned};
use super::channel::Channel;
use super::policy::{self, MOST_FOLLOWING};
use super::request::{Exit, Refusal, ScriptCall, ScriptInput, ScriptRequest};
use crate::privileges::Account;

/// Runs at once, with those that ended and whose files are kept.
const MAX_RUNS: usize = 8192;
/// How long it may take until one that was killed has ended, and how often it is looked at.
const KILLED_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The value of `PATH`, by which scripts find programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// All runs.
pub(super) struct Scripts {
    policy: policy::Scripts,
    directory: Option<Directory>,
    runs: BTreeMap<u64, Run>,
    next: u64,
    /// Scripts run as the account of the policy.
    gave_up: bool,
}

struct Run {
    child: Child,
    files: InputFiles,
}

impl Scripts {
    pub(super) fn new(policy: policy::Scripts) -> Self {
        remove_abandoned(&policy.directory);
        Scripts { policy, directory: None, runs: BTreeMap::new(), next: 0, gave_up: false }
    }

    /// Allows these scripts from now on. The parts of the policy that last stay, with the variables that they
    /// have.
    pub(super) fn allow(&mut self, policy: policy::Scripts) {
        let before = std::mem::take(&mut self.policy);
        let policy::Scripts { lasting, most_following, directory, account, variables, prefixes, .. } = before;
        let (variables, prefixes) = (both(variables, policy.variables), both(prefixes, policy.prefixes));
        self.policy = policy::Scripts {
            commands: policy.commands,
            lasting,
            most_following,
            variables,
            prefixes,
            directory,
            account,
        };
    }

    pub(super) fn serve(&mut self, channel: &Channel, request: ScriptRequest) -> io::Result<()> {
        match request {
            ScriptRequest::Run(call) => channel.send(&self.run(&call).map_err(Refusal::from)),
            ScriptRequest::Poll(run) => channel.send(&self.poll(run).map_err(Refusal::from)),
            ScriptRequest::Signal { run, kill } => {
                channel.send(&self.signal(run, kill).map_err(Refusal::from))
            }
            ScriptRequest::Files(run) => channel.send(&self.files(run).map_err(Refusal::from)),
            ScriptRequest::FirstFile(run) => channel.send(&self.first_file(run).map_err(Refusal::from)),
            ScriptRequest::Release(run) => {
                self.release(run);
                Ok(())
            }
            ScriptRequest::GiveUpRights => {
                self.gave_up = true;
                Ok(())
            }
        }
    }

    fn run(&mut self, call: &ScriptCall) -> io::Result<u64> {
        self.check(call)?;
        let made = self.files_of(call)?;
        let mut command = command(call)?;
        // Processes that it starts end with it.
        command.process_group(0);
        if let Some(other) = call.beside.and_then(|run| self.runs.get(&run)) {
            command.envs(other.files.variables.iter().map(|(name, path)| (name, path)));
        }
        command.envs(made.variables.iter().map(|(name, path)| (name, path)));
        if let Some(directory) = &made.directory {
            let arguments = call.files.iter().zip(&made.names).filter(|(file, _)| file.is_argument);
            command.args(arguments.map(|(_, name)| directory.path.join(name)));
        }
        if self.gave_up {
            self.become_user(&mut command);
        }
        let child = command.spawn()?;
        let number = self.next;
        self.next += 1;
        self.runs.insert(number, Run { child, files: made });
        Ok(number)
    }

    /// Makes the files of a script, for the user that it becomes. Where this process may not give files to another user (it has
    /// no `CAP_CHOWN`), a script whose files are all optional has none.
    fn files_of(&mut self, call: &ScriptCall) -> io::Result<InputFiles> {
        let made = self.make_files(&call.files)?;
        if !self.gave_up {
            return Ok(made);
        }
        let are_optional = call.files.iter().all(|file| file.is_optional);
        match self.give_to_user(&made) {
            Ok(()) => Ok(made),
            Err(error) if are_optional && error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(InputFiles::default())
            }
            Err(error) => Err(error),
        }
    }

    /// Lets the user that a script becomes enter the directory of its files, read them and write them.
    fn give_to_user(&self, made: &InputFiles) -> io::Result<()> {
        let (uid, gid) = self.policy.account.as_ref().map(Account::numbers).unwrap_or_default();
        let (Some(own), Some(parent)) = (&made.directory, &self.directory) else { return Ok(()) };
        own.give(&made.names, uid, gid)?;
        parent.let_others_enter()
    }

    fn become_user(&self, command: &mut Command) {
        let (uid, gid) = self.policy.account.as_ref().map(Account::numbers).unwrap_or_default();
        // The standard library leaves no supplementary group where it sets the user.
        if let Some(gid) = gid {
            command.gid(gid);
        }
        if let Some(uid) = uid {
            command.uid(uid);
        }
    }

    /// Whether the configuration has such a script, and its environment is one that such scripts have.
    /// Variables that a program's libraries obey, such as `LD_PRELOAD`, are not allowed.
    fn check(&self, call: &ScriptCall) -> io::Result<()> {
        let denied = |what: &str| io::Error::new(io::ErrorKind::PermissionDenied, what.to_owned());
        let paths = call.files.iter().filter(|file| file.is_argument).count();
        let fits = |words: usize| words <= self.policy.most_following && words + paths <= MOST_FOLLOWING;
        let is_allowed = |command: &Vec<String>| {
            let following = call.argv.strip_prefix(command.as_slice());
            !command.is_empty() && following.is_some_and(|words| fits(words.len()))
        };
        if !self.policy.commands.iter().chain(&self.policy.lasting).any(is_allowed) {
            return Err(denied("the configuration has no such script"));
        }
        let variables = call.env.iter().chain(&call.secrets).map(|(name, _)| name);
        let files = call.files.iter().filter_map(|file| file.variable.as_ref());
        let gateways = call.gateways.iter().map(|(name, _)| name);
        if let Some(name) = variables.chain(files).chain(gateways).find(|name| !self.is_variable(name)) {
            return Err(denied(&format!("scripts get no variable `{name}`")));
        }
        if self.runs.len() >= MAX_RUNS {
            return Err(denied("too many scripts"));
        }
        Ok(())
    }

    fn is_variable(&self, name: &str) -> bool {
        let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let usual = name.starts_with(|first: char| first.is_ascii_lowercase())
            || self.policy.prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()));
        (plain && usual) || self.policy.variables.iter().any(|known| known == name)
    }

    /// Makes the files of a script, in a directory that only we can enter.
    fn make_files(&mut self, files: &[ScriptInput]) -> io::Result<InputFiles> {
        let mut made = InputFiles::default();
        if files.is_empty() {
            return Ok(made);
        }
        let parent = match &self.directory {
            Some(directory) if directory.path.is_dir() => directory,
            _ => self.directory.insert(Directory::make(&self.policy.directory)?),
        };
        let directory = parent.of_run(self.next)?;
        for (number, file) in files.iter().enumerate() {
            let name = number.to_string();
            directory.create(&name, &file.content)?;
            made.variables.extend(file.variable.clone().map(|it| (it, directory.path.join(&name))));
            made.names.push(name);
        }
        made.directory = Some(directory);
        Ok(made)
    }

    fn get(&mut self, run: u64) -> io::Result<&mut Run> {
        self.runs.get_mut(&run).ok_or_else(|| io::Error::other("there is no such script"))
    }

    fn poll(&mut self, run: u64) -> io::Result<Option<Exit>> {
        let status = self.get(run)?.child.try_wait()?;
        Ok(status.map(exit))
    }

    fn signal(&mut self, run: u64, kill: bool) -> io::Result<()> {
        self.get(run)?.signal(if kill { Signal::KILL } else { Signal::TERM });
        Ok(())
    }

    fn files(&mut self, run: u64) -> io::Result<Vec<Vec<u8>>> {
        let files = &self.get(run)?.files;
        Ok(files.names.iter().map(|name| files.read(name).unwrap_or_default()).collect())
    }

    fn first_file(&mut self, run: u64) -> io::Result<Vec<u8>> {
        let files = &self.get(run)?.files;
        files.read(files.names.first().ok_or(io::ErrorKind::NotFound)?)
    }

    fn release(&mut self, run: u64) {
        if let Some(mut run) = self.runs.remove(&run) {
            // One that still runs ends, as its outcome has no receiver any more.
            run.signal(Signal::KILL);
            run.wait_a_while();
        }
    }

    /// The tunnel is gone: running scripts end, and all files go.
    pub(super) fn end(&mut self) {
        let runs: Vec<u64> = self.runs.keys().copied().collect();
        runs.into_iter().for_each(|run| self.release(run));
        self.directory = None;
    }
}

/// All words of both, each once.
fn both(mut one: Vec<String>, other: Vec<String>) -> Vec<String> {
    for word in other {
        if !one.contains(&word) {
            one.push(word);
        }
    }
    one
}

impl Run {
    /// Signals the script, and the processes that it started. Only while it was not waited for is its process group
    /// still its own.
    fn signal(&mut self, signal: Signal) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // It may have ended meanwhile.
            let _ = kill_process_group(Pid::from_child(&self.child), signal);
        }
    }

    /// Waits for the end of one that was killed. One of another user (by `sudo`, or where this process has no `CAP_KILL`) goes
    /// on.
    fn wait_a_while(&mut self) {
        let until = Instant::now() + KILLED_WITHIN;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// The files of a script. They go with this.
#[derive(Default)]
struct InputFiles {
    names: Vec<String>,
    /// The environment variables that hold their paths.
    variables: Vec<(String, PathBuf)>,
    directory: Option<RunDirectory>,
}

impl InputFiles {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.directory.as_ref().ok_or(io::ErrorKind::NotFound)?.read(name)
    }
}

/// A script without its files.
fn command(call: &ScriptCall) -> io::Result<Command> {
    let (program, arguments) = call.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", PATH).stdin(Stdio::null());
    if !call.device.is_empty() {
        command.env("dev", &call.device);
    }
    // The copies that the standard library makes until the program begins are out of reach.
    command.envs(call.env.iter().chain(&call.secrets).map(|(name, value)| (name, value)));
    if !call.gateways.is_empty() {
        command.envs(gateways(&call.gateways));
    }
    Ok(command)
}

/// Runs a script that has no files with the rights of this process, and waits for its end. Gives its exit code, or why
/// it has none. Its output goes where this process writes, or nowhere unless `inherits_output`. A signal of the
/// terminal ends both.
///
/// # Errors
/// When it cannot be run.
pub fn run_script(call: &ScriptCall, inherits_output: bool) -> io::Result<Exit> {
    let mut command = command(call)?;
    if !inherits_output {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    Ok(exit(command.status()?))
}

fn exit(status: ExitStatus) -> Exit {
    status.code().ok_or_else(|| format!("it ended by {status}"))
}

/// The system's default gateways, in these variables.
fn gateways(variables: &[(String, bool)]) -> Vec<(String, String)> {
    let gateway = |like: IpAddr| Netlink::open().ok()?.default_route(like).ok()??.gateway;
    let ipv4 = gateway(Ipv4Addr::UNSPECIFIED.into());
    let ipv6 = gateway(Ipv6Addr::UNSPECIFIED.into());
    let value = |(name, is_ipv6): &(String, bool)| {
        let gateway = if *is_ipv6 { ipv6 } else { ipv4 };
        gateway.map(|gateway| (name.clone(), gateway.to_string()))
    };
    variables.iter().filter_map(value).collect()
}
