//! The authentication of both ends.

use adit_ike::machine::{
    LocalAuth, LocalProof, OwnCertificate, PeerCertificates, RemoteAuth, RemoteProof, SharedKey,
};
use adit_ike_config::{Config, Connection, Method, SecretBytes, SharedSecret};

use super::problems::Problems;
use super::secret::{self, Owners};
use super::{certificates, eap, identity};

/// The authentication of this end and of the peer.
pub(super) struct Authentication {
    pub(super) local_auth: LocalAuth,
    pub(super) remote_auth: RemoteAuth,
    /// The key that both ends have, if there is one.
    pub(super) secret: Option<SecretBytes>,
    /// The passwords of users, if one end proves its identity by EAP.
    pub(super) passwords: Vec<SharedSecret>,
}

/// The authentication of a connection.
pub(super) fn of(config: &Config, of: &Connection, problems: &mut Problems) -> Option<Authentication> {
    let ([local], [remote]) = (of.local.as_slice(), of.remote.as_slice()) else {
        let text = "one section `local` and one section `remote` are needed: several rounds of authentication are not supported";
        problems.add(of.places.section(), text);
        return None;
    };
    let local_identity = identity::of_this_end(of, local, problems);
    let remote_identity = identity::of_the_peer(remote, problems);
    let (local_identity, remote_identity) = (local_identity?, remote_identity?);
    let owners = Owners { local: &local_identity, remote: &remote_identity };
    let secret = secret::of(config, &owners);
    let eap = eap::Rounds { config, connection: of, local, remote };
    let local_proof = match &local.auth {
        Method::SharedKey => shared_key(secret, of, problems).map(LocalProof::SharedKey),
        Method::Signature(rules) => {
            certificates::sha1(rules, local.places.of("auth"), problems).and_then(|sha1| {
                let own = certificates::of_this_end(config, of, local, problems)?;
                Some(LocalProof::Certificate(OwnCertificate { sha1, ..own }))
            })
        }
        Method::Eap(method) => eap.of_this_end(*method, &local_identity, problems).map(LocalProof::Eap),
    };
    let remote_proof = match &remote.auth {
        Method::SharedKey => shared_key(secret, of, problems).map(RemoteProof::SharedKey),
        Method::Signature(rules) => {
            certificates::sha1(rules, remote.places.of("auth"), problems).and_then(|sha1| {
                let accepted = certificates::of_the_peer(config, of, remote, problems)?;
                Some(RemoteProof::Certificate(PeerCertificates { sha1, ..accepted }))
            })
        }
        Method::Eap(method) => eap.of_the_peer(*method, problems).map(RemoteProof::Eap),
    };
    eap.refuse_missing(problems);
    let has_eap = [&local.auth, &remote.auth].into_iter().any(|method| matches!(method, Method::Eap(_)));
    let passwords = if has_eap { config.passwords.clone() } else { Vec::new() };
    let local_auth = LocalAuth { proof: local_proof?, identity: local_identity };
    let remote_auth = RemoteAuth { proof: remote_proof?, identity: remote_identity };
    Some(Authentication { local_auth, remote_auth, secret: secret.cloned(), passwords })
}

fn shared_key(secret: Option<&SecretBytes>, of: &Connection, problems: &mut Problems) -> Option<SharedKey> {
    if secret.is_none() {
        let text = "there is no pre-shared key for these identities: add `secrets { ike-1 { secret = … } }`, with `id-1` if it belongs \
                    to one peer alone";
        problems.add(of.places.section(), text);
    }
    secret.map(|secret| SharedKey(secret.bytes().clone()))
}
