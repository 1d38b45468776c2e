//! Numbers, times and volumes.

use super::shown;

/// A number, decimal or with `0x` in front hexadecimal, at most `most`.
///
/// # Errors
/// It is none, or greater.
pub(crate) fn number(text: &str, most: u64) -> Result<u64, String> {
    let found = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')),
        // Other readers take a number that begins with 0 for an octal one.
        None => text.parse().ok().filter(|_| is_decimal(text)),
    };
    found
        .filter(|number| *number <= most)
        .ok_or_else(|| format!("`{}` is not a number from 0 to {most}", shown(text)))
}

fn is_decimal(text: &str) -> bool {
    text == "0" || text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0')
}

/// A number of 32 bits.
///
/// # Errors
/// It is none.
pub(crate) fn number_u32(text: &str) -> Result<u32, String> {
    number(text, u32::MAX.into()).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

/// A port.
///
/// # Errors
/// It is none.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    number(text, u16::MAX.into()).map(|number| u16::try_from(number).unwrap_or(u16::MAX))
}

/// Longest time in seconds: 100 years.
const LONGEST: u64 = 100 * 365 * 86_400;

/// A time in seconds: a number, with s, m, h or d behind it for seconds, minutes, hours or days.
///
/// # Errors
/// It is none, or longer than 100 years.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)];
    let time = scaled(text, &units).filter(|seconds| *seconds <= LONGEST);
    time.ok_or_else(|| {
        format!("`{}` is not a time, such as 30s, 20m, 4h or 1d, of at most 100 years", shown(text))
    })
}

/// A number of bytes, with k, m or g behind it for KiB, MiB or GiB.
///
/// # Errors
/// It is none.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let bytes = scaled(text, &[("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)]);
    bytes
        .ok_or_else(|| format!("`{}` is not a number of bytes, such as 500000, 500k, 20m or 1g", shown(text)))
}

/// A number with a unit behind it, or none for the unit 1. `None`: it is none, or too large.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let with_unit = units.iter().find_map(|(unit, factor)| Some((lower.strip_suffix(unit)?, *factor)));
    // A hexadecimal number may end with d.
    let (digits, factor) = match with_unit {
        Some(found) if !lower.starts_with("0x") => found,
        _ => (lower.as_str(), 1),
    };
    number(digits.trim_end_matches(' '), u64::MAX).ok()?.checked_mul(factor)
}

/// A number of packets.
///
/// # Errors
/// It is none.
pub(crate) fn packets(text: &str) -> Result<u64, String> {
    number(text, u64::MAX)
}

/// A code point of DSCP in binary digits.
///
/// # Errors
/// It is none.
pub(crate) fn dscp(text: &str) -> Result<u8, String> {
    let is_binary = (1..=6).contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0' | b'1'));
    let value = u8::from_str_radix(text, 2).ok().filter(|_| is_binary);
    value.ok_or_else(|| format!("`{}` is not six binary digits, such as 101110", shown(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_volumes_have_units() {
        for (text, expected) in
            [("0", 0), ("30", 30), ("30s", 30), ("2M", 120), ("4 h", 14_400), ("1d", 86_400), ("0x10", 16)]
        {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "s", "1.5h", "-1", "+1", "1w", "4h 30m", "010", "40000d", "99999999999999999999"] {
            assert!(seconds(text).is_err_and(|why| why.contains("is not a time, such as 30s")), "{text}");
        }
        assert_eq!((bytes("2k"), bytes("1 G"), bytes("7")), (Ok(2048), Ok(1 << 30), Ok(7)));
        assert!(bytes("1t").is_err() && bytes("99999999999999999g").is_err());
        assert_eq!((dscp("101110"), dscp("000000")), (Ok(46), Ok(0)));
        assert!(dscp("46").is_err() && dscp("1011101").is_err() && dscp("").is_err());
    }

    #[test]
    fn numbers_have_a_limit() {
        assert_eq!((port("65535"), number_u32("0xffffffff")), (Ok(65_535), Ok(u32::MAX)));
        assert_eq!(port("65536"), Err("`65536` is not a number from 0 to 65535".to_owned()));
        assert!(
            number_u32("4294967296").is_err() && number_u32("0x").is_err() && number_u32("0x+1").is_err()
        );
    }
}
