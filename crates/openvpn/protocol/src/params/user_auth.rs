use crate::request::UserPassword;

/// How a client uses a username and a password.
#[derive(Clone, Debug)]
pub struct UserAuth {
    /// The username and the password at hand; without them, they are asked for by
    /// [`crate::request::Request::Credentials`] before the first connection.
    pub credentials: Option<UserPassword>,
    /// `auth-retry`.
    pub retry: AuthRetry,
    /// `auth-nocache`: forgotten as soon as the server gave a token in their place, or the connection ended;
    /// asked for again when they are needed again.
    pub nocache: bool,
    /// A program that knows OpenVPN's own words gives username and password (`management-query-passwords`): it is shown a
    /// server's refusals and questions as the server wrote them, and packs its answers itself.
    pub by_program: bool,
    /// `static-challenge`: a question of the file's, whose answer goes with the password.
    pub challenge: Option<StaticChallenge>,
}

/// The reaction of a client to the refusal of its username and password (`auth-retry`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthRetry {
    /// The client ends.
    #[default]
    None,
    /// The client tries again with the same username and password.
    NoInteract,
    /// The client asks for another username and password.
    Interact,
}

/// A question of the client's own configuration, whose answer goes with the password (`static-challenge`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticChallenge {
    /// The question.
    pub text: String,
    /// Whether the answer may be seen while it is typed.
    pub echo: bool,
    /// The answer is put behind the password as it is (`concat`). Otherwise both are packed as `SCRV1`.
    pub concat: bool,
}
