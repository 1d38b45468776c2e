//! The code that the programs `adit-pam` and `adit-ldap` share: they judge usernames and passwords for a
//! server.
//!
//! A server runs one of them for each login, as it runs a script: a file with the username and the password is its last
//! argument, environment variables have the client's name and address, and its exit code is the verdict. So PAM's modules and
//! connections to directories have a process of their own for each login, and a crash there ends that process alone.
#![forbid(unsafe_code)]

pub mod ldap;
pub mod login;
pub mod pam;
pub mod verdict;
