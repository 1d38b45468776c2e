//! `auth-user-pass`: username and password from a file, from the configuration, or from the person at the
//! terminal, who also answers the server's questions.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use adit_core::Protocol;
use adit_guard::HelperAccess;
use adit_io::Handle;
use adit_openvpn::params::StaticChallenge;
use adit_openvpn::request::{Challenge, ChallengeResponse, Reply, UserPassword};
use adit_openvpn_config::Secret;
use adit_openvpn_config::{UserAuth, UserPass};
use zeroize::Zeroizing;

use super::management::{PendingQueries, Topic};
use crate::asking::Asking;
use adit_host::configuration;
use adit_host::remarks::Notes;
use adit_host::terminal::{Terminal, Turn, Turns, Waiting};

/// Larger files hold no username and password.
const MAX_FILE: u64 = 16 << 10;

/// The error of a file that holds a username and a password in another encoding, with the command that converts it.
const NO_UTF8: &str = "it is not in UTF-8, as servers read usernames and passwords; where it is in Latin-1, write it anew: \
                       `iconv -f LATIN1 -t UTF-8 FILE`";

/// Where username and password come from.
#[derive(Clone)]
enum Source {
    Terminal,
    /// A file, read by the helper once there is one.
    File(PathBuf, Option<HelperAccess>),
    Text(Secret),
    /// A program at the management socket, which gets a further question in these words.
    Management(Arc<PendingQueries>, String),
    /// The configuration speaks of none.
    Nothing,
}

/// Gets username and password, and answers to the server's challenges, from their configured source.
pub(crate) struct CredentialPrompt {
    source: Source,
    turns: Turns,
    /// The thread that asks, which is done when its turn is over.
    asking: Option<JoinHandle<()>>,
}

impl CredentialPrompt {
    /// The source that the configuration in `file` names. `questions` are asked in place of the terminal.
    pub(crate) fn new(auth: Option<&UserAuth>, file: &Path, questions: Option<Arc<PendingQueries>>) -> Self {
        let source = match auth.map(|auth| &auth.source) {
            None => Source::Nothing,
            Some(UserPass::Prompt) => match questions {
                Some(questions) => {
                    let challenge = auth.and_then(|auth| auth.challenge.as_ref());
                    Source::Management(questions, challenge.map(static_challenge).unwrap_or_default())
                }
                None => Source::Terminal,
            },
            Some(UserPass::File(path)) => Source::File(configuration::find(file, path), None),
            Some(UserPass::Inline(text)) => Source::Text(text.clone()),
        };
        CredentialPrompt { source, turns: Turns::default(), asking: None }
    }

