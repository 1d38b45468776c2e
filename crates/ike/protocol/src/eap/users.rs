//! The users that an authenticator knows, by their names.

use std::collections::BTreeMap;
use std::fmt;

use md4::{Digest as _, Md4};
use zeroize::Zeroizing;

use crate::crypto::Secret;

/// The NT hash of a password: MD4 of its UTF-16 (RFC 2759 section 8.3). It proves as much as the password.
#[derive(Clone, PartialEq, Eq)]
pub struct NtHash(pub(super) Zeroizing<[u8; 16]>);

impl NtHash {
    /// The hash of a password.
    pub fn of_password(password: &str) -> Self {
        let unicode: Secret = password.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>().into();
        NtHash(Zeroizing::new(Md4::digest(&*unicode).into()))
    }

    /// A hash that is known as such.
    pub const fn new(hash: Zeroizing<[u8; 16]>) -> Self {
        NtHash(hash)
    }
}

impl fmt::Debug for NtHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NtHash(..)")
    }
}

/// A user, as the peer's name was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name by which the tunnel knows the user.
    pub name: String,
    /// The hash of the password. `None`: there is no such user, so that no password is right.
    pub hash: Option<NtHash>,
}

/// The users that an authenticator knows. Names are equal in upper and lower case of ASCII.
#[derive(Clone, Debug, Default)]
pub struct Users {
    by_name: BTreeMap<String, (String, NtHash)>,
    of_all: Option<NtHash>,
}

impl Users {
    /// Adds a user. The first password of a name counts.
    pub fn add(&mut self, name: &str, hash: NtHash) {
        self.by_name.entry(name.to_ascii_lowercase()).or_insert_with(|| (name.to_owned(), hash));
    }

    /// Sets the password of all names that have none of their own.
    pub fn add_for_all(&mut self, hash: NtHash) {
        self.of_all.get_or_insert(hash);
    }

    /// The user of a name that a peer says. A name with a domain (`DOMAIN\name`) that is not known is looked for without the domain.
    pub fn find(&self, name: &str) -> User {
        let found = [name, without_domain(name)]
            .into_iter()
            .find_map(|name| self.by_name.get(&name.to_ascii_lowercase()));
        match found {
            Some((name, hash)) => User { name: name.clone(), hash: Some(hash.clone()) },
            None => User { name: without_domain(name).to_owned(), hash: self.of_all.clone() },
        }
    }
}

/// A name without the domain in front (`DOMAIN\name`), as MSCHAPv2 hashes it (RFC 2759 section 8.2).
pub(super) fn without_domain(name: &str) -> &str {
    name.rsplit_once('\\').map_or(name, |(_, name)| name)
}

/// Whether two names are of one user: equal but for the domain and the case of letters.
pub(super) fn is_same_user(one: &str, other: &str) -> bool {
    without_domain(one).eq_ignore_ascii_case(without_domain(other))
}
