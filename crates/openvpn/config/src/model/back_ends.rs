//! The judges of passwords in the place of OpenVPN's plugins.

use std::path::PathBuf;

/// A judge of usernames and passwords, in a process of its own (`plugin`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PasswordBackEnd {
    /// PAM, as `openvpn-plugin-auth-pam` asks it.
    Pam {
        /// The name of the service: that of a file in `/etc/pam.d`.
        service: String,
        /// The beginning of each question, and its answer. In an answer `USERNAME`, `PASSWORD`, `COMMONNAME` and `OTP`
        /// stand for these values.
        answers: Vec<(String, String)>,
    },
    /// An LDAP directory, as `openvpn-auth-ldap` asks it.
    Ldap {
        /// The file that says how ([`crate::auth_ldap`]).
        file: PathBuf,
    },
}
