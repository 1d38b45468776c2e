//! What fuzz targets and tests call to reach readers that the program keeps to itself, with what each promises.

use adit_core::is_unprintable;

use crate::openvpn::adapter::expiry::expiring as read_expiring;
use crate::openvpn::adapter::management::fuzzing::session;
use crate::status;
use crate::wireguard::adapter::saved;

/// Has a client of the management socket send `input` in pieces of `piece` bytes, to a server's tunnel or another one,
/// behind a password or without one. Gives how many bytes it was answered.
///
/// # Panics
///
/// If an answer is not in lines, or holds what a terminal would obey; if a line of the log does; if answers that no client
/// reads grow without limit.
pub fn management(input: &[u8], piece: usize, server: bool, password: bool) -> usize {
    session(input, piece, server, password)
}

/// Reads what a tunnel answers `adit status`, and prints it for people. Gives whether it could be read.
///
/// # Panics
///
/// If what is printed holds what a terminal would obey, or if the document does not print to one that reads the same.
pub fn status_document(json: &[u8]) -> bool {
    let Some((text, again)) = status::fuzzing::printed(json) else { return false };
    assert!(text.split('\n').all(|line| !line.contains(is_unprintable)), "{text:?}");
    let once_more = status::fuzzing::printed(again.as_bytes()).map(|(text, _)| text);
    assert_eq!(once_more, Some(text));
    true
}

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

/// Reads certificates and revocation lists in PEM for the warnings before they expire. Gives how many there were.
///
/// # Panics
///
/// If a warning holds what a terminal would obey.
pub fn expiring(pem: &[u8]) -> usize {
    read_expiring(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fuzzed_is_reached() {
        assert!(management(b"help\nverb\n", 3, true, false) > 1000);
        assert!(management(b"secret\nkill anna\n\x1b\xff\n", 5, true, true) > 100);
        assert!(management(b"POST / HTTP/1.1\nverb\n", 64, false, true) < 20);
        assert!(!status_document(b"{}") && !status_document(b"\xff"));
        assert!(status_document(status::fuzzing::example().as_bytes()));
        assert_eq!(expiring(b"no certificate"), 0);
        assert!(saved_state(&[0, 7, 9, 0]) && !saved_state(b"PreUp = id\n"));
    }
}
