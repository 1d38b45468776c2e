//! The only clock in adit.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use adit_core::{Instant, UnixTime};
use rustix::time::{ClockId, clock_gettime};

/// How long the machine has slept since it was booted, in nanoseconds, as [`clock`] saw it last.
static SLEPT: AtomicU64 = AtomicU64::new(0);

/// By how many nanoseconds the time of day must have been set for [`unix_at_origin`] to change. It is far more than the
/// time between the readings of two clocks, and too little to notice in a list of clients.
const STEP: u64 = 2_000_000_000;
/// The latest result of [`unix_at_origin`], in nanoseconds.
static UNIX_AT_ORIGIN: AtomicU64 = AtomicU64::new(0);

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
/// that was silent while the lid was closed is overdue when it opens.
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

/// The time of day at the origin of [`clock`], since 1970. It is the same in every call, so that a moment of [`clock`] has one
/// time of day, until the time of day is set by more than two seconds.
pub fn unix_at_origin() -> Duration {
    let now = nanos(ClockId::Realtime).saturating_sub(clock().as_nanos());
    Duration::from_nanos(unless_near(&UNIX_AT_ORIGIN, now))
}

/// The number in `known`, which becomes `now` if it is further from it than [`STEP`].
fn unless_near(known: &AtomicU64, now: u64) -> u64 {
    let before = known.load(Ordering::Relaxed);
    if before.abs_diff(now) <= STEP {
        return before;
    }
    // Of two threads that find it changed, the first is right.
    match known.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => now,
        Err(other) => other,
    }
}

/// A time on the clock of this place (`TZ`, `/etc/localtime`): `2026-01-31 13:05:00`.
pub fn local_time(at: UnixTime) -> String {
    let Some(time) = adit_sys::local_time(at.0) else { return at.0.to_string() };
    let adit_sys::LocalTime { year, month, day, hour, minute, second } = time;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_goes_forward() {
        let first = clock();
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock() > first);
        assert!(unix_now().0 > 1_600_000_000);
    }

    #[test]
    fn the_origin_has_one_time_of_day() {
        let origin = unix_at_origin();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(unix_at_origin(), origin);
        let now = (origin + Duration::from_nanos(clock().as_nanos())).as_secs();
        assert!(now.abs_diff(unix_now().0) <= 3, "{now}");
    }

    #[test]
    fn the_origin_follows_a_time_of_day_that_was_set() {
        let known = AtomicU64::new(0);
        for (now, expected) in
            [(5 * STEP, 5 * STEP), (6 * STEP, 5 * STEP), (6 * STEP + 1, 6 * STEP + 1), (0, 0)]
        {
            assert_eq!(unless_near(&known, now), expected, "{now}");
        }
    }

    #[test]
    fn the_coarse_clock_shows_the_same_time() {
        let before = clock();
        let coarse = coarse_clock();
        assert!(coarse <= clock(), "it is never early");
        assert!(coarse + Duration::from_millis(500) > before, "{coarse:?}, {before:?}");
    }
}
