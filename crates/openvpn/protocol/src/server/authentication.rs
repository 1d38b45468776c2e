//! Whether a client is let in: by its username and password or token, and by the scripts that judge it.
//!
//! Every check of a key exchange must succeed before the client is authenticated; one that fails decides at once.

mod challenge;
mod management;
mod override_username;
mod scripts;
mod token;

use std::net::IpAddr;
use std::sync::Arc;

use adit_core::{Instant, Path};
use rustls::pki_types::CertificateDer;

use self::management::ManagementAuth;
pub(super) use self::scripts::{deferred_result, is_fault};
use crate::access::AccessParams;
use crate::auth_token::{Login, Verified};
use crate::environment::Environment;
use crate::key_method::KeyMethod2;
use crate::negotiate::{PeerAbilities, iv_proto};
use crate::params::ServerParams;
use crate::peer_info::PeerVariables;
use crate::request::{Event, Request, ScriptId};

/// The facts of a client by which it is judged.
pub(super) struct AuthRequest<'a> {
    pub(super) now: Instant,
    pub(super) path: Path,
    pub(super) hello: &'a KeyMethod2,
    /// The username that it gives, or the one that its session has in place of that ([`Authentication::username_for`]).
    pub(super) user: &'a str,
    /// The name that its certificate proves.
    pub(super) certified: Option<&'a str>,
    /// The certificates it showed, its own first; where scripts or the management client are asked, completed up to a root.
    pub(super) chain: &'a [CertificateDer<'a>],
}

impl AuthRequest<'_> {
    /// The username that is judged. It is empty on a server that judges no passwords, where the client could give any,
    /// and, as in OpenVPN (`key_method_2_read`), without a password: the judge that lets such a client in has judged no
    /// name.
    fn username(&self, access: &AccessParams) -> &str {
        let is_judged = access.wants_password() && !self.hello.password.is_empty();
        if is_judged { self.user } else { "" }
    }
}

/// The result of an authentication request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AuthResult {
    /// No decision yet; the client is sent these messages.
    Pending(Vec<String>),
    /// The client has proved its name.
    Passed,
    /// The client is not let in: words for the client, and for the log.
    Refused { told: String, reason: String },
    /// A script or another judge has a fault, or has not answered in time, for this reason. The client may come again.
    Failed { reason: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Password,
    /// `plugin`.
    BackEnd,
    Certificate,
    /// `client-crresponse`.
    Response,
}

/// A script that has not answered yet.
struct Check {
    script: ScriptId,
    kind: Kind,
    /// The script put its answer off.
    deferred: bool,
}

/// Judges one client, at its first key exchange and at each later one.
pub(super) struct Authentication {
    params: Arc<ServerParams>,
    owner: u64,
    next: u32,
    checks: Vec<Check>,
    deadline: Option<Instant>,
    /// The deadline of an earlier key exchange of a client that never passed: later ones do not put it off.
    latest: Option<Instant>,
    /// Where the client is.
    source: Option<IpAddr>,
    open: bool,
    /// The username that is being judged, and then the one that was found true. Empty where nothing judges it.
    username: String,
    username_is_fixed: bool,
    /// The username that the client gave, where its session has another (`override-username`).
    replaced: Option<String>,
    /// Only the client itself can give the username, as its token holds none.
    nameless: bool,
    token: Option<Login>,
    fresh_login: [u8; 12],
    can_wait: bool,
    knows_temporary: bool,
    sso: String,
    /// The facts of the client that is being judged, for scripts.
    told: Environment,
    /// How often the client answered a question in this authentication.
    responses: u32,
    management: ManagementAuth,
    /// The client was sent a task, and has to wait.
    put_off: bool,
}

impl Authentication {
    /// `owner` is used for no other client. `fresh_login` is random.
    pub(super) fn new(params: Arc<ServerParams>, owner: u64, fresh_login: [u8; 12]) -> Self {
        Authentication {
            params,
            owner,
            next: 0,
            checks: Vec::new(),
            deadline: None,
            latest: None,
            source: None,
            open: false,
            username: String::new(),
            username_is_fixed: false,
            replaced: None,
            nameless: false,
            token: None,
            fresh_login,
            can_wait: false,
            knows_temporary: false,
            sso: String::new(),
            told: Environment::default(),
            responses: 0,
            management: ManagementAuth::default(),
            put_off: false,
        }
    }

    pub(super) fn params(&self) -> &Arc<ServerParams> {
        &self.params
    }

    pub(super) fn set_params(&mut self, params: Arc<ServerParams>) {
        self.params = params;
    }

    pub(super) fn owner(&self) -> u64 {
        self.owner
    }

    /// The client passed once; later exchanges are judged while the tunnel stands.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// The authenticating script or management client deferred its answer, to wait for the user.
    pub(super) fn is_put_off(&self) -> bool {
        self.put_off
    }

    /// The username that was found true; empty if there is none.
    pub(super) fn username(&self) -> &str {
        if self.open { &self.username } else { "" }
    }

    pub(super) fn next_script(&mut self) -> ScriptId {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        ScriptId { owner: self.owner, number }
    }

