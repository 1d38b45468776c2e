//! strongSwan's own file, strongswan.conf (strongswan.conf(5)): the settings of the daemon that `swanctl` speaks to, as text.

use std::collections::BTreeSet;

use adit_core::configuration::Problem;

use crate::files::Files;
use crate::grammar::{self, Merged, Merger, Source};
use crate::model::Place;

/// The sections of the daemon: a setting in its own section comes before one in the section of all daemons.
const SECTIONS: [&str; 2] = ["charon-systemd", "charon"];
/// Most sections around a setting.
const DEEPEST: usize = 16;

/// A setting of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonSetting {
    /// The name below the section of the daemon: `plugins.vici.socket`.
    pub name: String,
    /// The value.
    pub value: String,
    /// The line.
    pub place: Place,
}

/// The settings of the daemon in a file, which was named `file`, with those that it includes. Keys without a value set nothing.
///
/// # Errors
/// The first problem of the grammar, or of a reference.
pub fn daemon_settings(file: &str, text: &[u8], files: &dyn Files) -> Result<Vec<DaemonSetting>, Problem> {
    let tree = grammar::parse(&Source { file, text }, files)?;
    let merger = Merger::new(&tree.root);
    let mut found = Found { merger: &merger, names: BTreeSet::new(), settings: Vec::new() };
    for name in SECTIONS {
        if let Some(section) = merger.root(name)? {
            found.add(&section, "", 0)?;
        }
    }
    Ok(found.settings)
}

/// The settings that were found.
struct Found<'m, 'a> {
    merger: &'m Merger<'a>,
    names: BTreeSet<String>,
    settings: Vec<DaemonSetting>,
}

impl<'a> Found<'_, 'a> {
    fn add(&mut self, section: &Merged<'a>, above: &str, depth: usize) -> Result<(), Problem> {
        for key in section.keys() {
            let name = format!("{above}{}", key.name);
            let is_first = self.names.insert(name.clone());
            if let Some(value) = key.value.as_ref().filter(|_| is_first) {
                let (value, place) = (value.as_str().to_owned(), key.place.clone());
                self.settings.push(DaemonSetting { name, value, place });
            }
        }
        if depth == DEEPEST {
            return Ok(());
        }
        for part in self.merger.sections(section)? {
            self.add(&part, &format!("{above}{}.", part.first().name), depth + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::world::World;

    const FILE: &str = "/etc/strongswan.conf";

    fn read(text: &str, world: &World) -> Vec<String> {
        let settings = daemon_settings(FILE, text.as_bytes(), world).expect("good grammar");
        settings.iter().map(|it| format!("{}: {} = {}", it.place, it.name, it.value)).collect()
    }

    #[test]
    fn settings_of_the_daemon_are_found_in_included_files_and_its_own_section_comes_first() {
        let world = World::default()
            .with("/etc/strongswan.d/charon/attr.conf", "attr {\n load = yes\n dns = 10.1.0.1\n split =\n}\n")
            .with(
                "/etc/strongswan.d/own.conf",
                "charon-systemd {\n port = 1500\n}\nswanctl {\n load = pem\n}\n",
            );
        let text = "charon {\n port = 500\n retransmit_tries = 3\n plugins {\n include strongswan.d/charon/*.conf\n }\n}\n\
                    include strongswan.d/*.conf\n";
        assert_eq!(
            read(text, &world),
            [
                "/etc/strongswan.d/own.conf:2: port = 1500",
                "/etc/strongswan.conf:3: retransmit_tries = 3",
                "/etc/strongswan.d/charon/attr.conf:2: plugins.attr.load = yes",
                "/etc/strongswan.d/charon/attr.conf:3: plugins.attr.dns = 10.1.0.1",
            ]
        );
        assert!(read("# nothing\n", &world).is_empty());
        let wrong = daemon_settings(FILE, b"charon {\n port\n}\n", &world).expect_err("no grammar");
        assert!(wrong.to_string().starts_with("/etc/strongswan.conf:2: "), "{wrong}");
    }
}
