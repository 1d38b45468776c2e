//! The topics of questions, in the words of the management protocol.

use std::borrow::Cow;

/// A password that is asked for, or another word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// The password of `auth-user-pass`, with the username.
    Auth,
    /// The password of our private key.
    PrivateKey,
    /// The PIN of the token with that label.
    Token(String),
    /// Whether the token with that label is there now: `ok` or `cancel`.
    Insertion(String),
    /// The name of a certificate on a token.
    Certificate,
    /// The password of an HTTP proxy, with the username.
    HttpProxy,
    /// The password of a SOCKS proxy, with the username.
    SocksProxy,
}

impl Topic {
    /// Whether a username goes with it.
    pub(super) const fn has_username(&self) -> bool {
        matches!(self, Topic::Auth | Topic::HttpProxy | Topic::SocksProxy)
    }

    /// The question in the management protocol, with the further words `more`.
    pub(super) fn question(&self, more: &str) -> String {
        let name = self.name();
        let what = match self {
            Topic::Auth | Topic::HttpProxy | Topic::SocksProxy => "username/password",
            Topic::PrivateKey | Topic::Token(_) => "password",
            // OpenVPN pkcs11.c, `_pkcs11_openvpn_token_prompt` and `tls_ctx_use_pkcs11`.
            Topic::Insertion(label) => {
                return format!(">NEED-OK:Need '{name}' confirmation MSG:Please insert {label} token");
            }
            Topic::Certificate => {
                return format!(">NEED-STR:Need '{name}' string MSG:Please specify PKCS#11 id to use");
            }
        };
        let space = if more.is_empty() { "" } else { " " };
        format!(">PASSWORD:Need '{name}' {what}{space}{more}")
    }

    /// Whether that kind of answer belongs to it.
    pub(super) fn takes(&self, what: &str) -> bool {
        match self {
            Topic::Auth | Topic::HttpProxy | Topic::SocksProxy => matches!(what, "username" | "password"),
            Topic::PrivateKey | Topic::Token(_) => what == "password",
            Topic::Insertion(_) => what == "needok-confirmation",
            Topic::Certificate => what == "needstr-string",
        }
    }

    /// Its name in the management protocol.
    pub(in crate::management) fn name(&self) -> Cow<'static, str> {
        match self {
            Topic::Auth => "Auth".into(),
            Topic::PrivateKey => "Private Key".into(),
            // OpenVPN pkcs11.c, `_pkcs11_openvpn_pin_prompt`.
            Topic::Token(label) => format!("{label} token").into(),
            Topic::Insertion(_) => "token-insertion-request".into(),
            Topic::Certificate => "pkcs11-id-request".into(),
            // OpenVPN proxy.h and socks.c, `UP_TYPE_PROXY` and `UP_TYPE_SOCKS`.
            Topic::HttpProxy => "HTTP Proxy".into(),
            Topic::SocksProxy => "SOCKS Proxy".into(),
        }
    }
}
