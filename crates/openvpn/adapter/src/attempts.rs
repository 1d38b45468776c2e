//! The attempts of a client to connect: the order of its servers, and the questions before and during an attempt.

use std::time::Duration;

use adit_openvpn::params::ClientParams;
use adit_openvpn_config::{ClientConfig, Config, Parsed, Role};
use rand_core::{OsRng, TryRngCore as _};

use adit_host::failure::{Failure, no_randomness};
use adit_host::terminal::Terminal;

/// The requests that a server may send to the person at the terminal, by OpenVPN's names: to open a page, to answer a question.
const QUESTIONS: &str = "webauth,openurl,crtext";

/// How long names that do not exist are looked for. A misspelt one shall not go unnoticed for ever, unless the file
/// says so.
pub(crate) fn resolve_timeout(parsed: &Parsed) -> Option<Duration> {
    let mentioned = parsed.report.iter().any(|entry| entry.directive == "resolv-retry");
    match &parsed.config.role {
        Role::Client(client) if mentioned => client.resolve_retry,
        _ => Some(Duration::ZERO),
    }
}

/// Tells the server what it may ask of the person at the terminal.
pub(crate) fn say_what_can_be_asked(client: &ClientConfig, params: &mut ClientParams) {
    let says = params.peer_info.iter().any(|(name, _)| name == "IV_SSO");
    if client.pull && Terminal::is_there() && !says {
        params.peer_info.push(("IV_SSO".to_owned(), QUESTIONS.to_owned()));
    }
}

/// Has the client ask at the management socket, if there is one, before it connects, and for what a proxy wants to know, if the
/// configuration leaves that open ([`super::proxies::ask_later`]).
pub(crate) fn ask_before_attempts((config, asks_later): (&Config, bool), params: &mut ClientParams) {
    params.asks_for_proxy_credentials = asks_later;
    let Some(management) = &config.process.management else { return };
    params.asks_to_go_on = true;
    params.asks_for_remote = management.query_remote || management.query_proxy;
}

/// `remote-random`: the servers in any order (Fisher–Yates).
pub(crate) fn shuffle(config: &mut Config) -> Result<(), Failure> {
    let Role::Client(client) = &mut config.role else { return Ok(()) };
    if client.remote_random {
        for last in (1..client.remotes.len()).rev() {
            let random = OsRng.try_next_u64().map_err(no_randomness)?;
            // The bias of the remainder is below 2^-50 for any number of remotes.
            let chosen = random % (last as u64 + 1);
            client.remotes.swap(last, usize::try_from(chosen).unwrap_or(last));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// A client's file with these lines besides.
    pub(crate) fn config(lines: &str) -> Config {
        let file = format!(
            "client\nremote a\nremote b\nremote c\nauth-user-pass\n{lines}\
             <ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n"
        );
        let none = |_: &Path| Err("no such file".to_owned());
        let parsed = adit_openvpn_config::parse("test.conf", file.as_bytes(), &none);
        parsed.expect("a good file").config
    }

    fn remotes(lines: &str) -> Vec<String> {
        let mut config = config(lines);
        assert!(shuffle(&mut config).is_ok());
        let Role::Client(client) = config.role else { return Vec::new() };
        client.remotes.into_iter().map(|remote| remote.host).collect()
    }

    #[test]
    fn remote_random_gives_every_order() {
        assert_eq!(remotes(""), ["a", "b", "c"]);
        // One of the six is missing once in 10^15 times.
        let orders: BTreeSet<Vec<String>> = (0..200).map(|_| remotes("remote-random\n")).collect();
        assert_eq!(orders.len(), 6, "{orders:?}");
    }
}
