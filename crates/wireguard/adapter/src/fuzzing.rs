//! The readers of WireGuard's adapter that fuzz targets call, and the promises of each.

use crate::saved;

/// Has the helper of a WireGuard file with `SaveConfig` build its text of a state. Gives whether it is one.
///
/// # Panics
///
/// If the text has other commands, programs, addresses or name servers than the file.
pub fn saved_state(state: &[u8]) -> bool {
    const FILE: &str = "[Interface]\nAddress = 10.0.0.1/24\nDNS = 10.0.0.53\nSaveConfig = true\n#adit: client-connect = /bin/true\n\
                        PreUp = true\nPostDown = true\n[Peer]\nPublicKey = AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\n";
    let Ok(text) = saved::rewrite(FILE.as_bytes(), state) else { return false };
    let text = std::str::from_utf8(&text).expect("a file is text");
    let own = |line: &&str| {
        let key = line.split('=').next().unwrap_or_default().trim();
        let of_state =
            ["PrivateKey", "ListenPort", "FwMark", "[Peer]", "PublicKey", "PresharedKey", "AllowedIPs"];
        !line.is_empty() && !of_state.contains(&key) && !["Endpoint", "PersistentKeepalive"].contains(&key)
    };
    assert!(text.lines().filter(own).eq(FILE.lines().filter(own)), "{text:?}");
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fuzzed_is_reached() {
        assert!(saved_state(&[0, 7, 9, 0]) && !saved_state(b"PreUp = id\n"));
    }
}
