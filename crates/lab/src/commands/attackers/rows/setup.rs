//! How the server and the clients of a row are configured.

use super::super::keys::Wrapping;

/// How long a script of [`Scripts::Slow`] takes, in seconds.
const SCRIPT_SECONDS: u32 = 2;

/// Which scripts judge a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::attackers) enum Scripts {
    None,
    /// `auth-user-pass-verify` takes two seconds, and refuses all but the clients.
    Slow,
    /// `auth-user-pass-verify` lets the clients in, and tells all others to sign on in a browser (`WEB_AUTH`).
    SignOn,
    /// `tls-crypt-v2-verify` refuses the attackers' key.
    Key,
}

/// How a server and its clients are configured.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands::attackers) struct Setup<'a> {
    /// `udp4`, `udp6`, `tcp4` or `tcp6`.
    pub(in crate::commands::attackers) protocol: &'static str,
    pub(in crate::commands::attackers) wrapping: &'a Wrapping,
    pub(in crate::commands::attackers) scripts: Scripts,
}

impl Setup<'_> {
    pub(in crate::commands::attackers) fn is_v6(&self) -> bool {
        self.protocol.ends_with('6')
    }

    pub(in crate::commands::attackers) fn is_tcp(&self) -> bool {
        self.protocol.starts_with("tcp")
    }

    /// The setup over IPv6.
    pub(in crate::commands::attackers) fn over_v6(self) -> Self {
        Setup { protocol: if self.is_tcp() { "tcp6" } else { "udp6" }, ..self }
    }

    /// The script and the directive that runs it.
    pub(in crate::commands::attackers) fn script(&self) -> Option<(&'static str, String)> {
        // The first line of the file that it gets is the username.
        let known = "read -r user < \"$1\"\ncase \"$user\" in client|resident) exit 0;; esac\n";
        match self.scripts {
            Scripts::None => None,
            Scripts::Slow => {
                Some(("auth-user-pass-verify", format!("sleep {SCRIPT_SECONDS}\n{known}exit 1\n")))
            }
            Scripts::SignOn => {
                let pending = "printf '600\\nwebauth\\nWEB_AUTH::https://sso.example.net/\\n'";
                let text = format!("{known}{pending} > \"$auth_pending_file\"\nexit 2\n");
                Some(("auth-user-pass-verify", text))
            }
            Scripts::Key => {
                Some(("tls-crypt-v2-verify", "! grep -q refused \"$metadata_file\"\n".to_owned()))
            }
        }
    }

    /// Whether clients give a username and a password.
    pub(in crate::commands::attackers) fn asks_passwords(&self) -> bool {
        matches!(self.scripts, Scripts::Slow | Scripts::SignOn)
    }
}
