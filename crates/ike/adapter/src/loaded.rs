//! The connections and credentials that programs load by VICI, beside those of the file. They are kept until the process ends.
//!
//! A connection, a secret, a pool or an authority takes the place of the one with its name in the file. A reload of the file (SIGHUP)
//! gives those back that the file has; those that were only loaded stay.

use std::collections::BTreeSet;

use adit_ike_config::{
    Authority, Config, Connection, Credentials, Document, Pool, PrivateKeyFile, SharedSecret,
};

use crate::translate::private_keys::identifier;

/// The identifier of a private key: the SHA-1 digest of its public key.
pub(crate) type KeyId = [u8; 20];

/// A change that a program orders.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Connection(Box<Connection>),
    RemoveConnection(String),
    Secret(SecretKind, SharedSecret),
    RemoveSecret(String),
    Key(PrivateKeyFile),
    RemoveKey(KeyId),
    Certificate(CertificateKind, Document),
    Pool(Pool),
    RemovePool(String),
    Authority(Authority),
    RemoveAuthority(String),
    /// All secrets, certificates and private keys go.
    ClearCredentials,
}

/// The kind of a secret that both ends have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretKind {
    Ike,
    Ppk,
    Eap,
}

/// The kind of a certificate, or of what stands beside certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateKind {
    End,
    Authority,
    RevocationList,
    PublicKey,
}

/// A part of the file that a program has unloaded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unloaded {
    Connection(String),
    Secret(String),
    Key(KeyId),
    /// Certificates, revocation lists and public keys, by their bytes.
    Document(Vec<u8>),
    Pool(String),
    Authority(String),
}

/// The loaded parts, and the parts of the file that were unloaded.
#[derive(Clone, Default)]
pub(crate) struct Loaded {
    loaded: Config,
    unloaded: BTreeSet<Unloaded>,
}

const SECRETS: [SecretKind; 3] = [SecretKind::Ike, SecretKind::Ppk, SecretKind::Eap];
const CERTIFICATES: [CertificateKind; 4] = [
    CertificateKind::End,
    CertificateKind::Authority,
    CertificateKind::RevocationList,
    CertificateKind::PublicKey,
];

impl SecretKind {
    pub(crate) const fn of(self, config: &Config) -> &Vec<SharedSecret> {
        match self {
            SecretKind::Ike => &config.shared_keys,
            SecretKind::Ppk => &config.post_quantum_keys,
            SecretKind::Eap => &config.passwords,
        }
    }

    const fn of_mut(self, config: &mut Config) -> &mut Vec<SharedSecret> {
        match self {
            SecretKind::Ike => &mut config.shared_keys,
            SecretKind::Ppk => &mut config.post_quantum_keys,
            SecretKind::Eap => &mut config.passwords,
        }
    }
}

impl CertificateKind {
    pub(crate) const fn of(self, credentials: &Credentials) -> &Vec<Document> {
        match self {
            CertificateKind::End => &credentials.certificates,
            CertificateKind::Authority => &credentials.authorities,
            CertificateKind::RevocationList => &credentials.revocation_lists,
            CertificateKind::PublicKey => &credentials.public_keys,
        }
    }

    const fn of_mut(self, credentials: &mut Credentials) -> &mut Vec<Document> {
        match self {
            CertificateKind::End => &mut credentials.certificates,
            CertificateKind::Authority => &mut credentials.authorities,
            CertificateKind::RevocationList => &mut credentials.revocation_lists,
            CertificateKind::PublicKey => &mut credentials.public_keys,
        }
    }
}

impl Loaded {
    /// Takes a change. What the file has just so is the file's again.
    ///
    /// # Errors
    /// There is nothing of that name to unload.
    pub(crate) fn apply(&mut self, change: Change, file: &Config) -> Result<(), String> {
        match change {
            Change::Connection(connection) => self.add_connection(*connection, file),
            Change::RemoveConnection(name) => {
                let is_there = self.connections(file).any(|own| own.name == name);
                self.loaded.connections.retain(|own| own.name != name);
                self.unloaded.insert(Unloaded::Connection(name.clone()));
                return there(is_there, || format!("unload: connection '{name}' not found"));
            }
            Change::Secret(kind, secret) => self.add_secret(kind, secret, file),
            Change::RemoveSecret(name) => return self.remove_secret(name, file),
            Change::Key(key) => return self.add_key(key, file),
            Change::RemoveKey(id) => return self.remove_key(id, file),
            Change::Certificate(kind, document) => self.add_certificate(kind, document, file),
            Change::Pool(pool) => {
                self.unloaded.remove(&Unloaded::Pool(pool.name.clone()));
                self.loaded.pools.retain(|own| own.name != pool.name);
                if !file.pools.contains(&pool) {
                    self.loaded.pools.push(pool);
                }
            }
            Change::RemovePool(name) => {
                let is_there = self.pools(file).any(|own| own.name == name);
                self.loaded.pools.retain(|own| own.name != name);
                self.unloaded.insert(Unloaded::Pool(name.clone()));
                return there(is_there, || format!("{name} not found"));
            }
            Change::Authority(authority) => self.add_authority(authority, file),
            Change::RemoveAuthority(name) => {
                let is_there = self.authorities(file).any(|own| own.name == name);
                self.loaded.authorities.retain(|own| own.name != name);
                self.unloaded.insert(Unloaded::Authority(name.clone()));
                return there(is_there, || format!("unload: authority '{name}' not found"));
            }
            Change::ClearCredentials => self.clear(file),
        }
        Ok(())
    }

