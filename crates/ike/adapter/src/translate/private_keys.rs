//! Private keys of the file: in PEM, in DER, and in PKCS#12 with their certificates.

use std::sync::Arc;

use adit_ike_config::{Credentials, KeyKind, PrivateKeyFile};
use adit_pki::signature::{CertificateKey, OwnKey};
use adit_pki::{PrivateKey, encrypted_key, pem, pkcs12};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

/// The first byte of DER, that of a SEQUENCE. No text of PEM begins with it.
const SEQUENCE: u8 = 0x30;

/// The private key of a certificate: the first with which a signature is the certificate's.
pub(super) fn of(
    certificate: &CertificateDer<'static>,
    credentials: &Credentials,
) -> Result<CertificateKey, String> {
    let mut why =
        "there is no private key in the folders `private`, `rsa`, `ecdsa`, `pkcs8` and `pkcs12`".to_owned();
    let files = credentials.private_keys.iter().map(|file| (file, read(file)));
    let containers =
        credentials.containers.iter().map(|file| (file, open(file).and_then(|it| in_pem(&it.private_key))));
    for (file, key) in files.chain(containers) {
        match key.and_then(|key| belongs(certificate, &key)) {
            Ok(key) => return Ok(key),
            Err(error) => {
                why =
                    format!("no private key is the certificate's; the last, {}: {error}", file.document.name)
            }
        }
    }
    Err(why)
}

/// The identifier of a private key as strongSwan has it: the SHA-1 digest of the public key.
///
/// # Errors
/// The key cannot be read, or is not supported.
pub(crate) fn identifier(file: &PrivateKeyFile) -> Result<[u8; 20], String> {
    let key = match file.kind {
        KeyKind::Pkcs12 => in_pem(&open(file)?.private_key)?,
        _ => read(file)?,
    };
    Ok(OwnKey::new(&key)?.public_key_digest())
}

/// The certificates of a PKCS#12 file: the one of its key first.
pub(super) fn certificates_of(container: &PrivateKeyFile) -> Result<Vec<CertificateDer<'static>>, String> {
    pem::certificates(&open(container)?.certificates).map_err(|error| error.to_string())
}

/// The key with the certificate, if a signature with it is the certificate's.
fn belongs(certificate: &CertificateDer<'static>, key: &PrivateKey) -> Result<CertificateKey, String> {
    let key = CertificateKey::new(certificate.clone(), Arc::new(OwnKey::new(key)?))
        .map_err(|error| error.to_string())?;
    let scheme = key.schemes().first().copied().ok_or("there is no scheme of signatures")?;
    key.sign(scheme, &[]).map_err(|error| error.to_string())?;
    Ok(key)
}

fn read(file: &PrivateKeyFile) -> Result<PrivateKey, String> {
    let bytes = file.document.content.bytes();
    if bytes.first() == Some(&SEQUENCE) {
        let key = PrivateKeyDer::try_from(bytes.as_slice());
        let text = "it is no private key in DER: PKCS#8, PKCS#1 or SEC1; an encrypted key must be in PEM";
        return key.map(|key| PrivateKey::Plain(key.clone_key())).map_err(|_| text.to_owned());
    }
    if !encrypted_key::is_encrypted(bytes) {
        return in_pem(bytes);
    }
    let password = password(file)?.ok_or("it is encrypted: give its password in a section of `secrets`")?;
    in_pem(&encrypted_key::decrypt(bytes, password).map_err(|error| error.to_string())?)
}

fn in_pem(text: &Zeroizing<Vec<u8>>) -> Result<PrivateKey, String> {
    PrivateKey::read(text).map_err(|error| error.to_string())
}

/// The content of a PKCS#12 file. Without a password in the file, that is the empty one.
fn open(container: &PrivateKeyFile) -> Result<pkcs12::Contents, String> {
    let password = password(container)?.unwrap_or_default();
    pkcs12::open(container.document.content.bytes(), password).map_err(|error| error.to_string())
}

fn password(file: &PrivateKeyFile) -> Result<Option<&str>, String> {
    let Some(password) = &file.password else { return Ok(None) };
    std::str::from_utf8(password.bytes()).map(Some).map_err(|_| "its password is no text".to_owned())
}

#[cfg(test)]
mod tests {
    use adit_testbed::Scratch;

    use crate::files::Disk;
    use crate::testing::{folder, openssl};
    use crate::translate::{Planned, connections};

    const FILE: &str = "connections {\n t {\n remote_addrs = 192.0.2.1\n local {\n auth = pubkey\n id = own.example\n CERTS\n }\n \
                        remote {\n auth = pubkey\n id = peer.example\n }\n children {\n c {\n remote_ts = 10.2.0.0/16\n }\n }\n }\n}\n";

    fn read(folder: &Scratch, certs: &str, secrets: &str) -> Result<Vec<Planned>, String> {
        let text = format!("{}{secrets}", FILE.replace("CERTS", certs));
        let path = folder.write("swanctl.conf", &text).unwrap();
        let parsed = adit_ike_config::parse(&path.display().to_string(), text.as_bytes(), &Disk::default());
        let config = parsed.map_err(|failure| failure.to_string()).unwrap().config;
        connections(&config).map_err(|problems| format!("{problems:?}"))
    }

    #[test]
    fn private_keys_are_read_in_each_form() {
        let certificate = "certs = ca.pem";
        for (words, at) in [
            ("pkey -in key.pem -out private/key.pem", "PEM"),
            ("pkey -in key.pem -outform DER -out private/key.der", "DER"),
            ("ec -in key.pem -outform DER -out ecdsa/key.der", "SEC1 in DER"),
            (
                "pkcs12 -export -inkey key.pem -in x509ca/ca.pem -passout pass:word -out pkcs12/own.p12",
                "PKCS#12",
            ),
        ] {
            let folder = folder();
            openssl(&folder, "x509 -in x509ca/ca.pem -out x509/ca.pem");
            let without = read(&folder, certificate, "").map(drop).unwrap_err();
            assert!(without.contains("there is no private key in the folders"), "{at}: {without}");
            openssl(&folder, words);
            let secrets = if at == "PKCS#12" {
                "secrets {\n pkcs12 {\n file = own.p12\n secret = word\n }\n}\n"
            } else {
                ""
            };
            let read = read(&folder, certificate, secrets);
            assert!(read.is_ok(), "{at}: {:?}", read.err());
        }
    }

    #[test]
    fn a_pkcs12_file_has_the_certificate_of_this_end_too() {
        let folder = folder();
        openssl(
            &folder,
            "pkcs12 -export -inkey key.pem -in x509ca/ca.pem -passout pass:word -out pkcs12/own.p12",
        );
        let secrets = |word| format!("secrets {{\n pkcs12 {{\n file = own.p12\n secret = {word}\n }}\n}}\n");
        assert!(read(&folder, "", &secrets("word")).is_ok());
        let wrong = read(&folder, "", &secrets("another")).map(drop).unwrap_err();
        assert!(wrong.contains("own.p12") && wrong.contains("password"), "{wrong}");
    }
}
