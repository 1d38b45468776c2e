//! The key beside the key exchange (PPK, RFC 8784) of a connection.

use adit_ike::machine::{Ppk, SharedKey};
use adit_ike::wire::Identification;
use adit_ike_config::{Config, Connection, IdentityPattern, SecretBytes, SharedSecret};

use super::problems::Problems;

/// A PPK of the file.
pub(super) struct Named<'c> {
    identity: &'c Identification,
    pub(super) secret: &'c SecretBytes,
    is_required: bool,
}

/// The PPK that `ppk_id` names. `None`: the connection has none, or there is a problem with it.
pub(super) fn of<'c>(config: &'c Config, of: &'c Connection, problems: &mut Problems) -> Option<Named<'c>> {
    let place = |key| of.places.of(key);
    let identity = match &of.ppk_id {
        Some(IdentityPattern::Exact(identity)) => identity,
        None if !of.ppk_required => return None,
        None => {
            problems.add(place("ppk_required"), "`ppk_required`: name the key: `ppk_id = …`");
            return None;
        }
        Some(_) => {
            problems
                .add(place("ppk_id"), "`ppk_id`: patterns are not matched yet: write the identity in full");
            return None;
        }
    };
    let secret = secret(&config.post_quantum_keys, identity);
    if secret.is_none() {
        let text = "there is no key for this `ppk_id`: add `secrets { ppk-1 { secret = … } }`, with `id` if there are several";
        problems.add(place("ppk_id"), text);
    }
    Some(Named { identity, secret: secret?, is_required: of.ppk_required })
}

/// The first key that belongs to that identity, or else the first that belongs to all.
fn secret<'c>(all: &'c [SharedSecret], identity: &Identification) -> Option<&'c SecretBytes> {
    let is_owner = |secret: &&SharedSecret| secret.owners.iter().any(|owner| owner.matches(identity));
    let found = all.iter().find(is_owner).or_else(|| all.iter().find(|secret| secret.owners.is_empty()));
    found.map(|secret| &secret.secret)
}

/// The PPK as the machine takes it.
pub(super) fn for_machine(named: &Named<'_>) -> Ppk {
    Ppk {
        identity: named.identity.data.clone(),
        key: SharedKey(named.secret.bytes().clone()),
        is_required: named.is_required,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{config, planned, text};
    use crate::translate::connections;

    fn with_keys(connection: &str, keys: &str) -> String {
        text(connection, "").replace("secrets {\n", &format!("secrets {{\n{keys}"))
    }

    fn ppk_of(connection: &str, keys: &str) -> Option<(Vec<u8>, Vec<u8>, bool)> {
        let planned = connections(&config(&with_keys(connection, keys)));
        let planned = planned.map_err(|problems| format!("{problems:?}")).expect("connections");
        let ppk = planned[0].connection.ppk.clone()?;
        Some((ppk.identity, ppk.key.0.to_vec(), ppk.is_required))
    }

    #[test]
    fn the_ppk_of_a_connection_is_the_key_of_its_identity_or_else_of_all() {
        let other = "ppk-1 {\n id = other.example\n secret = one\n}\n";
        let all = "ppk-2 {\n secret = two\n}\n";
        let own = "ppk-3 {\n id = key.example\n secret = three\n}\n";
        let of = |keys: &[&str]| ppk_of("ppk_id = key.example\n ppk_required = yes", &keys.concat());
        let expected = |secret: &[u8]| Some((b"key.example".to_vec(), secret.to_vec(), true));
        assert_eq!(of(&[other, all, own]), expected(b"three"));
        assert_eq!(of(&[other, all]), expected(b"two"));
        assert_eq!(ppk_of("", own), None);
        assert!(ppk_of("ppk_id = key.example", own).is_some_and(|(.., is_required)| !is_required));
    }

    #[test]
    fn a_ppk_that_cannot_be_used_is_refused_with_its_line() {
        let first = |connection: &str, keys: &str| {
            let problems = connections(&config(&with_keys(connection, keys))).err().unwrap_or_default();
            problems.first().map(ToString::to_string).unwrap_or_default()
        };
        let other = "ppk-1 {\n id = other.example\n secret = one\n}\n";
        let without = first("ppk_id = key.example", other);
        assert!(without.starts_with("a.conf:4: there is no key for this `ppk_id`"), "{without}");
        let unnamed = first("ppk_required = yes", other);
        assert!(unnamed.starts_with("a.conf:4: `ppk_required`: name the key"), "{unnamed}");
        let pattern = first("ppk_id = *.example", other);
        assert!(pattern.starts_with("a.conf:4: `ppk_id`: patterns are not matched yet"), "{pattern}");
    }

    #[test]
    fn another_ppk_makes_another_connection() {
        let of = |secret: &str| {
            let keys = format!("ppk-1 {{\n secret = {secret}\n}}\n");
            connections(&config(&with_keys("ppk_id = key.example", &keys)))
                .map_err(drop)
                .expect("connections")
        };
        assert!(of("one")[0].is_same_as(&of("one")[0]) && !of("one")[0].is_same_as(&of("two")[0]));
        assert!(planned("", "")[0].connection.ppk.is_none());
    }
}
