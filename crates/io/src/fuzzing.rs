//! What fuzz targets and tests call to reach readers that the crate keeps to itself, with what each promises.

use std::net::IpAddr;

use adit_core::Dns;

use crate::dns::fuzzing::{content, name_servers, owner};

/// Reads what a tunnel may send to its helper, and what the helper may answer. Gives whether it was understood.
///
/// # Panics
///
/// If what was understood is not written as something that reads the same.
pub fn helper_message(bytes: &[u8]) -> bool {
    crate::helper::fuzzing::message(bytes)
}

/// Has a tunnel's process that was taken over send a helper messages: a byte says how many bytes of one follow, at most.
///
/// # Panics
///
/// If something outside the helper's policy is opened or written, or an answer holds it, or the machine refuses a file or a thread.
pub fn played_worker(input: &[u8]) {
    crate::helper::fuzzing::play(input).expect("files and threads of the test itself");
}

/// Reads a `resolv.conf`, and writes one for a tunnel's name servers in its place. Gives the servers in the one that was
/// read.
///
/// # Panics
///
/// If the one written is not known as ours, or names other servers than the tunnel's first three, or has lines of the old
/// one other than options.
pub fn resolv_conf(old: &str, dns: &Dns) -> Vec<IpAddr> {
    let new = content(1, dns, old);
    assert_eq!(owner(&new), Some(1));
    assert!(name_servers(&new).iter().eq(dns.servers.iter().take(3)), "{new:?}");
    let kept = |line: &str| line.starts_with("options ") && old.lines().any(|other| other == line);
    let written = |line: &str| ["# ", "nameserver ", "search "].iter().any(|start| line.starts_with(start));
    assert!(new.lines().all(|line| written(line) || kept(line)), "{new:?}");
    assert!(new.lines().filter(|line| line.starts_with("search ")).count() <= 1, "{new:?}");
    name_servers(old)
}

/// Reads what a name server may answer to the question for a server's addresses. Gives how many there are.
///
/// # Panics
///
/// If there are more than the answer has room for.
pub fn address_answer(datagram: &[u8]) -> usize {
    crate::resolver::read_any_answer(datagram)
}

/// Reads the head of what an HTTP proxy may answer. Gives whether it asks for an authentication that we can do.
///
/// # Panics
///
/// If what answers the challenge is more than a line, or shows the password.
pub fn proxy_answer(head: &[u8]) -> bool {
    crate::proxy::fuzzing::answer(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fuzzed_is_reached() {
        // The second kind of request has no content; there is no twentieth kind.
        assert!(helper_message(&[1]) && !helper_message(&[20]));
        // The configuration is saved, read again, and taken; a client's file is read, and one that is no client's.
        played_worker(
            b"\x06\x04\x07\x03abc\x02\x04\x09\x03\x04\x0b\x00\x08\x04\x00\x05alice\x08\x04\x00\x0c../tu",
        );
        assert!(proxy_answer(b"HTTP/1.0 407 x\r\nProxy-Authenticate: Digest realm=a, nonce=b\r\n\r\n"));
        assert!(!proxy_answer(b"HTTP/1.0 407 x\r\nProxy-Authenticate: NTLM\r\n\r\n"));
        let servers = vec![IpAddr::from([10, 8, 0, 1])];
        let dns = Dns { servers, search: vec!["corp.example".to_owned()], only_for: Vec::new() };
        let old = "nameserver 192.0.2.53\noptions edns0\nsortlist x\noptions a\0b\r\r\noptions c\td\n";
        assert_eq!(resolv_conf(old, &dns), [IpAddr::from([192, 0, 2, 53])]);
        assert!(content(1, &dns, old).ends_with("\noptions edns0\noptions c\td\n"));
    }
}
