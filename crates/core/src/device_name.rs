use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name (linux/if.h `IFNAMSIZ`, without the zero at its end).
const LONGEST: usize = 15;

/// The name of a network device: 1 to 15 bytes that the kernel takes (`dev_valid_name` in net/core/dev.c).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceName {
    /// Padded with zeros.
    bytes: [u8; LONGEST],
}

impl DeviceName {
    /// The name.
    pub fn as_str(&self) -> &str {
        let length = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(LONGEST);
        // It was made of a string.
        std::str::from_utf8(&self.bytes[..length]).unwrap_or_default()
    }
}

/// A text that cannot be the name of a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadDeviceName;

impl fmt::Display for BadDeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no name of a network device, which has 1 to 15 characters such as eth0")
    }
}

impl std::error::Error for BadDeviceName {}

impl FromStr for DeviceName {
    type Err = BadDeviceName;

    fn from_str(text: &str) -> Result<Self, BadDeviceName> {
        let bad = |c: char| matches!(c, '/' | ':' | '%') || c.is_whitespace() || c.is_control();
        if text.is_empty() || text.contains(bad) || matches!(text, "." | "..") {
            return Err(BadDeviceName);
        }
        let mut bytes = [0; LONGEST];
        bytes.get_mut(..text.len()).ok_or(BadDeviceName)?.copy_from_slice(text.as_bytes());
        Ok(DeviceName { bytes })
    }
}

impl TryFrom<String> for DeviceName {
    type Error = BadDeviceName;

    fn try_from(text: String) -> Result<Self, BadDeviceName> {
        text.parse()
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> String {
        name.as_str().to_owned()
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_kernel_takes() {
        for good in ["eth0", "vrf-blue", "a", "fifteen-letters"] {
            assert_eq!(good.parse::<DeviceName>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "a b", "a:1", "tun%d", "sixteen-letters-", "a\0b"] {
            assert_eq!(bad.parse::<DeviceName>(), Err(BadDeviceName), "{bad:?}");
        }
    }
}
