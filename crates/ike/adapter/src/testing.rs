//! Files of swanctl for tests.

use std::path::Path;

use adit_ike_config::{Config, Entry, Files};
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