    /// The file was read again: the parts that it has hold.
    pub(crate) fn file_was_read(&mut self, file: &Config) {
        self.unloaded.clear();
        let loaded = &mut self.loaded;
        loaded.connections.retain(|own| file.connections.iter().all(|of| of.name != own.name));
        loaded.pools.retain(|own| file.pools.iter().all(|of| of.name != own.name));
        loaded.authorities.retain(|own| file.authorities.iter().all(|of| of.name != own.name));
        for kind in SECRETS {
            kind.of_mut(loaded).retain(|own| kind.of(file).iter().all(|of| of.name != own.name));
        }
    }

    /// The file with the changes.
    pub(crate) fn merged(&self, file: &Config) -> Config {
        let mut merged = Config {
            connections: self.connections(file).cloned().collect(),
            pools: self.pools(file).cloned().collect(),
            authorities: self.authorities(file).cloned().collect(),
            device: file.device.clone(),
            own_devices: file.own_devices.clone(),
            full_transcripts: file.full_transcripts.clone(),
            vici: file.vici.clone(),
            ..Config::default()
        };
        for kind in SECRETS {
            kind.of_mut(&mut merged).extend(self.secrets(kind, file).cloned());
        }
        for kind in CERTIFICATES {
            kind.of_mut(&mut merged.credentials).extend(self.certificates(kind, file));
        }
        for authority in &merged.authorities {
            let known = &mut merged.credentials.authorities;
            if !known.contains(&authority.cacert) {
                known.push(authority.cacert.clone());
            }
        }
        let is_kept = |key: &&PrivateKeyFile| self.is_key_kept(key);
        let credentials = &file.credentials;
        let keys =
            credentials.private_keys.iter().filter(is_kept).chain(&self.loaded.credentials.private_keys);
        merged.credentials.private_keys = keys.cloned().collect();
        merged.credentials.containers = credentials.containers.iter().filter(is_kept).cloned().collect();
        merged
    }

    fn is_left(&self, part: &Unloaded) -> bool {
        !self.unloaded.contains(part)
    }

    /// Keys are only read where some were unloaded, as a password may take its time.
    fn is_key_kept(&self, key: &PrivateKeyFile) -> bool {
        let has_keys = self.unloaded.iter().any(|part| matches!(part, Unloaded::Key(_)));
        !has_keys || identifier(key).map_or(true, |id| self.is_left(&Unloaded::Key(id)))
    }

    fn connections<'a>(&'a self, file: &'a Config) -> impl Iterator<Item = &'a Connection> {
        let of_loaded = |name: &str| self.loaded.connections.iter().find(|own| own.name == name);
        let left =
            file.connections.iter().filter(|own| self.is_left(&Unloaded::Connection(own.name.clone())));
        let left = left.map(move |own| of_loaded(&own.name).unwrap_or(own));
        let is_further = |own: &&Connection| {
            let of_file = file.connections.iter().any(|of| of.name == own.name);
            !of_file || !self.is_left(&Unloaded::Connection(own.name.clone()))
        };
        left.chain(self.loaded.connections.iter().filter(is_further))
    }

    fn pools<'a>(&'a self, file: &'a Config) -> impl Iterator<Item = &'a Pool> {
        let is_replaced = |name: &str| self.loaded.pools.iter().any(|own| own.name == name);
        let left = file
            .pools
            .iter()
            .filter(move |own| self.is_left(&Unloaded::Pool(own.name.clone())) && !is_replaced(&own.name));
        left.chain(&self.loaded.pools)
    }

    fn authorities<'a>(&'a self, file: &'a Config) -> impl Iterator<Item = &'a Authority> {
        let is_replaced = |name: &str| self.loaded.authorities.iter().any(|own| own.name == name);
        let left = file.authorities.iter().filter(move |own| {
            self.is_left(&Unloaded::Authority(own.name.clone())) && !is_replaced(&own.name)
        });
        left.chain(&self.loaded.authorities)
    }

