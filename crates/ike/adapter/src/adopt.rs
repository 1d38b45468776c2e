//! `adit adopt` for the unit of strongSwan: adit runs the connections of its file of swanctl.
//!
//! The unit keeps the commands around its program: `swanctl --load-all` after the start finds adit's socket, and changes nothing, as
//! adit has read the same file.

mod daemon;
mod environment;
mod peers;

use std::path::Path;

use adit_host::adapter::Configuration as _;
use adit_host::adoption::{Adoption, Prepared, Start, Systemd};
use adit_host::check;
use adit_host::failure::Failure;
use adit_host::remarks::Remarks;
use adit_ike_config::is_recognized;

use self::environment::Environment;
use crate::configuration::IpsecConfiguration;
use crate::files::read;

/// The daemon of strongSwan whose connections `swanctl` loads.
const DAEMON: &str = "charon-systemd";
/// The names of its unit: strongSwan's, and the one beside which older Debians have the unit of `ipsec.conf` by the first name.
const UNITS: [&str; 2] = ["strongswan.service", "strongswan-swanctl.service"];
/// The command of adit.
const COMMAND: &str = "up";

/// strongSwan, whose unit adit can take over.
pub(crate) struct StrongSwanUnits;

impl Adoption for StrongSwanUnits {
    fn title(&self) -> &'static str {
        "strongSwan"
    }

    fn unit(&self, name: &str, systemd: Option<&Systemd>) -> Option<Result<String, String>> {
        let is_unit = |unit: &&str| *unit == name || unit.strip_suffix(".service") == Some(name);
        let (units, is_file) = match UNITS.into_iter().find(is_unit) {
            Some(unit) => (vec![unit], false),
            None if is_of_swanctl(Path::new(name)) => (UNITS.to_vec(), true),
            None => return None,
        };
        let Some(systemd) = systemd else { return Some(Ok(UNITS[0].to_owned())) };
        let runs = |unit: &&str| {
            systemd.command(unit).is_ok_and(|command| {
                self.is_called(&command.program) || self.arguments(&command.words).is_some()
            })
        };
        match units.iter().copied().find(runs) {
            // One of the two names is an alias of the other.
            Some(unit) => {
                let own = systemd.property(unit, "Id").unwrap_or_default();
                Some(Ok(if own.is_empty() { unit.to_owned() } else { own }))
            }
            None if is_file => {
                Some(Err(format!("{name}: none of {} runs {DAEMON}: name the unit", UNITS.join(" and "))))
            }
            None => Some(Ok(units.concat())),
        }
    }

    fn is_called(&self, program: &Path) -> bool {
        program.file_name().is_some_and(|name| name == DAEMON)
    }

    fn arguments<'w>(&self, words: &'w [String]) -> Option<&'w [String]> {
        match words {
            [command, _file] if command == COMMAND => Some(&[]),
            _ => None,
        }
    }

    fn way_out(&self, program: &Path) -> Option<&'static str> {
        let is_starter = program.file_name().is_some_and(|name| name == "ipsec" || name == "starter");
        is_starter.then_some(
            ", which reads ipsec.conf, as adit does not: write its connections as swanctl.conf (strongSwan's page \"Migration from \
             ipsec.conf to swanctl.conf\"), have charon-systemd run them (Debian's packages charon-systemd and strongswan-swanctl), and adopt \
             that unit",
        )
    }

    fn prepare(&self, start: &Start<'_>) -> Result<Prepared, Failure> {
        let stays = |why: String| {
            Failure::Configuration(format!("adit cannot run {}; it stays as it is:\n{why}", start.unit))
        };
        let environment = start.main.map(Environment::of).unwrap_or_default();
        let file = environment.swanctl_file();
        let text = read(&file).map_err(|error| Failure::World(format!("{}: {error}", file.display())))?;
        if !is_recognized(&text) {
            return Err(stays(format!("{}: it is no file of swanctl", file.display())));
        }
        let configuration =
            IpsecConfiguration::read(&file, &text).map_err(|failure| stays(failure.to_string()))?;
        let mut of_start = Remarks::default();
        configuration.check(&mut of_start).map_err(|failure| stays(failure.why().to_owned()))?;
        let mut remarks = check::remarks(&configuration, &of_start, false);
        remarks.extend(daemon::differences(&environment, configuration.config()).map_err(stays)?);
        Ok(Prepared {
            remarks,
            role: "connections of swanctl",
            command: COMMAND,
            arguments: vec![literal(&file)],
            timeout: configuration.config().connections.iter().filter_map(|it| it.dpd_delay).max(),
        })
    }

    fn peers(&self, process: u32) -> Result<usize, String> {
        peers::count(&Environment::of(process).socket()?)
    }
}

/// Whether a file is strongSwan's, or lies beside it.
fn is_of_swanctl(file: &Path) -> bool {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let is_file = absolute.extension().is_some_and(|ending| ending == "conf");
    is_file
        && absolute.ancestors().skip(1).any(|folder| folder.file_name().is_some_and(|name| name == "swanctl"))
}

/// A path as an argument of a unit, in which `$` begins a variable.
fn literal(file: &Path) -> String {
    file.to_string_lossy().replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_and_the_files_of_swanctl_are_known() {
        let units = StrongSwanUnits;
        assert!(units.is_called(Path::new("/usr/sbin/charon-systemd")));
        for other in ["/usr/sbin/ipsec", "/usr/lib/ipsec/starter", "/usr/sbin/openvpn"] {
            assert!(!units.is_called(Path::new(other)), "{other}");
        }
        let way_out = |program: &str| units.way_out(Path::new(program));
        assert!(way_out("/usr/sbin/ipsec").is_some_and(|text| text.contains("charon-systemd")));
        assert!(way_out("/usr/lib/ipsec/starter").is_some() && way_out("/bin/sleep").is_none());
        for (file, expected) in [
            ("/etc/swanctl/swanctl.conf", true),
            ("/etc/swanctl/conf.d/office.conf", true),
            ("/etc/strongswan/swanctl/swanctl.conf", true),
            ("/etc/openvpn/server/office.conf", false),
            ("/etc/swanctl", false),
            ("office", false),
        ] {
            assert_eq!(is_of_swanctl(Path::new(file)), expected, "{file}");
        }
        assert!(units.unit("office", None).is_none(), "the name may be one of another program");
        for name in ["strongswan", "strongswan.service", "/etc/swanctl/swanctl.conf"] {
            assert_eq!(units.unit(name, None), Some(Ok("strongswan.service".to_owned())), "{name}");
        }
    }

    #[test]
    fn adits_command_line_for_a_unit_is_known_again() {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let of = |all: &[&str]| StrongSwanUnits.arguments(&words(all)).map(<[String]>::len);
        assert_eq!(of(&[COMMAND, "/etc/swanctl/swanctl.conf"]), Some(0));
        for other in [&["openvpn", "a.conf"][..], &["up"], &["up", "a.conf", "b.conf"], &[]] {
            assert_eq!(of(other), None, "{other:?}");
        }
        assert_eq!(literal(Path::new("/srv/$a/swanctl.conf")), "/srv/$$a/swanctl.conf");
    }
}
