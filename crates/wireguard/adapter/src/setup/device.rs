//! Names of devices that can always stand in server.conf and name the WireGuard file.

/// Whether a tunnel's device can have that name.
///
/// # Errors
/// Why not.
pub(super) fn check(name: &str) -> Result<(), String> {
    let is_name = adit_wireguard_config::interface_name(&format!("{name}.conf")) == Some(name);
    if !is_name || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || name.starts_with("tap") {
        return Err(
            "a device's name is 1 to 15 of the letters, digits and `_=+.-`, begins with a letter or digit, and not \
             with `tap`"
                .into(),
        );
    }
    if name == "tun" {
        return Err("`tun` is a device with another number at each start; name one, such as `tun0`".into());
    }
    if name == "server" {
        return Err("server.conf is OpenVPN's file; choose another name".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in [adit_setup::DEFAULT_DEVICE, "tun0", "a", "fifteen-letters"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in ["", "tun", "server", "tap0", "..", "-a", "a/b", "a b", "sixteen--letters", "ä"] {
            assert!(check(name).is_err(), "{name:?}");
        }
    }
}
