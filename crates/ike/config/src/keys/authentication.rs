//! The keys of the sections `local…` and `remote…` of a connection.

use super::{Row, Value, anything, refused, set, unused, used};
use crate::draft::CertificateDraft;
use crate::model::{Document, Identity, LocalRound, RemoteRound, Revocation};
use crate::values::{auth, identity, list, numbers, one_of};

const FOR_XAUTH: &str = "it is for IKEv1 alone";
const NO_TOKENS: &str =
    "adit reads no certificate from a token; write `file = ` and the file of the certificate";

/// The keys of a section `local…`.
pub(crate) const LOCAL: &[Row<LocalRound>] = &[
    used("round", "NUMBER", |round, value| set(&mut round.round, numbers::number_u32(value.text))),
    used("certs", "FILE in x509, …", |round, value| documents(&mut round.certs, "x509", value)),
    used("pubkeys", "FILE in pubkey, …", |round, value| documents(&mut round.pubkeys, "pubkey", value)),
    used("auth", "psk|pubkey|RULES|eap-mschapv2|eap-tls", |round, value| {
        set(&mut round.auth, auth::method(value.text))
    }),
    used("id", "IDENTITY", |round, value| {
        let id = identity::identity(value.text)?;
        round.id = (id != Identity::Any).then_some(id);
        Ok(())
    }),
    used("eap_id", "IDENTITY", |round, value| {
        let id = identity::identity(value.text)?;
        round.eap_id = (id != Identity::Any).then_some(id);
        Ok(())
    }),
    used("aaa_id", "IDENTITY", |round, value| {
        let id = identity::identity(value.text)?;
        round.aaa_id = (id != Identity::Any).then_some(id);
        Ok(())
    }),
    unused("xauth_id", "IDENTITY", is_identity, FOR_XAUTH),
];

/// The keys of a section `remote…`.
pub(crate) const REMOTE: &[Row<RemoteRound>] = &[
    used("round", "NUMBER", |round, value| set(&mut round.round, numbers::number_u32(value.text))),
    used("id", "IDENTITY|PATTERN|%any", |round, value| set(&mut round.id, identity::pattern(value.text))),
    used("eap_id", "IDENTITY|PATTERN|%any", |round, value| {
        set(&mut round.eap_id, identity::pattern(value.text).map(Some))
    }),
    unused("xauth_id", "IDENTITY", is_identity, FOR_XAUTH),
    refused(
        "groups",
        "adit reads no groups from attribute certificates; name the peers by `id`, or their authority by `cacerts`",
    ),
    refused(
        "cert_policy",
        "adit compares no certificate policies; name the authority of the peers by `cacerts`",
    ),
    used("certs", "FILE in x509, …", |round, value| documents(&mut round.certs, "x509", value)),
    used("cacerts", "FILE in x509ca, …", |round, value| documents(&mut round.cacerts, "x509ca", value)),
    used("ca_id", "IDENTITY|PATTERN", |round, value| {
        set(&mut round.ca_id, identity::pattern(value.text).map(Some))
    }),
    used("pubkeys", "FILE in pubkey, …", |round, value| documents(&mut round.pubkeys, "pubkey", value)),
    used("revocation", "relaxed|ifuri|strict", |round, value| {
        let words =
            [("relaxed", Revocation::Relaxed), ("ifuri", Revocation::IfUri), ("strict", Revocation::Strict)];
        set(&mut round.revocation, one_of(value.text, &words))
    }),
    used("auth", "psk|pubkey|RULES|eap-mschapv2|eap-tls", |round, value| {
        set(&mut round.auth, auth::method(value.text))
    }),
];

/// The keys of a section `cert…` or `cacert…` in those.
pub(crate) const CERTIFICATE: &[Row<CertificateDraft>] = &[
    // As strongSwan, whose daemon reads this file: a relative path is not one in x509.
    used("file", "FILE", |draft, value| {
        let document = value.folder.named("", value.text, value.place)?;
        document.certificates()?;
        draft.document = Some(document);
        Ok(())
    }),
    refused("handle", NO_TOKENS),
    unused("slot", "NUMBER", anything, "it is for `handle` alone"),
    unused("module", "NAME", anything, "it is for `handle` alone"),
];

fn is_identity(text: &str) -> Result<(), String> {
    identity::pattern(text).map(drop)
}

/// Reads the files of a list. Those of certificates must hold some.
fn documents(field: &mut Vec<Document>, directory: &str, value: &Value<'_>) -> Result<(), String> {
    let named = list(value.text).map(|name| {
        let document = value.folder.named(directory, name, value.place)?;
        if directory != "pubkey" {
            document.certificates()?;
        }
        Ok(document)
    });
    let documents = named.collect::<Result<Vec<_>, String>>()?;
    *field = documents;
    Ok(())
}
