//! The time of day at this place.

use std::mem::MaybeUninit;

/// A moment as clocks show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    /// The year of the Gregorian calendar.
    pub year: i32,
    /// The month, from 1.
    pub month: i32,
    /// The day, from 1.
    pub day: i32,
    /// The hour, from 0 to 23.
    pub hour: i32,
    /// The minute, from 0.
    pub minute: i32,
    /// The second, from 0; 60 in a leap second.
    pub second: i32,
}

/// The time that clocks of this place show so many seconds after 1970. `None` beyond the years that they can
/// show.
pub fn local_time(seconds: u64) -> Option<LocalTime> {
    let seconds = libc::time_t::try_from(seconds).ok()?;
    let mut time = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both point to values of their types that live through the call. The environment, which the call may
    // read, never changes: `std::env::set_var` is unsafe, and no code here calls it.
    let result = unsafe { libc::localtime_r(&seconds, time.as_mut_ptr()) };
    if result.is_null() {
        return None;
    }
    // SAFETY: the call succeeded and has filled it in.
    let time = unsafe { time.assume_init() };
    let (year, month) = (time.tm_year + 1900, time.tm_mon + 1);
    Some(LocalTime {
        year,
        month,
        day: time.tm_mday,
        hour: time.tm_hour,
        minute: time.tm_min,
        second: time.tm_sec,
    })
}
