//! `openvpn`: the command line of OpenVPN 2.6, for services and programs that call it.
//!
//! The options become the text of a configuration ([`command_line_text`]), whose lines the table of directives rules; its
//! tunnel is run as `adit up` runs one ([`process::run_one`]). [`stand_alone`] has the commands that run no tunnel.

mod device;
mod key_files;
mod lists;
mod stand_alone;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use adit_openvpn_config::{CommandLineOption, Parsed, command_line_text, split_command_line};

use crate::file::read_command_line;
use crate::log_manner::manner;
use crate::{VERSION, configuration};
use adit_host::failure::Failure;
use adit_host::log::Manner;
use adit_host::options::Options;
use adit_host::{background, exit, process};

/// The name of the program.
pub(crate) const NAME: &str = "openvpn";

/// In the environment of a process that goes on in the background for another that waits (`--daemon`).
const DETACHED: &str = "ADIT_OPENVPN_DETACHED";

/// The command line of OpenVPN: options, and the configurations that they name. The same as a program called `openvpn`
#[derive(clap::Args)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Args {
    /// OpenVPN's options
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Whether a program that is called so is this one.
pub(crate) fn is_called(program: &OsStr) -> bool {
    Path::new(program).file_name().unwrap_or_default().to_string_lossy().starts_with(NAME)
}

/// Runs the command line of a program with this name, whose first word is the path of the program.
pub(crate) fn main(words: Vec<OsString>) -> ExitCode {
    run(Args { words: words.into_iter().skip(1).collect() })
}

/// Runs `adit openvpn`, and gives the exit code: 1 for whatever went wrong.
pub(crate) fn run(Args { words }: Args) -> ExitCode {
    let words: Result<Vec<String>, OsString> = words.into_iter().map(OsString::into_string).collect();
    let words = words.map_err(|word| {
        Failure::Configuration(format!("{} is not UTF-8 text", word.to_string_lossy().escape_debug()))
    });
    match words.and_then(|words| serve(&words)) {
        Ok(code) => code,
        Err(failure) => {
            tell(&failure);
            ExitCode::FAILURE
        }
    }
}

fn serve(words: &[String]) -> Result<ExitCode, Failure> {
    let options = split_command_line(words).map_err(Failure::Configuration)?;
    if let Some(code) = stand_alone::run(&options)? {
        return Ok(code);
    }
    configuration::use_command_line(command_line_text(&options).map_err(Failure::Configuration)?);
    adit_guard::forbid_core_files()
        .map_err(|error| Failure::World(format!("core files cannot be forbidden: {error}")))?;
    let file = first_file(&options);
    let read = read_command_line(&file)?;
    let Asked { manner, daemon } = Asked::by(read.parsed());
    if daemon && !is_detached() {
        return go_on_in_background(words).map_err(|error| Failure::World(format!("daemon: {error}")));
    }
    let options = Options { first_line: Some(VERSION), ..Options::one(file, manner, is_detached()) };
    process::run_one(&options, Box::new(read))?;
    Ok(ExitCode::SUCCESS)
}

/// The settings of the configuration for the program, not for the tunnel.
struct Asked {
    manner: Manner,
    daemon: bool,
}

impl Asked {
    fn by(parsed: &Parsed) -> Self {
        let has = |directive| parsed.has(directive);
        let manner = manner(has("machine-readable-output"), has("errors-to-stderr"));
        // A service manager that gets a notification when the tunnel is set up wants the process that it
        // started.
        let is_told = std::env::var_os("NOTIFY_SOCKET").is_some();
        Asked { manner, daemon: has("daemon") && !is_told }
    }
}

/// The file that the options name first. The tunnel is called after it.
pub(crate) fn first_file(options: &[CommandLineOption]) -> PathBuf {
    let mut directory = PathBuf::new();
    for CommandLineOption { name, arguments } in options {
        match (name.as_str(), arguments.first()) {
            ("cd", Some(path)) => directory.push(path),
            ("config", Some(path)) => return directory.join(path),
            _ => {}
        }
    }
    NAME.into()
}

fn is_detached() -> bool {
    std::env::var_os(DETACHED).is_some()
}

/// `daemon`: another process does it all. This one ends when that is set up or has failed.
fn go_on_in_background(words: &[String]) -> std::io::Result<ExitCode> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(NAME).args(words).env(DETACHED, "1").stderr(Stdio::piped());
    Ok(if background::start(&mut command)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says why, as OpenVPN does. A program that waits for a process in the background reads something else on its standard
/// output.
fn tell(failure: &Failure) {
    let text = match failure {
        Failure::Configuration(why) => {
            let lines: Vec<String> = why.lines().map(|line| format!("Options error: {line}\n")).collect();
            format!("{}Use --help for more information.", lines.concat())
        }
        Failure::World(why) => format!("{why}\nExiting due to fatal error"),
    };
    if is_detached() { exit::tell(text) } else { exit::say(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_known_by_its_name() {
        for name in ["openvpn", "/usr/sbin/openvpn", "openvpn2.6"] {
            assert!(is_called(OsStr::new(name)), "{name}");
        }
        for name in ["adit", "/opt/openvpn/adit", "", "adit-openvpn"] {
            assert!(!is_called(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_tunnel_is_called_after_the_first_file() {
        let file = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            first_file(&split_command_line(&words).expect("options"))
        };
        assert_eq!(file(&["a.conf"]), Path::new("a.conf"));
        assert_eq!(
            file(&["--cd", "/etc/openvpn", "--config", "b.conf", "--config", "c"]),
            Path::new("/etc/openvpn/b.conf")
        );
        assert_eq!(file(&["--config", "/x/b.conf", "--cd", "/etc"]), Path::new("/x/b.conf"));
        assert_eq!(file(&["--client"]), Path::new("openvpn"));
    }
}
