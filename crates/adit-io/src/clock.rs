//! The only clock in adit.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use adit_core::{Instant, UnixTime};
use rustix::time::{ClockId, clock_gettime};

use crate::sys;

/// How long the machine has slept since it was booted, in nanoseconds, as [`clock`] saw it last.
static SLEPT: AtomicU64 = AtomicU64::new(0);

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// The time since the first call in this process.
fn since_origin(boot: u64) -> Instant {
    static ORIGIN: OnceLock<u64> = OnceLock::new();
    // The first call gives 1 s, so that "a second ago" exists from the start.
    let origin = *ORIGIN.get_or_init(|| boot.saturating_sub(1_000_000_000));
    Instant::from_nanos(boot.saturating_sub(origin))
}

/// The time since the first call in this process, sleep of the machine included (`CLOCK_BOOTTIME`): a peer
/// that we did not hear while the lid was closed is overdue when it opens.
pub fn clock() -> Instant {
    let boot = nanos(ClockId::Boottime);
    // Read second, it can only make the difference too small; a later call makes up for it.
    SLEPT.fetch_max(boot.saturating_sub(nanos(ClockId::Monotonic)), Ordering::Relaxed);
    since_origin(boot)
}

/// The time of [`clock`], late by some milliseconds, at next to no cost (`CLOCK_MONOTONIC_COARSE`). After the machine has
/// slept it is late by that time until [`clock`] is read again, which the control thread does at least once a second.
pub(crate) fn coarse_clock() -> Instant {
    since_origin(nanos(ClockId::MonotonicCoarse).saturating_add(SLEPT.load(Ordering::Relaxed)))
}

/// The time of day (`CLOCK_REALTIME`).
pub fn unix_now() -> UnixTime {
    UnixTime(u64::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or(0))
}

/// That moment on the clock of this place (`TZ`, `/etc/localtime`): `2026-01-31 13:05:00`.
pub fn local_time(at: UnixTime) -> String {
    let Some(time) = sys::local_time(at.0) else { return at.0.to_string() };
    let sys::LocalTime { year, month, day, hour, minute, second } = time;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn clock_goes_forward() {
        let first = clock();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock() > first);
        assert!(unix_now().0 > 1_600_000_000);
    }

    #[test]
    fn the_coarse_clock_shows_the_same_time() {
        let before = clock();
        let coarse = coarse_clock();
        assert!(coarse <= clock(), "it is never early");
        assert!(coarse + Duration::from_millis(500) > before, "{coarse:?}, {before:?}");
    }
}
