//! The sections of `pools`, `authorities` and `secrets`.

use adit_core::configuration::Problem;

use super::reader::Reader;
use crate::draft::{CertificateDraft, PasswordDraft, PoolDraft, SharedDraft, UnusedDraft};
use crate::grammar::{Merged, Merger};
use crate::keys;
use crate::model::{Authority, Config, KeyKind, Place, Pool, SecretBytes, SharedSecret};

/// The password of a file with private keys.
pub(super) struct Password {
    pub(super) kind: KeyKind,
    /// The file, as it is written.
    pub(super) file: String,
    /// The line that names it.
    pub(super) place: Place,
    pub(super) password: Option<SecretBytes>,
}

/// A kind of section of `secrets`.
#[derive(Clone, Copy)]
enum Kind {
    Ike,
    Ppk,
    Eap,
    Password(KeyKind),
    Unused,
    Token,
}

/// The kinds of sections of `secrets`, by the beginnings of their names.
const KINDS: [(&str, Kind); 11] = [
    ("eap", Kind::Eap),
    ("xauth", Kind::Unused),
    ("ntlm", Kind::Unused),
    ("ike", Kind::Ike),
    ("ppk", Kind::Ppk),
    ("private", Kind::Password(KeyKind::Any)),
    ("rsa", Kind::Password(KeyKind::Rsa)),
    ("ecdsa", Kind::Password(KeyKind::Ecdsa)),
    ("pkcs8", Kind::Password(KeyKind::Pkcs8)),
    ("pkcs12", Kind::Password(KeyKind::Pkcs12)),
    ("token", Kind::Token),
];

/// The pools.
///
/// # Errors
/// A reference that leads nowhere, to itself, or to too many sections.
pub(super) fn pools(reader: &mut Reader<'_>, merger: &Merger<'_>) -> Result<Vec<Pool>, Problem> {
    let Some(root) = merger.root("pools")? else { return Ok(Vec::new()) };
    reader.keys::<()>(&root, &[], &mut ());
    let mut pools = Vec::new();
    for section in merger.sections(&root)? {
        merger.sections(&section)?.iter().for_each(|section| reader.no_section(section, &[]));
        pools.extend(pool(reader, &section));
    }
    Ok(pools)
}

fn pool(reader: &mut Reader<'_>, section: &Merged<'_>) -> Option<Pool> {
    let mut draft = PoolDraft::default();
    let before = reader.problems.len();
    let places = reader.keys_and(section, keys::POOL, &mut draft, |draft, key, text| {
        let number = keys::attribute_number(key);
        number.inspect(|number| keys::attribute(draft, *number, text)).is_some()
    });
    if draft.addrs.is_none() && reader.problems.len() == before {
        reader.problem(&section.first().place, "the pool has no `addrs`".to_owned());
    }
    Some(Pool {
        name: section.first().name.clone(),
        places,
        addrs: draft.addrs?,
        dns: draft.dns,
        nbns: draft.nbns,
        dhcp: draft.dhcp,
        subnet: draft.subnet,
        attributes: draft.attributes,
    })
}

/// The authorities.
///
/// # Errors
/// A reference that leads nowhere, to itself, or to too many sections.
pub(super) fn authorities(reader: &mut Reader<'_>, merger: &Merger<'_>) -> Result<Vec<Authority>, Problem> {
    let Some(root) = merger.root("authorities")? else { return Ok(Vec::new()) };
    reader.keys::<()>(&root, &[], &mut ());
    let mut authorities = Vec::new();
    for section in merger.sections(&root)? {
        merger.sections(&section)?.iter().for_each(|section| reader.no_section(section, &[]));
        let mut draft = CertificateDraft::default();
        let before = reader.problems.len();
        let places = reader.keys(&section, keys::AUTHORITY, &mut draft);
        let first = section.first();
        match draft.document {
            Some(cacert) => authorities.push(Authority { name: first.name.clone(), places, cacert }),
            None if reader.problems.len() > before => {}
            None => reader.problem(&first.place, "the authority has no `cacert`".to_owned()),
        }
    }
    Ok(authorities)
}

/// Puts the pre-shared keys and the passwords of users into the configuration, and gives the passwords of files.
///
/// # Errors
/// A reference that leads nowhere, to itself, or to too many sections.
pub(super) fn secrets(
    reader: &mut Reader<'_>,
    merger: &Merger<'_>,
    config: &mut Config,
) -> Result<Vec<Password>, Problem> {
    let Some(root) = merger.root("secrets")? else { return Ok(Vec::new()) };
    reader.keys::<()>(&root, &[], &mut ());
    let mut passwords = Vec::new();
    for section in merger.sections(&root)? {
        let name = &section.first().name;
        let kind = KINDS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, kind)| *kind);
        match kind {
            Some(Kind::Ike) => config.shared_keys.extend(shared(reader, &section)),
            Some(Kind::Ppk) => config.post_quantum_keys.extend(shared(reader, &section)),
            Some(Kind::Eap) => config.passwords.extend(shared(reader, &section)),
            Some(Kind::Password(kind)) => passwords.extend(password(reader, &section, kind)),
            Some(Kind::Unused) => drop(reader.keys(&section, keys::UNUSED_SECRET, &mut UnusedDraft)),
            Some(Kind::Token) => {
                let text = "adit reads no private key from a token; put the key into a file in `private`";
                reader.problem(&section.first().place, text.to_owned());
            }
            None => reader.no_section(&section, &KINDS.map(|(start, _)| start)),
        }
        merger.sections(&section)?.iter().for_each(|section| reader.no_section(section, &[]));
    }
    Ok(passwords)
}

fn shared(reader: &mut Reader<'_>, section: &Merged<'_>) -> Option<SharedSecret> {
    let mut draft = SharedDraft::default();
    let before = reader.problems.len();
    let places = reader.keys(section, keys::SHARED, &mut draft);
    let first = section.first();
    if draft.secret.is_none() && reader.problems.len() == before {
        reader.problem(&first.place, "the section has no `secret`".to_owned());
    }
    Some(SharedSecret { name: first.name.clone(), places, owners: draft.owners, secret: draft.secret? })
}

fn password(reader: &mut Reader<'_>, section: &Merged<'_>, kind: KeyKind) -> Option<Password> {
    let mut draft = PasswordDraft::default();
    let before = reader.problems.len();
    reader.keys(section, keys::PASSWORD, &mut draft);
    if draft.file.is_none() && reader.problems.len() == before {
        reader.problem(&section.first().place, "the section has no `file`".to_owned());
    }
    let (file, place) = draft.file?;
    Some(Password { kind, file, place, password: draft.password })
}
