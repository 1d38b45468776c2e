//! The names and passwords of EAP.

use std::sync::Arc;

use adit_ike::eap::{Credentials, MAX_NAME, NtHash, Users};
use adit_ike::machine::EapUsers;
use adit_ike::wire::{IdType, Identification};
use adit_ike_config::{
    Config, Connection, Identity, IdentityPattern, LocalRound, Method, RemoteRound, SharedSecret,
};

use super::identity;
use super::problems::Problems;

/// The name and the password of this end.
pub(super) fn of_this_end(
    config: &Config,
    round: &LocalRound,
    own: &Identification,
    problems: &mut Problems,
) -> Option<Credentials> {
    let place = round.places.of("eap_id");
    let identity = match &round.eap_id {
        Some(Identity::Exact(identity)) => identity,
        Some(Identity::Any) | None => own,
    };
    let Some(name) = name(identity) else {
        problems.add(place, "`eap_id`: the name of a user is needed, such as carol or carol@example.org");
        return None;
    };
    let is_owner = |secret: &&SharedSecret| secret.owners.iter().any(|owner| owner.matches(identity));
    let all = &config.passwords;
    let secret = all.iter().find(is_owner).or_else(|| all.iter().find(|secret| secret.owners.is_empty()));
    let Some(secret) = secret else {
        let text = format!(
            "there is no password for `{}`: add `secrets {{ eap-1 {{ id = …, secret = … }} }}`, each key on a line of its own",
            adit_core::escaped(&name)
        );
        problems.add(place, text);
        return None;
    };
    Some(Credentials { name, hash: hash(secret, problems)? })
}

/// The users that the connection accepts.
pub(super) fn of_the_peer(config: &Config, round: &RemoteRound, problems: &mut Problems) -> Option<EapUsers> {
    let names = match round.eap_id.as_ref().map(identity::accepted) {
        Some(None) => {
            let text = "`eap_id`: the name of a user is needed, a pattern such as *@example.org, or %any";
            problems.add(round.places.of("eap_id"), text);
            return None;
        }
        Some(names) => names,
        None => None,
    };
    let mut users = Users::default();
    for secret in &config.passwords {
        let hash = hash(secret, problems)?;
        let mut exact = Vec::new();
        for owner in &secret.owners {
            match owner {
                IdentityPattern::Exact(identity) => exact.extend(name(identity)),
                IdentityPattern::Any => users.add_for_all(hash.clone()),
                _ => problems.add(
                    secret.places.section(),
                    "`id`: the password of several users is not matched by a pattern: write each `id` in full",
                ),
            }
        }
        if secret.owners.is_empty() {
            users.add_for_all(hash.clone());
        }
        exact.iter().for_each(|name| users.add(name, hash.clone()));
    }
    Some(EapUsers { names, users: Arc::new(users) })
}

/// Adds the problems of a connection with EAP: the other end proves its identity by a certificate, and an initiator alone proves its
/// own by EAP.
pub(super) fn refuse_missing(
    of: &Connection,
    local: &LocalRound,
    remote: &RemoteRound,
    problems: &mut Problems,
) {
    let is_by_certificate = |method: &Method| matches!(method, Method::Signature(_));
    let text = "`auth`: beside eap-mschapv2 at one end, the other end proves its identity by a certificate: write pubkey";
    if local.auth == Method::Eap && !is_by_certificate(&remote.auth) {
        problems.add(remote.places.of("auth"), text);
    }
    if remote.auth == Method::Eap && !is_by_certificate(&local.auth) {
        problems.add(local.places.of("auth"), text);
    }
    if (local.auth == Method::Eap || remote.auth == Method::Eap) && of.ppk_id.is_some() {
        problems.add(of.places.of("ppk_id"), "`ppk_id`: beside EAP there is no such key yet; leave it out");
    }
    let brings_up = of.children.iter().find(|child| child.start_action.start || child.start_action.trap);
    if let Some(child) = brings_up.filter(|_| remote.auth == Method::Eap) {
        let text = "`start_action`: a peer with EAP initiates by itself; leave it out";
        problems.add(child.places.of("start_action"), text);
    }
}

/// The text of an identity that a user may have.
fn name(identity: &Identification) -> Option<String> {
    let is_text = [IdType::FQDN, IdType::RFC822_ADDR, IdType::KEY_ID].contains(&identity.kind);
    let text = String::from_utf8(identity.data.clone()).ok();
    text.filter(|text| is_text && (1..=MAX_NAME).contains(&text.len()))
}

/// The hash of a password.
fn hash(secret: &SharedSecret, problems: &mut Problems) -> Option<NtHash> {
    let password = std::str::from_utf8(secret.secret.bytes());
    if password.is_err() {
        problems.add(secret.places.of("secret"), "`secret`: a password is text in UTF-8");
    }
    password.ok().map(NtHash::of_password)
}

