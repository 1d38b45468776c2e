//! `adit-wireguard IFNAME`: an interface that `wg` configures, as `wg-quick` starts it
//! (<https://www.wireguard.com/xplatform/>, and the environment of wireguard-go's main.go).
//!
//! The process that is called starts another, which detaches from it ([`background`]), and ends when that is ready: the
//! device is there, `wg` can connect, and the UDP sockets are bound.

mod background;
mod endings;
mod environment;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use adit_core::{Ended, Severity, escaped};
use adit_guard::Helper;
use adit_io::{DriverError, TunConfig};
use adit_wireguard::Changes;
use clap::{CommandFactory as _, Parser};

use self::endings::Endings;
use self::environment::{Environment, LogLevel};
use crate::helper_of;
use crate::interface::{MTU, Settings, Tunnel, driver_config, uapi};
use adit_host::log::{LogPlace, LogSettings, Logger, Logs};
use adit_host::{exit, helper, privileges};

/// The names of the program; `wg-quick` looks for one that is called `wireguard-go` unless an environment
/// variable names another.
const NAMES: [&str; 2] = ["adit-wireguard", "wireguard-go"];

/// Run a WireGuard interface that `wg` configures, in the background. The same as `adit-wireguard IFNAME`
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Stay in the foreground (also by WG_PROCESS_FOREGROUND=1)
    #[arg(short, long)]
    foreground: bool,
    /// Go into the background now: the process that was called waits.
    #[arg(long, hide = true)]
    detach: bool,
    /// The interface to make
    #[arg(value_name = "IFNAME")]
    interface: String,
}

const ENVIRONMENT: &str = "Environment:
  WG_PROCESS_FOREGROUND=1  as --foreground
  WG_TUN_FD=N              use the TUN device that is open under that number
  WG_UAPI_FD=N             use the socket that listens under that number
  LOG_LEVEL                verbose, debug, error (the default) or silent; in the background, what is logged can be
                           seen only if this is set
  STATE_DIRECTORY          where to keep what must outlast a restart, in place of /var/lib/adit
Exit codes: 0 when the interface can be used (in the foreground: when it has ended), 1 otherwise.";

/// Run a WireGuard interface that `wg` configures.
#[derive(Parser)]
#[command(name = "adit-wireguard", version, after_help = ENVIRONMENT)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

/// Whether a program that is called so is this one.
pub(crate) fn is_called(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    NAMES.iter().any(|known| name.starts_with(known))
}

