//! The file of `openvpn-auth-ldap`, by which a server judges its clients' passwords at an LDAP directory (its
//! `auth-ldap.conf`; `src/TRAuthLDAPConfig.m` has the keys).
//!
//! ```text
//! <LDAP>
//!     URL        ldap://ldap.example.org
//!     BindDN     cn=vpn,dc=example,dc=org
//!     Password   …
//!     TLSEnable  yes
//! </LDAP>
//! <Authorization>
//!     BaseDN        "ou=People,dc=example,dc=org"
//!     SearchFilter  "(uid=%u)"
//!     RequireGroup  true
//!     <Group>
//!         BaseDN           "ou=Groups,dc=example,dc=org"
//!         SearchFilter     "(cn=vpn)"
//!         MemberAttribute  uniqueMember
//!     </Group>
//! </Authorization>
//! ```
//!
//! Sections and keys are read in any case. All problems of a file are found before any is reported.

mod filter;
mod model;
mod read;
#[cfg(test)]
mod tests;
mod url;

pub use self::filter::Filter;
pub use self::model::{AuthLdap, Directory, Group, LdapTls, Membership, SearchAccount};
pub use self::read::{Parsed, parse};
pub use self::url::{LdapPlace, LdapUrl};

/// The byte of two hexadecimal digits.
fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}