#[cfg(test)]
mod tests {
    use adit_ike::machine::PeerIdentity;

    use super::*;
    use crate::testing::config;
    use crate::translate::connections;

    const SECRETS: &str = "eap-1 {\n id = alice\n id-2 = al@example.org\n secret = one\n}\neap-2 {\n id = *@x.org\n secret = \
                           two\n}\n";

    /// A file whose end with EAP has these lines; the other end has a certificate, which is not there.
    fn text(local: &str, remote: &str, secrets: &str) -> String {
        format!(
            "connections {{\n a {{\n remote_addrs = 192.0.2.1\n local {{\n id = a.example\n {local}\n }}\n remote {{\n id = \
             b.example\n {remote}\n }}\n children {{\n net {{\n local_ts = 10.1.0.0/16\n remote_ts = 10.2.0.0/16\n }}\n }}\n \
             }}\n}}\nsecrets {{\n{secrets}}}\n"
        )
    }

    fn problems_of(text: &str) -> Vec<String> {
        let problems = connections(&config(text)).err().unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_password_of_this_end_is_that_of_its_eap_id_or_else_of_its_identity() {
        let of = |local: &str, secrets: &str| {
            let config = config(&text(&format!("auth = eap\n {local}"), "", secrets));
            let (round, mut problems) = (&config.connections[0].local[0], Problems::default());
            let own = Identification { kind: IdType::FQDN, data: b"a.example".to_vec() };
            let found = of_this_end(&config, round, &own, &mut problems);
            let found = found.map(|found| (found.name, found.hash));
            found.ok_or_else(|| problems.or(()).err().map(|all| all[0].to_string()).unwrap_or_default())
        };
        let expected = |name: &str, password| Ok((name.to_owned(), NtHash::of_password(password)));
        assert_eq!(of("eap_id = alice", SECRETS), expected("alice", "one"));
        assert_eq!(of("eap_id = bob@x.org", SECRETS), expected("bob@x.org", "two"));
        assert_eq!(of("", "eap {\n secret = three\n}\n"), expected("a.example", "three"));
        let missing = of("eap_id = bob", SECRETS).expect_err("no password");
        assert!(missing.starts_with("a.conf:7: there is no password for `bob`"), "{missing}");
        let address = of("eap_id = 192.0.2.1", SECRETS).expect_err("no name");
        assert!(address.starts_with("a.conf:7: `eap_id`: the name of a user is needed"), "{address}");
    }

    #[test]
    fn the_users_of_the_peer_are_those_of_the_secrets() {
        let of = |remote: &str, secrets: &str| {
            let config = config(&text("", &format!("auth = eap-mschapv2\n {remote}"), secrets));
            let mut problems = Problems::default();
            let found = of_the_peer(&config, &config.connections[0].remote[0], &mut problems);
            let problems = problems.or(()).err().unwrap_or_default();
            (found, problems.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (found, problems) = of("eap_id = %any", &SECRETS[..SECRETS.find("eap-2").expect("a place")]);
        let found = found.expect("users");
        assert_eq!((found.names, problems), (Some(PeerIdentity::Any), vec![]));
        for (name, user) in
            [("alice", "alice"), (r"CORP\ALICE", "alice"), ("AL@example.org", "al@example.org")]
        {
            let found = found.users.find(name);
            assert_eq!((found.name.as_str(), found.hash), (user, Some(NtHash::of_password("one"))));
        }
        assert_eq!(found.users.find("bob").hash, None);
        let (found, _) = of("", "eap {\n secret = all\n}\n");
        let found = found.expect("users");
        assert_eq!((found.names, found.users.find("bob").hash), (None, Some(NtHash::of_password("all"))));
        let (_, problems) = of("", SECRETS);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("write each `id` in full"), "{problems:?}");
        let (_, problems) = of("", "eap {\n secret = 0xff\n}\n");
        assert!(problems[0].ends_with("`secret`: a password is text in UTF-8"), "{problems:?}");
    }

    #[test]
    fn beside_eap_the_other_end_has_a_certificate_and_a_peer_with_eap_initiates() {
        let psk = format!("ike {{\n secret = x\n}}\n{}", &SECRETS[..SECRETS.find("eap-2").expect("a place")]);
        let both = problems_of(&text("auth = eap\n eap_id = alice", "auth = eap-mschapv2", &psk));
        assert_eq!(both.iter().filter(|text| text.contains("beside eap-mschapv2")).count(), 2, "{both:?}");
        let key = problems_of(&text("auth = eap\n eap_id = alice", "auth = psk", &psk));
        assert!(key[0].starts_with("a.conf:11: `auth`: beside eap-mschapv2"), "{key:?}");
        let start =
            text("auth = psk", "auth = eap", &psk).replace(" local_ts", " start_action = start\n local_ts");
        let start = problems_of(&start);
        assert!(start.iter().any(|text| text.contains("a peer with EAP initiates by itself")), "{start:?}");
    }
}
