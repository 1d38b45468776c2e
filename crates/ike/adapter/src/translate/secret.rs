//! The pre-shared key of a connection.

use adit_ike::machine::PeerIdentity;
use adit_ike::wire::Identification;
use adit_ike_config::{Config, IdentityPattern, SecretBytes, SharedSecret};

/// Both identities of a connection.
pub(super) struct Owners<'a> {
    pub(super) local: &'a Identification,
    pub(super) remote: &'a PeerIdentity,
}

/// The key that belongs to both identities, or else to one of them, or else to all; of several the first.
pub(super) fn of<'c>(config: &'c Config, owners: &Owners<'_>) -> Option<&'c SecretBytes> {
    let ranked = config.shared_keys.iter().map(|secret| (rank(secret, owners), secret));
    let best = ranked.filter(|(rank, _)| *rank > 0).rev().max_by_key(|(rank, _)| *rank);
    best.map(|(_, secret)| &secret.secret)
}

/// How well a key fits: 0 if it belongs to others. The peer's identity counts more, as the peer may have several.
fn rank(secret: &SharedSecret, owners: &Owners<'_>) -> u32 {
    if secret.owners.is_empty() {
        return 1;
    }
    let is_owner = |identity: &Identification| {
        let mut owners = secret.owners.iter().filter(|owner| **owner != IdentityPattern::Any);
        owners.any(|owner| owner.matches(identity))
    };
    let is_of_peer = matches!(owners.remote, PeerIdentity::Exactly(identity) if is_owner(identity));
    let is_of_all = secret.owners.contains(&IdentityPattern::Any);
    u32::from(is_of_peer) * 8 + u32::from(is_owner(owners.local)) * 4 + u32::from(is_of_all) * 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config;

    fn fqdn(name: &str) -> Identification {
        Identification { kind: adit_ike::wire::IdType::FQDN, data: name.as_bytes().to_vec() }
    }

    #[test]
    fn the_key_of_both_identities_comes_before_the_keys_of_one_and_of_all() {
        let section = |name: &str, ids: &[&str]| {
            let ids: String = (0..).zip(ids).map(|(number, id)| format!("id-{number} = {id}\n")).collect();
            format!("ike-{name} {{\nsecret = {name}\n{ids}}}\n")
        };
        let all = [
            section("all", &[]),
            section("any", &["%any"]),
            section("own", &["own.example"]),
            section("peer", &["peer.example"]),
            section("both", &["own.example", "PEER.example"]),
            section("ends", &["*.ends.example"]),
        ];
        let found = |sections: &[String], remote: PeerIdentity| {
            let text = format!("secrets {{\n{}}}\n", sections.concat());
            let owners = Owners { local: &fqdn("own.example"), remote: &remote };
            of(&config(&text), &owners).map(|secret| String::from_utf8_lossy(secret.bytes()).into_owned())
        };
        let peer = || PeerIdentity::Exactly(fqdn("peer.example"));
        let key = |text: &str| Some(text.to_owned());
        assert_eq!(found(&all, peer()), key("both"));
        assert_eq!(found(&all[..4], peer()), key("peer"));
        assert_eq!(found(&all[..3], peer()), key("own"));
        assert_eq!(found(&all[..2], peer()), key("any"));
        assert_eq!(found(&all[..1], peer()), key("all"));
        assert_eq!(found(&all[3..4], PeerIdentity::Any), None, "it belongs to one peer");
        assert_eq!(found(&all[5..], PeerIdentity::Exactly(fqdn("a.ends.example"))), key("ends"));
        assert_eq!(found(&all[5..], peer()), None);
    }
}
