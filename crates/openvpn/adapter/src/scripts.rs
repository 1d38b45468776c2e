//! The scripts of a server and its programs that judge passwords: requests of the protocol become scripts of the host
//! ([`adit_host::scripts`]), and their outcomes become replies.

use std::io;

use adit_core::Protocol;
use adit_guard::ScriptLauncher;
use adit_host::scripts::{Answer, DEFERRED, Environment, Scripts};
use adit_host::scripts::{Script, ScriptFile, ScriptId, ScriptOutcome, ScriptPriority};
use adit_io::Handle;
use adit_openvpn::request::{self, PeerSettings, Reply, TunnelFacts};
use adit_openvpn_config::{Access, parse_client_file};

/// The names of those that wait in the status.
const WAITING_SCRIPTS: &str = "scripts that wait";
const WAITING_BACK_ENDS: &str = "logins that wait for `plugin`";
/// The name of the file in which a script writes settings of a client.
const SETTINGS: &str = "settings";
/// The name of other files.
const OTHER: &str = "";

/// Whether a server has scripts to run at all.
pub(crate) fn any(access: &Access) -> bool {
    !commands(access).is_empty()
}

/// The scripts of a server: programs with the arguments that the configuration gives them.
pub(crate) fn commands(access: &Access) -> Vec<Vec<String>> {
    let Access { verify, tls_verify, key_verify, client_crresponse, .. } = access;
    let Access { client_connect, client_disconnect, learn_address, .. } = access;
    let verify = verify.as_ref().map(|script| &script.argv);
    let others =
        [tls_verify, key_verify, client_crresponse, client_connect, client_disconnect, learn_address];
    others.into_iter().map(Option::as_ref).chain([verify]).flatten().cloned().collect()
}

/// Starts the thread that has scripts run. All scripts have the variables of `base`, unless they have others of these names.
///
/// # Errors
/// When the system refuses a thread.
pub(crate) fn start<P: Protocol<Reply = Reply> + 'static>(
    handle: Handle<P>,
    launcher: ScriptLauncher,
    base: Vec<(String, String)>,
) -> io::Result<Scripts> {
    Scripts::start(WAITING_SCRIPTS, reply_by(handle), launcher, base)
}

/// Starts the thread that has the programs run which judge passwords (`plugin`).
///
/// # Errors
/// When the system refuses a thread.
pub(crate) fn start_back_ends<P: Protocol<Reply = Reply> + 'static>(
    handle: Handle<P>,
    launcher: ScriptLauncher,
    base: Vec<(String, String)>,
) -> io::Result<Scripts> {
    Scripts::start(WAITING_BACK_ENDS, reply_by(handle), launcher, base)
}

fn reply_by<P: Protocol<Reply = Reply> + 'static>(handle: Handle<P>) -> Answer {
    Box::new(move |script, outcome| {
        let id = request::ScriptId { owner: script.id.owner, number: script.id.number };
        handle.reply(Reply::ScriptDone { id, outcome: self::outcome(script, outcome) });
    })
}

/// The name of a run.
pub(crate) fn id(id: request::ScriptId) -> ScriptId {
    ScriptId { owner: id.owner, number: id.number }
}

/// The script that the protocol asks for.
pub(crate) fn script(script: request::Script) -> Script {
    let request::Script { source, argv, env, secrets, files, settings, defers, in_order, timeout, .. } =
        script;
    let file = |(index, file): (usize, request::ScriptFile)| ScriptFile {
        name: if settings == Some(index) { SETTINGS } else { OTHER },
        content: file.content,
        is_argument: file.is_argument,
        variable: file.variable,
    };
    Script {
        id: id(script.id),
        source,
        priority: match script.priority {
            request::ScriptPriority::Unauthenticated => ScriptPriority::Unauthenticated,
            request::ScriptPriority::Authenticated => ScriptPriority::Authenticated,
            request::ScriptPriority::End => ScriptPriority::End,
        },
        argv,
        env,
        secrets,
        files: files.into_iter().enumerate().map(file).collect(),
        defers,
        in_order,
        beside: script.beside.map(id),
        timeout,
    }
}

/// The variables of a server's routes.
pub(crate) fn environment(facts: TunnelFacts) -> Environment {
    let gateways = facts.gateways.into_iter().map(|it| (it.name, it.ipv6)).collect();
    Environment { variables: facts.routes, gateways }
}

/// The outcome as the protocol takes it, with the settings that the script wrote, if it succeeded.
fn outcome(script: &Script, outcome: ScriptOutcome) -> request::ScriptOutcome {
    let first = outcome.files.first().and_then(|(_, content)| content.first());
    let good = match outcome.exit {
        Ok(0) => true,
        Ok(DEFERRED) => script.defers && first == Some(&b'1'),
        _ => false,
    };
    let settings = outcome.file(SETTINGS).filter(|_| good).map(|text| settings_of(&script.argv, text));
    let files = outcome.files.into_iter().map(|(_, content)| content).collect();
    request::ScriptOutcome { exit: outcome.exit, files, settings }
}

fn settings_of(argv: &[String], text: &[u8]) -> Result<Box<PeerSettings>, String> {
    let name = format!("what {} wrote", argv.first().map_or("the script", String::as_str));
    match parse_client_file(&name, text) {
        Ok((settings, _)) => Ok(Box::new(settings)),
        Err(failure) => Err(failure.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn asked(defers: bool) -> Script {
        let file =
            |is_argument| request::ScriptFile { content: Default::default(), is_argument, variable: None };
        script(request::Script {
            id: request::ScriptId { owner: 1, number: 2 },
            source: None,
            priority: request::ScriptPriority::Authenticated,
            argv: vec!["/etc/connect".to_owned()],
            env: Vec::new(),
            secrets: Vec::new(),
            files: vec![file(false), file(true)],
            settings: Some(1),
            defers,
            in_order: None,
            beside: None,
            timeout: Duration::from_secs(1),
        })
    }

    #[test]
    fn settings_that_a_script_wrote_are_read_if_it_succeeded() {
        let of = |exit: i32, answer: &str, text: &str| {
            let script = asked(true);
            let names = script.files.iter().map(|file| file.name);
            let files = names.zip([answer, text].map(|text| text.as_bytes().to_vec())).collect();
            let outcome = outcome(&script, ScriptOutcome { exit: Ok(exit), files });
            assert_eq!(outcome.files, [answer.as_bytes(), text.as_bytes()]);
            outcome.settings
        };
        let routes = |settings: Option<Result<Box<PeerSettings>, String>>| settings.unwrap().unwrap().routes;
        let route = "iroute 10.7.0.0 255.255.0.0\n";
        let expected = ["10.7.0.0/16".parse().unwrap()];
        assert_eq!(routes(of(0, "", route)), expected);
        assert_eq!(routes(of(DEFERRED, "1", route)), expected);
        for (exit, answer) in [(1, ""), (DEFERRED, "0"), (DEFERRED, "")] {
            assert!(of(exit, answer, route).is_none(), "{exit} {answer}");
        }
        let why = of(0, "", "bogus\n").unwrap().unwrap_err();
        assert!(why.contains("what /etc/connect wrote") && why.contains("bogus"), "{why}");
    }
}
