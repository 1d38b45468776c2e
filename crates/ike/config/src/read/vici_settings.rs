//! `#adit: vici-socket` and `#adit: vici-group`: where programs speak VICI to the tunnel, and who may.

use adit_core::configuration::{Disposition, Fingerprint, Kind};

use super::reader::Reader;
use crate::grammar::OwnSetting;
use crate::model::ViciSettings;
use crate::values::shown;

const SOCKET: &str = "vici-socket";
const GROUP: &str = "vici-group";
/// Longest path of a socket in bytes (unix(7)).
const LONGEST_PATH: usize = 107;
/// Longest name of a group in bytes (useradd(8)).
const LONGEST_GROUP: usize = 32;

/// Whether a line is one of these settings.
pub(super) fn is_one(text: &str) -> bool {
    let (key, _) = parts(text);
    [SOCKET, GROUP].iter().any(|known| key.eq_ignore_ascii_case(known))
}

/// The settings of the lines; others are left out. Wrong ones are problems.
pub(super) fn read(reader: &mut Reader<'_>, lines: &[OwnSetting]) -> ViciSettings {
    let mut settings = ViciSettings::default();
    for OwnSetting { text, place } in lines {
        let Some(text) = text.as_deref().filter(|text| is_one(text)) else { continue };
        let (key, value) = parts(text);
        let is_socket = key.eq_ignore_ascii_case(SOCKET);
        let (key, field) =
            if is_socket { (SOCKET, &mut settings.socket) } else { (GROUP, &mut settings.group) };
        let checked = if is_socket { check_socket(value) } else { check_group(value) };
        match checked {
            Err(why) => reader.problem(place, format!("{key}: {why}")),
            Ok(()) if field.is_some() => reader.problem(place, format!("{key}: it is there already")),
            Ok(()) => {
                *field = Some(value.to_owned());
                reader.report.push(Disposition {
                    file: place.file.to_string(),
                    line: place.line,
                    directive: key.to_owned(),
                    kind: Kind::Used,
                    reason: String::new(),
                    fingerprint: Fingerprint::of(&[value.to_owned()], None),
                });
            }
        }
    }
    settings
}

fn parts(text: &str) -> (&str, &str) {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    (key.trim(), value.trim())
}

fn check_socket(value: &str) -> Result<(), String> {
    let is_path = value.starts_with('/') && !value.ends_with('/') && value.len() <= LONGEST_PATH;
    if is_path && !value.contains(char::is_control) {
        return Ok(());
    }
    let value = shown(value);
    Err(format!("`{value}` is no path of a socket: it begins with `/` and has {LONGEST_PATH} bytes at most"))
}

fn check_group(value: &str) -> Result<(), String> {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "_-.$".contains(c);
    match (1..=LONGEST_GROUP).contains(&value.len()) && value.chars().all(is_sign) {
        true => Ok(()),
        false => Err(format!("`{}` is no name of a group", shown(value))),
    }
}
