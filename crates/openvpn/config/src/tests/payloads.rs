//! Compression and `fragment`.

use std::path::Path;

use adit_core::configuration::Failure;
use adit_openvpn::codec::Compression;
use adit_openvpn::params::Fragment;

use crate::*;

const CLIENT: &str = "client\nremote vpn.example\nremote-cert-tls server\nauth-user-pass\n\
                      <ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n";

/// A client's file with these lines.
fn read(lines: &str) -> Result<Parsed, Failure> {
    let none = |_: &Path| Err("no such file".to_owned());
    parse("f", format!("{CLIENT}{lines}\n").as_bytes(), &none)
}

fn good(lines: &str) -> Parsed {
    read(lines).unwrap_or_else(|failure| panic!("{failure}"))
}

fn bad(lines: &str) -> Vec<String> {
    let failure = read(lines).expect_err(lines);
    failure.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn compress_migrate_is_no_framing_of_its_own() {
    let compression = |text: &str| {
        let data = good(text).config.data;
        (data.compression, data.migrate)
    };
    assert_eq!(compression(""), (Compression::None, false));
    assert_eq!(compression("compress migrate"), (Compression::None, true));
    // Of two the last counts.
    assert_eq!(compression("compress stub\ncompress migrate"), (Compression::None, true));
    assert_eq!(compression("compress migrate\ncomp-lzo no"), (Compression::LzoNo, false));
}

#[test]
fn compression_is_what_the_file_asks_for() {
    use Compression::{LzoNo, Stub, StubV2};
    use Decompression::{Named, Pushed, Refused, Unasked};
    let asked = |text: &str| {
        let data = good(text).config.data;
        (data.compression, data.decompression)
    };
    for (text, expected) in [
        ("", (Compression::None, Unasked)),
        ("comp-lzo no", (LzoNo, Unasked)),
        ("comp-lzo", (LzoNo, Named)),
        ("comp-lzo yes", (LzoNo, Named)),
        ("comp-lzo adaptive", (LzoNo, Named)),
        ("compress lzo", (LzoNo, Named)),
        ("compress lz4", (Stub, Named)),
        ("compress lz4-v2", (StubV2, Named)),
        ("compress", (Stub, Pushed)),
        ("compress stub-v2", (StubV2, Pushed)),
        ("compress migrate", (Compression::None, Unasked)),
        ("allow-compression asym", (Compression::None, Pushed)),
        ("allow-compression yes", (Compression::None, Pushed)),
        ("allow-compression no", (Compression::None, Refused)),
        ("allow-compression no\ncompress stub", (Stub, Refused)),
        // Of two the last counts.
        ("comp-lzo\ncomp-lzo no", (LzoNo, Unasked)),
        ("compress lz4\ncompress", (Stub, Pushed)),
        ("allow-compression yes\nallow-compression no", (Compression::None, Refused)),
    ] {
        assert_eq!(asked(text), expected, "{text}");
    }
    for (text, told) in [
        ("allow-compression no\ncomp-lzo", "`allow-compression no` forbids the algorithm"),
        ("compress lz4\nallow-compression no", "`allow-compression no` forbids the algorithm"),
        ("allow-compression no\nallow-compression asym", "says `no` already"),
    ] {
        let problems = bad(text);
        assert!(problems.iter().any(|problem| problem.contains(told)), "{text}: {problems:?}");
    }
}

#[test]
fn fragment_is_for_udp() {
    let fragment = |text: &str| good(text).config.data.fragment;
    assert_eq!(fragment(""), None);
    assert_eq!(fragment("fragment 1200"), Some(Fragment::Payload(1200)));
    assert_eq!(fragment("fragment 68 mtu"), Some(Fragment::Mtu(68)));
    for by_tcp in ["proto tcp\nfragment 1200", "fragment 1200\nremote other.example 443 tcp"] {
        let problems = bad(by_tcp);
        assert!(problems.iter().any(|problem| problem.contains("`fragment` is for UDP")), "{problems:?}");
    }
    let warns =
        |text: &str| good(text).warnings.iter().any(|warning| warning.text.contains("`fragment 1200`"));
    assert!(warns("fragment 1200\nmssfix 1300"));
    assert!(warns("fragment 1200 mtu\nmssfix 1300 mtu"));
    assert!(!warns("fragment 1200\nmssfix 1200"));
    assert!(!warns("fragment 1200\nmssfix 1300 mtu"), "the two are not compared");
    assert!(!warns("fragment 1200"));
}
