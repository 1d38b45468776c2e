//! Giving up rights: those of the superuser, and those that every program has.

mod sandbox;

use std::io;

use adit_sys::{Step, in_every_thread};
use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, setgroups, setresgid, setresuid};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setpriority_process, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
};
pub use sandbox::{Layer, Sandbox, restrict_libraries};
pub(crate) use sandbox::{allow_files_and_sockets, deny_what_no_program_needs};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The account that every Linux has for processes that own nothing.
const NOBODY: &str = "nobody";

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

/// The account that a process becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    name: String,
    uid: Option<u32>,
    gid: Option<u32>,
}

impl Account {
    /// The numbers of the user and of the group, if it has them.
    pub(crate) fn numbers(&self) -> (Option<u32>, Option<u32>) {
        (self.uid, self.gid)
    }

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
        let uid = found_user.map(|user| user.uid.as_raw());
        Ok(Some(Account { name, uid, gid: gid.map(Gid::as_raw) }))
    }

    /// The account of a process that needs no right and has no `user` option: `nobody`. `None` if the process is not the
    /// superuser's, or there is no such account.
    pub fn unprivileged() -> Option<Self> {
        let found = geteuid().is_root().then(|| Account::find(Some(NOBODY), None).ok().flatten());
        found.flatten().filter(Account::is_plain)
    }

    /// Whether it is no longer the superuser who acts as this account.
    pub fn is_plain(&self) -> bool {
        self.uid.is_some_and(|uid| uid != 0)
    }

    /// The user's number, if a user was named.
    pub fn user_id(&self) -> Option<u32> {
        self.uid
    }

    /// The group's number: that of the group named, or else of the user's own.
    pub fn group_id(&self) -> Option<u32> {
        self.gid
    }

    /// Makes the whole process this account, for good. Of the superuser's rights the calling thread, and those
    /// that it starts later, keep `kept`; other threads keep none. Programs that the process runs get none.
    ///
    /// # Errors
    /// When the system does not allow it; the process must not go on then.
    pub(crate) fn assume(&self, kept: CapabilitySet) -> Result<(), AccountError> {
        let failed = |source| AccountError::Assume { name: self.name.clone(), source };
        let errno = |error: rustix::io::Errno| nix::Error::from_raw(error.raw_os_error());
        let (uid, gid) = (self.uid.map(Uid::from_raw), self.gid.map(Gid::from_raw));
        if let Some(gid) = gid.filter(|gid| *gid != getegid() || geteuid().is_root()) {
            setgroups(&[gid]).map_err(failed)?;
            setresgid(gid, gid, gid).map_err(failed)?;
        }
        // Started as that user: the rights are those that were given outside.
        let Some(uid) = uid.filter(|uid| *uid != geteuid()) else { return Ok(()) };
        set_keep_capabilities(!kept.is_empty()).map_err(errno).map_err(failed)?;
        // The C library does it in every thread.
        setresuid(uid, uid, uid).map_err(failed)?;
        set_keep_capabilities(false).map_err(errno).map_err(failed)
    }
}

/// The names of a user and of its own group. `None` if the system does not know the user.
///
/// # Errors
/// When the system cannot be asked.
pub fn user_and_group(user: &str) -> io::Result<Option<(String, String)>> {
    let Some(found) = User::from_name(user)? else { return Ok(None) };
    let group = Group::from_gid(found.gid)?.map_or_else(|| found.gid.to_string(), |group| group.name);
    Ok(Some((found.name, group)))
}

/// Why a process cannot give up its rights. It must not go on then.
#[derive(Debug, Error)]
pub enum ConfineError {
    /// The user cannot be changed.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The kernel refused something that every process may ask for.
    #[error("cannot give up {what}: {source}")]
    Refused {
        /// The right that was to be given up.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// Which rights the process has given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    /// Whether the bounding set is empty. Only a process with `CAP_SETPCAP` can empty it.
    pub bounding_set: Layer,
    /// Files and system calls.
    pub sandbox: Sandbox,
}

/// No core file is written of this process and those that it starts, as its memory holds keys.
///
/// # Errors
/// When the system does not allow it.
pub fn forbid_core_files() -> io::Result<()> {
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?)
}

