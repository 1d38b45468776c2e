//! Files of swanctl for tests.

use std::path::Path;

use adit_ike_config::{Config, Entry, Files};
use adit_testbed::{Scratch, program};
use zeroize::Zeroizing;

use crate::translate::{self, Planned};

/// No file is there.
pub(crate) struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
        Err("no such file".to_owned())
    }

    fn entries(&self, _: &Path) -> Result<Vec<Entry>, String> {
        Ok(Vec::new())
    }
}

/// The content of the file `a.conf` with that text.
pub(crate) fn config(text: &str) -> Config {
    let parsed = adit_ike_config::parse("a.conf", text.as_bytes(), &NoFiles);
    parsed.map_err(|failure| failure.to_string()).expect("a good file").config
}

/// A file with one connection, with these lines in the connection and in its child.
pub(crate) fn text(connection: &str, child: &str) -> String {
    format!(
        "connections {{\n office {{\n remote_addrs = 192.0.2.1\n {connection}\n local {{\n auth = psk\n id = a.example\n }}\n \
         remote {{\n auth = psk\n id = b.example\n }}\n children {{\n net {{\n local_ts = 10.1.0.0/16\n \
         remote_ts = 10.2.0.0/16\n {child}\n }}\n }}\n }}\n}}\nsecrets {{\n ike-1 {{\n secret = a secret\n }}\n}}\n"
    )
}

/// The connections of such a file.
pub(crate) fn planned(connection: &str, child: &str) -> Vec<Planned> {
    let planned = translate::connections(&config(&text(connection, child)));
    planned.map_err(|problems| format!("{problems:?}")).expect("connections")
}

/// A folder with a key and its certificate, by that argument of `openssl genpkey`.
pub(crate) fn folder() -> Scratch {
    let folder = Scratch::create("keys").unwrap();
    for name in ["x509", "x509ca", "private", "ecdsa", "pkcs12"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    openssl(&folder, "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem");
    openssl(&folder, "req -x509 -new -key key.pem -days 30 -subj /CN=own.example -out x509ca/ca.pem");
    folder
}

/// Runs `openssl` with these words in the folder.
pub(crate) fn openssl(folder: &Scratch, words: &str) {
    let mut command = program("openssl").unwrap();
    let output = command.args(words.split_whitespace()).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
}
