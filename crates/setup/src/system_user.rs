//! The account that a server runs as.

use std::process::{Command, Stdio};

use crate::SetupError;

/// The account that is made for servers.
const NAME: &str = "adit";
/// The account that is there on every Linux, for a process that owns nothing.
const NOBODY: &str = "nobody";

/// An account of the system, and its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemUser {
    /// The name of the account.
    pub name: String,
    /// The name of its group.
    pub group: String,
}

/// Whether an account may be made.
pub enum Consent<'a> {
    /// Yes.
    Given,
    /// Ask, with this name; it is made if the answer is true.
    Ask(&'a dyn Fn(&str) -> bool),
    /// No.
    Withheld,
}

impl SystemUser {
    /// The account for a new server: `wanted`, or else `adit`, which is made with consent, or else `nobody`.
    ///
    /// # Errors
    /// When there is no such account, or it cannot be made.
    pub fn choose(wanted: Option<&str>, consent: &Consent<'_>) -> Result<Self, SetupError> {
        let name = wanted.unwrap_or(NAME);
        if let Some(found) = Self::find(name)? {
            return Ok(found);
        }
        let may_make = match consent {
            Consent::Given => true,
            Consent::Ask(ask) => wanted.is_none() && ask(name),
            Consent::Withheld => false,
        };
        if may_make {
            make(name)?;
        }
        let missing = || SetupError::NoSuchUser { name: name.to_owned(), command: useradd(name) };
        match Self::find(name)? {
            Some(found) => Ok(found),
            None if wanted.is_some() || may_make => Err(missing()),
            None => Self::find(NOBODY)?.ok_or_else(missing),
        }
    }

    fn find(name: &str) -> Result<Option<Self>, SetupError> {
        let found = adit_guard::user_and_group(name).map_err(|error| SetupError::User {
            name: name.to_owned(),
            why: error.to_string(),
            command: useradd(name),
        })?;
        Ok(found.map(|(name, group)| SystemUser { name, group }))
    }

    /// Advice to give the server an account of its own, if it has none: programs that run as `nobody` share it.
    pub fn advice(&self) -> Option<String> {
        (self.name == NOBODY).then(|| {
            format!(
                "the server runs as {NOBODY}, as other services may; for an account of its own, run `{}` and write \
                 `user {NAME}` and `group {NAME}` in server.conf",
                useradd(NAME)
            )
        })
    }
}

const ARGUMENTS: [&str; 7] = [
    "--system",
    "--user-group",
    "--no-create-home",
    "--home-dir",
    "/nonexistent",
    "--shell",
    "/usr/sbin/nologin",
];

/// The command that makes an account (shadow's useradd(8)).
fn useradd(name: &str) -> String {
    format!("useradd {} {name}", ARGUMENTS.join(" "))
}

fn make(name: &str) -> Result<(), SetupError> {
    let failed = |why: String| SetupError::User { name: name.to_owned(), why, command: useradd(name) };
    if name.starts_with('-') {
        return Err(failed("no name of a user begins with `-`".to_owned()));
    }
    let mut command = Command::new("useradd");
    command.args(ARGUMENTS).arg(name).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(format!("useradd: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No account of that name may be there, nor made.
    const MISSING: &str = "adit-no-such-user";

    #[test]
    fn a_user_that_was_named_must_be_there() {
        let root = SystemUser::choose(Some("root"), &Consent::Withheld).expect("it is there");
        assert_eq!((root.name.as_str(), root.group.as_str()), ("root", "root"));
        for consent in [Consent::Withheld, Consent::Ask(&|_| true)] {
            let said = SystemUser::choose(Some(MISSING), &consent).expect_err("it is not there").to_string();
            assert!(said.contains("useradd --system --user-group") && said.contains(MISSING), "{said}");
        }
    }

    #[test]
    fn without_consent_no_user_is_made() {
        if SystemUser::find(NAME).expect("the system answers").is_some() {
            return;
        }
        for consent in [Consent::Withheld, Consent::Ask(&|name| name != NAME)] {
            let user = SystemUser::choose(None, &consent).expect("nobody is there");
            assert_eq!(user.name, NOBODY);
            assert!(user.advice().expect("advice").contains("useradd --system"));
        }
    }

    #[test]
    fn a_name_is_no_option() {
        assert!(make("--root=/tmp").is_err());
    }
}