    fn secrets<'a>(&'a self, kind: SecretKind, file: &'a Config) -> impl Iterator<Item = &'a SharedSecret> {
        let loaded = kind.of(&self.loaded);
        let is_replaced = |name: &str| loaded.iter().any(|own| own.name == name);
        let left = kind
            .of(file)
            .iter()
            .filter(move |own| self.is_left(&Unloaded::Secret(own.name.clone())) && !is_replaced(&own.name));
        left.chain(loaded)
    }

    /// Those of a section of `authorities` are left out of the file's: the section brings them.
    fn certificates(&self, kind: CertificateKind, file: &Config) -> Vec<Document> {
        let of_section = |own: &Document| {
            kind == CertificateKind::Authority
                && own.place.is_some()
                && file.authorities.iter().any(|of| of.cacert == *own)
        };
        let of_file = kind.of(&file.credentials).iter();
        let left = of_file.filter(|own| self.is_left(&document(own)) && !of_section(own));
        left.chain(kind.of(&self.loaded.credentials)).cloned().collect()
    }

    fn add_connection(&mut self, connection: Connection, file: &Config) {
        self.unloaded.remove(&Unloaded::Connection(connection.name.clone()));
        let is_of_file = file.connections.contains(&connection);
        let place = self.loaded.connections.iter().position(|own| own.name == connection.name);
        match place {
            Some(place) if is_of_file => drop(self.loaded.connections.remove(place)),
            Some(place) => self.loaded.connections.splice(place..=place, [connection]).for_each(drop),
            None if is_of_file => {}
            None => self.loaded.connections.push(connection),
        }
    }

    fn add_secret(&mut self, kind: SecretKind, secret: SharedSecret, file: &Config) {
        self.unloaded.remove(&Unloaded::Secret(secret.name.clone()));
        SECRETS.iter().for_each(|kind| kind.of_mut(&mut self.loaded).retain(|own| own.name != secret.name));
        if !kind.of(file).contains(&secret) {
            kind.of_mut(&mut self.loaded).push(secret);
        }
    }

    fn remove_secret(&mut self, name: String, file: &Config) -> Result<(), String> {
        let is_there = SECRETS.iter().any(|kind| self.secrets(*kind, file).any(|own| own.name == name));
        SECRETS.iter().for_each(|kind| kind.of_mut(&mut self.loaded).retain(|own| own.name != name));
        self.unloaded.insert(Unloaded::Secret(name));
        there(is_there, || "key not found".to_owned())
    }

    fn add_key(&mut self, key: PrivateKeyFile, file: &Config) -> Result<(), String> {
        let id = identifier(&key)?;
        self.unloaded.remove(&Unloaded::Key(id));
        let is = |own: &PrivateKeyFile| identifier(own).is_ok_and(|own| own == id);
        let credentials = &file.credentials;
        let mut known = credentials.private_keys.iter().chain(&credentials.containers);
        if !known.any(is) && !self.loaded.credentials.private_keys.iter().any(is) {
            self.loaded.credentials.private_keys.push(key);
        }
        Ok(())
    }

    fn remove_key(&mut self, id: KeyId, file: &Config) -> Result<(), String> {
        let is_there = key_ids(&self.merged(file)).contains(&id);
        let is = |own: &PrivateKeyFile| identifier(own).is_ok_and(|own| own == id);
        self.loaded.credentials.private_keys.retain(|own| !is(own));
        self.unloaded.insert(Unloaded::Key(id));
        there(is_there, || "key not found".to_owned())
    }

    fn add_certificate(&mut self, kind: CertificateKind, added: Document, file: &Config) {
        self.unloaded.remove(&document(&added));
        let is = |own: &Document| bytes(own) == bytes(&added);
        let loaded = kind.of_mut(&mut self.loaded.credentials);
        if !kind.of(&file.credentials).iter().any(is) && !loaded.iter().any(is) {
            loaded.push(added);
        }
    }

    fn add_authority(&mut self, authority: Authority, file: &Config) {
        self.unloaded.remove(&Unloaded::Authority(authority.name.clone()));
        self.loaded.authorities.retain(|own| own.name != authority.name);
        if !file.authorities.contains(&authority) {
            self.loaded.authorities.push(authority);
        }
    }

