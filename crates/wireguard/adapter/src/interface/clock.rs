//! The system's clock, and when it is set.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use adit_io::Handle;
use adit_wireguard::{Interface, Reply, WallClock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// A time of day that does not come: in 2106.
const NEVER: Timespec = Timespec { tv_sec: 0xffff_ffff, tv_nsec: 0 };

/// The time of the system's clock.
pub(super) fn now() -> WallClock {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallClock { at: adit_io::clock(), since_1970 }
}

/// A thread that tells the interface when the clock was set. It ends when this is dropped.
pub(super) struct ClockWatch {
    _ended: PipeWriter,
}

impl ClockWatch {
    /// Starts it.
    ///
    /// # Errors
    /// When the system refuses a timer or a thread.
    pub(super) fn start(handle: Handle<Interface>) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // A timer that goes by the time of day can end as soon as that jumps (timerfd_create(2)).
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        let never = Itimerspec { it_interval: Timespec::default(), it_value: NEVER };
        timerfd_settime(&timer, flags, &never)?;
        let (ended, guard) = io::pipe()?;
        thread::Builder::new()
            .name("adit-clock".to_owned())
            .spawn(move || while was_set(&timer, &ended) && handle.reply(Reply::Clock(now())) {})?;
        Ok(ClockWatch { _ended: guard })
    }
}

/// Waits until the clock is set. False at the end.
fn was_set(timer: &OwnedFd, ended: &PipeReader) -> bool {
    loop {
        let mut waited = [PollFd::new(timer, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        match poll(&mut waited, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
        let [_, ended] = waited;
        if !ended.revents().is_empty() {
            return false;
        }
        match rustix::io::read(timer, &mut [0; 8]) {
            Err(Errno::CANCELED) => return true,
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_that_of_the_system() {
        let clock = now();
        assert!(clock.since_1970.as_secs() > 1_600_000_000, "{clock:?}");
        assert!(clock.at <= adit_io::clock());
    }

    #[test]
    fn a_watch_ends_with_its_guard() {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC).unwrap();
        let (ended, guard) = io::pipe().unwrap();
        let waiting = thread::spawn(move || was_set(&timer, &ended));
        drop(guard);
        assert!(!waiting.join().unwrap());
    }
}
