//! Whom connections to a directory trust, and what they show.

use std::path::Path;
use std::sync::Arc;

use adit_config::auth_ldap::LdapTls;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Where systems keep the certificates of their authorities: Debian and SUSE, Fedora, Alpine.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The authorities that a directory's certificate may be of, and our own certificate.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Reads the files that say it.
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
            // Without any, no certificate is good, which shows where one is needed.
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

/// The authorities in a file. What is no certificate of an authority is passed over, but one at least must be.
fn add(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    match roots.add_parsable_certificates(certificates(file)?) {
        (0, _) => Err(bad(file, "there is no certificate of an authority in it")),
        _ => Ok(()),
    }
}

/// The same of all files in a directory that hold certificates.
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
