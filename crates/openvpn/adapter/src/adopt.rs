//! `adit adopt` for units of OpenVPN: adit runs their tunnels with the same files and command line.

mod names;
mod process;
mod running;

use std::path::Path;

use adit_host::adapter::Configuration as _;
use adit_host::adoption::{Adoption, Prepared, Start, Systemd};
use adit_host::check;
use adit_host::failure::Failure;
use adit_host::remarks::Remarks;
use adit_openvpn_config::{Role, command_line_text, split_command_line};

use crate::TITLE;
use crate::command as openvpn;
use crate::configuration::use_command_line;
use crate::file::{OpenVpnConfiguration, read_command_line};

/// The directory of OpenVPN's configurations.
const DIRECTORY: &str = "/etc/openvpn";

/// OpenVPN, whose units adit can take over.
pub(crate) struct OpenVpnUnits;

impl Adoption for OpenVpnUnits {
    fn title(&self) -> &'static str {
        TITLE
    }

    fn unit(&self, name: &str, systemd: Option<&Systemd>) -> Option<Result<String, String>> {
        let main_process = |unit: &str| systemd?.main_process(unit).ok()?;
        let running = |file: &Path| running::unit(file, &main_process);
        Some(names::unit(name, Path::new(DIRECTORY), &running))
    }

    fn is_called(&self, program: &Path) -> bool {
        openvpn::is_called(program.as_os_str())
    }

    fn arguments<'w>(&self, words: &'w [String]) -> Option<&'w [String]> {
        words.split_first().filter(|(command, _)| *command == openvpn::NAME).map(|(_, rest)| rest)
    }

    fn prepare(&self, start: &Start<'_>) -> Result<Prepared, Failure> {
        let (configuration, of_start) = read(start)?;
        let config = &configuration.parsed().config;
        Ok(Prepared {
            remarks: check::remarks(&configuration, &of_start, false),
            role: role(&config.role),
            command: openvpn::NAME,
            arguments: start.words.to_vec(),
            timeout: config.liveness.timeout,
        })
    }
}

/// Reads the configuration as adit will: by the unit's command line, from its directory. Gives it with what there is to say of
/// its start.
///
/// # Errors
/// When adit cannot run it.
fn read(start: &Start<'_>) -> Result<(OpenVpnConfiguration, Remarks), Failure> {
    let (words, directory) = (command_line(start).map_err(Failure::World)?, &start.directory);
    std::env::set_current_dir(directory)
        .map_err(|error| Failure::World(format!("its working directory {}: {error}", directory.display())))?;
    let options = split_command_line(&words).map_err(Failure::Configuration)?;
    use_command_line(command_line_text(&options).map_err(Failure::Configuration)?);
    let file = openvpn::first_file(&options);
    let stays = |why: String| {
        Failure::Configuration(format!("adit cannot run {}; it stays as it is:\n{why}", start.unit))
    };
    let configuration = read_command_line(&file).map_err(|failure| match failure {
        Failure::Configuration(why) => stays(why),
        Failure::World(why) => Failure::World(why),
    })?;
    let mut of_start = Remarks::default();
    configuration.check(&mut of_start).map_err(|failure| stays(failure.why().to_owned()))?;
    Ok((configuration, of_start))
}

/// OpenVPN's arguments, with the values of variables.
///
/// # Errors
/// When these values are not known, or the process cannot be seen.
fn command_line(start: &Start<'_>) -> Result<Vec<String>, String> {
    match start.main {
        Some(process) => process::arguments(process),
        None if !start.is_literal && start.words.iter().any(|word| word.contains('$')) => Err(format!(
            "{} has variables in its command: start it, so that their values can be read",
            start.unit
        )),
        None => Ok(start.words.to_vec()),
    }
}

/// The name of a role.
fn role(role: &Role) -> &'static str {
    match role {
        Role::Client(_) => "client",
        Role::Server(_) => "server",
        Role::PointToPoint(_) => "point-to-point end",
    }
}
