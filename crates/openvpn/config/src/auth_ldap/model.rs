use std::path::PathBuf;
use std::time::Duration;

use super::LdapUrl;
use crate::Secret;

/// How users are found in a directory, and which of them are let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthLdap {
    /// `<LDAP>`.
    pub directory: Directory,
    /// Below which entry users are (`BaseDN`).
    pub base: String,
    /// Which entry is that of a user (`SearchFilter`): a template for [`super::Filter::parse`].
    pub filter: String,
    /// A user must be a member of one of them (`RequireGroup`); if there are none, of none.
    pub groups: Vec<Group>,
    /// The name in the client's certificate takes the place of its username (`UseCn`).
    pub by_common_name: bool,
    /// The password comes packed with the answer to a question (`PasswordIsCR`).
    pub password_is_response: bool,
}

/// A directory and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its servers, in the order in which they are tried; at least one (`URL`).
    pub urls: Vec<LdapUrl>,
    /// How long each step may take (`Timeout`).
    pub timeout: Duration,
    /// The account that searches it (`BindDN` and `Password`). `None`: searches are anonymous.
    pub search_as: Option<SearchAccount>,
    /// Searches go on at other servers that the directory names (`FollowReferrals`), anonymously.
    pub follow_referrals: bool,
    /// How connections are protected.
    pub tls: LdapTls,
}

/// The account that searches the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchAccount {
    /// Its distinguished name.
    pub dn: String,
    /// Its password; not empty.
    pub password: Secret,
}

/// TLS of connections to a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LdapTls {
    /// A connection without TLS goes over to it before anything is said (`TLSEnable`).
    pub start: bool,
    /// The authorities that a server's certificate may be of (`TLSCACertFile`, `TLSCACertDir`). Without both, those of the
    /// system.
    pub ca_file: Option<PathBuf>,
    /// A directory with such, each in a file.
    pub ca_directory: Option<PathBuf>,
    /// Our own certificate and its key (`TLSCertFile`, `TLSKeyFile`).
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// Groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Below which entry they are (`BaseDN`).
    pub base: String,
    /// Which entries they are (`SearchFilter`): a template as of users.
    pub filter: String,
    /// The attribute that names members (`MemberAttribute`).
    pub attribute: String,
    /// How members are named in it (`RFC2307bis`).
    pub membership: Membership,
    /// A member is looked for by a search (`UseCompareOperation false`) and not by a comparison.
    pub by_search: bool,
}

/// How groups name their members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// By their distinguished name.
    Name,
    /// By their username.
    Username,
}
