//! The first process of an image.

mod advertisements;
mod clock;
mod disks;
mod events;
mod forwarding;
mod information;
mod lease;
mod log;
mod name_servers;
mod network;
pub(crate) mod paths;
mod status;
mod system;
mod tunnels;
mod watchdog;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use adit_system::KillSwitch;
use rustix::process::WaitStatus;
use rustix::system::RebootCommand;

use self::events::Event;
use self::log::Log;
use self::tunnels::Tunnels;
use self::watchdog::Watchdog;
use crate::settings::{self, Settings};

/// How long the tunnels wait for the network before they are started without it.
const NETWORK: Duration = Duration::from_secs(10);
/// How long the tunnels may take to end before the machine is switched off.
const END: Duration = Duration::from_secs(10);

/// Whether this process is the first of an image, and was not started by a container's runtime, which gives a program that is its
/// first process another name.
pub fn is_first_process() -> bool {
    let name = std::env::args_os().next().unwrap_or_default();
    std::process::id() == 1 && name == "/init" && Path::new(paths::LIST).exists()
}

/// Runs the machine until it is switched off. Returns only where the kernel refuses that.
pub fn run_as_first_process() -> ExitCode {
    let log = Log::new();
    system::mount_all(&log);
    system::load_modules(&log);
    disks::mount_state(&log);
    let on_disk = disks::mount_configurations(&log);
    let settings = read_settings(&log);
    clock::begin_at_build(&log);
    system::set_hostname(settings.hostname.as_deref(), &log);
    log.send_to(settings.syslog, settings.hostname.clone());
    let files = files(on_disk);
    if files.is_empty() {
        log.say("there is no configuration, neither in the image nor on a disk");
    }
    turn_kill_switch_on(settings.kill_switch, &files, &log);
    let (events, happened) = mpsc::channel();
    events::watch(&events, &log);
    forwarding::begin(&settings, &log);
    network::start(&settings, &events, &log);
    system::seal(&log);
    let machine = Machine {
        tunnels: Tunnels::new(files, settings.kill_switch, log.clone()),
        watchdog: Watchdog::open(),
        without_network_at: Instant::now() + NETWORK,
        status_at: Instant::now() + status::PERIOD,
        log,
    };
    let command = machine.run(&happened);
    rustix::fs::sync();
    let _ = rustix::system::reboot(command);
    ExitCode::FAILURE
}

/// The settings of the machine: those of a disk, or those of the image, which were read when the image was made.
fn read_settings(log: &Log) -> Settings {
    let on_disk = Path::new(paths::DISK).join(paths::SETTINGS_ON_DISK);
    let path = if on_disk.exists() { on_disk } else { PathBuf::from(paths::SETTINGS) };
    let Ok(text) = std::fs::read_to_string(&path) else { return Settings::default() };
    Settings::read(&text).unwrap_or_else(|fault| {
        log.say(format_args!("{}:{fault}", path.display()));
        Settings::default()
    })
}

/// The configurations to run: those of the image, and those of a disk.
fn files(on_disk: Vec<PathBuf>) -> Vec<PathBuf> {
    let list = std::fs::read_to_string(paths::LIST).unwrap_or_default();
    let in_image = list.lines().map(|name| Path::new(paths::CONFIGURATIONS).join(name));
    in_image.chain(on_disk).collect()
}

/// Turns the kill switch on before there is a network. `adit up` replaces it: its table has the name that these files give it.
fn turn_kill_switch_on(scope: Option<settings::KillSwitch>, files: &[PathBuf], log: &Log) {
    let Some(scope) = scope else { return };
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    if let Err(error) = KillSwitch::new(&files, scope == settings::KillSwitch::Lan).on() {
        log.say(error);
    }
}

/// The parts of the machine that its main loop drives.
struct Machine {
    tunnels: Tunnels,
    watchdog: Watchdog,
    /// When the tunnels are started even without a network.
    without_network_at: Instant,
    /// When the line of the machine's status is written.
    status_at: Instant,
    log: Log,
}

impl Machine {
    /// Runs the tunnels until the machine is to be switched off or started anew, and ends them.
    fn run(mut self, happened: &Receiver<Event>) -> RebootCommand {
        loop {
            if Instant::now() >= self.without_network_at {
                self.tunnels.begin();
            }
            self.tunnels.start_if_due();
            self.watchdog.feed();
            self.write_status_if_due();
            match happened.recv_timeout(self.next()) {
                Ok(Event::Ended(pid, status)) => self.tunnels.ended(pid, &described(&status)),
                Ok(Event::NetworkReady) => self.tunnels.begin(),
                Ok(Event::PowerOff(why)) => return self.end(happened, why, RebootCommand::PowerOff),
                Ok(Event::Restart(why)) => return self.end(happened, why, RebootCommand::Restart),
                Err(_) => {}
            }
        }
    }

    fn write_status_if_due(&mut self) {
        if Instant::now() >= self.status_at {
            self.status_at += status::PERIOD;
            self.log.say(status::line());
        }
    }

    /// How long there is nothing to do.
    fn next(&self) -> Duration {
        let now = Instant::now();
        let times = [self.tunnels.due(), Some(self.without_network_at).filter(|time| *time > now)];
        let times = times.into_iter().flatten().map(|time| time.saturating_duration_since(now));
        times.chain([watchdog::PERIOD]).min().unwrap_or(watchdog::PERIOD)
    }

    /// Ends the tunnels.
    fn end(mut self, happened: &Receiver<Event>, why: &str, command: RebootCommand) -> RebootCommand {
        self.log.say(format_args!("{why}: the tunnels end"));
        watchdog::stall_if_asked();
        let deadline = Instant::now() + END;
        let mut runs = self.tunnels.stop();
        while runs && Instant::now() < deadline {
            self.watchdog.feed();
            if let Ok(Event::Ended(pid, _)) = happened.recv_timeout(Duration::from_millis(500)) {
                runs = !self.tunnels.is(pid);
            }
        }
        self.watchdog.release();
        self.log.say("the machine is switched off");
        command
    }
}

/// How a process ended.
fn described(status: &WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (_, Some(signal)) => format!("signal {signal}"),
        _ => "it does not say how".to_owned(),
    }
}
