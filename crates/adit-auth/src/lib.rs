//! What the programs `adit-pam` and `adit-ldap` share: they judge usernames and passwords for a server.
//!
//! A server runs one of them for each login, as it runs a script: a file with the username and the password is its last
//! argument, environment variables say the rest, and its exit code is the verdict. So PAM's modules and connections to
//! directories live in a process of their own for the time of one login, and what goes wrong there ends that process alone.
#![forbid(unsafe_code)]

pub mod ldap;
pub mod login;
pub mod pam;
pub mod verdict;
