//! Judges a login at an LDAP directory (LDAPv3, RFC 4511), as the plugin `openvpn-auth-ldap` does: it searches for the user's
//! entry, binds as that entry with the user's password, and then compares the members of groups.
//!
//! The connection is blocking, as a process judges one login. The parts of LDAP that this needs are small; the crates that
//! have them need an asynchronous runtime, and end the process on a malformed answer.

pub mod ber;
mod connection;
mod judge;
mod message;
mod stream;
mod trust;

pub use self::judge::judge;
pub use self::trust::Trust;
