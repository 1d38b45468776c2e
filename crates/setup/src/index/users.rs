//! The clients that have passwords. The passwords themselves are in the server's files alone.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Index, text};

/// A client that has a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct User {
    name: String,
    /// When the password was made, RFC 3339.
    made: String,
    /// When it was revoked, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    /// Its files are not known to have been written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unfinished: bool,
}

impl User {
    fn is_live(&self) -> bool {
        self.revoked.is_none()
    }
}

impl Index {
    /// Notes a client whose files with a password are about to be written.
    pub(crate) fn begin_user(&mut self, name: &str, now: OffsetDateTime) {
        let is = |user: &User| user.is_live() && user.name == name;
        if !self.users.iter().any(is) {
            let name = name.to_owned();
            self.users.push(User { name, made: text(now), revoked: None, unfinished: true });
        }
    }

    /// Notes that they were written.
    pub(crate) fn finish_user(&mut self, name: &str) {
        self.users.iter_mut().filter(|user| user.name == name).for_each(|user| user.unfinished = false);
    }

    /// Whether a client of that name has a password whose files were written.
    pub(crate) fn has_user(&self, name: &str) -> bool {
        self.users.iter().any(|user| user.is_live() && !user.unfinished && user.name == name)
    }

    /// Whether an attempt to write the files of that client was interrupted.
    pub(crate) fn has_unfinished_user(&self, name: &str) -> bool {
        self.users.iter().any(|user| user.is_live() && user.unfinished && user.name == name)
    }

    /// The names of clients whose passwords are revoked.
    pub(crate) fn revoked_users(&self) -> impl Iterator<Item = &str> {
        let is_out = |user: &&User| !user.is_live() && !self.has_user(&user.name);
        self.users.iter().filter(is_out).map(|user| user.name.as_str())
    }

    /// Whether there is a client with a password whose name is that one in another case.
    pub(super) fn has_user_in_other_case(&self, name: &str) -> bool {
        let differs = |user: &User| user.name.eq_ignore_ascii_case(name) && user.name != name;
        self.users.iter().any(|user| user.is_live() && differs(user))
    }

    /// Whether a client of that name has or had a password.
    pub(super) fn knows_user(&self, name: &str) -> bool {
        self.users.iter().any(|user| user.name == name)
    }

    /// Notes that the password of that name is revoked. False if it was before, or if there is none.
    pub(super) fn revoke_user(&mut self, name: &str, now: OffsetDateTime) -> bool {
        let live = self.users.iter_mut().filter(|user| user.is_live() && user.name == name);
        live.map(|user| user.revoked = Some(text(now))).count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Issue, Kind, Owner};
    use super::*;
    use crate::{Endpoint, Proto};

    const NATIVE: Option<&str> = Some("native");

    fn index() -> Index {
        let endpoint = Endpoint { host: "vpn.example".into(), port: 1194 };
        Index::new(endpoint, Proto::Udp, "adit-server", "other")
    }

    fn add(index: &mut Index, serial: &str, name: &str, protocol: Option<&str>) {
        let owner = Owner { protocol, ..Owner::new(Kind::Client, name) };
        let now = OffsetDateTime::UNIX_EPOCH;
        index.add(Issue::new(serial.to_owned(), owner, now, now));
    }

    #[test]
    fn a_name_is_one_client_by_each_protocol_and_in_one_case_alone() {
        let mut index = index();
        add(&mut index, "01", "alice", None);
        assert!(index.has("alice", None) && !index.has("alice", NATIVE) && index.has("Alice", NATIVE));
        add(&mut index, "02", "alice", NATIVE);
        index.begin();
        assert!(!index.has("alice", NATIVE) && index.has_unfinished("alice", NATIVE));
        index.finish("alice", NATIVE);
        assert!(
            index.has("alice", NATIVE) && index.is_client("alice", NATIVE) && !index.is_client("bob", NATIVE)
        );
        assert!(index.revoke("alice", OffsetDateTime::UNIX_EPOCH), "both certificates");
        assert_eq!(index.revoked(OffsetDateTime::UNIX_EPOCH).len(), 2);
        assert!(!index.has("alice", None) && !index.has("alice", NATIVE) && index.knows("alice"));
    }

    #[test]
    fn a_client_with_a_password_is_known_and_revoked() {
        let (mut index, now) = (index(), OffsetDateTime::UNIX_EPOCH);
        index.begin_user("bob", now);
        assert!(!index.has_user("bob") && index.has_unfinished_user("bob") && index.knows("bob"));
        index.begin_user("bob", now);
        index.finish_user("bob");
        assert!(index.has_user("bob") && index.has("BOB", None) && !index.has("bob", NATIVE));
        assert_eq!(index.to_json().matches("\"name\": \"bob\"").count(), 1);
        assert!(index.revoke("bob", now) && !index.revoke("bob", now) && !index.has_user("bob"));
    }
}
