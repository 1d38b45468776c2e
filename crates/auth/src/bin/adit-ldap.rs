//! Judges a username and a password at an LDAP directory: `adit-ldap CONFIGURATION FILE`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use adit_auth::ldap::{self, Trust};
use adit_auth::login::Login;
use adit_auth::verdict::{self, Refusal};
use adit_openvpn_config::auth_ldap;
use nix::unistd::{User, geteuid, setgid, setgroups, setuid};
use zeroize::Zeroizing;

/// The account that the process runs as after it has read its files. It owns nothing.
const ACCOUNT: &str = "nobody";

fn main() -> ExitCode {
    verdict::run("adit-ldap", judge)
}

fn judge(arguments: &[String], login: &Login) -> Result<(), Refusal> {
    let [file] = arguments else {
        return Err(Refusal::failed("write `adit-ldap CONFIGURATION FILE`"));
    };
    let text = std::fs::read(file).map_err(|error| Refusal::Failed(format!("{file}: {error}")))?;
    let parsed = auth_ldap::parse(&Zeroizing::new(text), file).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Refusal::Failed(lines.join("; "))
    })?;
    let trust = Trust::read(&parsed.config.directory.tls).map_err(Refusal::Failed)?;
    give_up_rights().map_err(Refusal::Failed)?;
    ldap::judge(&parsed.config, &trust, login)
}

/// Changes from root to [`ACCOUNT`], so that the data that a directory sends is not read as root.
fn give_up_rights() -> Result<(), String> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let account = match User::from_name(ACCOUNT) {
        Ok(Some(account)) => account,
        Ok(None) => {
            return Err(format!(
                "there is no account `{ACCOUNT}`, which adit-ldap needs to ask a directory without root's rights"
            ));
        }
        Err(error) => return Err(format!("the account `{ACCOUNT}`: {error}")),
    };
    let become_it = setgroups(&[]).and_then(|()| setgid(account.gid)).and_then(|()| setuid(account.uid));
    become_it.map_err(|error| format!("root's rights cannot be given up: {error}"))
}
