//! adit's own settings: `#adit: key = value` on a line of its own, outside of all sections or within one. strongSwan takes such a line
//! for a comment.

use adit_core::configuration::{Disposition, Fingerprint, Kind};

use super::reader::Reader;
use super::vici_settings;
use crate::grammar::OwnSetting;
use crate::values::shown;

/// The only key so far.
const DEVICE: &str = "device";
/// Longest name of a device in bytes (linux/if.h `IFNAMSIZ`, with the zero at the end).
const LONGEST_DEVICE: usize = 15;

/// The name of the device, if a line has one. Other settings are problems.
pub(super) fn device(reader: &mut Reader<'_>, settings: &[OwnSetting]) -> Option<String> {
    let mut device: Option<String> = None;
    for OwnSetting { text, place } in settings {
        let Some(text) = text else {
            reader.problem(place, "a setting of adit stands on a line of its own".to_owned());
            continue;
        };
        if vici_settings::is_one(text) {
            continue;
        }
        match value(text) {
            Ok(_) if device.is_some() => reader.problem(place, format!("{DEVICE}: it is there already")),
            Ok(name) => {
                device = Some(name.to_owned());
                reader.report.push(Disposition {
                    file: place.file.to_string(),
                    line: place.line,
                    directive: DEVICE.to_owned(),
                    kind: Kind::Used,
                    reason: String::new(),
                    fingerprint: Fingerprint::of(&[name.to_owned()], None),
                });
            }
            Err(why) => reader.problem(place, why),
        }
    }
    device
}

/// The name of the device that a setting gives.
///
/// # Errors
/// The setting is another one, or the system takes no device of that name.
fn value(text: &str) -> Result<&str, String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let (key, value) = (key.trim(), value.trim());
    if !key.eq_ignore_ascii_case(DEVICE) {
        return Err(format!("`{}` is no setting of adit here; `#adit: {DEVICE} = NAME` is one", shown(key)));
    }
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "_-.=+".contains(c);
    let is_name = (1..=LONGEST_DEVICE).contains(&value.len()) && value.chars().all(is_sign);
    if !is_name || value == "." || value == ".." {
        return Err(format!(
            "{DEVICE}: `{}` is no name of a device: it has 1 to {LONGEST_DEVICE} of `a-zA-Z0-9_-.=+`",
            shown(value)
        ));
    }
    Ok(value)
}
