//! The username and the password to judge.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

/// The largest file with a username and a password, in bytes.
const MAX_FILE: u64 = 64 << 10;

/// A client's username and password, and its name and address. It has no `Debug`, which would show the password.
#[derive(Clone, Default)]
pub struct Login {
    /// Its username; not empty.
    pub username: String,
    /// Its password, as the client sent it.
    pub password: Zeroizing<String>,
    /// The common name of its certificate; empty if there is none.
    pub common_name: String,
    /// Its address; empty if it is not known.
    pub remote: String,
}

impl Login {
    /// Reads the file with the username and the password, a line each. `variable` gives the values of environment variables:
    /// `common_name`, and `untrusted_ip` or `untrusted_ip6`.
    ///
    /// # Errors
    /// When the file cannot be read, is too large, or does not have two lines with a username in the first.
    pub fn read(path: &Path, variable: impl Fn(&str) -> Option<String>) -> io::Result<Self> {
        let length = File::open(path)?.metadata()?.len();
        if length > MAX_FILE {
            return Err(io::Error::other("the file with the password is too large"));
        }
        // The buffer has its full size at once: one that grows would leave copies of the password in memory.
        let mut content =
            Zeroizing::new(String::with_capacity(usize::try_from(length).unwrap_or_default() + 1));
        File::open(path)?.take(MAX_FILE).read_to_string(&mut content)?;
        let mut lines = content.split_terminator('\n');
        let (Some(username), Some(password), None) = (lines.next(), lines.next(), lines.next()) else {
            return Err(io::Error::other("the file does not have two lines, a username and a password"));
        };
        // PAM takes C strings, which end at a NUL.
        if username.is_empty() || content.contains('\0') {
            return Err(io::Error::other("the username is empty, or the file has a NUL character"));
        }
        let remote = variable("untrusted_ip").or_else(|| variable("untrusted_ip6"));
        Ok(Login {
            username: username.to_owned(),
            password: Zeroizing::new(password.to_owned()),
            common_name: variable("common_name").unwrap_or_default(),
            remote: remote.unwrap_or_default(),
        })
    }
}

/// A password with the answer to a challenge. It has no `Debug`, which would show both.
#[derive(Clone)]
pub struct Answered {
    /// The password; may be empty.
    pub password: Zeroizing<String>,
    /// The answer; may be empty.
    pub answer: Zeroizing<String>,
}

/// Splits `SCRV1:PASSWORD:ANSWER`, which a client sends as its password with `static-challenge`; PASSWORD and ANSWER are in
/// base64 (OpenVPN's management-notes.txt). `None` if it does not have that form.
pub fn static_answer(password: &str) -> Option<Answered> {
    let (password, answer) = password.strip_prefix("SCRV1:")?.split_once(':')?;
    Some(Answered { password: decoded(password)?, answer: decoded(answer)? })
}

/// Splits `CRV1::PASSWORD::ANSWER`, the answer to a challenge of a server (`CRV1`) that has the password as its state;
/// PASSWORD and ANSWER are in base64 (as openvpn-auth-ldap reads it, `openvpn-cr.c`).
pub fn dynamic_answer(password: &str) -> Option<Answered> {
    let mut parts = password.strip_prefix("CRV1:")?.split(':');
    let (Some(""), Some(password), Some(""), Some(answer), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    Some(Answered { password: decoded(password)?, answer: decoded(answer)? })
}

fn decoded(text: &str) -> Option<Zeroizing<String>> {
    let bytes = Zeroizing::new(Base64::decode_vec(text).ok()?);
    let text = std::str::from_utf8(&bytes).ok().filter(|text| !text.contains('\0'))?;
    Some(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use adit_testbed::Scratch;

    use super::*;

    fn read(content: &str) -> io::Result<Login> {
        let scratch = Scratch::create("login").unwrap();
        let path = scratch.write("file", content).unwrap();
        let variable = |name: &str| match name {
            "common_name" => Some("client1".to_owned()),
            "untrusted_ip6" => Some("2001:db8::7".to_owned()),
            _ => None,
        };
        Login::read(&path, variable)
    }

    #[test]
    fn a_login_is_two_lines_and_the_environment() {
        let login = read("ann\ns3 cret \n").unwrap();
        assert_eq!((login.username.as_str(), login.password.as_str()), ("ann", "s3 cret "));
        assert_eq!((login.common_name.as_str(), login.remote.as_str()), ("client1", "2001:db8::7"));
        assert_eq!(read("ann\n\n").unwrap().password.as_str(), "", "it is refused where it is judged");
        for bad in ["", "ann\n", "\nsecret\n", "ann\na\nb\n", "ann\na\0b\n"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert!(read(&"a".repeat(70_000)).is_err());
        assert!(Login::read(Path::new("/nonexistent"), |_| None).is_err());
    }

    #[test]
    fn answers_to_challenges() {
        let pair = |answered: Option<Answered>| {
            answered.map(|answered| (answered.password.to_string(), answered.answer.to_string()))
        };
        let of = |password: &str, answer: &str| Some((password.to_owned(), answer.to_owned()));
        assert_eq!(pair(static_answer("SCRV1:czMgY3JldA==:MTIzNDU2")), of("s3 cret", "123456"));
        assert_eq!(pair(static_answer("SCRV1::MTIzNDU2")), of("", "123456"));
        assert_eq!(pair(dynamic_answer("CRV1::czMgY3JldA==::MTIzNDU2")), of("s3 cret", "123456"));
        for other in [
            "s3 cret",
            "SCRV1",
            "SCRV1:",
            "SCRV1:czM=",
            "SCRV1:cz:MTIz",
            "SCRV1:?:MTIz",
            "SCRV1:AA==:MTIz",
            "SCRV1:gICA:MTIz",
            "scrv1:czM=:MTIz",
        ] {
            assert_eq!(pair(static_answer(other)), None, "{other}");
        }
        for other in ["CRV1:", "CRV1:R:czM=::MTIz", "CRV1::czM=:MTIz", "CRV1::czM=::MTIz:", "SCRV1:czM=:MTIz"]
        {
            assert_eq!(pair(dynamic_answer(other)), None, "{other}");
        }
    }
}
