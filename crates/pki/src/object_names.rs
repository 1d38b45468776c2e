//! The names of object identifiers, as OpenSSL and therefore OpenVPN write them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Lines of a dotted OID, its short name, and its long name where that is another.
const TABLE: &str = include_str!("openssl_names.txt");

static SHORT_NAMES: LazyLock<BTreeMap<&str, &str>> =
    LazyLock::new(|| lines().map(|line| (line.oid, line.short)).collect());

/// An object identifier and its names.
#[derive(Clone, Copy)]
struct Line {
    oid: &'static str,
    short: &'static str,
    long: &'static str,
}

fn lines() -> impl Iterator<Item = Line> {
    let line = |line: &'static str| {
        let (oid, names) = line.split_once(' ')?;
        let (short, long) = names.split_once(' ').unwrap_or((names, names));
        Some(Line { oid, short, long })
    };
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(line)
}

/// OpenSSL's short name of a dotted OID (`OBJ_nid2sn`): `CN` of `2.5.4.3`.
pub fn short_name(oid: &str) -> Option<&'static str> {
    SHORT_NAMES.get(oid).copied()
}

/// The dotted OID of a short or long name of OpenSSL's (`OBJ_txt2nid`): `2.5.4.3` of `CN` and `commonName`. Where no name is
/// written so, the case of letters does not count.
pub fn oid_of(name: &str) -> Option<&'static str> {
    let is_exact = |line: &Line| line.short == name || line.long == name;
    let is_alike =
        |line: &Line| line.short.eq_ignore_ascii_case(name) || line.long.eq_ignore_ascii_case(name);
    lines().find(is_exact).or_else(|| lines().find(is_alike)).map(|line| line.oid)
}

/// Every dotted OID that has a short name, with it.
pub fn short_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    SHORT_NAMES.iter().map(|(oid, name)| (*oid, *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_an_oid_and_a_name() {
        let count = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert!(count > 1_000);
        assert_eq!(short_names().count(), count, "an OID stands there twice");
        for (oid, name) in short_names() {
            assert!(oid.split('.').all(|part| part.parse::<u64>().is_ok()), "{oid}");
            assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()), "{name}");
        }
        for (oid, name) in [("2.5.4.3", "CN"), ("2.5.4.42", "GN"), ("0.9.2342.19200300.100.1.1", "UID")] {
            assert_eq!(short_name(oid), Some(name));
        }
        for (name, oid) in [
            ("CN", "2.5.4.3"),
            ("commonName", "2.5.4.3"),
            ("cn", "2.5.4.3"),
            ("userId", "0.9.2342.19200300.100.1.1"),
            ("street", "2.5.4.9"),
            ("streetAddress", "2.5.4.9"),
            ("E-mail Protection", "1.3.6.1.5.5.7.3.4"),
        ] {
            assert_eq!(oid_of(name), Some(oid), "{name}");
        }
        assert_eq!(oid_of("hat"), None);
        assert_eq!(short_name("2.5.4"), Some("X509"));
        assert_eq!(short_name("1.2.3.4"), None);
    }
}
