//! Usernames and passwords for the proxies by which a client reaches its servers: from files, or from the person at the
//! terminal or the program at the management socket, before the first request to a proxy or when that asks.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use adit_core::Protocol;
use adit_guard::HelperAccess;
use adit_io::{Handle, HttpProxy, Proxy, ProxyCredentials};
use adit_openvpn::request::{Reply, UserPassword};
use adit_openvpn_config::Secret;
use adit_openvpn_config::{
    self as file, ClientConfig, Config, HttpAuthentication, ProxyKind, Role, UserPass,
};
use zeroize::Zeroizing;

use super::management::{PendingQueries, Topic};
use adit_host::configuration;
use adit_host::terminal::{Terminal, Turns, Waiting};

/// Larger files hold no username and password.
const MAX_FILE: u64 = 16 << 10;

/// A directive, and what is wrong with what it names.
pub(crate) type Fault = (&'static str, String);

/// Puts the content of the files that proxies name in place of their names. Credentials that are asked for
/// stay so.
///
/// # Errors
/// When a file cannot be read, or does not hold both.
pub(crate) fn read_files(config: &mut Config, file: &Path) -> Result<(), Fault> {
    each(config, |proxy| {
        let Some(UserPass::File(path)) = &proxy.credentials else { return Ok(()) };
        let text = read(&configuration::find(file, path))?;
        credentials(&text).map_err(|why| format!("{}: {why}", path.display()))?;
        proxy.credentials = Some(UserPass::Inline(Secret::new(&text)));
        Ok(())
    })
}

/// Asks for those that are used with the first request to a proxy (`stdin`).
///
/// # Errors
/// When no one can be asked.
pub(crate) fn ask(
    config: &mut Config,
    questions: Option<&PendingQueries>,
    waiting: &dyn Waiting,
) -> Result<(), Fault> {
    ask_by(config, |topic, host| {
        let text = ask_person(topic, host, questions, waiting)?;
        Ok(Secret::new(&text))
    })
}

/// Asks once for each proxy, however many servers are reached by it.
fn ask_by(
    config: &mut Config,
    mut ask: impl FnMut(Topic, &str) -> Result<Secret, String>,
) -> Result<(), Fault> {
    let mut known: Vec<(String, u16, Secret)> = Vec::new();
    each(config, |proxy| {
        let at_once = match &proxy.kind {
            ProxyKind::Http(http) => http.authentication == HttpAuthentication::Basic,
            ProxyKind::Socks => true,
        };
        if !at_once || proxy.credentials != Some(UserPass::Prompt) {
            return Ok(());
        }
        let topic = topic(&proxy.kind);
        let same = known.iter().find(|(host, port, _)| *host == proxy.host && *port == proxy.port);
        let text = match same {
            Some((_, _, text)) => text.clone(),
            None => ask(topic, &proxy.host)?,
        };
        known.push((proxy.host.clone(), proxy.port, text.clone()));
        proxy.credentials = Some(UserPass::Inline(text));
        Ok(())
    })
}

/// The topic of questions about a proxy of that kind.
fn topic(kind: &ProxyKind) -> Topic {
    match kind {
        ProxyKind::Http(_) => Topic::HttpProxy,
        ProxyKind::Socks => Topic::SocksProxy,
    }
}

/// Asks for the username and the password; gives them in two lines.
fn ask_person(
    topic: Topic,
    host: &str,
    questions: Option<&PendingQueries>,
    waiting: &dyn Waiting,
) -> Result<Zeroizing<String>, String> {
    match questions {
        Some(questions) => {
            let UserPassword { username, password } = questions.ask(topic, "", waiting)?;
            in_lines(&username, &password)
        }
        None => {
            let mut terminal = Terminal::open()?;
            let username = terminal.ask(&format!("Username for the proxy {host}: "), true, waiting)?;
            let password = terminal.ask(&format!("Password for the proxy {host}: "), false, waiting)?;
            in_lines(&username, &password)
        }
    }
}

/// The username and the password in two lines, as [`credentials`] reads them.
///
/// # Errors
/// When one of them is no such line.
fn in_lines(username: &str, password: &str) -> Result<Zeroizing<String>, String> {
    check(username, password)?;
    // The buffer has its full size at once: one that grows would leave copies of the password in memory.
    let mut text = Zeroizing::new(String::with_capacity(username.len() + password.len() + 2));
    for line in [username, password] {
        text.push_str(line);
        text.push('\n');
    }
    Ok(text)
}

/// Whether a proxy may want to know who we are when it is asked to connect. Of a configuration before [`ask`], as the answer to
/// that may be wrong.
pub(crate) fn ask_later(config: &Config) -> bool {
    let Role::Client(client) = &config.role else { return false };
    let named = config.process.management.as_ref().is_some_and(|management| management.query_proxy);
    let may_ask = |proxy: &file::Proxy| match (&proxy.kind, &proxy.credentials) {
        (ProxyKind::Http(http), None | Some(UserPass::Prompt)) => {
            http.authentication != HttpAuthentication::None
        }
        (ProxyKind::Socks, None | Some(UserPass::Prompt)) => true,
        (_, Some(UserPass::File(_) | UserPass::Inline(_))) => false,
    };
    named || client.remotes.iter().filter_map(|remote| remote.proxy.as_ref()).any(may_ask)
}

/// Asks for the username and the password of a proxy that wants them, and tells the helper, which connects.
pub(crate) struct ProxyPrompt {
    /// The topics of questions about the proxy of each remote of the file.
    topics: Vec<Topic>,
    questions: Option<Arc<PendingQueries>>,
    helper: Option<HelperAccess>,
    turns: Turns,
    /// The thread that asks, which is done when its turn is over.
    asking: Option<JoinHandle<()>>,
}

impl ProxyPrompt {
    /// For the remotes of a client. `questions` are asked in place of the terminal.
    pub(crate) fn new(client: &ClientConfig, questions: Option<Arc<PendingQueries>>) -> Self {
        let topics = topics(client);
        ProxyPrompt { topics, questions, helper: None, turns: Turns::default(), asking: None }
    }

    /// The topic of questions about the proxy of that remote: the one that a program has named, or that of
    /// the file.
    fn topic(&self, remote: usize) -> Topic {
        let named = self.questions.as_ref().and_then(|questions| questions.named_proxy(remote));
        named.or_else(|| self.topics.get(remote).cloned()).unwrap_or(Topic::HttpProxy)
    }

    /// From now on the helper connects.
    pub(crate) fn use_helper(&mut self, access: HelperAccess) {
        self.helper = Some(access);
    }

    /// The last question needs no answer any more: neither the terminal nor the management client is asked further.
    pub(crate) fn withdraw(&self) {
        self.turns.next();
    }

    /// Asks for those of the proxy of that remote, which may have refused others; the calling thread does not wait.
    pub(crate) fn ask<P>(&mut self, (remote, refused): (usize, bool), handle: Handle<P>)
    where
        P: Protocol<Reply = Reply> + 'static,
    {
        let (turn, before) = (self.turns.next(), self.asking.take());
        let topic = self.topic(remote);
        let (questions, helper, giver) = (self.questions.clone(), self.helper.clone(), handle.clone());
        let thread = thread::Builder::new().name("adit-proxy".to_owned()).spawn(move || {
            if let Some(before) = before {
                let _ = before.join();
            }
            let questions = questions.as_deref();
            if let Some(questions) = questions.filter(|_| refused) {
                questions.was_wrong(topic.clone(), "");
            }
            let given = ask_person(topic, "by which the server is reached", questions, &turn);
            let answer = given.and_then(|text| tell_helper(helper.as_ref(), remote, &text));
            if !turn.is_over() {
                giver.reply(Reply::ProxyCredentials(answer));
            }
        });
        match thread {
            Ok(thread) => self.asking = Some(thread),
            Err(error) => {
                handle.reply(Reply::ProxyCredentials(Err(format!("cannot start a thread: {error}"))));
            }
        }
    }
}

impl Drop for ProxyPrompt {
    /// The terminal is left as it was found.
    fn drop(&mut self) {
        self.turns.next();
        if let Some(asking) = self.asking.take() {
            let _ = asking.join();
        }
    }
}

/// The topics of questions about the proxy of each remote. Without a proxy in the file, a program names one.
fn topics(client: &ClientConfig) -> Vec<Topic> {
    let kinds = client.remotes.iter().map(|remote| remote.proxy.as_ref().map(|proxy| &proxy.kind));
    kinds.map(|kind| kind.map_or(Topic::HttpProxy, topic)).collect()
}

fn tell_helper(helper: Option<&HelperAccess>, remote: usize, text: &str) -> Result<(), String> {
    let helper = helper.ok_or("there is no helper process that connects")?;
    let known = credentials(text)?;
    let told = helper.files().and_then(|files| files.proxy_credentials(remote, known));
    told.map_err(|error| format!("the helper process does not take them: {error}"))
}

/// Does that with each proxy of a client.
fn each(
    config: &mut Config,
    mut act: impl FnMut(&mut file::Proxy) -> Result<(), String>,
) -> Result<(), Fault> {
    let Role::Client(client) = &mut config.role else { return Ok(()) };
    for proxy in client.remotes.iter_mut().filter_map(|remote| remote.proxy.as_mut()) {
        let directive = match proxy.kind {
            ProxyKind::Http(_) => "http-proxy",
            ProxyKind::Socks => "socks-proxy",
        };
        act(proxy).map_err(|why| (directive, why))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Zeroizing<String>, String> {
    let unreadable = |why: &dyn std::fmt::Display| format!("{} cannot be read: {why}", path.display());
    let length = fs::metadata(path).map_err(|error| unreadable(&error))?.len();
    if length > MAX_FILE {
        return Err(format!("{} is too large for a username and a password", path.display()));
    }
    let text = fs::read(path).map(Zeroizing::new).map_err(|error| unreadable(&error))?;
    let text = std::str::from_utf8(&text).map_err(|_| unreadable(&"it is no UTF-8 text"))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Username and password from the first two lines, which end with LF or CR LF; the last may end with the text.
fn credentials(text: &str) -> Result<ProxyCredentials, String> {
    let mut lines = text.lines().map(|line| line.strip_suffix('\r').unwrap_or(line));
    let (username, password) = (lines.next().unwrap_or_default(), lines.next());
    let password = password.ok_or("the password is missing: write it on the second line")?;
    check(username, password)?;
    Ok(ProxyCredentials { username: username.to_owned(), password: password.to_owned() })
}

/// Whether a proxy can be given these.
fn check(username: &str, password: &str) -> Result<(), String> {
    // A colon ends the username of Basic authentication (RFC 7617 §2).
    if username.is_empty() || username.contains(|c: char| c.is_control() || c == ':') {
        return Err("the username is empty, or has control characters or a colon".to_owned());
    }
    if password.contains(char::is_control) {
        return Err("the password has control characters".to_owned());
    }
    Ok(())
}

/// A proxy as the driver takes it, with the credentials that are known.
pub(crate) fn proxy(proxy: &file::Proxy) -> Proxy {
    let known = match &proxy.credentials {
        Some(UserPass::Inline(text)) => credentials(text.text()).ok(),
        Some(UserPass::File(_) | UserPass::Prompt) | None => None,
    };
    let kind = match &proxy.kind {
        ProxyKind::Socks => adit_io::ProxyKind::Socks,
        ProxyKind::Http(http) => adit_io::ProxyKind::Http(HttpProxy {
            authentication: match http.authentication {
                HttpAuthentication::None => adit_io::HttpAuthentication::None,
                HttpAuthentication::Basic => adit_io::HttpAuthentication::Basic,
                HttpAuthentication::Digest => adit_io::HttpAuthentication::Digest,
                HttpAuthentication::Any => adit_io::HttpAuthentication::Any,
            },
            version: http.version.clone(),
            headers: http.headers.clone(),
        }),
    };
    Proxy { host: proxy.host.clone(), port: proxy.port, kind, credentials: known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_two_lines() {
        let read = |text| credentials(text).map(|it| (it.username.clone(), it.password.clone()));
        let wanted = ("ann".to_owned(), " p:w ".to_owned());
        assert_eq!(read("ann\n p:w \nmore\n"), Ok(wanted.clone()));
        assert_eq!(read("ann\r\n p:w \r\n"), Ok(wanted.clone()));
        assert_eq!(read("ann\r\n p:w \r"), Ok(wanted));
        assert!(read("ann\n").unwrap_err().contains("second line"));
        assert!(read("\nx\n").is_err() && read("a:b\nx\n").is_err() && read("ann\nx\ty\n").is_err());
    }

    #[test]
    fn answers_are_lines_of_their_own() {
        let text = in_lines("ann", " p:w ").expect("good answers");
        assert_eq!(text.as_str(), "ann\n p:w \n");
        assert_eq!(credentials(&text).map(|it| it.password.clone()), Ok(" p:w ".to_owned()));
        for (username, password) in
            [("", "x"), ("a\nb", "x"), ("ann\r", "x"), ("ann", "x\ny"), ("ann", "x\r")]
        {
            assert!(in_lines(username, password).is_err(), "{username:?} {password:?}");
        }
    }

    #[test]
    fn proxies_without_a_file_may_ask() {
        for (lines, asks, wanted) in [
            ("socks-proxy 192.0.2.1 1080\n", true, Topic::SocksProxy),
            ("socks-proxy 192.0.2.1 1080 stdin\n", true, Topic::SocksProxy),
            ("proto tcp-client\nhttp-proxy 192.0.2.1 3128 stdin basic\n", true, Topic::HttpProxy),
            ("", false, Topic::HttpProxy),
        ] {
            let mut config = crate::attempts::tests::config(lines);
            assert_eq!(ask_later(&config), asks, "{lines}");
            let Role::Client(client) = &config.role else { panic!("a client") };
            assert_eq!(topics(client), [wanted.clone(), wanted.clone(), wanted], "{lines}");
            // An answer takes the place of the question, and may be wrong.
            let learnt = ask_by(&mut config, |_, _| Ok(Secret::new("ann\nx\n")));
            assert_eq!((learnt, ask_later(&config)), (Ok(()), asks && !lines.contains("stdin")), "{lines}");
        }
    }

    #[test]
    fn a_proxy_of_several_servers_is_asked_about_once() {
        let mut config = crate::attempts::tests::config("socks-proxy 192.0.2.1 1080 stdin\n");
        let mut asked = Vec::new();
        let answer = ask_by(&mut config, |_, host| {
            asked.push(host.to_owned());
            Ok(Secret::new("ann\nx\n"))
        });
        assert_eq!((answer, asked), (Ok(()), vec!["192.0.2.1".to_owned()]));
        let Role::Client(client) = &config.role else { panic!("a client") };
        let known = client.remotes.iter().filter_map(|remote| remote.proxy.as_ref()).map(proxy);
        assert!(known.clone().all(|proxy| proxy.credentials.is_some()));
        assert_eq!(known.count(), 3);
    }
}
