//! The names of certificates on tokens, as `pkcs11-id` has them.
//!
//! Two forms are read: `MANUFACTURER/MODEL/SERIAL/LABEL/ID` with `\xNN` for most bytes that are no letters or digits, and the id
//! in hexadecimal, which OpenVPN prints with pkcs11-helper (pkcs11h-serialization.c) and adit prints too; and the URI of RFC 7512,
//! which Red Hat's pkcs11-helper prints.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};

/// A certificate on a token, and the private key with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The token's maker (`CK_TOKEN_INFO.manufacturerID`).
    pub(crate) manufacturer: String,
    /// Its model.
    pub(crate) model: String,
    /// Its serial number.
    pub(crate) serial: String,
    /// Its label.
    pub(crate) label: String,
    /// The id of the certificate and its key (`CKA_ID`).
    pub(crate) id: Vec<u8>,
}

impl Identity {
    /// Reads either form.
    ///
    /// # Errors
    /// The fault of the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("pkcs11:") {
            Some(attributes) => Self::of_uri(attributes),
            None => Self::of_path(text),
        }
    }

    fn of_uri(attributes: &str) -> Result<Self, String> {
        let mut identity = Identity {
            manufacturer: String::new(),
            model: String::new(),
            serial: String::new(),
            label: String::new(),
            id: Vec::new(),
        };
        // The part behind `?` says how to find the module or the PIN.
        let path = attributes.split_once('?').map_or(attributes, |(path, _)| path);
        for attribute in path.split(';').filter(|attribute| !attribute.is_empty()) {
            let (name, value) =
                attribute.split_once('=').ok_or_else(|| format!("\"{attribute}\" has no `=`"))?;
            let value = decoded(value, '%')?;
            let text =
                |value: Vec<u8>| String::from_utf8(value).map_err(|_| format!("{name} is no UTF-8 text"));
            match name {
                "manufacturer" => identity.manufacturer = text(value)?,
                "model" => identity.model = text(value)?,
                "serial" => identity.serial = text(value)?,
                "token" => identity.label = text(value)?,
                "id" => identity.id = value,
                _ => {}
            }
        }
        identity.checked()
    }

    fn of_path(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let [manufacturer, model, serial, label, id] = parts[..] else {
            return Err("it has not the form `pkcs11:token=…;id=%01` or MANUFACTURER/MODEL/SERIAL/LABEL/ID"
                .to_owned());
        };
        let text = |part: &str| {
            let bytes = decoded(part, '\\')?;
            String::from_utf8(bytes).map_err(|_| format!("\"{part}\" is no UTF-8 text"))
        };
        Identity {
            manufacturer: text(manufacturer)?,
            model: text(model)?,
            serial: text(serial)?,
            label: text(label)?,
            id: hexadecimal(id).ok_or_else(|| format!("\"{id}\" is no number in hexadecimal"))?,
        }
        .checked()
    }

    fn checked(self) -> Result<Self, String> {
        match self.id.is_empty() {
            true => Err("it names no id".to_owned()),
            false => Ok(self),
        }
    }

    /// Whether the certificate `other` is meant, of which all is known. Attributes that this does not name may be
    /// anything.
    pub(crate) fn means(&self, other: &Identity) -> bool {
        self.id == other.id && self.is_on_token_of(other)
    }

    /// Whether the token of the certificate `other` is meant, of which all is known.
    pub(crate) fn is_on_token_of(&self, other: &Identity) -> bool {
        let fits = |named: &str, found: &str| named.is_empty() || named == found;
        fits(&self.manufacturer, &other.manufacturer)
            && fits(&self.model, &other.model)
            && fits(&self.serial, &other.serial)
            && fits(&self.label, &other.label)
    }
}

/// As OpenVPN prints it.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { manufacturer, model, serial, label, id } = self;
        for part in [manufacturer, model, serial, label] {
            for byte in part.bytes() {
                match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'=' | b'~' | b'^' => {
                        f.write_char(char::from(byte))?;
                    }
                    _ => write!(f, "\\x{byte:02X}")?,
                }
            }
            f.write_char('/')?;
        }
        id.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

/// Text with some bytes in hexadecimal: behind `%`, or behind `\x`.
fn decoded(text: &str, mark: char) -> Result<Vec<u8>, String> {
    let start = if mark == '\\' { "x" } else { "" };
    let mut pieces = text.split(mark);
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let digits = piece.strip_prefix(start).and_then(|digits| digits.get(..2));
        let byte = digits.and_then(hexadecimal);
        bytes.extend(byte.ok_or_else(|| format!("{mark}{start} stands before no two digits in \"{text}\""))?);
        bytes.extend(piece.as_bytes().get(start.len() + 2..).unwrap_or_default());
    }
    Ok(bytes)
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        pair.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(pair, 16).ok())?
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_name_the_same() {
        let wanted = Identity {
            manufacturer: "piv_II".to_owned(),
            model: "PKCS#15 emulated".to_owned(),
            serial: "013".to_owned(),
            label: "Ann's \u{e9}-1.=~^".to_owned(),
            id: vec![0x0a, 1],
        };
        let uri = "pkcs11:model=PKCS%2315%20emulated;token=Ann%27s%20%c3%a9-1.%3D~%5E;manufacturer=piv_II;serial=013;\
                   id=%0A%01";
        assert_eq!(Identity::parse(uri), Ok(wanted.clone()));
        assert_eq!(Identity::parse(&format!("{uri}?pin-source=/x")), Ok(wanted.clone()));
        let path = "piv_II/PKCS\\x2315\\x20emulated/013/Ann\\x27s\\x20\\xC3\\xA9\\x2D1\\x2E=~^/0A01";
        assert_eq!(wanted.to_string(), path);
        assert_eq!(Identity::parse(path), Ok(wanted.clone()));
        let less = Identity::parse("pkcs11:id=%0a%01;manufacturer=piv_II").expect("a good name");
        assert!(less.means(&wanted) && !wanted.means(&less));
        let other = Identity::parse("pkcs11:id=%0a").expect("a good name");
        assert!(!other.means(&wanted) && other.is_on_token_of(&wanted) && !wanted.is_on_token_of(&other));
    }

    #[test]
    fn what_names_nothing() {
        for text in [
            "",
            "a/b/c/d",
            "a/b/c/d/xx",
            "a/b/c/d/",
            "pkcs11:token=a",
            "pkcs11:id=%0",
            "pkcs11:id",
            "a\\y/b/c/d/01",
        ] {
            assert!(Identity::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(pkcs11:)?[ -~ä]{0,40}") {
            if let Ok(identity) = Identity::parse(&text) {
                prop_assert_eq!(Identity::parse(&identity.to_string()), Ok(identity));
            }
        }
    }
}
