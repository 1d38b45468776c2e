//! Our own certificate and key, decrypted with a password where they are encrypted: `askpass`, `pkcs12`.

use std::path::Path;

use adit_openvpn::credentials::Credentials;
use adit_openvpn_config::Secret;
use adit_openvpn_config::{Config, KeyPassword};
use adit_pki::encrypted_key::{EncryptedKeyError, decrypt, is_encrypted};
use adit_pki::pkcs12;
use zeroize::Zeroizing;

use super::fault::Fault;
use super::management::Topic;
use super::password_file::first_line;
use crate::asking::Asking;
use adit_host::remarks::Notes;
use adit_host::terminal::Terminal;

/// How often a person is asked for a password.
const TRIES: usize = 3;

/// Our identity and the trusted authorities of the configuration in `file`, decrypted.
pub(crate) fn credentials(
    config: &Config,
    file: &Path,
    asking: &Asking<'_>,
    notes: &mut dyn Notes,
) -> Result<Credentials, Fault> {
    let tls = &config.tls;
    let text = |pem: &adit_openvpn_config::Pem| pem.text().as_bytes().to_vec();
    let mut credentials = Credentials {
        ca: tls.ca.as_ref().map(text).unwrap_or_default(),
        certificate: tls.identity.as_ref().map(|it| text(&it.cert)).unwrap_or_default(),
        private_key: Zeroizing::new(tls.identity.as_ref().map(|it| text(&it.key)).unwrap_or_default()),
    };
    let mut passwords = Passwords { source: &tls.key_password, file, asking, notes };
    if let Some(packed) = &tls.pkcs12 {
        unpack(packed, &mut passwords, &mut credentials)?;
    } else if is_encrypted(&credentials.private_key) {
        let encrypted = std::mem::take(&mut credentials.private_key);
        let open = |password: &str| decrypt(&encrypted, password);
        credentials.private_key = passwords.open("key", "the private key", open)?;
    }
    Ok(credentials)
}

/// The directive of our certificate or key, if it is encrypted and a person or a program would be asked for its password.
pub(crate) fn asks_for_password(config: &Config) -> Option<&'static str> {
    let tls = &config.tls;
    if let KeyPassword::File(_) = tls.key_password {
        return None;
    }
    if let Some(packed) = &tls.pkcs12 {
        let opened = pkcs12::decode_base64(packed.text()).and_then(|der| pkcs12::open(&der, ""));
        return matches!(opened, Err(EncryptedKeyError::WrongPassword)).then_some("pkcs12");
    }
    let key = tls.identity.as_ref().map(|identity| identity.key.text().as_bytes());
    key.is_some_and(is_encrypted).then_some("key")
}

/// The credentials while the tunnel runs, where no person can be asked: `password` is the content of the file
/// of `askpass`.
pub(crate) fn again(config: &Config, password: Option<Zeroizing<String>>) -> Result<Credentials, Fault> {
    let tls = &config.tls;
    let text = |pem: &adit_openvpn_config::Pem| pem.text().as_bytes().to_vec();
    let mut credentials = Credentials {
        ca: tls.ca.as_ref().map(text).unwrap_or_default(),
        certificate: tls.identity.as_ref().map(|it| text(&it.cert)).unwrap_or_default(),
        private_key: Zeroizing::new(tls.identity.as_ref().map(|it| text(&it.key)).unwrap_or_default()),
    };
    let directive = if tls.pkcs12.is_some() { "pkcs12" } else { "key" };
    let fault = |error: EncryptedKeyError| (directive, fault_text(directive, &error));
    let given = password.as_ref().map_or("", |password| password.as_str());
    if let Some(packed) = &tls.pkcs12 {
        let der = pkcs12::decode_base64(packed.text()).map_err(fault)?;
        let unpacked = pkcs12::open(&der, "").or_else(|_| pkcs12::open(&der, given)).map_err(fault)?;
        credentials.certificate = unpacked.certificates;
        credentials.private_key = unpacked.private_key;
        if credentials.ca.is_empty() {
            credentials.ca = unpacked.authorities;
        }
    } else if is_encrypted(&credentials.private_key) {
        let encrypted = std::mem::take(&mut credentials.private_key);
        credentials.private_key = decrypt(&encrypted, given).map_err(fault)?;
    }
    Ok(credentials)
}

fn unpack(packed: &Secret, passwords: &mut Passwords<'_>, into: &mut Credentials) -> Result<(), Fault> {
    let der =
        pkcs12::decode_base64(packed.text()).map_err(|error| ("pkcs12", fault_text("pkcs12", &error)))?;
    // Many have no password.
    let contents = match pkcs12::open(&der, "") {
        Err(EncryptedKeyError::WrongPassword) => {
            passwords.open("pkcs12", "the PKCS#12 file", |password| pkcs12::open(&der, password))?
        }
        other => other.map_err(|error| ("pkcs12", fault_text("pkcs12", &error)))?,
    };
    into.certificate = contents.certificates;
    into.private_key = contents.private_key;
    // As in OpenVPN, `ca` decides if it is there.
    if into.ca.is_empty() {
        into.ca = contents.authorities;
    }
    Ok(())
}

/// The fault of the directive's content, and where a password may come from.
fn fault_text(directive: &str, error: &EncryptedKeyError) -> String {
    let hint = match error {
        EncryptedKeyError::WrongPassword => " (`askpass FILE` reads it from a file)",
        _ => "",
    };
    format!("{directive}: {error}{hint}")
}

/// Where the password is.
struct Passwords<'a> {
    source: &'a KeyPassword,
    file: &'a Path,
    asking: &'a Asking<'a>,
    notes: &'a mut dyn Notes,
}

impl Passwords<'_> {
    /// Tries the password of the file, or of the person at the terminal, who may err.
    fn open<T>(
        &mut self,
        directive: &'static str,
        what: &str,
        open: impl Fn(&str) -> Result<T, EncryptedKeyError>,
    ) -> Result<T, Fault> {
        let fault = |error: EncryptedKeyError| (directive, fault_text(directive, &error));
        if let KeyPassword::File(path) = self.source {
            let password = first_line(self.file, path, self.notes)
                .map_err(|why| ("askpass", format!("askpass: {why}")))?;
            return open(&password).map_err(fault);
        }
        let mut tried = 0;
        loop {
            let password = self.ask(what).map_err(|why| {
                (directive, format!("{directive}: {what} is encrypted, and its password cannot be asked for ({why}); write `askpass FILE`"))
            })?;
            tried += 1;
            let opened = open(&password);
            let questions = self.asking.questions();
            if let (Err(EncryptedKeyError::WrongPassword), Some(questions)) = (&opened, questions) {
                questions.was_wrong(Topic::PrivateKey, "");
            }
            match opened {
                Err(EncryptedKeyError::WrongPassword) if tried < TRIES => {}
                other => return other.map_err(fault),
            }
        }
    }

    fn ask(&self, what: &str) -> Result<Zeroizing<String>, String> {
        let Asking::Now(_, waiting) = self.asking else {
            return Err("nothing is started".to_owned());
        };
        match self.asking.questions() {
            Some(questions) => Ok(questions.ask(Topic::PrivateKey, "", *waiting)?.password),
            None => {
                let question = format!("Password of {what}: ");
                Terminal::open().and_then(|mut terminal| terminal.ask(&question, false, *waiting))
            }
        }
    }
}
