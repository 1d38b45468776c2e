//! Judges a login at an LDAP directory (LDAPv3, RFC 4511), as the plugin `openvpn-auth-ldap` does: its entry is searched
//! for, its password is shown to the directory in its name, and then its groups are asked about.
//!
//! One thing at a time over a blocking connection: a process judges one login. The parts of LDAP that this takes are small,
//! and the crates that have them want an asynchronous runtime, and end the process on a malformed answer.

pub mod ber;
mod connection;
mod judge;
mod message;
mod stream;
mod trust;

pub use self::judge::judge;
pub use self::trust::Trust;
