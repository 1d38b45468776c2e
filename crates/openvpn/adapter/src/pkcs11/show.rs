//! `--show-pkcs11-ids`: the certificates on tokens, by the names that `pkcs11-id` takes.

use std::fmt::Write as _;
use std::path::PathBuf;

use adit_pki::inspect::subject_and_serial;
use rustls_pki_types::CertificateDer;

use super::process::found;
use super::{Cards, Found, Outcome, Pin, Provider};

/// The lines that OpenVPN prints before the list (pkcs11.c, `show_pkcs11_ids`).
const HEAD: &str = "\nThe following objects are available for use.\nEach object shown below may be used as parameter to\n\
                    --pkcs11-id option please remember to use single quote mark.\n";

/// The list of the certificates that the module at `path` has. `ask` asks for the PIN of a token, where certificates cannot
/// be seen without (`private`).
///
/// # Errors
/// When the module cannot be used, or there is no PIN.
pub(crate) fn show(
    path: PathBuf,
    private: bool,
    ask: impl FnOnce(&str) -> Result<Pin, String>,
) -> Result<String, String> {
    let provider = Provider { path, protected: false, private_certificates: private };
    let cards = Cards::start(&[provider], None, &|| true)?;
    let outcome = match cards.find(None, None, &|| true)? {
        Outcome::PinNeeded(label) => cards.find(None, Some(ask(&label)?), &|| true)?,
        other => other,
    };
    Ok(list(&found(outcome)?))
}

fn list(found: &[Found]) -> String {
    let mut text = HEAD.to_owned();
    for Found { identity, certificate, .. } in found {
        let known = subject_and_serial(&CertificateDer::from(certificate.as_slice()));
        let (subject, serial) =
            known.unwrap_or_else(|| ("a certificate that cannot be read".to_owned(), String::new()));
        let _ = write!(
            text,
            "\nCertificate\n       DN:             {subject}\n       Serial:         {serial}\n       \
             Serialized id:  {identity}\n"
        );
    }
    text.truncate(text.trim_end().len());
    text
}