    /// The file that is read, if one is.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        match &self.source {
            Source::File(path, _) => Some(path.clone()),
            _ => None,
        }
    }

    /// From now on the file is read by the helper.
    pub(crate) fn use_helper(&mut self, access: HelperAccess) {
        if let Source::File(_, helper) = &mut self.source {
            *helper = Some(access);
        }
    }

    /// Whether a program is asked, whose password holds the answer to the question of `static-challenge`, too.
    pub(crate) fn is_program(&self) -> bool {
        matches!(self.source, Source::Management(..))
    }

    /// Username and password for the first connection.
    ///
    /// # Errors
    /// The reason why there are none. With [`Asking::Never`], a username and a password that would be asked for are `None`, which
    /// is no error.
    pub(crate) fn first(
        &self,
        asking: &Asking<'_>,
        notes: &mut dyn Notes,
    ) -> Result<Option<UserPassword>, String> {
        if let Source::File(path, _) = &self.source
            && fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o077 != 0)
        {
            let path = path.display();
            notes.warn(&format_args!(
                "{path} holds a password, and others than its owner can read it: chmod 600 {path}"
            ));
        }
        match asking {
            Asking::Now(_, waiting) => self.source.get(None, *waiting).map(Some),
            Asking::Never => self.source.without_asking(),
        }
    }

    /// Asks for username and password, and gives the protocol the answer; the calling thread does not wait.
    pub(crate) fn ask<P: Protocol<Reply = Reply> + 'static>(
        &mut self,
        reason: Option<String>,
        handle: Handle<P>,
    ) {
        let source = self.source.clone();
        let work = move |turn: &Turn| Reply::Credentials(source.get(reason, turn));
        self.post(handle, Reply::Credentials, work);
    }

    /// Asks a question of the server's, in the same way.
    pub(crate) fn answer<P: Protocol<Reply = Reply> + 'static>(
        &mut self,
        challenge: &Challenge,
        handle: Handle<P>,
    ) {
        let Challenge { id, text, echo } = challenge.clone();
        let respond = move |answer| Reply::ChallengeResponse(ChallengeResponse { id, answer });
        let work = move |turn: &Turn| {
            let question = format!("{} ", printable(&text));
            let answer = Terminal::open().and_then(|mut terminal| terminal.ask(&question, echo, turn));
            respond(answer)
        };
        self.post(handle, move |failed| respond(failed.map(|_| Zeroizing::default())), work);
    }

    /// Does the work on a thread, once the one before it is done, and gives what comes of it to the protocol
    /// unless it is no longer needed.
    fn post<P: Protocol<Reply = Reply> + 'static>(
        &mut self,
        handle: Handle<P>,
        failed: impl FnOnce(Result<UserPassword, String>) -> Reply,
        work: impl FnOnce(&Turn) -> Reply + Send + 'static,
    ) {
        let (turn, before, giver) = (self.turns.next(), self.asking.take(), handle.clone());
        let thread = thread::Builder::new().name("adit-ask".to_owned()).spawn(move || {
            if let Some(before) = before {
                let _ = before.join();
            }
            let reply = work(&turn);
            if !turn.is_over() {
                giver.reply(reply);
            }
        });
        match thread {
            Ok(thread) => self.asking = Some(thread),
            Err(error) => {
                handle.reply(failed(Err(format!("cannot start a thread: {error}"))));
            }
        }
    }
}

impl Drop for CredentialPrompt {
    /// The terminal is left as it was found.
    fn drop(&mut self) {
        self.turns.next();
        if let Some(asking) = self.asking.take() {
            let _ = asking.join();
        }
    }
}

impl Source {
    fn get(&self, reason: Option<String>, waiting: &dyn Waiting) -> Result<UserPassword, String> {
        match (self, reason) {
            (Source::File(path, helper), None) => from_file(path, helper.as_ref(), waiting),
            // The file may have changed meanwhile.
            (Source::File(path, helper), Some(_)) if !Terminal::is_there() => {
                from_file(path, helper.as_ref(), waiting)
            }
            (Source::Text(text), None) => complete(text.text(), waiting),
            // The reason why the last ones did not do was reported when the server sent it
            // (`Request::AuthFailed`).
            (Source::Management(questions, challenge), _) => {
                let UserPassword { username, password } = questions.ask(Topic::Auth, challenge, waiting)?;
                checked(username, password)
            }
            (_, reason) => {
                let mut terminal = Terminal::open()?;
                if let Some(reason) = reason {
                    terminal.say(&format!("{}\n", printable(&reason)))?;
                }
                let username = terminal.ask("Username: ", true, waiting)?.to_string();
                let password = terminal.ask("Password: ", false, waiting)?;
                checked(username, password)
            }
        }
    }
}

impl Source {
    /// Username and password, if the configuration or the file that it names holds both.
    fn without_asking(&self) -> Result<Option<UserPassword>, String> {
        let of = |text: &str| match text.lines().nth(1) {
            Some(_) => complete(text, &Turns::default().next()).map(Some),
            None => Ok(None),
        };
        match self {
            Source::File(path, _) => {
                of(&text_of(path, None)?).map_err(|why| format!("{}: {why}", path.display()))
            }
            Source::Text(text) => of(text.text()),
            Source::Terminal | Source::Management(..) | Source::Nothing => Ok(None),
        }
    }
}

