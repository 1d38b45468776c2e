//! The things that the system must have for an OpenVPN tunnel: programs, accounts, directories, places for files.

use std::path::Path;

use adit_guard::{Account, AccountError};
use adit_openvpn_config::{Access, Parsed, PerClient, Role};

use super::{at_line, management_fault};
use crate::management::{Management, SocketPassword};
use crate::place::place;
use crate::{back_ends, tunnel_scripts};
use adit_host::failure::Failure;
use adit_host::programs::is_program;
use adit_host::remarks::Notes;
use adit_host::{configuration, writable};

/// The things that were found in the system.
pub(crate) struct Settled {
    /// The account that `user` and `group` name.
    pub(crate) account: Option<Account>,
    /// A server's files on its clients.
    pub(crate) per_client: Option<PerClient>,
    /// The password of the management socket.
    pub(crate) management_password: SocketPassword,
}

/// Finds and judges the things that the system must have. Scripts that adit does without are removed from the configuration.
///
/// # Errors
/// The first thing that is missing or cannot be used, with its line.
pub(crate) fn settle(parsed: &mut Parsed, file: &Path, notes: &mut dyn Notes) -> Result<Settled, Failure> {
    check_scripts(parsed, file, notes)?;
    check_back_ends(parsed, file, notes)?;
    let account = account(parsed, file)?;
    let per_client = per_client_files(parsed, file)?;
    if let Some(path) = &parsed.config.process.pid_file {
        writable::check(path).map_err(|error| {
            let error = format!("writepid {}: {error}", path.display());
            at_line(parsed, file, "writepid", &error)
        })?;
    }
    let management_password = Management::judge(&parsed.config, file, notes)
        .map_err(|fault| management_fault(parsed, file, fault))?;
    Ok(Settled { account, per_client, management_password })
}

fn check_scripts(parsed: &mut Parsed, file: &Path, notes: &mut dyn Notes) -> Result<(), Failure> {
    let checked = tunnel_scripts::check::check(&mut parsed.config.scripts);
    let warnings = checked.map_err(|(directive, why)| at_line(parsed, file, directive, &why))?;
    warnings.iter().for_each(|warning| notes.warn(warning));
    let Role::Server(server) = &parsed.config.role else { return Ok(()) };
    for (directive, program) in access_programs(&server.access) {
        is_program(program)
            .map_err(|why| at_line(parsed, file, directive, &format!("{directive}: {why}")))?;
    }
    Ok(())
}

/// The programs that a server asks and tells about its clients, each with its directive. OpenVPN looks for them at the start, too
/// (options.c, `check_cmd_access`).
fn access_programs(access: &Access) -> impl Iterator<Item = (&'static str, &str)> {
    let verify = access.verify.as_ref().map(|script| &script.argv);
    let programs = [
        ("auth-user-pass-verify", verify),
        ("tls-verify", access.tls_verify.as_ref()),
        ("tls-crypt-v2-verify", access.key_verify.as_ref()),
        ("client-crresponse", access.client_crresponse.as_ref()),
        ("client-connect", access.client_connect.as_ref()),
        ("client-disconnect", access.client_disconnect.as_ref()),
        ("learn-address", access.learn_address.as_ref()),
    ];
    programs.into_iter().filter_map(|(directive, argv)| Some((directive, argv?.first()?.as_str())))
}

/// `plugin`: its programs and files.
fn check_back_ends(parsed: &mut Parsed, file: &Path, notes: &mut dyn Notes) -> Result<(), Failure> {
    let read = back_ends::read_files(&mut parsed.config, file);
    let read = read.and_then(|warnings| back_ends::check_programs(&parsed.config).map(|()| warnings));
    let warnings = read.map_err(|why| at_line(parsed, file, "plugin", &why))?;
    warnings.iter().for_each(|warning| notes.warn(warning));
    Ok(())
}

fn account(parsed: &Parsed, file: &Path) -> Result<Option<Account>, Failure> {
    let process = &parsed.config.process;
    let directive = |error: &AccountError| match error {
        AccountError::Unknown { kind, .. } | AccountError::LookUp { kind, .. } => kind,
        AccountError::Assume { .. } => "user",
    };
    Account::find(process.user.as_deref(), process.group.as_deref())
        .map_err(|error| at_line(parsed, file, directive(&error), &error))
}

fn per_client_files(parsed: &Parsed, file: &Path) -> Result<Option<PerClient>, Failure> {
    let Role::Server(server) = &parsed.config.role else { return Ok(None) };
    let mut files = server.per_client.clone();
    if let Some(directory) = &mut files.directory {
        *directory = configuration::find(file, directory);
        std::fs::read_dir(&*directory).map_err(|error| {
            let place = place(parsed, file, &["client-config-dir"]);
            Failure::World(format!("{place}: client-config-dir {}: {error}", directory.display()))
        })?;
    }
    Ok(Some(files))
}