    fn clear(&mut self, file: &Config) {
        let credentials = &file.credentials;
        let keys = credentials.private_keys.iter().chain(&credentials.containers);
        self.unloaded.extend(keys.filter_map(|key| identifier(key).ok()).map(Unloaded::Key));
        for kind in SECRETS {
            self.unloaded.extend(kind.of(file).iter().map(|own| Unloaded::Secret(own.name.clone())));
            kind.of_mut(&mut self.loaded).clear();
        }
        for kind in CERTIFICATES {
            self.unloaded.extend(kind.of(credentials).iter().map(document));
        }
        self.loaded.credentials = Credentials::default();
    }
}

/// The identifiers of all private keys that can be read.
pub(crate) fn key_ids(config: &Config) -> BTreeSet<KeyId> {
    let keys = config.credentials.private_keys.iter().chain(&config.credentials.containers);
    keys.filter_map(|key| identifier(key).ok()).collect()
}

/// The certificates of a document in DER, one behind the other; of other documents, all bytes.
fn bytes(document: &Document) -> Vec<u8> {
    match document.certificates() {
        Ok(certificates) => certificates.iter().flat_map(|certificate| certificate.to_vec()).collect(),
        Err(_) => document.content.bytes().to_vec(),
    }
}

fn document(document: &Document) -> Unloaded {
    Unloaded::Document(bytes(document))
}

fn there(is_there: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_there { Ok(()) } else { Err(why()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config, text};

    fn office() -> Config {
        config(&text("", ""))
    }

    fn names(loaded: &Loaded, file: &Config) -> Vec<String> {
        loaded.merged(file).connections.iter().map(|connection| connection.name.clone()).collect()
    }

    fn load(loaded: &mut Loaded, name: &str, lines: &str, file: &Config) {
        let mut connection = config(&text(lines, "")).connections.remove(0);
        name.clone_into(&mut connection.name);
        loaded.apply(Change::Connection(Box::new(connection)), file).expect("loaded");
    }

    #[test]
    fn what_the_file_has_just_so_changes_nothing() {
        let (file, mut loaded) = (office(), Loaded::default());
        load(&mut loaded, "office", "", &file);
        let secret = file.shared_keys[0].clone();
        loaded.apply(Change::ClearCredentials, &file).expect("cleared");
        assert!(loaded.merged(&file).shared_keys.is_empty());
        loaded.apply(Change::Secret(SecretKind::Ike, secret), &file).expect("loaded");
        assert_eq!(loaded.merged(&file), file);
    }

    #[test]
    fn a_secret_that_the_file_has_keeps_its_place_among_those_of_the_file() {
        // The settings of adit's own stay, too.
        let own = "#adit: office.device = cloud0\n#adit: vici-group = vpn\n";
        let file =
            config(&format!("{own}{}secrets {{\n ike-2 {{\n secret = another\n }}\n}}\n", text("", "")));
        let mut loaded = Loaded::default();
        loaded.apply(Change::Secret(SecretKind::Ike, file.shared_keys[0].clone()), &file).expect("loaded");
        assert_eq!(loaded.merged(&file), file);
    }

    #[test]
    fn a_loaded_connection_takes_the_place_of_the_files_until_the_file_is_read_again() {
        let (file, mut loaded) = (office(), Loaded::default());
        load(&mut loaded, "office", "rekey_time = 7m", &file);
        load(&mut loaded, "branch", "", &file);
        let merged = loaded.merged(&file);
        assert_eq!(merged.connections[0].rekey_time, Some(std::time::Duration::from_secs(420)));
        assert_eq!(names(&loaded, &file), ["office", "branch"]);
        loaded.apply(Change::RemoveConnection("office".to_owned()), &file).expect("unloaded");
        assert_eq!(names(&loaded, &file), ["branch"]);
        let again = loaded.apply(Change::RemoveConnection("office".to_owned()), &file);
        assert_eq!(again, Err("unload: connection 'office' not found".to_owned()));
        loaded.file_was_read(&file);
        assert_eq!(names(&loaded, &file), ["office", "branch"]);
        assert_eq!(loaded.merged(&file).connections[0], file.connections[0]);
    }

    #[test]
    fn a_secret_takes_the_place_of_the_files_with_its_name() {
        let (file, mut loaded) = (office(), Loaded::default());
        let other = config("secrets {\n ike-1 {\n secret = other\n }\n}\n").shared_keys.remove(0);
        loaded.apply(Change::Secret(SecretKind::Ike, other.clone()), &file).expect("loaded");
        assert_eq!(loaded.merged(&file).shared_keys, std::slice::from_ref(&other));
        loaded.apply(Change::RemoveSecret("ike-1".to_owned()), &file).expect("unloaded");
        assert!(loaded.merged(&file).shared_keys.is_empty());
        assert!(loaded.apply(Change::RemoveSecret("ike-1".to_owned()), &file).is_err());
    }
}
