//! The arguments of a process of OpenVPN, or of adit in its place, from /proc.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt as _;

use adit_host::adoption::program;

use crate::command as openvpn;

/// OpenVPN's arguments of a process.
///
/// # Errors
/// When it is neither OpenVPN nor `adit openvpn`, or /proc does not show it.
pub(super) fn arguments(pid: u32) -> Result<Vec<String>, String> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).map_err(|error| format!("process {pid}: {error}"))?;
    let words =
        words(&text).map_err(|word| format!("process {pid}: the argument {word} is not UTF-8 text"))?;
    of_openvpn(&words).map(<[String]>::to_vec).ok_or_else(|| {
        let program = program(pid).unwrap_or_default();
        format!("process {pid} is not OpenVPN but {}", program.display())
    })
}

fn words(text: &[u8]) -> Result<Vec<String>, String> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    let word = |bytes: &[u8]| OsString::from_vec(bytes.to_vec()).into_string();
    let words: Result<Vec<String>, OsString> = text.split(|byte| *byte == 0).map(word).collect();
    words.map_err(|word| word.to_string_lossy().escape_debug().to_string())
}

/// The arguments of `openvpn …` and of `adit openvpn …`.
fn of_openvpn(words: &[String]) -> Option<&[String]> {
    match words {
        [name, rest @ ..] if openvpn::is_called(OsStr::new(name)) => Some(rest),
        [_, name, rest @ ..] if name == openvpn::NAME => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_openvpns() {
        let of = |text: &str| {
            let words = words(text.as_bytes()).expect("text");
            of_openvpn(&words).map(|rest| rest.join(" "))
        };
        assert_eq!(of("/usr/sbin/openvpn\0--config\0a b.conf\0"), Some("--config a b.conf".to_owned()));
        assert_eq!(of("/usr/bin/adit\0openvpn\0--verb\x003\0"), Some("--verb 3".to_owned()));
        assert_eq!(of("openvpn\0"), Some(String::new()));
        for other in ["/usr/bin/adit\0up\0openvpn\0", "sleep\x005\0", ""] {
            assert_eq!(of(other), None, "{other:?}");
        }
        assert!(words(b"openvpn\0\xff\0").is_err());
    }

    #[test]
    fn a_process_of_another_program_is_named() {
        let said = arguments(std::process::id()).expect_err("it is a test");
        assert!(said.contains("is not OpenVPN but"), "{said}");
    }
}
