use std::path::PathBuf;

use crate::programs::{program, run};
use crate::{Scratch, TestbedError};

/// The kind of key in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA of 2048 bits.
    Rsa,
    /// ECDSA on P-256.
    Ecdsa,
    /// Ed25519.
    Ed25519,
}

/// The purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The server's (`extendedKeyUsage = serverAuth`).
    Server,
    /// A client's (`extendedKeyUsage = clientAuth`).
    Client,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Valid for a year from now on.
    Now,
    /// Valid for one month, long ago.
    Expired,
}

/// A certificate authority made by the `openssl` program, with the extensions easy-rsa gives.
#[derive(Debug)]
pub struct Authority {
    directory: Scratch,
    kind: KeyKind,
    /// Its certificate in PEM.
    pub certificate: String,
}

/// A certificate and its private key, both in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The key (PKCS#8).
    pub key: String,
}

/// `openssl ca` is the one way in OpenSSL 3.0 to choose a certificate's dates.
const CONFIG: &str = "
[req]
distinguished_name = name
[name]
[ca]
default_ca = authority
[authority]
database = index
new_certs_dir = .
certificate = ca.crt
private_key = ca.key
rand_serial = yes
default_md = default
policy = policy
crl_extensions = list_extensions
email_in_dn = no
unique_subject = no
[policy]
commonName = supplied
[authority_extensions]
basicConstraints = critical, CA:TRUE
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always, issuer:always
keyUsage = critical, keyCertSign, cRLSign
[list_extensions]
authorityKeyIdentifier = keyid:always
[server]
basicConstraints = CA:FALSE
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid, issuer
extendedKeyUsage = serverAuth
keyUsage = digitalSignature, keyEncipherment
[client]
basicConstraints = CA:FALSE
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid, issuer
extendedKeyUsage = clientAuth
keyUsage = digitalSignature
";

impl Authority {
    /// Makes an authority whose keys, and those of all it certifies, are of this kind.
    pub fn create(kind: KeyKind) -> Result<Self, TestbedError> {
        let directory = Scratch::create("authority")?;
        directory.write("ca.cnf", CONFIG)?;
        directory.write("index", "")?;
        let mut authority = Self { directory, kind, certificate: String::new() };
        let subject = "/CN=adit test authority";
        authority.request(
            "ca.key",
            subject,
            "ca.crt",
            &["-x509", "-days", "3650", "-extensions", "authority_extensions"],
        )?;
        authority.certificate = authority.read("ca.crt")?;
        Ok(authority)
    }

    /// Certifies a new key under this name.
    pub fn issue(&self, name: &str, purpose: Purpose, validity: Validity) -> Result<Identity, TestbedError> {
        let [key, request, certificate] =
            ["key", "csr", "crt"].map(|extension| format!("{name}.{extension}"));
        self.request(&key, &format!("/CN={name}"), &request, &[])?;
        let extensions = match purpose {
            Purpose::Server => "server",
            Purpose::Client => "client",
        };
        let mut arguments = vec![
            "ca",
            "-config",
            "ca.cnf",
            "-batch",
            "-notext",
            "-extensions",
            extensions,
            "-in",
            &request,
            "-out",
            &certificate,
        ];
        match validity {
            Validity::Now => arguments.extend(["-days", "365"]),
            Validity::Expired => {
                arguments.extend(["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"]);
            }
        }
        self.openssl(&arguments)?;
        Ok(Identity { certificate: self.read(&certificate)?, key: self.read(&key)? })
    }

    /// Revokes the certificate that was issued last under this name, and gives the new list of revoked certificates.
    pub fn revoke(&self, name: &str) -> Result<String, TestbedError> {
        self.openssl(&["ca", "-config", "ca.cnf", "-revoke", &format!("{name}.crt")])?;
        self.revocations()
    }

    /// The list of revoked certificates, in PEM.
    pub fn revocations(&self) -> Result<String, TestbedError> {
        self.openssl(&["ca", "-config", "ca.cnf", "-gencrl", "-crldays", "30", "-out", "crl.pem"])?;
        self.read("crl.pem")
    }

    /// Makes a key, and a request with it into the file `out`, by one process.
    fn request(&self, key: &str, subject: &str, out: &str, further: &[&str]) -> Result<(), TestbedError> {
        let kind: &[&str] = match self.kind {
            KeyKind::Rsa => &["rsa:2048"],
            KeyKind::Ecdsa => &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
            KeyKind::Ed25519 => &["ed25519"],
        };
        let request =
            ["req", "-config", "ca.cnf", "-nodes", "-subj", subject, "-keyout", key, "-out", out, "-newkey"];
        self.openssl(&[&request[..], kind, further].concat())
    }

    fn openssl(&self, arguments: &[&str]) -> Result<(), TestbedError> {
        run(program("openssl")?.args(arguments).current_dir(self.directory.path())).map(drop)
    }

    fn read(&self, file: &str) -> Result<String, TestbedError> {
        let path: PathBuf = self.directory.path().join(file);
        std::fs::read_to_string(&path).map_err(|source| TestbedError::File { path, source })
    }
}
