use std::fmt;
use std::str::FromStr;

/// The device of a tunnel with WireGuard, unless another is asked for.
pub(crate) const DEFAULT_DEVICE: &str = "adit0";

/// A name that a tunnel's device always has: it stands in server.conf and names the WireGuard file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceName(String);

impl DeviceName {
    /// The name.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_name = adit_wireguard_config::interface_name(&format!("{name}.conf")) == Some(name);
        if !is_name || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || name.starts_with("tap") {
            return Err(
                "a device's name is 1 to 15 of the letters, digits and `_=+.-`, begins with a letter or digit, and not \
                 with `tap`"
                    .into(),
            );
        }
        if name == "tun" {
            return Err(
                "`tun` is a device with another number at each start; name one, such as `tun0`".into()
            );
        }
        if name == "server" {
            return Err("server.conf is OpenVPN's file; choose another name".into());
        }
        Ok(DeviceName(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in [DEFAULT_DEVICE, "tun0", "a", "fifteen-letters"] {
            assert_eq!(name.parse::<DeviceName>().unwrap().as_str(), name);
        }
        for name in ["", "tun", "server", "tap0", "..", "-a", "a/b", "a b", "sixteen--letters", "ä"] {
            assert!(name.parse::<DeviceName>().is_err(), "{name:?}");
        }
    }
}
