//! The names of object identifiers, as OpenSSL and therefore OpenVPN write them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Lines of a dotted OID and its short name.
const TABLE: &str = include_str!("openssl_names.txt");

static SHORT_NAMES: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| lines().collect());

fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
}

/// OpenSSL's short name of a dotted OID (`OBJ_nid2sn`): `CN` of `2.5.4.3`.
pub fn short_name(oid: &str) -> Option<&'static str> {
    SHORT_NAMES.get(oid).copied()
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
        assert_eq!(short_name("2.5.4"), Some("X509"));
        assert_eq!(short_name("1.2.3.4"), None);
    }
}
