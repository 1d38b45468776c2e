//! Becoming another user, who may do what a tunnel needs and nothing else.

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, setgroups, setresgid, setresuid};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, setpriority_process, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities};
use thiserror::Error;

/// Why a user or group cannot be assumed.
#[derive(Debug, Error)]
pub enum AccountError {
    /// The system does not know the name.
    #[error("there is no {kind} `{name}` on this system")]
    Unknown {
        /// `user` or `group`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The system cannot be asked.
    #[error("the {kind} `{name}` cannot be looked up: {source}")]
    LookUp {
        /// `user` or `group`.
        kind: &'static str,
        /// The name.
        name: String,
        /// Why.
        source: nix::Error,
    },
    /// The system does not allow the change.
    #[error("cannot become {name}: {source}; start as root, or remove `user` and `group`")]
    Assume {
        /// User and group.
        name: String,
        /// Why.
        source: nix::Error,
    },
}

/// Whom to become.
#[derive(Clone, Debug)]
pub struct Account {
    name: String,
    uid: Option<Uid>,
    gid: Option<Gid>,
}

impl Account {
    /// Looks the names up. A user without a group brings the user's own. `None` if there is nothing to become.
    ///
    /// # Errors
    /// When the system does not know them.
    pub fn find(user: Option<&str>, group: Option<&str>) -> Result<Option<Self>, AccountError> {
        let found_user = user.map(|name| look_up("user", name, User::from_name(name))).transpose()?;
        let found_group = group.map(|name| look_up("group", name, Group::from_name(name))).transpose()?;
        if found_user.is_none() && found_group.is_none() {
            return Ok(None);
        }
        let gid = found_group.map(|group| group.gid).or(found_user.as_ref().map(|user| user.gid));
        let name = [user, group].into_iter().flatten().collect::<Vec<_>>().join(":");
        Ok(Some(Account { name, uid: found_user.map(|user| user.uid), gid }))
    }

    /// Whether it is no longer the superuser who acts as this account.
    pub fn is_plain(&self) -> bool {
        self.uid.is_some_and(|uid| !uid.is_root())
    }

    /// The user's number, if a user was named.
    pub fn user_id(&self) -> Option<u32> {
        self.uid.map(Uid::as_raw)
    }

    /// The group's number: that of the group named, or else of the user's own.
    pub fn group_id(&self) -> Option<u32> {
        self.gid.map(Gid::as_raw)
    }

    /// Makes the whole process this account, for good. Of the superuser's rights the calling thread, and those
    /// that it starts later, keep the one to set up networks (`CAP_NET_ADMIN`) and, with `low_ports`, that to bind
    /// ports below 1024 (`CAP_NET_BIND_SERVICE`); other threads keep none. Programs that the process runs get
    /// none.
    ///
    /// # Errors
    /// When the system does not allow it; the process must not go on then.
    pub fn assume(&self, low_ports: bool) -> Result<(), AccountError> {
        let failed = |source| AccountError::Assume { name: self.name.clone(), source };
        let errno = |error: rustix::io::Errno| nix::Error::from_raw(error.raw_os_error());
        if let Some(gid) = self.gid.filter(|gid| *gid != getegid() || geteuid().is_root()) {
            setgroups(&[gid]).map_err(failed)?;
            setresgid(gid, gid, gid).map_err(failed)?;
        }
        // Started as that user: the rights are what they were made outside.
        let Some(uid) = self.uid.filter(|uid| *uid != geteuid()) else { return Ok(()) };
        let had = capabilities(None).map_err(errno).map_err(failed)?;
        set_keep_capabilities(true).map_err(errno).map_err(failed)?;
        // The C library does it in every thread.
        setresuid(uid, uid, uid).map_err(failed)?;
        set_keep_capabilities(false).map_err(errno).map_err(failed)?;
        let wanted = match low_ports {
            true => CapabilitySet::NET_ADMIN | CapabilitySet::NET_BIND_SERVICE,
            false => CapabilitySet::NET_ADMIN,
        };
        let kept = wanted & had.permitted;
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).map_err(errno).map_err(failed)
    }
}

/// Keeps all memory of the process, present and future, out of swap (`mlock`).
///
/// # Errors
/// When the system does not allow so much.
pub fn lock_memory() -> std::io::Result<()> {
    // The limit holds for whom the process becomes later.
    setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None })?;
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

/// Sets how nice the calling thread, and those that it starts later, are to other programs: -20 is urgent, 19 the
/// nicest.
///
/// # Errors
/// When the system does not allow it.
pub fn set_niceness(niceness: i32) -> std::io::Result<()> {
    Ok(setpriority_process(None, niceness)?)
}

fn look_up<T>(
    kind: &'static str,
    name: &str,
    found: Result<Option<T>, nix::Error>,
) -> Result<T, AccountError> {
    let name = name.to_owned();
    match found {
        Ok(Some(entry)) => Ok(entry),
        Ok(None) => Err(AccountError::Unknown { kind, name }),
        Err(source) => Err(AccountError::LookUp { kind, name, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up() {
        assert!(Account::find(None, None).unwrap().is_none());
        let root = Account::find(Some("root"), None).unwrap().unwrap();
        assert!(!root.is_plain());
        assert_eq!(root.gid, Some(Gid::from_raw(0)), "the user's own group");
        for (user, group, kind) in
            [(Some("no such user"), None, "user"), (Some("root"), Some("no such group"), "group")]
        {
            let error = Account::find(user, group).unwrap_err().to_string();
            assert!(error.starts_with(&format!("there is no {kind} `no such")), "{error}");
        }
    }
}
