//! TLS on a connection to a remote: the client's end (RFC 8446, RFC 5246), between the bytes of the socket and those
//! that they carry.

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};

/// Where systems keep the certificates of their authorities: Debian and SUSE, Fedora, Alpine.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// The variable that names another file, as in OpenSSL.
const VARIABLE: &str = "SSL_CERT_FILE";

/// The protocol that the connection carries inside TLS (RFC 7301).
const ALPN: &[u8] = b"http/1.1";

/// More than one call of `read_tls` can bring: rustls keeps no more of the socket's bytes than the longest record (18,437).
const MOST_OF_A_READ: usize = 20 * 1024;
/// Reads of one turn: rustls reads 4 KiB each.
const READS: usize = 16;

/// How connections to one server are encrypted: its name, and the authorities that its certificate may be of.
#[derive(Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
    host: String,
    authorities: PathBuf,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, authorities) = (&self.host, &self.authorities);
        f.debug_struct("TlsClient")
            .field("host", host)
            .field("authorities", authorities)
            .finish_non_exhaustive()
    }
}

impl TlsClient {
    /// The client of a server of that name or address. Its certificate is to be of an authority in that file (PEM);
    /// `None`: in the file that `SSL_CERT_FILE` names, or else the system's. The file is read now.
    ///
    /// # Errors
    /// Which file or name is wrong, and why.
    pub fn new(host: &str, authorities: Option<&Path>) -> Result<Self, String> {
        let server = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("`{host}` is neither an address nor a name that a certificate can have"))?;
        let authorities = authorities.map_or_else(of_the_system, |file| Ok(file.to_owned()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots(&authorities)?)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Connections are few and last long.
        config.resumption = Resumption::disabled();
        Ok(TlsClient { config: Arc::new(config), server, host: host.to_owned(), authorities })
    }

    /// A new connection's end.
    pub(crate) fn begin(&self) -> io::Result<TlsStream> {
        let mut connection = ClientConnection::new(Arc::clone(&self.config), self.server.clone())
            .map_err(|error| invalid(&self.host, &error))?;
        // The bytes that may wait are limited where they are written.
        connection.set_buffer_limit(None);
        Ok(TlsStream { connection, host: self.host.clone(), authorities: self.authorities.clone() })
    }
}

/// The file with the system's authorities.
fn of_the_system() -> Result<PathBuf, String> {
    if let Some(file) = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()) {
        return Ok(file.into());
    }
    let found = SYSTEM.iter().map(Path::new).find(|file| file.is_file());
    found.map(Path::to_owned).ok_or_else(|| {
        format!(
            "there is no file of certificate authorities: none of {} exists; install the package ca-certificates, \
             or name a file",
            SYSTEM.join(", ")
        )
    })
}

/// The authorities in a file. An entry that is no certificate of an authority is passed over, but one at least must be.
fn roots(file: &Path) -> Result<RootCertStore, String> {
    let bad = |error: &dyn fmt::Display| format!("{}: {error}", file.display());
    let certificates = CertificateDer::pem_file_iter(file)
        .map_err(|error| bad(&error))?
        .collect::<Result<Vec<_>, pem::Error>>()
        .map_err(|error| bad(&error))?;
    let mut roots = RootCertStore::empty();
    match roots.add_parsable_certificates(certificates) {
        (0, _) => Err(bad(&"there is no certificate of an authority in it")),
        _ => Ok(roots),
    }
}

/// The client's end of TLS on one connection. It never touches the socket: its caller sends the bytes that
/// [`TlsStream::take_sealed`] gives after each call of another function.
pub(crate) struct TlsStream {
    connection: ClientConnection,
    host: String,
    authorities: PathBuf,
}

impl TlsStream {
    /// Encrypts; bytes that are written before the handshake is complete wait for it.
    pub(crate) fn seal(&mut self, plaintext: &[u8]) -> io::Result<()> {
        self.connection.writer().write_all(plaintext)
    }

    /// The records to send now.
    pub(crate) fn take_sealed(&mut self) -> io::Result<Vec<u8>> {
        let mut sealed = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut sealed)?;
        }
        Ok(sealed)
    }

    /// Reads the bytes that are there of `source`, and decrypts them into `room`, which has 20 KiB at least. 0: the
    /// other end has said that it sends no more.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: there is nothing yet. [`io::ErrorKind::InvalidData`]: TLS has failed, or the connection
    /// ended without the word that it ends; the text names the server. Others are of `source`.
    pub(crate) fn read(&mut self, source: &mut dyn Read, room: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        for _ in 0..READS {
            let rest = room.get_mut(filled..).unwrap_or_default();
            if rest.len() < MOST_OF_A_READ {
                break;
            }
            match self.connection.read_tls(source) {
                Ok(_) => {}
                // The bytes before the error are the caller's; the error shows again.
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
            if let Err(error) = self.connection.process_new_packets() {
                return Err(self.failed(&error));
            }
            match self.connection.reader().read(rest) {
                Ok(0) => return Ok(filled),
                Ok(count) => filled += count,
                // A part of the handshake or of a record.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) if filled > 0 => break,
                Err(_) => return Err(self.cut_off()),
            }
        }
        if filled == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(filled) }
    }

    /// Says to the other end that nothing more comes.
    pub(crate) fn close(&mut self) {
        self.connection.send_close_notify();
    }

    /// An end without close_notify (RFC 8446 §6.1), which an attacker can bring about.
    fn cut_off(&self) -> io::Error {
        let when = if self.connection.is_handshaking() { " during the handshake" } else { "" };
        let host = &self.host;
        let text = format!("TLS with `{host}`: the connection ended{when} without close_notify");
        io::Error::new(io::ErrorKind::InvalidData, text)
    }

    fn failed(&self, error: &rustls::Error) -> io::Error {
        use rustls::Error;
        let why = match error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                format!("its certificate is of no authority in {}", self.authorities.display())
            }
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => "its certificate is not for that name".to_owned(),
            Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            ) => "its certificate has expired, by this machine's clock".to_owned(),
            Error::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            ) => "its certificate is not valid yet, by this machine's clock".to_owned(),
            Error::InvalidMessage(_) if self.connection.is_handshaking() => {
                format!("it does not answer as TLS ({error}): is the port that of https?")
            }
            other => return invalid(&self.host, other),
        };
        io::Error::new(io::ErrorKind::InvalidData, format!("TLS with `{}`: {why}", self.host))
    }
}

fn invalid(host: &str, error: &rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS with `{host}`: {error}"))
}
