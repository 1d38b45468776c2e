//! The events that the first process waits for: the end of a child, the wish to switch the machine off, the network.

use std::fs::File;
use std::io::Read as _;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus};
use rustix::system::RebootCommand;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::log::Log;

/// The kernel tells its first process by it that the power fails (signal(7)).
const SIGPWR: i32 = 30;
/// A key event (linux/input-event-codes.h `EV_KEY`), and the power button's key (`KEY_POWER`).
const EV_KEY: u16 = 1;
const KEY_POWER: u16 = 116;
/// `struct input_event` (linux/input.h): a time of two words, then type, code and value.
const INPUT_EVENT: usize = 24;
/// How long to wait for a child where there is none.
const NO_CHILD: Duration = Duration::from_millis(200);

/// An event.
#[derive(Debug)]
pub(super) enum Event {
    /// A child has ended.
    Ended(Pid, WaitStatus),
    /// The machine is to be switched off.
    PowerOff(&'static str),
    /// The machine is to be started anew.
    Restart(&'static str),
    /// Every device of the settings has an address.
    NetworkReady,
}

/// Begins to send events.
pub(super) fn watch(events: &Sender<Event>, log: &Log) {
    // Ctrl-Alt-Delete becomes a signal to this process.
    let _ = rustix::system::reboot(RebootCommand::CadOff);
    for result in [watch_signals(events.clone()), reap(events.clone()), watch_buttons(events)] {
        if let Err(error) = result {
            log.say(format_args!("a thread cannot be started: {error}"));
        }
    }
}

fn watch_signals(events: Sender<Event>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGPWR])?;
    spawn("signals", move || {
        for signal in signals.forever() {
            let event = match signal {
                SIGINT => Event::Restart("Ctrl-Alt-Delete"),
                SIGPWR => Event::PowerOff("the power fails"),
                _ => Event::PowerOff("a signal"),
            };
            if events.send(event).is_err() {
                return;
            }
        }
    })
}

/// Takes the ends of all children, those of other processes that ended before them, too.
fn reap(events: Sender<Event>) -> std::io::Result<()> {
    spawn("children", move || {
        loop {
            match rustix::process::wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if events.send(Event::Ended(pid, status)).is_err() => return,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => thread::sleep(NO_CHILD),
            }
        }
    })
}

fn watch_buttons(events: &Sender<Event>) -> std::io::Result<()> {
    let devices = std::fs::read_dir("/dev/input").into_iter().flatten().flatten().map(|entry| entry.path());
    for device in devices.filter(|path| path.to_string_lossy().contains("/event")) {
        let Ok(file) = File::open(&device) else { continue };
        let events = events.clone();
        spawn("button", move || {
            if wait_for_button(file) {
                let _ = events.send(Event::PowerOff("the power button"));
            }
        })?;
    }
    Ok(())
}

/// Reads a device's events until its power button is pressed; false when the device is gone.
fn wait_for_button(mut device: File) -> bool {
    let mut event = [0; INPUT_EVENT];
    while device.read_exact(&mut event).is_ok() {
        if is_power_button(&event) {
            return true;
        }
    }
    false
}

fn is_power_button(event: &[u8; INPUT_EVENT]) -> bool {
    let [.., k0, k1, c0, c1, v0, v1, v2, v3] = *event;
    let is_pressed = i32::from_ne_bytes([v0, v1, v2, v3]) == 1;
    is_pressed && u16::from_ne_bytes([k0, k1]) == EV_KEY && u16::from_ne_bytes([c0, c1]) == KEY_POWER
}

/// Starts a thread that goes on for as long as the machine.
pub(super) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_button_is_known_by_its_key_when_it_goes_down() {
        let event = |kind: u16, code: u16, value: i32| {
            let mut event = [7; INPUT_EVENT];
            event[16..18].copy_from_slice(&kind.to_ne_bytes());
            event[18..20].copy_from_slice(&code.to_ne_bytes());
            event[20..].copy_from_slice(&value.to_ne_bytes());
            event
        };
        assert!(is_power_button(&event(EV_KEY, KEY_POWER, 1)));
        for other in [event(EV_KEY, KEY_POWER, 0), event(EV_KEY, 30, 1), event(0, KEY_POWER, 1)] {
            assert!(!is_power_button(&other));
        }
    }
}
