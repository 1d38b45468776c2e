//! The sections of `connections`.

use adit_core::configuration::Problem;

use super::reader::Reader;
use crate::draft::{CertificateDraft, ChildDraft, ConnectionDraft, local_round, remote_round};
use crate::grammar::{Merged, Merger};
use crate::keys;
use crate::model::{Child, Config, Connection, Document, EapMethod, LocalRound, Method, RemoteRound};
use crate::values::shown;

/// The connections.
///
/// # Errors
/// A reference that leads nowhere, to itself, or to too many sections.
pub(super) fn read(reader: &mut Reader<'_>, merger: &Merger<'_>) -> Result<Vec<Connection>, Problem> {
    let Some(root) = merger.root("connections")? else { return Ok(Vec::new()) };
    reader.keys::<()>(&root, &[], &mut ());
    merger.sections(&root)?.iter().map(|section| connection(reader, merger, section)).collect()
}

fn connection(
    reader: &mut Reader<'_>,
    merger: &Merger<'_>,
    section: &Merged<'_>,
) -> Result<Connection, Problem> {
    let first = section.first();
    let mut draft = ConnectionDraft::new(&first.name, first.place.clone());
    let places = reader.keys(section, keys::CONNECTION, &mut draft);
    draft.connection.places = places;
    for part in merger.sections(section)? {
        let name = part.first().name.to_ascii_lowercase();
        if name == "children" {
            draft.connection.children.extend(children(reader, merger, &part)?);
        } else if name.starts_with("local") {
            draft.connection.local.push(local(reader, merger, &part)?);
        } else if name.starts_with("remote") {
            draft.connection.remote.push(remote(reader, merger, &part)?);
        } else {
            reader.no_section(&part, &["local", "remote", "children"]);
        }
    }
    let place = &first.place;
    let connection = &mut draft.connection;
    if connection.local.is_empty() {
        connection.local.push(local_round("local", place.clone()));
    }
    if connection.remote.is_empty() {
        connection.remote.push(remote_round("remote", place.clone()));
    }
    connection.local.sort_by_key(|round| round.round);
    connection.remote.sort_by_key(|round| round.round);
    Ok(draft.finish())
}

fn children(
    reader: &mut Reader<'_>,
    merger: &Merger<'_>,
    section: &Merged<'_>,
) -> Result<Vec<Child>, Problem> {
    reader.keys::<()>(section, &[], &mut ());
    let mut children = Vec::new();
    for section in merger.sections(section)? {
        let first = section.first();
        let mut draft = ChildDraft::new(&first.name, first.place.clone());
        draft.child.places = reader.keys(&section, keys::CHILD, &mut draft);
        merger.sections(&section)?.iter().for_each(|section| reader.no_section(section, &[]));
        children.push(draft.finish());
    }
    Ok(children)
}

fn local(reader: &mut Reader<'_>, merger: &Merger<'_>, section: &Merged<'_>) -> Result<LocalRound, Problem> {
    let first = section.first();
    let mut round = local_round(&first.name, first.place.clone());
    round.places = reader.keys(section, keys::LOCAL, &mut round);
    for part in merger.sections(section)? {
        match part.first().name.to_ascii_lowercase().starts_with("cert") {
            true => round.certs.extend(certificate(reader, &part)),
            false => reader.no_section(&part, &["cert"]),
        }
    }
    Ok(round)
}

fn remote(
    reader: &mut Reader<'_>,
    merger: &Merger<'_>,
    section: &Merged<'_>,
) -> Result<RemoteRound, Problem> {
    let first = section.first();
    let mut round = remote_round(&first.name, first.place.clone());
    round.places = reader.keys(section, keys::REMOTE, &mut round);
    for part in merger.sections(section)? {
        let name = part.first().name.to_ascii_lowercase();
        if name.starts_with("cert") {
            round.certs.extend(certificate(reader, &part));
        } else if name.starts_with("cacert") {
            round.cacerts.extend(certificate(reader, &part));
        } else {
            reader.no_section(&part, &["cert", "cacert"]);
        }
    }
    Ok(round)
}

/// The certificate of a section `cert…` or `cacert…`.
fn certificate(reader: &mut Reader<'_>, section: &Merged<'_>) -> Option<Document> {
    let mut draft = CertificateDraft::default();
    let before = reader.problems.len();
    reader.keys(section, keys::CERTIFICATE, &mut draft);
    if draft.document.is_none() && reader.problems.len() == before {
        reader.problem(&section.first().place, "the section has no `file`".to_owned());
    }
    draft.document
}

/// Checks connections against the other sections.
pub(super) fn check(reader: &mut Reader<'_>, config: &Config) {
    for connection in &config.connections {
        for pool in connection.pools.iter().filter(|name| config.pool(name).is_none()) {
            let place = connection.places.of("pools");
            let text = format!(
                "`pools`: there is no section `{}` in `pools`, and adit takes no addresses from elsewhere",
                shown(pool)
            );
            reader.problem(place, text);
        }
        let local = connection.local.iter().map(|round| &round.auth);
        let remote = connection.remote.iter().map(|round| &round.auth);
        let methods: Vec<&Method> = local.chain(remote).collect();
        let by_password = Method::Eap(EapMethod::MsChapV2);
        let is_asked = connection.remote.iter().any(|round| round.auth == Method::Eap(EapMethod::Any));
        if (methods.contains(&&by_password) || is_asked) && config.passwords.is_empty() {
            let text = format!(
                "connection `{}` has `auth = eap-mschapv2`, and there is no password: write a section `eap` with `id` and `secret` in \
                 `secrets`",
                shown(&connection.name)
            );
            reader.problem(connection.places.section(), text);
        }
        if methods.contains(&&Method::SharedKey) && config.shared_keys.is_empty() {
            let text = format!(
                "connection `{}` has `auth = psk`, and there is no pre-shared key: write a section `ike` with `secret` in \
                 `secrets`",
                shown(&connection.name)
            );
            reader.problem(connection.places.section(), text);
        }
    }
}
