//! A client's file of swanctl, with the files in the folders beside it: for adit and strongSwan.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use adit_setup::{ClientName, Login, SetupFile};
use zeroize::Zeroizing;

use super::CLIENTS;
use super::facts::{Facts, identity, listed, section, suite};

/// The ending of the folder of a client's files.
pub(super) const FOLDER_ENDING: &str = "swanctl";
/// Room for the file, so that it never moves and leaves a copy of a password behind.
const ROOM: usize = 8 << 10;

/// The path of a client's file in the directory of the server.
pub(super) fn path(name: &ClientName) -> PathBuf {
    folder(name).join(format!("{name}.conf"))
}

fn folder(name: &ClientName) -> PathBuf {
    Path::new(CLIENTS).join(format!("{name}.{FOLDER_ENDING}"))
}

/// The files of a client, with the folders that adit and strongSwan look for.
pub(super) fn files(facts: &Facts<'_>) -> Vec<SetupFile> {
    let folder = folder(facts.name);
    let mut files = vec![SetupFile::new(folder.join("x509ca").join(authority_name(facts)), facts.authority)];
    if let Login::Certificate { issued, .. } = facts.login {
        let name = certificate_name(facts);
        files.push(SetupFile::new(folder.join("x509").join(&name), issued.certificate.as_bytes()));
        files.push(SetupFile::new(folder.join("private").join(name), issued.key.as_bytes()));
    }
    files.push(SetupFile { content: text(facts), ..SetupFile::new(path(facts.name), "") });
    files
}

fn certificate_name(facts: &Facts<'_>) -> String {
    format!("{}.pem", facts.name)
}

fn authority_name(facts: &Facts<'_>) -> String {
    format!("{}-ca.pem", facts.name)
}

fn text(facts: &Facts<'_>) -> Zeroizing<Vec<u8>> {
    let mut text = Zeroizing::new(String::with_capacity(ROOM));
    let (name, host, id) = (facts.name, facts.host, identity(facts.name));
    let own = match facts.login {
        Login::Certificate { .. } => {
            format!("auth = pubkey\n      certs = {}\n      id = {id}", certificate_name(facts))
        }
        Login::Password(_) => format!("auth = eap-mschapv2\n      id = {id}\n      eap_id = {id}"),
    };
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# IKEv2 client {name} of {host}, made by `adit add-client`, for adit and strongSwan.\n\
         # With the folders beside it, it is all that the client needs: keep it readable by its owner alone.\n\
         connections {{\n  \
           {section} {{\n    \
             version = 2\n    \
             remote_addrs = {host}\n    \
             vips = 0.0.0.0, ::\n    \
             proposals = {ike}\n    \
             dpd_delay = 30s\n    \
             local {{\n      {own}\n    }}\n    \
             remote {{\n      auth = pubkey\n      id = {host}\n      cacerts = {authority}\n    }}\n    \
             children {{\n      \
               net {{\n        \
                 remote_ts = {networks}\n        \
                 esp_proposals = {esp}\n        \
                 start_action = start\n        \
                 close_action = start\n        \
                 dpd_action = restart\n      \
               }}\n    \
             }}\n  \
           }}\n}}\n",
        section = section(name),
        ike = suite::IKE,
        esp = suite::ESP,
        authority = authority_name(facts),
        networks = listed(facts.networks),
    );
    if let Login::Password(password) = facts.login {
        let (section, password) = (section(name), password.as_str());
        let _ = write!(
            text,
            "\nsecrets {{\n  eap-{section} {{\n    id = {id}\n    secret = \"{password}\"\n  }}\n}}\n"
        );
    }
    Zeroizing::new(std::mem::take(&mut *text).into_bytes())
}
