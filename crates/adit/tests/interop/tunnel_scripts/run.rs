//! Runs a situation with one program, and reads the record of its script.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use adit_testbed::{
    Authority, Identity, Namespace, Process, Purpose, Scratch, TestbedError, Validity, connect, static_key,
    wait_until,
};

use super::situations::{Kind, Situation, Step};
use crate::options::{Part, Program};

const WAIT: Duration = Duration::from_secs(60);
/// How often the record of the script is read.
const PAUSE: Duration = Duration::from_millis(20);

/// The line that the script writes behind each call: it has ended then, but for its exit.
const END: &str = "== ";

/// Certificates and keys of all situations.
pub(super) struct Files {
    authority: String,
    server: Identity,
    client: Identity,
    secret: String,
}

/// One call of the script.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) script: String,
    pub(super) user: String,
    pub(super) words: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

impl Files {
    pub(super) fn create(authority: &Authority) -> Result<Self, TestbedError> {
        Ok(Files {
            authority: authority.certificate.clone(),
            server: authority.issue("server", Purpose::Server, Validity::Now)?,
            client: authority.issue("client1", Purpose::Client, Validity::Now)?,
            secret: static_key()?,
        })
    }

    fn credentials(&self, kind: Kind, is_server: bool) -> String {
        if kind.is_static() {
            return format!("<secret>\n{}</secret>\n", self.secret);
        }
        let own = if is_server { &self.server } else { &self.client };
        let dh = if is_server { "dh none\n" } else { "" };
        format!(
            "{dh}<ca>\n{}</ca>\n<cert>\n{}</cert>\n<key>\n{}</key>\n",
            self.authority, own.certificate, own.key
        )
    }
}

/// Both ends, each in a namespace.
struct Ends {
    server: Namespace,
    client: Namespace,
    directory: Scratch,
}

impl Ends {
    fn create() -> Result<Self, TestbedError> {
        let [server, client] = ["hooks-s", "hooks-c"].map(Namespace::create);
        let (server, client) = (server?, client?);
        connect(
            &server,
            &["10.9.1.1/24", "fd00:9:1::1/64"],
            &client,
            &["10.9.1.2/24", "fd00:9:1::2/64"],
            "wire",
        )?;
        client.ip(&["route", "add", "default", "via", "10.9.1.1"])?;
        client.ip(&["-6", "route", "add", "default", "via", "fd00:9:1::1"])?;
        let directory = Scratch::create("hooks")?;
        let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
        let here = directory.path().display();
        let body = format!(
            "#!/bin/sh\nname=$1\nshift\ncall=$(\n  echo \"== $name\"\n  echo \"user $(id -u)\"\n  for word; do echo \"word $word\"; done\n  \
             env\n)\nprintf '%s\\n{END}\\n' \"$call\" >>{here}/calls\n"
        );
        let script = directory.write("record", &body)?;
        let calls = directory.write("calls", "")?;
        for (path, mode) in [(directory.path(), 0o755), (script.as_path(), 0o755), (calls.as_path(), 0o666)] {
            open(path, mode).map_err(|error| TestbedError::NoProgram(error.to_string()))?;
        }
        Ok(Ends { server, client, directory })
    }

    fn calls(&self) -> Vec<Call> {
        let text = std::fs::read_to_string(self.directory.path().join("calls")).unwrap_or_default();
        let (mut calls, mut call): (Vec<Call>, Option<Call>) = Default::default();
        for line in text.lines() {
            if line == END {
                calls.extend(call.take());
                continue;
            }
            if let Some(script) = line.strip_prefix("== ") {
                let env = BTreeMap::new();
                call = Some(Call { script: script.to_owned(), user: String::new(), words: Vec::new(), env });
                continue;
            }
            let Some(call) = &mut call else { continue };
            if let Some(user) = line.strip_prefix("user ") {
                call.user = user.to_owned();
            } else if let Some(word) = line.strip_prefix("word ") {
                call.words.push(word.to_owned());
            } else if let Some((name, value)) = line.split_once('=') {
                call.env.insert(name.to_owned(), value.to_owned());
            }
        }
        calls
    }

