//! The directories of certificates and keys beside the file.

use std::path::Path;

use adit_core::configuration::Problem;

use super::reader::Reader;
use super::sections::Password;
use crate::documents::shown;
use crate::files;
use crate::model::{Config, Document, KeyKind, PrivateKeyFile};

/// The directories of private keys.
const KEYS: [(&str, KeyKind); 5] = [
    ("private", KeyKind::Any),
    ("rsa", KeyKind::Rsa),
    ("ecdsa", KeyKind::Ecdsa),
    ("pkcs8", KeyKind::Pkcs8),
    ("pkcs12", KeyKind::Pkcs12),
];

/// Reads all files of the directories into the configuration.
pub(super) fn read(reader: &mut Reader<'_>, passwords: Vec<Password>, config: &mut Config) {
    config.credentials.certificates = certificates(reader, "x509");
    config.credentials.authorities = certificates(reader, "x509ca");
    for authority in &config.authorities {
        let known = &mut config.credentials.authorities;
        if !known.iter().any(|known| known.content == authority.cacert.content) {
            known.push(authority.cacert.clone());
        }
    }
    config.credentials.revocation_lists = documents(reader, "x509crl");
    config.credentials.public_keys = documents(reader, "pubkey");
    for (directory, kind) in KEYS {
        let found = documents(reader, directory).into_iter();
        let keys = found.map(|document| PrivateKeyFile { document, kind, password: None });
        match kind {
            KeyKind::Pkcs12 => config.credentials.containers.extend(keys),
            _ => config.credentials.private_keys.extend(keys),
        }
    }
    passwords.into_iter().for_each(|password| give(reader, password, config));
}

/// The files of a directory, by their names.
fn documents(reader: &mut Reader<'_>, directory: &str) -> Vec<Document> {
    let folder = reader.folder.path.join(directory);
    let found = files::regular_files(reader.folder.files, &folder);
    let found = found.unwrap_or_else(|why| {
        let text = format!("the folder cannot be read: {why}");
        reader.add(Problem { file: shown(&folder), line: None, text });
        Vec::new()
    });
    found.iter().filter_map(|path| document(reader, path)).collect()
}

fn document(reader: &mut Reader<'_>, path: &Path) -> Option<Document> {
    let document = reader.folder.found(path);
    document.map_err(|text| reader.add(Problem { file: shown(path), line: None, text })).ok()
}

/// The files of a directory that hold certificates. Each other one gives a warning.
fn certificates(reader: &mut Reader<'_>, directory: &str) -> Vec<Document> {
    let mut documents = documents(reader, directory);
    documents.retain(|document| match document.certificates() {
        Ok(_) => true,
        Err(text) => {
            reader.warnings.push(Problem { file: document.name.clone(), line: None, text });
            false
        }
    });
    documents
}

/// Gives a password to the file that its section names.
fn give(reader: &mut Reader<'_>, password: Password, config: &mut Config) {
    let directory = KEYS.iter().find(|(_, kind)| *kind == password.kind).map_or("private", |(name, _)| name);
    let path = shown(&reader.folder.path_of(directory, &password.file));
    let credentials = &mut config.credentials;
    let mut all = credentials.private_keys.iter_mut().chain(&mut credentials.containers);
    match all.find(|key| key.document.name == path) {
        Some(key) => key.password = password.password,
        None => reader.problem(&password.place, format!("`file`: there is no file {path}")),
    }
}
