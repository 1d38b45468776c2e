//! A client and a server that judges it by scripts; the test plays the scripts.

use std::time::Duration;

use crate::access::{PasswordScript, TokenParams};
use crate::credentials::{client_tls, server_tls};
use crate::params::{AuthRetry, ClientParams, ServerParams, UserAuth};
use crate::request::{DataEvent, Event, PeerSettings, Reply, Request, Script, ScriptOutcome, UserPassword};
use crate::wrap::WrapConfig;
use crate::{PeerRequirements, TlsConfig};
use adit_core::{Command, Ended, PeerOrder, Protocol, Transport};
use adit_pki::CertificateDemand;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use zeroize::Zeroizing;

use super::{Authority, Pair, client_params, environment, server_params};

/// The user `ann`, with that password.
pub fn user(password: &str) -> UserAuth {
    let credentials =
        UserPassword { username: "ann".to_owned(), password: Zeroizing::new(password.to_owned()) };
    UserAuth {
        credentials: Some(credentials),
        retry: AuthRetry::None,
        nocache: false,
        by_program: false,
        challenge: None,
    }
}

/// The client is `alice` by its certificate and `ann` by its password.
pub fn pair(change: impl FnOnce(&mut ClientParams, &mut ServerParams)) -> Pair {
    let authority = Authority::new();
    let mut client = client_params(&authority.issue("alice", ClientAuth), WrapConfig::Plain, Transport::Udp);
    let mut server = server_params(&authority.issue("server", ServerAuth), WrapConfig::Plain);
    client.auth = Some(user("s3 cret"));
    server.access.verify = Some(PasswordScript { argv: vec!["/judge".to_owned()], by_file: false });
    change(&mut client, &mut server);
    Pair::new(client, server)
}

/// The client shows no certificate and need not.
pub fn without_certificate(client: &mut ClientParams, server: &mut ServerParams) {
    let authority = Authority::new();
    let credentials = authority.issue("server", ServerAuth);
    let requirements =
        PeerRequirements { demand: CertificateDemand::Optional, ..PeerRequirements::default() };
    server.control.tls = TlsConfig::Server(server_tls(&credentials, requirements, &environment()).unwrap());
    let mut credentials = credentials;
    credentials.certificate.clear();
    credentials.private_key.clear();
    let tls = client_tls(&credentials, PeerRequirements::default(), &environment()).unwrap();
    client.control.tls = TlsConfig::Client(tls);
}

/// Tokens that last for 3,000 s and are renewed after 1,800 s.
pub fn tokens() -> TokenParams {
    TokenParams {
        lifetime: Some(Duration::from_secs(3000)),
        renewal: Duration::from_secs(1800),
        secret: Zeroizing::new([7; 32]),
        external: false,
    }
}

/// The scripts that were requested, by their type, oldest first.
pub fn asked<'a>(pair: &'a Pair, kind: &str) -> Vec<&'a Script> {
    let of_kind = |event: &'a Event| match event {
        Event::Request(Request::RunScript(script)) if variable(script, "script_type") == Some(kind) => {
            Some(&**script)
        }
        _ => None,
    };
    pair.server_events.iter().filter_map(of_kind).collect()
}

/// The value of that variable for the script.
pub fn variable<'a>(script: &'a Script, name: &str) -> Option<&'a str> {
    let secret = script.secrets.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    let open = || script.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    secret.or_else(open)
}

/// The latest script of that type ends like that, with these files.
pub fn ends(pair: &mut Pair, kind: &str, exit: i32, files: &[&str]) {
    let files = files.iter().map(|text| text.as_bytes().to_vec()).collect();
    reports(pair, kind, ScriptOutcome { exit: Ok(exit), files, settings: None });
}

/// The latest `client-connect` succeeds and writes these settings.
pub fn writes(pair: &mut Pair, settings: Result<PeerSettings, &str>) {
    let settings = Some(settings.map(Box::new).map_err(str::to_owned));
    reports(pair, "client-connect", ScriptOutcome { exit: Ok(0), files: Vec::new(), settings });
}

/// The latest script of that type ends with this outcome.
pub fn reports(pair: &mut Pair, kind: &str, outcome: ScriptOutcome) {
    let id = asked(pair, kind).last().unwrap().id;
    pair.server.handle_reply(pair.now, Reply::ScriptDone { id, outcome });
    pair.exchange();
}

/// The client renews its keys, and so is judged anew.
pub fn renegotiate(pair: &mut Pair) {
    pair.client.handle_command(pair.now, Command::Rekey { peer: adit_core::PeerId::SERVER });
    pair.exchange();
}

/// Whether the server let the client near the tunnel.
pub fn accepted(pair: &Pair) -> bool {
    let near = |event: &Event| {
        matches!(
            event,
            Event::PeerUp { .. } | Event::Data(DataEvent::Peer(PeerOrder::Add(_)) | DataEvent::Install(_))
        )
    };
    pair.server_events.iter().any(near) || pair.client_events.iter().any(|it| matches!(it, Event::Up(_)))
}

/// Why the client has ended.
pub fn end_of(pair: &Pair) -> Option<&str> {
    pair.client_events.iter().find_map(|event| match event {
        Event::Ended(Ended::Failed(why)) => Some(why.as_str()),
        _ => None,
    })
}

/// Whether a report has these words.
pub fn log_says(events: &[Event], words: &str) -> bool {
    events.iter().any(|event| matches!(event, Event::Report(report) if report.text.contains(words)))
}
