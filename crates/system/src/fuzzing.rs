//! Readers that the crate keeps to itself, for fuzz targets and tests, with the promises of each.

use std::net::IpAddr;

use adit_core::Dns;

use crate::dns::fuzzing::{content, name_servers, owner};

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

/// Reads an answer that a name server may give to the question for a server's addresses. Gives how many there
/// are.
///
/// # Panics
///
/// If there are more than the answer has room for.
pub fn address_answer(datagram: &[u8]) -> usize {
    crate::resolver::read_any_answer(datagram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fuzzed_is_reached() {
        let servers = vec![IpAddr::from([10, 8, 0, 1])];
        let dns = Dns { servers, search: vec!["corp.example".to_owned()], only_for: Vec::new() };
        let old = "nameserver 192.0.2.53\noptions edns0\nsortlist x\noptions a\0b\r\r\noptions c\td\n";
        assert_eq!(resolv_conf(old, &dns), [IpAddr::from([192, 0, 2, 53])]);
        assert!(content(1, &dns, old).ends_with("\noptions edns0\noptions c\td\n"));
    }
}
