//! The names of EAP, with passwords and certificates.

use std::sync::Arc;

use adit_ike::eap::{Credentials, MAX_NAME, MAX_SUBJECT, NtHash, TlsCredentials, Users};
use adit_ike::machine::EapUsers;
use adit_ike::wire::{IdType, Identification};
use adit_ike_config::{
    Config, Connection, EapMethod, Identity, IdentityPattern, LocalRound, Method, RemoteRound, SharedSecret,
};

use super::problems::Problems;
use super::{certificates, identity};

/// The sections of a connection that speak of EAP.
pub(super) struct Rounds<'a> {
    pub(super) config: &'a Config,
    pub(super) connection: &'a Connection,
    pub(super) local: &'a LocalRound,
    pub(super) remote: &'a RemoteRound,
}

impl Rounds<'_> {
    /// The name of this end, with its password and its certificate.
    pub(super) fn of_this_end(
        &self,
        method: EapMethod,
        own: &Identification,
        problems: &mut Problems,
    ) -> Option<Credentials> {
        let identity = match &self.local.eap_id {
            Some(Identity::Exact(identity)) => identity,
            Some(Identity::Any) | None => own,
        };
        let has_certificate = method == EapMethod::Tls
            || matches!(method, EapMethod::Any | EapMethod::Dynamic) && !self.local.certs.is_empty();
        let needs_password = method == EapMethod::MsChapV2 || !has_certificate;
        let password = match method {
            EapMethod::Tls => None,
            _ if needs_password || self.secret_of(identity).is_some() => {
                Some(self.password(identity, problems)?)
            }
            _ => None,
        };
        let is_subject = identity.kind == IdType::DER_ASN1_DN && identity.data.len() <= MAX_SUBJECT;
        if name(identity).is_none() && (password.is_some() || !is_subject) {
            let text = "`eap_id`: the name of a user is needed, such as carol or carol@example.org";
            problems.add(self.local.places.of("eap_id"), text);
            return None;
        }
        let tls = if has_certificate { Some(self.for_tls(problems)?) } else { None };
        let authenticator = match &self.local.aaa_id {
            Some(Identity::Exact(identity)) => Some(identity.clone()),
            Some(Identity::Any) | None => None,
        };
        Some(Credentials { name: identity.data.clone(), password, tls, authenticator })
    }

    fn for_tls(&self, problems: &mut Problems) -> Option<Arc<TlsCredentials>> {
        certificates::for_tls(self.config, self.connection, (self.local, self.remote), problems)
    }

    /// The secret of a name, or else the one without a name.
    fn secret_of(&self, identity: &Identification) -> Option<&SharedSecret> {
        let is_owner = |secret: &&SharedSecret| secret.owners.iter().any(|owner| owner.matches(identity));
        let all = &self.config.passwords;
        all.iter().find(is_owner).or_else(|| all.iter().find(|secret| secret.owners.is_empty()))
    }

    fn password(&self, identity: &Identification, problems: &mut Problems) -> Option<NtHash> {
        let place = self.local.places.of("eap_id");
        let Some(name) = name(identity) else {
            problems.add(place, "`eap_id`: the name of a user is needed, such as carol or carol@example.org");
            return None;
        };
        let Some(secret) = self.secret_of(identity) else {
            let text = format!(
                "there is no password for `{}`: add `secrets {{ eap-1 {{ id = …, secret = … }} }}`, each key on a line of its own",
                adit_core::escaped(&name)
            );
            problems.add(place, text);
            return None;
        };
        hash(secret, problems)
    }

    /// The users that the connection accepts.
    pub(super) fn of_the_peer(&self, method: EapMethod, problems: &mut Problems) -> Option<EapUsers> {
        let round = self.remote;
        let names = match round.eap_id.as_ref().map(identity::accepted) {
            Some(None) => {
                let text = "`eap_id`: the name of a user is needed, a pattern such as *@example.org, or %any";
                problems.add(round.places.of("eap_id"), text);
                return None;
            }
            Some(names) => names,
            None => None,
        };
        let names_authorities = !round.cacerts.is_empty() || !round.certs.is_empty();
        let has_certificates = method == EapMethod::Tls || method == EapMethod::Dynamic && names_authorities;
        let tls = if has_certificates { Some(self.for_tls(problems)?) } else { None };
        let users = if method == EapMethod::Tls { None } else { Some(Arc::new(self.users(problems)?)) };
        Some(EapUsers { names, users, tls })
    }

    fn users(&self, problems: &mut Problems) -> Option<Users> {
        let mut users = Users::default();
        for secret in &self.config.passwords {
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
        Some(users)
    }

    /// Adds the problems of a connection with EAP: the other end proves its identity by a certificate or, where both ends have EAP-TLS,
    /// by that alone (RFC 5998). Else an initiator alone proves its identity by EAP.
    pub(super) fn refuse_missing(&self, problems: &mut Problems) {
        let (local, remote) = (self.local, self.remote);
        let is_eap = |method: &Method| matches!(method, Method::Eap(_));
        let tls = Method::Eap(EapMethod::Tls);
        let is_alone = local.auth == tls && remote.auth == tls;
        let is_by_certificate = |method: &Method| matches!(method, Method::Signature(_));
        let text = "`auth`: beside eap-mschapv2 at one end, the other end proves its identity by a certificate: write pubkey, or at both \
                    ends eap-tls";
        if is_eap(&local.auth) && !is_by_certificate(&remote.auth) && !is_alone {
            problems.add(remote.places.of("auth"), text);
        }
        if is_eap(&remote.auth) && !is_by_certificate(&local.auth) && !is_alone {
            problems.add(local.places.of("auth"), text);
        }
        if is_alone && local.aaa_id.is_some() {
            let text = "`aaa_id`: where eap-tls is the only proof of the peer, its certificate has the peer's identity; leave it out";
            problems.add(local.places.of("aaa_id"), text);
        }
        if (is_eap(&local.auth) || is_eap(&remote.auth)) && self.connection.ppk_id.is_some() {
            let place = self.connection.places.of("ppk_id");
            problems.add(place, "`ppk_id`: beside EAP there is no such key yet; leave it out");
        }
        let mut children = self.connection.children.iter();
        let brings_up = children.find(|child| child.start_action.start || child.start_action.trap);
        if let Some(child) = brings_up.filter(|_| is_eap(&remote.auth) && !is_alone) {
            let text = "`start_action`: a peer with EAP initiates by itself; leave it out";
            problems.add(child.places.of("start_action"), text);
        }
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
    use adit_ike::machine::{self, LocalProof, PeerIdentity, RemoteProof};
    use adit_pki::signature::Sha1;

    use super::*;
    use crate::files::Disk;
    use crate::testing::{config, folder, openssl};
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

    fn rounds(config: &Config) -> Rounds<'_> {
        let connection = &config.connections[0];
        Rounds { config, connection, local: &connection.local[0], remote: &connection.remote[0] }
    }

    fn problems_of(text: &str) -> Vec<String> {
        let problems = connections(&config(text)).err().unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_password_of_this_end_is_that_of_its_eap_id_or_else_of_its_identity() {
        let of = |local: &str, secrets: &str| {
            let config = config(&text(&format!("auth = eap\n {local}"), "", secrets));
            let mut problems = Problems::default();
            let own = Identification { kind: IdType::FQDN, data: b"a.example".to_vec() };
            let found = rounds(&config).of_this_end(EapMethod::Any, &own, &mut problems);
            let found = found.map(|found| (found.name, found.password));
            found.ok_or_else(|| problems.or(()).err().map(|all| all[0].to_string()).unwrap_or_default())
        };
        let expected = |name: &str, password| Ok((name.into(), Some(NtHash::of_password(password))));
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
            let found = rounds(&config).of_the_peer(EapMethod::MsChapV2, &mut problems);
            let problems = problems.or(()).err().unwrap_or_default();
            (found, problems.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (found, problems) = of("eap_id = %any", &SECRETS[..SECRETS.find("eap-2").expect("a place")]);
        let found = found.expect("users");
        assert_eq!((found.names, problems), (Some(PeerIdentity::Any), vec![]));
        for (name, user) in
            [("alice", "alice"), (r"CORP\ALICE", "alice"), ("AL@example.org", "al@example.org")]
        {
            let found = found.users.as_ref().expect("passwords").find(name);
            assert_eq!((found.name.as_str(), found.hash), (user, Some(NtHash::of_password("one"))));
        }
        assert_eq!(found.users.expect("passwords").find("bob").hash, None);
        let (found, _) = of("", "eap {\n secret = all\n}\n");
        let found = found.expect("users");
        let hash = found.users.expect("passwords").find("bob").hash;
        assert_eq!((found.names, hash), (None, Some(NtHash::of_password("all"))));
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
    /// The connection of a file whose ends have these lines. There is one certificate, of own.example, and one authority.
    fn certified(local: &str, remote: &str) -> Result<machine::Connection, String> {
        let folder = folder();
        openssl(&folder, "x509 -in x509ca/ca.pem -out x509/own.pem");
        openssl(&folder, "pkey -in key.pem -out private/own.pem");
        let secrets = "eap-1 {\n id = alice\n secret = one\n}\n";
        let text = text(&format!("certs = own.pem\n {local}"), remote, secrets);
        let path = folder.write("swanctl.conf", &text).unwrap();
        let parsed = adit_ike_config::parse(&path.display().to_string(), text.as_bytes(), &Disk::default());
        let config = parsed.map_err(|failure| failure.to_string())?.config;
        let planned = connections(&config).map_err(|problems| format!("{problems:?}"))?;
        Ok(planned.first().expect("a connection").connection.clone())
    }

    #[test]
    fn eap_tls_has_the_certificates_of_both_sections() {
        let own = |local: &str, remote: &str| match certified(local, remote).unwrap().local_auth.proof {
            LocalProof::Eap(own) => own,
            other => panic!("{other:?}"),
        };
        let one = own("auth = eap-tls", "auth = pubkey");
        assert!(one.tls.is_some() && one.password.is_none() && one.name == b"a.example");
        let named = own("auth = eap-tls\n eap_id = alice\n aaa_id = aaa.example", "auth = pubkey");
        assert_eq!((named.name.as_slice(), named.password), (&b"alice"[..], None));
        assert_eq!(named.authenticator.map(|identity| identity.data), Some(b"aaa.example".to_vec()));
        let any = own("auth = eap\n eap_id = alice", "auth = pubkey");
        assert!(any.tls.is_some() && any.password.is_some(), "this end has both");
        let certificate = own("auth = eap-dynamic", "auth = pubkey");
        assert!(certificate.tls.is_some() && certificate.password.is_none());
        let users = |remote: &str| match certified("auth = pubkey", remote).unwrap().remote_auth.proof {
            RemoteProof::Eap(users) => (users.users.is_some(), users.tls.is_some()),
            other => panic!("{other:?}"),
        };
        assert_eq!(users("auth = eap-tls"), (false, true));
        assert_eq!(users("auth = eap-dynamic\n cacerts = ca.pem"), (true, true));
        for without in ["auth = eap-dynamic", "auth = eap\n cacerts = ca.pem", "auth = eap-mschapv2"] {
            assert_eq!(users(without), (true, false), "{without}");
        }
    }

    #[test]
    fn eap_tls_may_be_the_only_proof_of_both_ends() {
        let both = certified("auth = eap-tls", "auth = eap-tls").unwrap();
        assert!(matches!(both.local_auth.proof, LocalProof::Eap(_)));
        assert!(matches!(both.remote_auth.proof, RemoteProof::Eap(_)));
        for (local, remote, why) in [
            ("auth = eap-tls", "auth = eap-mschapv2", "or at both ends eap-tls"),
            ("auth = eap-dynamic", "auth = eap-tls", "or at both ends eap-tls"),
            (
                "auth = eap-tls\n aaa_id = x.example",
                "auth = eap-tls",
                "`aaa_id`: where eap-tls is the only proof",
            ),
        ] {
            let problems = certified(local, remote).map(drop).unwrap_err();
            assert!(problems.contains(why), "{local}, {remote}: {problems}");
        }
    }

    #[test]
    fn sha_1_is_accepted_by_a_rule_of_its_own() {
        let sha1 = |auth: &str| {
            let connection = certified(auth, auth)?;
            match (connection.local_auth.proof, connection.remote_auth.proof) {
                (LocalProof::Certificate(own), RemoteProof::Certificate(accepted)) => {
                    Ok((own.sha1, accepted.sha1))
                }
                other => Err(format!("{other:?}")),
            }
        };
        assert_eq!(sha1("auth = pubkey"), Ok((Sha1::Refused, Sha1::Refused)));
        assert_eq!(sha1("auth = ike:rsa-sha1"), Ok((Sha1::Accepted, Sha1::Accepted)));
        for other in ["rsa-sha1", "ike:rsa-sha256", "ike:ecdsa-sha1", "ike:rsa-sha1-sha256"] {
            let problems = sha1(&format!("auth = {other}")).unwrap_err();
            assert!(problems.contains("or `ike:rsa-sha1` for a peer"), "{other}: {problems}");
        }
    }
}
