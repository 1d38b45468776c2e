//! `resolv.conf` as it was, and the one written for a tunnel: our mark, its servers, its domains and the old options.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use adit_core::Dns;
use adit_system::fuzzing::resolv_conf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The first line has the domains, the rest is the file.
    let text = String::from_utf8_lossy(data);
    let (domains, old) = text.split_once('\n').unwrap_or(("", &text));
    let search: Vec<String> = domains.split(',').map(str::to_owned).collect();
    let servers =
        (0..domains.len() % 6).map(|host| IpAddr::from(Ipv4Addr::new(10, 8, 0, host as u8))).collect();
    resolv_conf(old, &Dns { servers, only_for: search.clone(), search });
});
