//! The conditions for clients to be let in, besides TLS, and the scripts that run for it: the settings of a
//! server's configuration.

use std::fmt;
use std::time::Duration;

use zeroize::Zeroizing;

/// How clients are judged, and which programs run for them. The default judges by certificates alone.
#[derive(Clone, Debug, Default)]
pub struct AccessParams {
    /// `auth-user-pass-verify`: the judge of usernames and passwords.
    pub verify: Option<PasswordScript>,
    /// `plugin`: programs that judge usernames and passwords, too. All must say yes. They judge passwords alone: where a good
    /// token is shown, none is asked.
    pub back_ends: Vec<PasswordScript>,
    /// `management-client-auth`: a program judges usernames and passwords, too, and gets the events of
    /// clients ([`crate::request::Request::Client`]).
    pub management: bool,
    /// `auth-user-pass-optional`: clients without username and password are judged, too.
    pub optional: bool,
    /// `username-as-common-name`: a client's name is its username, where that is judged.
    pub username_as_name: bool,
    /// `auth-gen-token`.
    pub tokens: Option<TokenParams>,
    /// `tls-verify`: judges each certificate a client shows.
    pub tls_verify: Option<Vec<String>>,
    /// `tls-export-cert`: it gets the certificate in a file.
    pub export_certificates: bool,
    /// `tls-crypt-v2-verify`: judges the metadata of clients' own tls-crypt-v2 keys.
    pub key_verify: Option<Vec<String>>,
    /// `client-crresponse`: judges the answer to a question that [`AccessParams::verify`] asked.
    pub client_crresponse: Option<Vec<String>>,
    /// `client-connect`: judges a client that has its addresses, and may say more for it.
    pub client_connect: Option<Vec<String>>,
    /// `client-disconnect`: runs when a client has gone.
    pub client_disconnect: Option<Vec<String>>,
    /// `learn-address`: runs for each address that clients get and give up, and may refuse it.
    pub learn_address: Option<Vec<String>>,
    /// `setenv`: for all scripts.
    pub env: Vec<(String, String)>,
}

/// `auth-user-pass-verify`, or a program in the place of a `plugin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordScript {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Username and password come in a file whose path is the last argument; otherwise they are environment
    /// variables.
    pub by_file: bool,
}

/// `auth-gen-token` and `auth-gen-token-secret`.
#[derive(Clone)]
pub struct TokenParams {
    /// How long after the first authentication tokens are good; `None` for ever.
    pub lifetime: Option<Duration>,
    /// Half of how long one token is good.
    pub renewal: Duration,
    /// The key that tokens are made with.
    pub secret: Zeroizing<[u8; 32]>,
    /// `external-auth`: the script judges tokens too, and learns their state.
    pub external: bool,
}

impl fmt::Debug for TokenParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenParams")
            .field("lifetime", &self.lifetime)
            .field("renewal", &self.renewal)
            .field("external", &self.external)
            .finish_non_exhaustive()
    }
}

impl AccessParams {
    /// Whether clients are asked for usernames and passwords.
    pub(crate) fn wants_password(&self) -> bool {
        self.verify.is_some() || !self.back_ends.is_empty() || self.management
    }

    /// Whether a script or the management client authenticates clients and is informed of their connections.
    pub(crate) fn asks_others(&self) -> bool {
        self.wants_password() || self.tls_verify.is_some()
    }
}
