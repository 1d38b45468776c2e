//! One TLS connection, fed and drained in memory.

mod first_hello;
mod refusal;
mod verifier;

use std::io::{Cursor, Read, Write};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, Connection, ServerConfig};
use zeroize::Zeroizing;

use first_hello::FirstHello;
pub(crate) use verifier::TlsVerifier;

/// A TLS record's header: type, version, length.
const RECORD_HEADER: usize = 5;
/// The largest TLS ciphertext record: 2^14 + 2048 (RFC 5246 §6.2.3; TLS 1.3 allows less).
const MAX_RECORD: usize = 16_384 + 2_048;

/// Which side of TLS we are.
#[derive(Clone)]
pub enum TlsConfig {
    /// We open.
    Client(Arc<ClientConfig>),
    /// We answer.
    Server(Arc<ServerConfig>),
}

/// One TLS connection over byte buffers. Input is fed record by record, so that each message of the peer
/// stays apart: OpenVPN gives each its own record.
pub struct TlsChannel {
    connection: Connection,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    hello: FirstHello,
    answered: bool,
}

impl TlsChannel {
    /// A connection that has not begun.
    ///
    /// # Errors
    /// When TLS cannot be set up with this configuration.
    pub fn new(config: &TlsConfig) -> Result<Self, rustls::Error> {
        let connection = match config {
            TlsConfig::Client(config) => {
                // Never sent (SNI is off) and never checked (see [`TlsVerifier`]).
                let name = ServerName::try_from("openvpn.invalid")
                    .map_err(|_| rustls::Error::General("invalid placeholder name".to_owned()))?;
                Connection::Client(rustls::ClientConnection::new(config.clone(), name)?)
            }
            TlsConfig::Server(config) => Connection::Server(rustls::ServerConnection::new(config.clone())?),
        };
        Ok(TlsChannel {
            connection,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            hello: FirstHello::default(),
            answered: false,
        })
    }

    /// Takes ciphertext from the peer; returns the plaintext of each record that became complete.
    ///
    /// # Errors
    /// When the peer breaks TLS, or one end does not accept the other's certificate. An alert may then wait to be
    /// [taken](Self::take_output).
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Zeroizing<Vec<u8>>>, rustls::Error> {
        self.incoming.extend_from_slice(bytes);
        let mut messages = Vec::new();
        while let Some(length) = record_length(&self.incoming)? {
            let record: Vec<u8> = self.incoming.drain(..length).collect();
            self.hello.take(&record);
            let outcome = self.receive_record(&record);
            self.collect_output();
            let message = outcome?;
            self.answered |= !self.outgoing.is_empty();
            if let Some(message) = message {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    fn receive_record(&mut self, record: &[u8]) -> Result<Option<Zeroizing<Vec<u8>>>, rustls::Error> {
        let mut cursor = Cursor::new(record);
        while (cursor.position() as usize) < record.len() {
            let taken = self.connection.read_tls(&mut cursor).map_err(io_error)?;
            let state = self.connection.process_new_packets()?;
            if taken == 0 {
                break;
            }
            if state.plaintext_bytes_to_read() > 0 {
                let mut plaintext = Zeroizing::new(vec![0; state.plaintext_bytes_to_read()]);
                self.connection.reader().read_exact(&mut plaintext).map_err(io_error)?;
                return Ok(Some(plaintext));
            }
        }
        Ok(None)
    }

    /// Queues one message; it becomes one record.
    ///
    /// # Errors
    /// When TLS has no room for it.
    pub fn send(&mut self, message: &[u8]) -> Result<(), rustls::Error> {
        self.connection.writer().write_all(message).map_err(io_error)?;
        self.collect_output();
        Ok(())
    }

    fn collect_output(&mut self) {
        while self.connection.wants_write() {
            // Writing to a Vec cannot fail.
            if self.connection.write_tls(&mut self.outgoing).is_err() {
                break;
            }
        }
    }

    /// Up to `limit` bytes of ciphertext for the peer; empty when there are none.
    pub fn take_output(&mut self, limit: usize) -> Vec<u8> {
        self.collect_output();
        let length = limit.min(self.outgoing.len());
        self.outgoing.drain(..length).collect()
    }

    /// What the peer sent was good, and made us send something.
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    /// Whether ciphertext waits to be [taken](Self::take_output).
    pub fn has_output(&self) -> bool {
        !self.outgoing.is_empty() || self.connection.wants_write()
    }

    /// Whether the handshake is still under way.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether exported keys are this connection's alone: with TLS 1.3, and with TLS 1.2 and the extended master secret.
    /// Without that, a server that a client trusts can give another connection, to a third party, the same master secret
    /// and so the same keys (RFC 7627 §1).
    pub fn may_export(&self) -> bool {
        match self.connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => self.hello.has_extended_master_secret(),
            version => version == Some(rustls::ProtocolVersion::TLSv1_3),
        }
    }

    /// RFC 5705 / RFC 8446 §7.5 exporter without context.
    ///
    /// # Errors
    /// Before the handshake has ended, and if it [must not be](Self::may_export).
    pub fn export(&self, label: &str, output: &mut [u8]) -> Result<(), rustls::Error> {
        if !self.may_export() {
            return Err(rustls::Error::General(
                "keys were to be exported from TLS 1.2 without extended master secret (RFC 7627), where they may be those of another connection, too: let the peer have TLS 1.3 or a TLS library with that extension (OpenSSL from 1.1.0)".to_owned(),
            ));
        }
        self.connection.export_keying_material(output, label.as_bytes(), None).map(|_| ())
    }

    /// The peer's own certificate.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.peer_certificates()?.first()
    }

    /// The certificates that the peer showed, its own first.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.connection.peer_certificates()
    }

    /// Version and suite, for people.
    pub fn description(&self) -> String {
        let version = match self.connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "TLS",
        };
        let suite = self.connection.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str());
        format!("{version} {}", suite.unwrap_or("unknown suite"))
    }
}

fn io_error(error: std::io::Error) -> rustls::Error {
    rustls::Error::General(error.to_string())
}

/// The length of the first record with its header, if all of it is there.
fn record_length(bytes: &[u8]) -> Result<Option<usize>, rustls::Error> {
    let [_, _, _, high, low, ..] = bytes else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length > MAX_RECORD {
        return Err(rustls::Error::General("the peer's TLS record is longer than TLS allows".to_owned()));
    }
    let total = RECORD_HEADER + length;
    Ok((bytes.len() >= total).then_some(total))
}
