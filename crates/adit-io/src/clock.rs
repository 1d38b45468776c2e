//! The only clock in adit.

use std::sync::OnceLock;

use adit_core::{Instant, UnixTime};
use rustix::time::{ClockId, clock_gettime};

use crate::sys;

fn boot_nanos() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// The time since the first call in this process, sleep of the machine included (`CLOCK_BOOTTIME`): a peer
/// that we did not hear while the lid was closed is overdue when it opens.
pub fn clock() -> Instant {
    static ORIGIN: OnceLock<u64> = OnceLock::new();
    // The first call gives 1 s, so that "a second ago" exists from the start.
    let origin = *ORIGIN.get_or_init(|| boot_nanos().saturating_sub(1_000_000_000));
    Instant::from_nanos(boot_nanos().saturating_sub(origin))
}

/// Another clock, of a few milliseconds, that costs next to nothing to read (`CLOCK_MONOTONIC_COARSE`). It stands
/// still while the machine sleeps. Its origin is not that of [`clock`].
pub(crate) fn coarse_clock() -> Instant {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    Instant::from_nanos(part(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(part(time.tv_nsec)))
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
    use super::*;

    #[test]
    fn clock_goes_forward() {
        let first = clock();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(clock() > first);
        assert!(unix_now().0 > 1_600_000_000);
    }
}
