//! adit's own settings: `#adit: key = value` on a line of its own, outside of all sections or within one. strongSwan takes such a line
//! for a comment.
//!
//! ```text
//! #adit: device = tun0                               the device of the tunnel
//! #adit: forward = internet                          the networks to which packets of peers are forwarded
//! #adit: cloud.device = cloud0                       the device of the connection `cloud`, if it has one of its own
//! #adit: cloud.addresses = 169.254.7.2/30, fd00::2/64    the addresses of that device
//! #adit: cloud.full_transcript_auth = require            whether both messages of IKE_SA_INIT are proved: yes, require, no
//! ```

use adit_core::IpNet;
use adit_core::configuration::{Disposition, Fingerprint, Kind, own_settings};
use adit_ike::machine::FullTranscript;

use super::reader::Reader;
use super::vici_settings;
use crate::grammar::OwnSetting;
use crate::model::{Config, OwnDevice, Place};
use crate::values::shown;

/// The keys.
const DEVICE: &str = "device";
const ADDRESSES: &str = "addresses";
const FORWARD: &str = "forward";
/// As `charon.full_transcript_auth` of strongSwan's development tree.
const FULL_TRANSCRIPT: &str = "full_transcript_auth";
/// Longest name of a device in bytes (linux/if.h `IFNAMSIZ`, with the zero at the end).
const LONGEST_DEVICE: usize = 15;

/// Reads the settings into the content, which has its connections. Settings that are wrong are problems.
pub(super) fn read(reader: &mut Reader<'_>, settings: &[OwnSetting], config: &mut Config) {
    for OwnSetting { text, place } in settings {
        let Some(text) = text else {
            reader.problem(place, "a setting of adit stands on a line of its own".to_owned());
            continue;
        };
        if vici_settings::is_one(text) {
            continue;
        }
        match setting(text, place, config) {
            Ok(used) => reader.report.push(Disposition {
                file: place.file.to_string(),
                line: place.line,
                directive: used.directive,
                kind: Kind::Used,
                reason: String::new(),
                fingerprint: Fingerprint::of(&[used.value], None),
            }),
            Err(why) => reader.problem(place, why),
        }
    }
}

/// A setting that was read.
struct Used {
    directive: String,
    value: String,
}

fn setting(text: &str, place: &Place, config: &mut Config) -> Result<Used, String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let (key, value) = (key.trim(), value.trim());
    let used = |directive: String| Used { directive, value: value.to_owned() };
    let Some((connection, of_connection)) = key.rsplit_once('.') else {
        return of_tunnel(key, value, config).map(|key| used(key.to_owned()));
    };
    if !config.connections.iter().any(|own| own.name == connection) {
        return Err(format!("there is no connection `{}`", shown(connection)));
    }
    if of_connection.eq_ignore_ascii_case(FULL_TRANSCRIPT) {
        let before = config.full_transcripts.insert(connection.to_owned(), full_transcript(value)?);
        let directive = format!("{connection}.{FULL_TRANSCRIPT}");
        return match before {
            Some(_) => Err(format!("{directive}: it is there already")),
            None => Ok(used(directive)),
        };
    }
    let own = config.own_devices.entry(connection.to_owned()).or_insert_with(|| OwnDevice {
        place: place.clone(),
        name: None,
        addresses: Vec::new(),
    });
    match of_connection {
        key if key.eq_ignore_ascii_case(DEVICE) => {
            if own.name.replace(device(value)?).is_some() {
                return Err(format!("{connection}.{DEVICE}: it is there already"));
            }
            Ok(used(format!("{connection}.{DEVICE}")))
        }
        key if key.eq_ignore_ascii_case(ADDRESSES) => {
            if !own.addresses.is_empty() {
                return Err(format!("{connection}.{ADDRESSES}: it is there already"));
            }
            own.addresses = addresses(value)?;
            Ok(used(format!("{connection}.{ADDRESSES}")))
        }
        _ => Err(unknown(key)),
    }
}

/// Reads a setting of the tunnel, and gives its name.
fn of_tunnel(key: &str, value: &str, config: &mut Config) -> Result<&'static str, String> {
    if key.eq_ignore_ascii_case(FORWARD) {
        let added = own_settings::add_forward(&mut config.forward, value);
        return added.map(|()| FORWARD).map_err(|why| format!("{FORWARD}: {why}"));
    }
    if !key.eq_ignore_ascii_case(DEVICE) {
        return Err(unknown(key));
    }
    let name = device(value)?;
    match config.device.replace(name) {
        Some(_) => Err(format!("{DEVICE}: it is there already")),
        None => Ok(DEVICE),
    }
}

fn unknown(key: &str) -> String {
    format!(
        "`{}` is no setting of adit here; `#adit: {DEVICE} = NAME` is one, `#adit: {FORWARD} = internet` another, and of a connection \
         `#adit: CONNECTION.{DEVICE} = NAME`, `#adit: CONNECTION.{ADDRESSES} = ADDRESS/LENGTH, …` and \
         `#adit: CONNECTION.{FULL_TRANSCRIPT} = yes|require|no`",
        shown(key)
    )
}

/// Whether the proofs cover both messages of `IKE_SA_INIT`.
///
/// # Errors
/// The value is none of the three.
fn full_transcript(value: &str) -> Result<FullTranscript, String> {
    match value {
        "yes" => Ok(FullTranscript::Offer),
        "require" => Ok(FullTranscript::Require),
        "no" => Ok(FullTranscript::Never),
        _ => Err(format!("{FULL_TRANSCRIPT}: `{}` is none of yes, require and no", shown(value))),
    }
}

/// The name of a device.
///
/// # Errors
/// The system takes no device of that name.
fn device(value: &str) -> Result<String, String> {
    if OwnDevice::is_name(value) {
        return Ok(value.to_owned());
    }
    Err(format!(
        "{DEVICE}: `{}` is no name of a device: it has 1 to {LONGEST_DEVICE} of `a-zA-Z0-9_-.=+`",
        shown(value)
    ))
}

/// The addresses of a device, each with the length of its network.
fn addresses(value: &str) -> Result<Vec<IpNet>, String> {
    let address = |word: &str| {
        word.trim().parse::<IpNet>().map_err(|_| {
            format!(
                "{ADDRESSES}: `{}` is no address with the length of its network, such as 169.254.7.2/30",
                shown(word)
            )
        })
    };
    value.split(',').map(address).collect()
}

impl OwnDevice {
    /// Whether the system takes a device of that name.
    pub fn is_name(name: &str) -> bool {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || "_-.=+".contains(c);
        (1..=LONGEST_DEVICE).contains(&name.len()) && name.chars().all(is_sign) && !matches!(name, "." | "..")
    }
}
