//! The questions that a client is asked while `auth-user-pass-verify` has put its answer off, and the judges
//! of its answers.

use std::time::Duration;

use adit_core::Instant;
use zeroize::Zeroizing;

use super::{AuthResult, Authentication, Kind, printable, refused};
use crate::request::{Event, ScriptFile, ScriptOutcome};

/// Answers of one client that are checked in one authentication: a client must not be able to try all codes.
pub(super) const MAX_RESPONSES: u32 = 3;

impl Authentication {
    /// The script will answer later; the client is sent the task that it has meanwhile (`auth_pending_file`: seconds,
    /// method, text).
    pub(super) fn put_off(
        &mut self,
        now: Instant,
        outcome: &ScriptOutcome,
        events: &mut impl Extend<Event>,
    ) -> AuthResult {
        let pending =
            String::from_utf8_lossy(outcome.files.get(1).map_or(&[][..], Vec::as_slice)).into_owned();
        let mut lines = pending.lines();
        let (Some(seconds), Some(method), Some(text)) = (lines.next(), lines.next(), lines.next()) else {
            return AuthResult::Pending(Vec::new());
        };
        let offered = self.sso.split(',').any(|known| known == method);
        let Some(seconds) = seconds.trim().parse::<u32>().ok().filter(|_| offered) else {
            self.forget(events);
            let reason =
                format!("its client cannot authenticate itself by {method}, as auth-user-pass-verify wants");
            return refused("", reason);
        };
        self.wait_until(now + Duration::from_secs(seconds.into()));
        self.put_off = true;
        let pending = self.pending(seconds.into());
        AuthResult::Pending(vec![pending, format!("INFO_PRE,{}", printable(text.as_bytes()))])
    }

    /// Tells the client that it takes longer: so many seconds at most.
    pub(super) fn pending(&self, seconds: u64) -> String {
        if self.can_wait { format!("AUTH_PENDING,timeout {seconds}") } else { "AUTH_PENDING".to_owned() }
    }

    /// The client answers a question (`CR_RESPONSE`); the answer goes to all judges that could have asked it. An error
    /// says why it is not checked.
    pub(in crate::server) fn respond(
        &mut self,
        response: &str,
        events: &mut impl Extend<Event>,
    ) -> Result<(), String> {
        let passed = self.params.access.management.then(|| self.pass_on(response, events));
        let heard = match passed {
            None => self.judge_response(response, events),
            Some(passed) if self.params.access.client_crresponse.is_none() => passed,
            Some(passed) => self.judge_response(response, events).or(passed),
        };
        self.responses += u32::from(heard.is_ok());
        heard
    }

    /// `client-crresponse` judges it, and may give the answer that the other script put off.
    fn judge_response(&mut self, response: &str, events: &mut impl Extend<Event>) -> Result<(), String> {
        let Some(argv) = self.params.access.client_crresponse.clone() else {
            return Err("client-crresponse names no script".to_owned());
        };
        let waits = self.checks.iter().find(|check| check.kind == Kind::Password && check.deferred);
        let Some(waits) = waits.map(|check| check.script) else {
            return Err("nothing was asked".to_owned());
        };
        if self.checks.iter().any(|check| check.kind == Kind::Response) {
            return Err("the one before is still being judged".to_owned());
        }
        if self.responses >= MAX_RESPONSES {
            return Err(format!("it answered {MAX_RESPONSES} times already"));
        }
        let content = Zeroizing::new(response.as_bytes().to_vec());
        let file = ScriptFile { content, is_argument: true, variable: None };
        let env = self.told.clone().finish("client-crresponse");
        let mut script = self.script(argv, env, vec![file], false);
        script.beside = Some(waits);
        self.start(script, Kind::Response, events);
        Ok(())
    }
}
