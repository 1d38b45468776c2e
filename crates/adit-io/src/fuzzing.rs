//! What fuzz targets and tests call to reach readers that the crate keeps to itself, with what each promises.

use std::io::BufRead;
use std::net::IpAddr;

use adit_core::{Dns, is_domain};

use crate::dns::fuzzing::{content, name_servers, owner, parse, read_answer, read_line, request};

/// Reads what a process may send to the one that sets name servers for it: requests, line by line. Gives how many were
/// understood.
///
/// # Panics
///
/// If a request that was understood does not print to one that reads the same, or names a domain that is none.
pub fn name_server_requests(mut input: &[u8]) -> usize {
    let mut understood = 0;
    while let Ok(Some(line)) = read_line(&mut input) {
        let Some(dns) = parse(&line) else { continue };
        assert!(dns.search.iter().chain(&dns.only_for).all(|name| is_domain(name)), "{dns:?}");
        assert_eq!(parse(&request(&dns)).as_ref(), Some(&dns), "{line:?}");
        understood += 1;
    }
    understood
}

/// Reads what that process may answer. Gives how many answers there were.
///
/// # Panics
///
/// If a warning has more than one line.
pub fn name_server_answers(mut input: &[u8]) -> usize {
    let mut answers = 0;
    while let Ok(reports) = read_answer(&mut input) {
        assert!(reports.iter().all(|report| !report.text.contains('\n')));
        answers += 1;
        if input.fill_buf().is_ok_and(<[u8]>::is_empty) {
            break;
        }
    }
    answers
}

/// Reads a `resolv.conf`, and writes one for a tunnel's name servers in its place. Gives the servers in the one that was
/// read.
///
/// # Panics
///
/// If the one written is not known as ours, or names other servers than the tunnel's first three, or has lines of the old
/// one other than options.
pub fn resolv_conf(old: &str, dns: &Dns) -> Vec<IpAddr> {
    let new = content(dns, old);
    assert_eq!(owner(&new), Some(std::process::id()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fuzzed_is_reached() {
        let request = b"servers 10.8.0.1 search corp.example only -\nservers x search - only -\n";
        assert_eq!(name_server_requests(request), 1);
        assert_eq!(name_server_answers(b"!cannot write\n.\n.\n!cut"), 2);
        let servers = vec![IpAddr::from([10, 8, 0, 1])];
        let dns = Dns { servers, search: vec!["corp.example".to_owned()], only_for: Vec::new() };
        let old = "nameserver 192.0.2.53\noptions edns0\nsortlist x\noptions a\0b\r\r\noptions c\td\n";
        assert_eq!(resolv_conf(old, &dns), [IpAddr::from([192, 0, 2, 53])]);
        assert!(content(&dns, old).ends_with("\noptions edns0\noptions c\td\n"));
    }
}