/// The question as the management protocol tells it: the first bit says that the answer may be seen, the second that
/// it is put behind the password as it is.
fn static_challenge(challenge: &StaticChallenge) -> String {
    let flags = u8::from(challenge.echo) | (u8::from(challenge.concat) << 1);
    format!("SC:{flags},{}", challenge.text)
}

/// A server's text, without characters that a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn from_file(
    path: &Path,
    helper: Option<&HelperAccess>,
    waiting: &dyn Waiting,
) -> Result<UserPassword, String> {
    let text = text_of(path, helper)?;
    complete(&text, waiting).map_err(|why| format!("{}: {why}", path.display()))
}

fn text_of(path: &Path, helper: Option<&HelperAccess>) -> Result<Zeroizing<String>, String> {
    let unreadable = |error: io::Error| format!("{} cannot be read: {error}", path.display());
    let text = match helper {
        Some(helper) => helper.files().and_then(|files| files.user_password()).map_err(unreadable)?,
        None if fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE => {
            return Err(format!("{} is too large for a username and a password", path.display()));
        }
        None => fs::read(path).map(Zeroizing::new).map_err(unreadable)?,
    };
    let no_utf8 = |_| unreadable(io::Error::other(NO_UTF8));
    let text = std::str::from_utf8(&text).map_err(no_utf8)?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Username and password from the first two lines; the password is asked for if there is none.
fn complete(text: &str, waiting: &dyn Waiting) -> Result<UserPassword, String> {
    let mut lines = text.lines();
    let username = lines.next().unwrap_or_default().to_owned();
    let password = match lines.next() {
        Some(password) => Zeroizing::new(password.to_owned()),
        None => {
            let mut terminal = Terminal::open()
                .map_err(|why| format!("the password is missing: write it on the second line ({why})"))?;
            terminal.ask(&format!("Password of {username}: "), false, waiting)?
        }
    };
    checked(username, password)
}

/// Removes control characters, such as tabs, from username and password (OpenVPN's misc.c, `get_user_pass_cr`: `string_mod` with
/// `CC_PRINT`), and refuses an empty username.
fn checked(mut username: String, mut password: Zeroizing<String>) -> Result<UserPassword, String> {
    username.retain(|c| !c.is_ascii_control());
    password.retain(|c| !c.is_ascii_control());
    if username.is_empty() {
        return Err("the username is empty: write it on the first line".to_owned());
    }
    Ok(UserPassword { username, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lines() {
        let turn = Turns::default().next();
        let read = |text| complete(text, &turn).map(|it| (it.username, it.password.to_string()));
        let wanted = ("ann".to_owned(), " p w ".to_owned());
        assert_eq!(read("ann\n p w \nmore\n"), Ok(wanted.clone()));
        assert_eq!(read("ann\r\n p w \r\n"), Ok(wanted.clone()));
        assert!(read("\nx\n").unwrap_err().contains("empty"));
        assert_eq!(read("\tan\tn\n\t p\t w \n"), Ok(wanted), "as OpenVPN 2.6");
    }

    #[test]
    fn a_file_in_another_encoding_is_refused_with_what_to_do() {
        let path = std::env::temp_dir().join(format!("adit-latin1-{}", std::process::id()));
        fs::write(&path, b"ann\nsecr\xe4t\n").unwrap();
        let turn = Turns::default().next();
        let outcome = from_file(&path, None, &turn).map(|it| it.username);
        fs::remove_file(&path).unwrap();
        let why = outcome.unwrap_err();
        assert!(why.contains(&path.display().to_string()) && why.contains("iconv"), "{why}");
    }

    #[test]
    fn a_question_goes_with_the_password() {
        let of =
            |echo, concat| static_challenge(&StaticChallenge { text: "Token PIN?".to_owned(), echo, concat });
        assert_eq!(of(true, false), "SC:1,Token PIN?");
        assert_eq!(of(false, true), "SC:2,Token PIN?");
    }

    #[test]
    fn a_server_does_not_steer_the_terminal() {
        assert_eq!(printable("PIN\u{1b}[2J\r\n of\u{7} ann?"), "PIN[2J of ann?");
    }
}
