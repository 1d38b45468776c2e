//! The clock: set by the kernel from the machine's own at its start, and by time servers from then on. It is never set to a time
//! before the image was made.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand_core::{OsRng, TryRngCore as _};
use rustix::time::{ClockId, Timespec, clock_settime};

use super::events::spawn;
use super::log::Log;
use super::paths;
use crate::sntp;

/// The port of time servers.
const PORT: u16 = 123;
/// How long to wait for an answer.
const WAIT: Duration = Duration::from_secs(3);
/// How often the servers are asked, once one has answered, and before.
const PERIOD: Duration = Duration::from_secs(3600);
const RETRY: Duration = Duration::from_secs(60);
/// A clock that is off by less stays as it is.
const TOLERATED: Duration = Duration::from_millis(500);

/// The clock and its time servers. Copies share them.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    servers: Arc<Mutex<Vec<IpAddr>>>,
    /// The settings name the servers.
    fixed: bool,
    /// The time since 1970 when the image was made.
    built: Duration,
    log: Log,
}

/// Sets the clock to the time when the image was made, if the machine's own clock is behind it.
pub(super) fn begin_at_build(log: &Log) {
    let built = built();
    if now() < built {
        set_to(built, log);
        log.say("the machine's own clock was behind the time when the image was made, and is set to that");
    }
}

/// The time since 1970 when the image was made; zero if it does not say.
fn built() -> Duration {
    let text = fs::read_to_string(paths::BUILT).unwrap_or_default();
    Duration::from_secs(text.trim().parse().unwrap_or(0))
}

/// The first answer with a time that may be: not before the image was made.
fn first_possible<T>(
    answers: impl IntoIterator<Item = (T, Duration)>,
    built: Duration,
) -> Option<(T, Duration)> {
    answers.into_iter().find(|(_, time)| *time >= built)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// True if the kernel has set its clock.
fn set_to(time: Duration, log: &Log) -> bool {
    let (seconds, nanoseconds) = (time.as_secs().cast_signed(), time.subsec_nanos().into());
    let set = clock_settime(ClockId::Realtime, Timespec { tv_sec: seconds, tv_nsec: nanoseconds });
    if let Err(error) = &set {
        log.say(format_args!("the clock cannot be set: {error}"));
    }
    set.is_ok()
}

impl Clock {
    /// A clock that these servers set; without any, those of leases.
    pub(super) fn new(servers: Vec<IpAddr>, log: Log) -> Self {
        Clock { fixed: !servers.is_empty(), servers: Arc::new(Mutex::new(servers)), built: built(), log }
    }

    /// Takes the servers that a lease names, if the settings name none.
    pub(super) fn offer(&self, servers: Vec<IpAddr>) {
        if !self.fixed && !servers.is_empty() {
            *self.servers.lock().unwrap_or_else(PoisonError::into_inner) = servers;
        }
    }

    /// Begins to ask the servers for the time.
    pub(super) fn begin(&self) {
        let clock = self.clone();
        let work = move || {
            loop {
                thread::sleep(if clock.set() { PERIOD } else { RETRY });
            }
        };
        if let Err(error) = spawn("clock", work) {
            self.log.say(format_args!("the clock cannot be set: {error}"));
        }
    }

    /// Sets the clock by the first server whose answer may be the time. False if there is none.
    fn set(&self) -> bool {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let answers = servers.iter().filter_map(|server| Some((server, ask(*server)?)));
        let Some((server, time)) = first_possible(answers, self.built) else { return false };
        let off = time.abs_diff(now());
        if off >= TOLERATED && set_to(time, &self.log) {
            self.log.say(format_args!("the clock was off by {:.1} s: set by {server}", off.as_secs_f64()));
        }
        true
    }
}

/// A server's time now, halfway between question and answer.
fn ask(server: IpAddr) -> Option<Duration> {
    let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect((server, PORT)).ok()?;
    socket.set_read_timeout(Some(WAIT)).ok()?;
    let mark = OsRng.try_next_u64().ok()?;
    let sent = std::time::Instant::now();
    socket.send(&sntp::question(mark)).ok()?;
    let mut buffer = [0; sntp::LENGTH];
    let length = socket.recv(&mut buffer).ok()?;
    let time = sntp::answer(buffer.get(..length)?, mark)?;
    Some(time + sent.elapsed() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_the_image_was_made_is_not_taken() {
        let [early, built, late] = [99, 100, 101].map(Duration::from_secs);
        assert_eq!(first_possible([("first", early), ("second", late)], built), Some(("second", late)));
        assert_eq!(first_possible([("only", early)], built), None);
        assert_eq!(first_possible([("only", built)], built), Some(("only", built)));
    }
}
