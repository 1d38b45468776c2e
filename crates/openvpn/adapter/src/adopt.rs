//! `adit adopt`: from now on adit runs a tunnel that OpenVPN runs, in the same unit, with the same files and command line. If no
//! client is connected again in time, OpenVPN runs it again.
//!
//! [`Unit`] has the steps. The command may be killed, and the power of the machine may fail, after each of them.

mod drop_in;
mod names;
mod process;
mod running;
mod systemd;
mod unit;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use adit_openvpn_config::{Role, command_line_text, split_command_line};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::systemd::Systemd;
use self::unit::{Found, PeerWait, Unit};
use crate::command as openvpn;
use crate::configuration::use_command_line;
use crate::file::{OpenVpnConfiguration, read_command_line};
use adit_host::adapter::Configuration as _;
use adit_host::check;
use adit_host::failure::Failure;
use adit_host::remarks::Remarks;
use adit_host::{exit, status};

/// The directory of OpenVPN's configurations.
const DIRECTORY: &str = "/etc/openvpn";
/// The least time that the command waits for a client by default.
const LEAST: Duration = Duration::from_secs(60);
/// The time that it waits by default after clients have missed the server.
const MARGIN: Duration = Duration::from_secs(15);

/// Have adit run a tunnel that OpenVPN runs, and go back to OpenVPN if no client is connected again
///
/// Says first what adit does otherwise, as `adit check`. A configuration that adit refuses is an error, and OpenVPN goes on.
/// Then a drop-in has the unit run adit, and the unit is restarted. When a client is connected (of a client: its tunnel is
/// up), that is kept for good. If none is in time, or adit ends, OpenVPN runs as before. A start of the machine in between goes
/// back as well, and a command that was interrupted can be repeated.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The unit (openvpn-server@office), the name of a configuration in /etc/openvpn/server, /etc/openvpn/client or
    /// /etc/openvpn (office), its file, or that of another OpenVPN that runs
    #[arg(value_name = "NAME")]
    name: String,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Go back if no client is connected again by then, such as 90s or 2m [default: 15 seconds longer than this end takes to
    /// miss a client by the file's `keepalive`, and at least 60s]. With 0, none is waited for
    #[arg(long, value_name = "TIME", value_parser = duration)]
    within: Option<Duration>,
    /// Have OpenVPN run it again, now and from now on
    #[arg(long, conflicts_with_all = ["dry_run", "within"])]
    back: bool,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> ExitCode {
    match adopt(&args) {
        Ok(said) => {
            exit::say(said);
            ExitCode::SUCCESS
        }
        Err(Failure::Configuration(why)) => exit::usage(why),
        Err(Failure::World(why)) => exit::failure(why),
    }
}

fn adopt(args: &Args) -> Result<String, Failure> {
    let main_process = |unit: &str| Systemd::of_system().ok()?.main_process(unit).ok()?;
    let running = |file: &Path| running::unit(file, &main_process);
    let name = names::unit(&args.name, Path::new(DIRECTORY), &running).map_err(Failure::Configuration)?;
    let systemd = Systemd::of_system().map_err(Failure::World)?;
    let unit = Unit::new(&systemd, name);
    let _lock = unit.lock().map_err(Failure::World)?;
    if args.back {
        return unit.give_back().map_err(Failure::World);
    }
    let found = unit.look().map_err(Failure::World)?;
    if let Some(said) = unit.settle(&found, args.dry_run).map_err(Failure::World)? {
        return Ok(said);
    }
    let (configuration, of_start) = read(&unit, &found)?;
    let parsed = configuration.parsed();
    let within = args.within.unwrap_or_else(|| peer_wait(parsed.config.liveness.timeout));
    exit::say(format_args!("{}: {}, {found}", unit.name(), role(&parsed.config.role)));
    tell_differences(&configuration, &of_start);
    if found.is_active() && !within.is_zero() {
        unit.check_visible(&found).map_err(Failure::World)?;
    }
    let drop_in = unit.drop_in(&found).map_err(Failure::World)?;
    if args.dry_run {
        return Ok(plan(&unit, &found, &drop_in, within));
    }
    let interrupted = watch_signals().map_err(|error| Failure::World(format!("signals: {error}")))?;
    let peer_wait = PeerWait { within, interrupted: &interrupted, peer_of: &status::peer_of };
    unit.adopt(&found, &drop_in, &peer_wait).map_err(Failure::World)
}

/// Reads the configuration as adit will: by the unit's command line, from its directory. Gives it with what there is to say of
/// its start.
///
/// # Errors
/// When adit cannot run it.
fn read(unit: &Unit<'_>, found: &Found) -> Result<(OpenVpnConfiguration, Remarks), Failure> {
    let (words, directory) = unit.command_line(found).map_err(Failure::World)?;
    std::env::set_current_dir(&directory)
        .map_err(|error| Failure::World(format!("its working directory {}: {error}", directory.display())))?;
    let options = split_command_line(&words).map_err(Failure::Configuration)?;
    use_command_line(command_line_text(&options).map_err(Failure::Configuration)?);
    let file = openvpn::first_file(&options);
    let stays = |why: String| {
        Failure::Configuration(format!("adit cannot run {}; it stays as it is:\n{why}", unit.name()))
    };
    let configuration = read_command_line(&file).map_err(|failure| match failure {
        Failure::Configuration(why) => stays(why),
        Failure::World(why) => Failure::World(why),
    })?;
    let mut of_start = Remarks::default();
    configuration.check(&mut of_start).map_err(|failure| stays(failure.why().to_owned()))?;
    Ok((configuration, of_start))
}

fn tell_differences(configuration: &OpenVpnConfiguration, of_start: &Remarks) {
    let remarks = check::remarks(configuration, of_start, false);
    exit::say(match remarks.is_empty() {
        true => "adit does all that the configuration says as OpenVPN does.",
        false => "What adit does otherwise, and what is doubtful:",
    });
    remarks.iter().for_each(exit::say);
}

fn plan(unit: &Unit<'_>, found: &Found, drop_in: &str, within: Duration) -> String {
    let what = match found.is_active() {
        true => format!(
            "restart {} with it, and go back if no peer is connected within {} s",
            unit.name(),
            within.as_secs()
        ),
        false => "start nothing".to_owned(),
    };
    format!("Would write {}, and {what}:\n\n{}", unit.kept().display(), drop_in.trim_end())
}

/// The name of a role.
fn role(role: &Role) -> &'static str {
    match role {
        Role::Client(_) => "client",
        Role::Server(_) => "server",
        Role::PointToPoint(_) => "point-to-point end",
    }
}

/// How long the command waits: until clients miss the server, and connect.
fn peer_wait(timeout: Option<Duration>) -> Duration {
    LEAST.max(timeout.unwrap_or_default() + MARGIN)
}

/// Becomes true at SIGINT and SIGTERM. The loss of the terminal (SIGHUP) is ignored, as the terminal may be reached through the
/// tunnel.
fn watch_signals() -> std::io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    signal_hook::flag::register(SIGHUP, Arc::default())?;
    Ok(interrupted)
}

/// Reads a time such as `90`, `90s` or `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let (digits, factor) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let seconds = digits.parse::<u32>().map_err(|_| "give a time such as 90s or 2m".to_owned())?;
    Ok(Duration::from_secs(u64::from(seconds) * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("0", 0), ("90", 90), ("90s", 90), ("2m", 120)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "-1", "1h", "1.5m", "99999999999"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn clients_get_the_time_that_they_need_to_miss_a_server() {
        assert_eq!(peer_wait(None), LEAST);
        assert_eq!(peer_wait(Some(Duration::from_secs(5))), LEAST);
        assert_eq!(peer_wait(Some(Duration::from_secs(120))), Duration::from_secs(135));
    }
}
