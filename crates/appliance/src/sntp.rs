//! The question for the time and its answer (SNTP: RFC 4330, section 5).

use std::time::Duration;

/// The length of a message in bytes.
pub(crate) const LENGTH: usize = 48;
/// Seconds from 1900, where NTP's time begins, to 1970.
const EPOCH: u64 = 2_208_988_800;
/// Seconds of an era of NTP's time.
const ERA: u64 = 1 << 32;

/// A question. The answer repeats `mark`, by which it is known.
pub(crate) fn question(mark: u64) -> [u8; LENGTH] {
    let mut message = [0; LENGTH];
    // Version 4, mode "client".
    message[0] = 0x23;
    message[40..].copy_from_slice(&mark.to_be_bytes());
    message
}

/// The server's time since 1970, of an answer to the question with that mark; `None` for everything else, and where the server
/// does not know the time.
pub(crate) fn answer(message: &[u8], mark: u64) -> Option<Duration> {
    let message: &[u8; LENGTH] = message.first_chunk()?;
    let [first, stratum, ..] = *message;
    let (leap, mode) = (first >> 6, first & 7);
    // Mode "server"; an unsynchronized clock; stratum 0 is a refusal ("kiss of death").
    if mode != 4 || leap == 3 || !(1..=15).contains(&stratum) || message[24..32] != mark.to_be_bytes() {
        return None;
    }
    let field = |at: usize| message.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes).map(u64::from);
    let (seconds, fraction) = (field(40)?, field(44)?);
    // The first bit says which era (RFC 4330, section 3): 1968 to 2036, or from 2036 on.
    let seconds = if seconds >= ERA / 2 { seconds } else { seconds + ERA };
    let nanoseconds = (fraction * 1_000_000_000) >> 32;
    (seconds > EPOCH).then(|| Duration::new(seconds - EPOCH, nanoseconds as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(question: &[u8; LENGTH], seconds: u32) -> [u8; LENGTH] {
        let mut message = [0; LENGTH];
        (message[0], message[1]) = (0x24, 2);
        message[24..32].copy_from_slice(&question[40..]);
        message[40..44].copy_from_slice(&seconds.to_be_bytes());
        message[44] = 0x80;
        message
    }

    #[test]
    fn an_answer_has_the_time_since_1970() {
        let half = Duration::from_millis(500);
        // RFC 5905, figure 4: 1 January 2000 is second 3,155,673,600 of NTP's time.
        let answered = answer(&reply(&question(9), 3_155_673_600), 9);
        assert_eq!(answered, Some(Duration::from_secs(946_684_800) + half));
        // The second era begins on 7 February 2036.
        assert_eq!(answer(&reply(&question(9), 0), 9), Some(Duration::from_secs(2_085_978_496) + half));
    }

    #[test]
    fn what_is_no_answer_of_a_server_that_knows_the_time_is_passed_over() {
        let good = reply(&question(9), 3_155_673_600);
        assert_eq!(answer(&good, 8), None);
        assert_eq!(answer(&good[..47], 9), None);
        for (at, value) in [(0, 0x23), (0, 0xe4), (1, 0), (1, 16)] {
            let mut wrong = good;
            wrong[at] = value;
            assert_eq!(answer(&wrong, 9), None, "{at} {value}");
        }
    }
}