    fn hooks(&self, kind: Kind) -> String {
        let mut names = vec!["up", "down", "route-up", "route-pre-down"];
        if !kind.is_server() {
            names.push("ipchange");
        }
        if !kind.is_static() && !kind.is_server() {
            names.push("tls-verify");
        }
        let here = self.directory.path().display();
        names.iter().map(|name| format!("{name} \"{here}/record {name}\"\n")).collect()
    }
}

/// The calls that the script wrote down.
pub(super) fn calls(situation: &Situation, program: Program, files: &Files) -> Result<Vec<Call>, String> {
    let failed = |error: TestbedError| format!("{program:?}: {error}");
    let ends = Ends::create().map_err(failed)?;
    let (kind, waits) = (situation.kind, situation.kind.subject_waits());
    let here = ends.directory.path().display().to_string();
    let hooks = format!("script-security 2\n{}", ends.hooks(kind));
    let text = |is_server: bool| {
        let own = if is_server { situation.server } else { situation.client };
        let hooks = if is_server == waits { hooks.as_str() } else { "" };
        let own = own.replace("HERE", &here);
        format!(
            "dev tun0\nverb 3\n{}{own}{hooks}{}",
            kind.lines(is_server),
            files.credentials(kind, is_server)
        )
    };
    let server = ends.directory.write("server.conf", &text(true)).map_err(failed)?;
    let client = ends.directory.write("client.conf", &text(false)).map_err(failed)?;
    let start = |is_server: bool| -> Result<Process, TestbedError> {
        let program = if is_server == waits { program } else { Program::OpenVpn };
        let (namespace, file, part) = match is_server {
            true => (&ends.server, &server, Part::Server),
            false => (&ends.client, &client, Part::Client),
        };
        let process =
            namespace.spawn(&format!("{} ({program:?})", situation.name), program.command(part, file)?)?;
        if is_server {
            let listens = || namespace.is_bound(kind.is_tcp(), 1194).unwrap_or(false);
            wait_until("the server to listen", WAIT, listens)?;
        }
        Ok(process)
    };
    let mut one = start(true).map_err(failed)?;
    let mut two = start(false).map_err(failed)?;
    let logs = |one: &Process, two: &Process| format!("{}\n====\n{}", one.log_tail(), two.log_tail());
    for step in situation.steps {
        let (subject, other) = if waits { (&mut one, &mut two) } else { (&mut two, &mut one) };
        let done = match step {
            Step::Until(script, count) => wait_until(script, WAIT, || {
                std::thread::sleep(PAUSE);
                ends.calls().iter().filter(|call| call.script == *script).count() >= *count
            }),
            Step::Restart => {
                subject.restart();
                Ok(())
            }
            Step::KillOther => other.kill().map(drop).and_then(|()| start(!waits)).map(|new| *other = new),
            Step::StopOther => {
                other.terminate(WAIT).map(drop).and_then(|_| start(!waits)).map(|new| *other = new)
            }
            Step::OtherIsGone => other.kill().map(drop),
            Step::Settle => wait_until("the last call", WAIT, || {
                let before = ends.calls().len();
                std::thread::sleep(Duration::from_secs(1));
                ends.calls().len() == before
            }),
            Step::EndsItself => subject.wait(WAIT).map(drop),
        };
        done.map_err(|error| format!("{program:?}: {error}\n{}", logs(&one, &two)))?;
    }
    let (subject, other) = if waits { (&mut one, &mut two) } else { (&mut two, &mut one) };
    if !matches!(situation.steps.last(), Some(Step::EndsItself)) {
        let status = subject.terminate(WAIT).map_err(failed)?;
        if !status.success() {
            return Err(format!("{program:?}: it ended with {status}\n{}", logs(&one, &two)));
        }
    }
    if other.is_running() {
        other.kill().map_err(failed)?;
    }
    Ok(ends.calls())
}
