//! Judges a username and a password by PAM: `adit-pam SERVICE [QUESTION ANSWER]... FILE`.
#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::sync::Arc;

use adit_auth::login::Login;
use adit_auth::pam::{self, Echo, Service};
use adit_auth::verdict::{self, Refusal};
use nonstick::conv::Exchange;
use nonstick::items::ItemsMut as _;
use nonstick::{AuthnFlags, Conversation, ErrorCode, PamShared as _, Transaction as _, TransactionBuilder};

fn main() -> ExitCode {
    verdict::run("adit-pam", judge)
}

fn judge(arguments: &[String], login: &Login) -> Result<(), Refusal> {
    let service = Service::from_arguments(arguments).map_err(Refusal::failed)?;
    let answers = pam::Conversation::new(service.answers.clone(), login.clone())
        .ok_or_else(|| Refusal::Refused("it gave an empty password".to_owned()))?;
    let answers = Arc::new(answers);
    authenticate(&service, login, Arc::clone(&answers))
        .map_err(|code| Refusal::Refused(format!("PAM service {}: {code}", service.name)))?;
    if answers.is_proven() {
        return Ok(());
    }
    Err(Refusal::Refused(format!(
        "it gave an empty password, and PAM service {} did not ask for its one-time password",
        service.name
    )))
}

/// As OpenVPN's plugin: where there are pairs, a module asks for the username; after the password, the account is checked.
fn authenticate(service: &Service, login: &Login, answers: Arc<pam::Conversation>) -> nonstick::Result<()> {
    let mut builder = TransactionBuilder::new_with_service(&service.name);
    if service.answers.is_empty() {
        builder = builder.username(&login.username);
    }
    let mut transaction = builder.build(Answers(answers))?;
    if !login.remote.is_empty() {
        transaction.items_mut().set_remote_host(Some(OsStr::new(&login.remote)))?;
    }
    transaction.authenticate(AuthnFlags::empty())?;
    transaction.account_management(AuthnFlags::empty())
}

/// The conversation, for libpam.
struct Answers(Arc<pam::Conversation>);

impl Answers {
    fn answer(&self, question: &OsStr, echo: Echo) -> nonstick::Result<OsString> {
        let answer = self.0.answer(&question.to_string_lossy(), echo);
        answer.map(|answer| OsString::from(answer.as_str())).ok_or(ErrorCode::ConversationError)
    }
}

impl Conversation for Answers {
    fn communicate(&self, messages: &[Exchange<'_>]) {
        for message in messages {
            match message {
                Exchange::Prompt(prompt) => prompt.set_answer(self.answer(prompt.question(), Echo::On)),
                Exchange::MaskedPrompt(prompt) => {
                    prompt.set_answer(self.answer(prompt.question(), Echo::Off))
                }
                // There is no person to show the messages of modules to.
                Exchange::Info(info) => info.set_answer(Ok(())),
                Exchange::Error(error) => error.set_answer(Ok(())),
                other => other.set_error(ErrorCode::ConversationError),
            }
        }
    }
}
