//! `adit adopt`: from now on adit runs the tunnels of a unit that another program runs, with the same files. If its peers are not
//! connected again in time, the other program runs them again.
//!
//! `unit` has the steps. The command may be killed, and the power of the machine may fail, after each of them.

mod drop_in;
mod files;
mod process;
mod program;
mod systemd;
mod unit;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

pub use self::process::program;
pub use self::program::{Adoption, Prepared, Start};
pub use self::systemd::{Command, Systemd};
use self::unit::{Found, PeerWait, Unit};
use crate::failure::Failure;
use crate::{exit, status};

/// The least time that the command waits for peers by default.
const LEAST: Duration = Duration::from_secs(60);
/// The time that it waits by default after peers have missed this end.
const MARGIN: Duration = Duration::from_secs(15);

/// The arguments of the command.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The unit, or another name that a protocol knows.
    pub name: &'a str,
    /// Only say what would be done.
    pub is_dry_run: bool,
    /// How long peers may take; 0: none is waited for; `None`: the time that the configuration gives.
    pub within: Option<Duration>,
    /// Have the other program run it again.
    pub is_back: bool,
}

/// Carries out an order. `programs` are those in whose place adit can run; the last one knows all names. Gives the last sentence for the person
/// who gave the order; those before it were said.
///
/// # Errors
/// Why the unit is as it was.
pub fn adopt(order: &Order<'_>, programs: &[&dyn Adoption]) -> Result<String, Failure> {
    let systemd = Systemd::of_system();
    let name = unit_of(order.name, systemd.as_ref().ok(), programs).map_err(Failure::Configuration)?;
    let systemd = systemd.map_err(Failure::World)?;
    let unit = Unit::new(&systemd, name, programs);
    let _lock = unit.lock().map_err(Failure::World)?;
    if order.is_back {
        return unit.give_back().map_err(Failure::World);
    }
    let found = unit.look().map_err(Failure::World)?;
    if let Some(said) = unit.settle(&found, order.is_dry_run).map_err(Failure::World)? {
        return Ok(said);
    }
    let prepared = found.other.prepare(&unit.start(&found).map_err(Failure::World)?)?;
    let within = order.within.unwrap_or_else(|| peer_wait(prepared.timeout));
    exit::say(format_args!("{}: {}, {found}", unit.name(), prepared.role));
    tell_differences(&found, &prepared);
    if found.is_active() && !within.is_zero() {
        unit.check_visible(&found).map_err(Failure::World)?;
    }
    let needed = needed(&found, within)?;
    let drop_in = unit.drop_in(&found, &prepared).map_err(Failure::World)?;
    if order.is_dry_run {
        return Ok(plan(&unit, &found, &drop_in, (within, needed)));
    }
    let interrupted = watch_signals().map_err(|error| Failure::World(format!("signals: {error}")))?;
    let peer_wait = PeerWait { within, needed, interrupted: &interrupted, peers_of: &status::peers_of };
    unit.adopt(&found, &drop_in, &peer_wait).map_err(Failure::World)
}

/// The unit that a name means.
fn unit_of(name: &str, systemd: Option<&Systemd>, programs: &[&dyn Adoption]) -> Result<String, String> {
    let known = programs.iter().find_map(|other| other.unit(name, systemd));
    known.unwrap_or_else(|| Ok(format!("{}.service", name.strip_suffix(".service").unwrap_or(name))))
}

/// The number of peers that must come back.
fn needed(found: &Found<'_>, within: Duration) -> Result<usize, Failure> {
    match found.other_process() {
        Some(process) if !within.is_zero() => {
            found.other.peers(process).map(|peers| peers.max(1)).map_err(Failure::World)
        }
        _ => Ok(1),
    }
}

fn tell_differences(found: &Found<'_>, prepared: &Prepared) {
    if prepared.remarks.is_empty() {
        let title = found.other.title();
        exit::say(format_args!("adit does all that the configuration says as {title} does."));
        return;
    }
    exit::say("What adit does otherwise, and what is doubtful:");
    prepared.remarks.iter().for_each(exit::say);
}

fn plan(unit: &Unit<'_>, found: &Found<'_>, drop_in: &str, (within, needed): (Duration, usize)) -> String {
    let name = unit.name();
    let seconds = within.as_secs();
    let what = match (found.is_active(), needed) {
        (true, 1) => {
            format!("restart {name} with it, and go back if no peer is connected within {seconds} s")
        }
        (true, _) => format!(
            "restart {name} with it, and go back if fewer than {needed} peers are connected within {seconds} s"
        ),
        (false, _) => "start nothing".to_owned(),
    };
    format!("Would write {}, and {what}:\n\n{}", unit.kept().display(), drop_in.trim_end())
}

/// How long the command waits: until peers miss this end, and connect.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_get_the_time_that_they_need_to_miss_this_end() {
        assert_eq!(peer_wait(None), LEAST);
        assert_eq!(peer_wait(Some(Duration::from_secs(5))), LEAST);
        assert_eq!(peer_wait(Some(Duration::from_secs(120))), Duration::from_secs(135));
    }
}
