//! The certificates of connections to a directory: the authorities that are trusted, and our own.

use std::path::Path;
use std::sync::Arc;

use adit_openvpn_config::auth_ldap::LdapTls;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// The files with the system's authorities: Debian and SUSE, Fedora, Alpine.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The authorities that may have issued a directory's certificate, and our own certificate.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Reads the files that the configuration names, or else the system's.
    ///
    /// # Errors
    /// Which file is wrong, and why.
    pub fn read(tls: &LdapTls) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        if let Some(file) = &tls.ca_file {
            add(&mut roots, file)?;
        }
        if let Some(directory) = &tls.ca_directory {
            add_directory(&mut roots, directory)?;
        }
        if tls.ca_file.is_none() && tls.ca_directory.is_none() {
            // Without such a file no certificate is accepted: a connection with TLS then fails, one without TLS does not.
            if let Some(file) = SYSTEM.iter().map(Path::new).find(|file| file.is_file()) {
                add(&mut roots, file)?;
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let config = match &tls.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let private = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error))?;
                builder.with_client_auth_cert(chain, private).map_err(|error| bad(key, error))?
            }
        };
        Ok(Trust(Arc::new(config)))
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}

fn bad(file: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", file.display())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| bad(file, error))?;
    certificates.collect::<Result<_, _>>().map_err(|error| bad(file, error))
}

/// Adds the authorities in a file. Other certificates are ignored.
///
/// # Errors
/// When there is no certificate of an authority in the file.
fn add(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    match roots.add_parsable_certificates(certificates(file)?) {
        (0, _) => Err(bad(file, "there is no certificate of an authority in it")),
        _ => Ok(()),
    }
}

/// Adds the authorities in all files of a directory, as [`add`] does. Files that cannot be read are ignored.
///
/// # Errors
/// When there is no certificate of an authority in any of them.
fn add_directory(roots: &mut RootCertStore, directory: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(directory).map_err(|error| bad(directory, error))?;
    let files = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    let added: usize =
        files.map(|file| roots.add_parsable_certificates(certificates(&file).unwrap_or_default()).0).sum();
    match added {
        0 => Err(bad(directory, "there is no certificate of an authority in it")),
        _ => Ok(()),
    }
}