/// Gives up, in all threads and for good: the superuser's rights (the process becomes `account`, if there is one, and
/// keeps no capability), new rights by running programs, and being looked into by processes of the same user; and with
/// `sandbox` all files and all system calls but those that a running tunnel makes. Open files stay open.
///
/// # Errors
/// When the kernel refuses. That it lacks Landlock or seccomp is no error, but is in the result.
pub fn confine(account: Option<&Account>, sandbox: bool) -> Result<Confined, ConfineError> {
    let refused = |what| move |source| ConfineError::Refused { what, source };
    let bounding_set = match in_every_thread(Step::Bounds) {
        Ok(()) => Layer::On,
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            Layer::Unavailable("adit was started without CAP_SETPCAP".to_owned())
        }
        Err(error) => return Err(refused("the capability bounding set")(error)),
    };
    if let Some(account) = account {
        account.assume(CapabilitySet::empty())?;
    }
    not_dumpable().map_err(refused("being looked into"))?;
    in_every_thread(Step::NewPrivileges).map_err(refused("new privileges"))?;
    keep_no_capability().map_err(refused("capabilities"))?;
    let sandbox = match sandbox {
        true => sandbox::enter().map_err(refused("files and system calls"))?,
        false => Sandbox::switched_off(),
    };
    Ok(Confined { bounding_set, sandbox })
}

/// Gives rights up as [`confine`], in a process of one thread that keeps some capabilities, and may run programs if
/// `new_privileges`, which then may be set-user-ID programs: scripts use `sudo`.
pub(crate) fn reduce(
    account: Option<&Account>,
    kept: CapabilitySet,
    new_privileges: bool,
) -> Result<(), ConfineError> {
    let refused = |what| move |error: rustix::io::Errno| ConfineError::Refused { what, source: error.into() };
    let had = capabilities(None).map_err(refused("capabilities"))?;
    if !new_privileges {
        for capability in CapabilitySet::all().difference(kept).iter() {
            // Without CAP_SETPCAP it stays as it is; the kernel may know fewer of them.
            let _ = remove_capability_from_bounding_set(capability);
        }
        let _ = clear_ambient_capability_set();
    }
    if let Some(account) = account {
        account.assume(kept)?;
    }
    set_own_capabilities(kept & had.permitted).map_err(refused("capabilities"))?;
    if !new_privileges {
        set_no_new_privs(true).map_err(refused("new privileges"))?;
    }
    not_dumpable().map_err(|source| ConfineError::Refused { what: "being looked into", source })
}

fn keep_no_capability() -> io::Result<()> {
    in_every_thread(Step::OthersCapabilities)?;
    Ok(set_own_capabilities(CapabilitySet::empty())?)
}

fn set_own_capabilities(set: CapabilitySet) -> Result<(), rustix::io::Errno> {
    let sets = CapabilitySets { effective: set, permitted: set, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)
}

/// Other processes of the user can neither trace this one nor read its memory (`PR_SET_DUMPABLE`).
fn not_dumpable() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Keeps all memory of the process, present and future, out of swap (`mlock`).
///
/// # Errors
/// When the system does not allow so much.
pub fn lock_memory() -> io::Result<()> {
    // The limit also holds for the account that the process becomes later.
    setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None })?;
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

/// Sets how nice the calling thread, and those that it starts later, are to other programs: -20 is urgent, 19 the
/// nicest.
///
/// # Errors
/// When the system does not allow it.
pub fn set_niceness(niceness: i32) -> io::Result<()> {
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
        assert_eq!(root.gid, Some(0), "the user's own group");
        for (user, group, kind) in
            [(Some("no such user"), None, "user"), (Some("root"), Some("no such group"), "group")]
        {
            let error = Account::find(user, group).unwrap_err().to_string();
            assert!(error.starts_with(&format!("there is no {kind} `no such")), "{error}");
        }
    }
}