/// The parser of that program's command line.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Runs a command line of `adit-wireguard`, whose first word is the path of the program.
pub(crate) fn main(words: Vec<OsString>) -> ExitCode {
    match Cli::try_parse_from(words) {
        Ok(cli) => run(cli.args),
        Err(error) => {
            // Nothing can be done if it cannot be written. `wg-quick` ends at any code but 0.
            let _ = error.print();
            if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    let outcome = if args.detach {
        background::detach().and_then(|()| serve(&args))
    } else if args.foreground || Environment::foreground() {
        serve(&args)
    } else {
        return background::start(&args.interface);
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => exit::failure(why),
    }
}

/// Runs the interface until it ends.
fn serve(args: &Args) -> Result<(), String> {
    adit_guard::forbid_core_files().map_err(|error| error.to_string())?;
    // Before there is anything that must not be left behind.
    let endings = Endings::watch().map_err(|error| format!("signals cannot be watched: {error}"))?;
    let environment = Environment::read()?;
    let level = environment.log_level;
    let mut log = level.open(&args.interface).map_err(|error| format!("no log: {error}"))?;
    let _flush = log.flush_on_drop();
    let (mut tunnel, name) = set_up(&args.interface, environment, &log, endings)?;
    let helper = start_helper(&mut tunnel, args.detach, &mut log)?;
    // It cannot be opened later.
    let nowhere = background::nowhere().map_err(|error| format!("/dev/null: {error}"))?;
    let begin = || {
        privileges::confine(None, true)?;
        if args.detach {
            background::ready(level, &nowhere).map_err(|error| error.to_string())
        } else {
            Ok(())
        }
    };
    let ended = tunnel.run(Box::new(begin));
    drop(helper);
    match ended {
        Ok(Ended::Shutdown) => Ok(()),
        Ok(Ended::Failed(why)) => Err(escaped(&why).into_owned()),
        // Such an interface is ended in this way.
        Err(DriverError::DeviceDeleted(_)) => {
            log.log(Severity::Info, format_args!("{name} was deleted"));
            Ok(())
        }
        Err(error) => {
            log.log(Severity::Error, &error);
            Err(error.to_string())
        }
    }
}

/// Starts the process that binds and marks sockets, writes the timestamp and removes the socket's file: what needs root's rights
/// after the interface has given them up. `wg` and others set up the device.
fn start_helper(tunnel: &mut Tunnel, in_background: bool, log: &mut Logger) -> Result<Helper, String> {
    let mut helper = helper::start(&helper_of(), tunnel.policy(false), in_background)?;
    helper.reports().into_iter().for_each(|report| log.log(report.severity, report));
    let used = tunnel.use_helper(&helper.access(), false);
    used.map_err(|error| format!("the helper process does not answer: {error}"))?;
    Ok(helper)
}

/// Makes the device, then the socket for `wg`, then the UDP sockets; and sees to the end of it all.
fn set_up(
    interface: &str,
    environment: Environment,
    log: &Logger,
    endings: Endings,
) -> Result<(Tunnel, String), String> {
    let Environment { tun, uapi, .. } = environment;
    let tun = TunConfig {
        name: Some(interface.to_owned()),
        descriptor: tun.map(Into::into),
        mtu: Some(MTU.into()),
        ..TunConfig::default()
    };
    let settings = Settings {
        driver: driver_config(tun, 1),
        mtu: MTU,
        clamp_mss: u16::MAX,
        tunnel: None,
        configuration: Changes::default(),
        shared: None,
    };
    let mut tunnel = Tunnel::set_up(settings, log.clone())?;
    let name = tunnel.device().to_owned();
    let socket = match uapi {
        Some(socket) => uapi::inherited(socket, &name),
        None => uapi::bind(&name),
    }?;
    endings.of(&tunnel, &socket).map_err(|error| format!("the end cannot be watched: {error}"))?;
    tunnel.listen(socket).map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok((tunnel, name))
}

impl LogLevel {
    fn open(self, interface: &str) -> std::io::Result<Logger> {
        let nowhere = LogPlace::File { path: "/dev/null".into(), append: true };
        let settings = LogSettings {
            verb: if self == LogLevel::Verbose { 6 } else { 0 },
            place: (self == LogLevel::Silent).then_some(nowhere),
            ..LogSettings::default()
        };
        Logs::default().open(&settings, Some(interface))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_known_by_its_names() {
        for name in ["adit-wireguard", "/usr/bin/wireguard-go", "./wireguard-go-adit"] {
            assert!(is_called(OsStr::new(name)), "{name}");
        }
        for name in ["adit", "/usr/bin/wireguard", "", "/wireguard-go/adit"] {
            assert!(!is_called(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_command_line_is_wireguard_gos() {
        let parse = |words: &[&str]| {
            let words = std::iter::once("adit-wireguard").chain(words.iter().copied());
            Cli::try_parse_from(words).map(|cli| (cli.args.foreground, cli.args.interface)).ok()
        };
        let wg0 = || "wg0".to_owned();
        assert_eq!(parse(&["wg0"]), Some((false, wg0())));
        for words in [["-f", "wg0"], ["--foreground", "wg0"]] {
            assert_eq!(parse(&words), Some((true, wg0())));
        }
        for words in [&[][..], &["-x", "wg0"], &["wg0", "wg1"]] {
            assert_eq!(parse(words), None, "{words:?}");
        }
    }
}