    /// Judges a client by its message in a key exchange.
    pub(super) fn judge(&mut self, request: &AuthRequest<'_>, events: &mut impl Extend<Event>) -> AuthResult {
        if !self.open {
            self.latest = self.latest.or(self.deadline);
        }
        self.forget(events);
        self.management.begin(request.now, self.open);
        self.source = Some(request.path.remote().ip());
        let hello = request.hello;
        if request.certified.is_none() && !request.chain.is_empty() {
            let reason = "its certificate has no common name (CN, or what x509-username-field names instead), by which \
                          clients are told apart"
                .to_owned();
            return refused("", reason);
        }
        let abilities = PeerAbilities::parse(&hello.peer_info);
        self.can_wait = abilities.has(iv_proto::AUTH_PENDING_KW);
        self.knows_temporary = abilities.has(iv_proto::AUTH_FAIL_TEMP);
        self.sso = PeerVariables::parse(&hello.peer_info).get("IV_SSO").unwrap_or_default().to_owned();
        let token = self.shown_token(request);
        // A token without a name speaks for a client without a name, whatever name it is given (`auth-token-user`).
        let is_ours =
            self.username.is_empty() && matches!(token, Some(Some(Verified { nameless: true, .. })));
        let username = request.username(&self.params.access);
        if self.username_is_fixed && self.username != username && !self.nameless && !is_ours {
            let reason = format!("it was {} and now says to be {username}", self.username);
            return refused("", reason);
        }
        if !self.username_is_fixed {
            username.clone_into(&mut self.username);
        }
        self.responses = 0;
        // To make it takes time in each handshake, and to keep it memory for each client.
        self.told = match self.params.access.asks_others() {
            true => self.environment(request),
            false => Environment::default(),
        };
        self.check_certificates(request, events);
        if self.params.access.wants_password()
            && let Err(auth_result) = self.check_password(request, token, events)
        {
            self.forget(events);
            return auth_result;
        }
        self.wait_until(request.now + self.params.control.rekey.handshake);
        self.settled()
    }

    /// Whether all judges have accepted.
    fn settled(&mut self) -> AuthResult {
        let all = self.checks.is_empty() && !self.management.waits();
        if all { self.pass() } else { AuthResult::Pending(Vec::new()) }
    }

    /// Sets when the result must be there, not later than an earlier key exchange allows.
    fn wait_until(&mut self, at: Instant) {
        self.deadline = Some(self.latest.map_or(at, |latest| latest.min(at)));
    }

    fn pass(&mut self) -> AuthResult {
        (self.open, self.username_is_fixed, self.deadline, self.latest) = (true, true, None, None);
        self.put_off = false;
        self.told = Environment::default();
        AuthResult::Passed
    }

    /// The token or the password. An error decides at once.
    fn check_password(
        &mut self,
        request: &AuthRequest<'_>,
        token: Option<Option<Verified>>,
        events: &mut impl Extend<Event>,
    ) -> Result<(), AuthResult> {
        let access = &self.params.clone().access;
        let hello = request.hello;
        if (hello.username.is_empty() || hello.password.is_empty()) && !access.optional {
            let reason = "it gave no username and password (auth-user-pass)".to_owned();
            return Err(refused("", reason));
        }
        let external = access.tokens.as_ref().is_some_and(|tokens| tokens.external);
        match token {
            Some(verified) if !external => self.take_token(verified),
            token => {
                // Back ends say no to any token: one that is not good is refused without asking them.
                let is_good = matches!(token, Some(Some(Verified { expired: false, .. })));
                if let Some(verified) = token.filter(|_| is_good || !access.back_ends.is_empty()) {
                    self.take_token(verified)?;
                }
                for back_end in access.back_ends.iter().filter(|_| token.is_none()) {
                    let script = self.password_script(request, back_end, None);
                    self.start(script, Kind::BackEnd, events);
                }
                if let Some(script) = &access.verify {
                    let script = self.password_script(request, script, token);
                    self.start(script, Kind::Password, events);
                }
                if access.management {
                    self.ask_program(request, token, events);
                }
                Ok(())
            }
        }
    }

    /// When a result must be there.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The deadline has passed.
    pub(super) fn late(&mut self, events: &mut impl Extend<Event>) -> AuthResult {
        // A client that was sent a task has not done it in time.
        let was_put_off = self.put_off;
        self.forget(events);
        let who = match self.params.access.management {
            true => "who judges it, by scripts or at the management socket,",
            false => "the scripts that judge it",
        };
        let reason = format!("{who} did not answer in time");
        if was_put_off { refused("", reason) } else { AuthResult::Failed { reason } }
    }

    /// The scripts' results are no longer needed.
    pub(super) fn forget(&mut self, events: &mut impl Extend<Event>) {
        self.deadline = None;
        self.put_off = false;
        self.management.forget();
        events.extend(self.checks.drain(..).map(|check| Event::Request(Request::CancelScript(check.script))));
    }
}

fn refused(told: &str, reason: String) -> AuthResult {
    AuthResult::Refused { told: told.to_owned(), reason }
}

/// The first line, without characters that a control message cannot hold.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(500).collect()
}
