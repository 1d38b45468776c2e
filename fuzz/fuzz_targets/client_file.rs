//! The files that a server reads of one client: that of `client-config-dir` and that of
//! `ifconfig-pool-persist`.
#![no_main]

use adit_openvpn::request::PeerSettings;
use adit_openvpn_config::{parse_client_file, parse_pool_file, print_pool_file};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match parse_client_file("fuzz", data) {
        Ok((file, _)) => {
            let (ipv4, ipv6, routes) = (file.ipv4, file.ipv6, file.routes);
            let settings = PeerSettings { ipv4, ipv6, routes, ..PeerSettings::default() };
            let mut twice = settings.clone();
            twice.merge(settings.clone());
            assert_eq!((twice.ipv4, twice.ipv6), (settings.ipv4, settings.ipv6));
            assert_eq!(twice.routes.len(), 2 * settings.routes.len());
        }
        Err(failure) => {
            assert!(!failure.problems.is_empty());
            let _ = failure.to_string();
        }
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let entries = parse_pool_file(text);
    let printed = print_pool_file(&entries);
    let again = parse_pool_file(&printed);
    assert_eq!(print_pool_file(&again), printed);
    assert!(again.len() <= entries.len());
});
