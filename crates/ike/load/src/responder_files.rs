//! The files of swanctl with which a responder answers the initiators.

use adit_load::LoadError;

use crate::credentials::Credentials;
use crate::names::{ESP, IKE, INITIATORS, INNER, KEY, NETWORK, RESPONDER, identity, inner};

/// The connections of a responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// A connection for each of the first initiators, so many.
    Each(u32),
    /// One connection for all, by a pattern of their identities, as a gateway of many clients has it: each gets an address of a pool.
    Pattern,
}

/// A file of a responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path, below the folder of all.
    pub path: &'static str,
    /// Its text.
    pub text: String,
}

/// The file `swanctl.conf` of a responder, which initiates nothing; with certificates also those files in `x509`, `x509ca` and
/// `private` that it needs, and `authority.key`, the private key of the authority ([`crate::Certificates::load`]).
///
/// # Errors
/// A certificate cannot be issued.
pub fn responder_files(credentials: &Credentials, peers: Peers) -> Result<Vec<File>, LoadError> {
    let mut files = vec![File { path: "swanctl.conf", text: configuration(credentials, peers) }];
    if let Credentials::Certificates(certificates) = credentials {
        let issued = certificates.issue(RESPONDER)?;
        let authority = certificates.authority();
        files.extend([
            File { path: "x509/responder.pem", text: issued.certificate },
            File { path: "private/responder.pem", text: issued.key.to_string() },
            File { path: "x509ca/authority.pem", text: authority.certificate().to_owned() },
            File { path: "authority.key", text: authority.key_pem().to_string() },
        ]);
    }
    Ok(files)
}

fn configuration(credentials: &Credentials, peers: Peers) -> String {
    let (local, remote, secrets) = match credentials {
        Credentials::SharedKey => {
            ("auth = psk", "auth = psk", format!("secrets {{\n ike-load {{\n secret = \"{KEY}\"\n }}\n}}\n"))
        }
        Credentials::Certificates(_) => {
            ("auth = pubkey\n certs = responder.pem", "auth = pubkey", String::new())
        }
    };
    let connection = |name: &str, peer: &str, network: &str, settings: &str| {
        format!(
            " {name} {{\n version = 2\n proposals = {IKE}\n mobike = no\n {settings}\n \
             local {{\n {local}\n id = {RESPONDER}\n }}\n remote {{\n {remote}\n id = {peer}\n }}\n \
             children {{\n net {{\n local_ts = {INNER}/32\n remote_ts = {network}\n esp_proposals = {ESP}\n }}\n }}\n }}\n"
        )
    };
    let each = |number: u32| {
        let network = format!("{}/32", inner(number));
        connection(&format!("i{number}"), &identity(number), &network, "unique = no")
    };
    let connections: String = match peers {
        Peers::Each(count) => (0..count).map(each).collect(),
        Peers::Pattern => {
            connection("all", &format!("*{INITIATORS}"), "dynamic", "unique = never\n pools = load")
        }
    };
    let pools = match peers {
        Peers::Each(_) => String::new(),
        Peers::Pattern => format!("pools {{\n load {{\n addrs = {NETWORK}\n }}\n}}\n"),
    };
    format!("connections {{\n{connections}}}\n{pools}{secrets}")
}
