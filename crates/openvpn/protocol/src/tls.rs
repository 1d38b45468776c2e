//! One TLS connection, fed and drained in memory.

mod certificate_fault;
mod first_hello;
mod refusal;
mod step;
mod verifier;

use std::io::{Cursor, Read, Write};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, Connection, ServerConfig};
use zeroize::Zeroizing;

pub use certificate_fault::CertificateFault;
use certificate_fault::take_refused;
use first_hello::FirstHello;
pub use step::TlsStep;
use step::{AwaitedStep, StepWork};
pub(crate) use verifier::CertificateJudge;

/// A TLS record's header: type, version, length.
const RECORD_HEADER: usize = 5;
/// The largest TLS ciphertext record: 2^14 + 2048 (RFC 5246 §6.2.3; TLS 1.3 allows less).
const MAX_RECORD: usize = 16_384 + 2_048;
/// Most bytes that are kept of the peer while a step of the handshake is made elsewhere: four times the longest message that
/// rustls takes in a handshake.
const MAX_KEPT: usize = 4 * 0xffff;

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
    /// `None` while a step of the handshake is made elsewhere.
    connection: Option<Box<Connection>>,
    /// The handshake is made in steps, as our key signs elsewhere.
    in_steps: bool,
    /// The step that is made elsewhere.
    awaited: Option<AwaitedStep>,
    /// The step that is made elsewhere, until it was [taken](Self::take_step).
    step: Option<TlsStep>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    hello: FirstHello,
    answered: bool,
    /// The fault of the peer's certificate, if that has ended the handshake.
    refused: Option<Box<CertificateFault>>,
}

impl TlsChannel {
    /// A connection that has not begun.
    ///
    /// # Errors
    /// When TLS cannot be set up with this configuration.
    pub fn new(config: &TlsConfig) -> Result<Self, rustls::Error> {
        let connection = match config {
            TlsConfig::Client(config) => {
                // Never sent (SNI is off) and never checked (see [`adit_pki::tls::TlsVerifier`]).
                let name = ServerName::try_from("openvpn.invalid")
                    .map_err(|_| rustls::Error::General("invalid placeholder name".to_owned()))?;
                Connection::Client(rustls::ClientConnection::new(config.clone(), name)?)
            }
            TlsConfig::Server(config) => Connection::Server(rustls::ServerConnection::new(config.clone())?),
        };
        Ok(TlsChannel {
            connection: Some(Box::new(connection)),
            in_steps: false,
            awaited: None,
            step: None,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            hello: FirstHello::default(),
            answered: false,
            refused: None,
        })
    }

    /// Has the peer's bytes for the handshake worked through in [steps](Self::take_step) from now on, as our key signs
    /// elsewhere, which may take as long as a person needs.
    pub fn make_steps(&mut self) {
        self.in_steps = true;
    }

    /// Takes ciphertext from the peer; returns the plaintext of each record that became complete. While a
    /// [step](Self::take_step) is awaited, bytes that arrive are kept.
    ///
    /// # Errors
    /// The peer breaks TLS, or one end does not accept the certificate of the other end. An alert may then wait to be
    /// [taken](Self::take_output).
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Zeroizing<Vec<u8>>>, rustls::Error> {
        self.incoming.extend_from_slice(bytes);
        if self.is_away() && self.incoming.len() > MAX_KEPT {
            return Err(rustls::Error::General(
                "the peer sends more than a handshake needs while our key's holder signs".to_owned(),
            ));
        }
        let mut messages = Vec::new();
        while !self.is_away()
            && let Some(length) = record_length(&self.incoming)?
        {
            if self.in_steps && self.is_handshaking() {
                self.begin_step()?;
                break;
            }
            let record: Vec<u8> = self.incoming.drain(..length).collect();
            self.hello.take(&record);
            let Some(connection) = &mut self.connection else { break };
            let outcome = receive_record(connection, &record);
            collect_output(connection, &mut self.outgoing);
            let message = outcome.inspect_err(|_| self.refused = take_refused().map(Box::new))?;
            self.answered |= !self.outgoing.is_empty();
            if let Some(message) = message {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    /// Moves the connection into a step, with all records that are complete.
    fn begin_step(&mut self) -> Result<(), rustls::Error> {
        let mut records = Vec::new();
        while let Some(length) = record_length(&self.incoming)? {
            let record: Vec<u8> = self.incoming.drain(..length).collect();
            self.hello.take(&record);
            records.push(record);
        }
        let Some(connection) = self.connection.take() else { return Ok(()) };
        let step = TlsStep::new(StepWork::new(connection, records));
        self.awaited = Some(AwaitedStep::new(step.clone()));
        self.step = Some(step);
        Ok(())
    }

    /// A step of the handshake that is to be [run](TlsStep::run) elsewhere, once. Then [`Self::finish_step`] takes it back.
    pub fn take_step(&mut self) -> Option<TlsStep> {
        self.step.take()
    }

    /// Whether that step is the one that is awaited.
    pub fn awaits(&self, step: &TlsStep) -> bool {
        self.awaited.as_ref().is_some_and(|awaited| awaited.is(step))
    }

    /// The awaited step has run. Goes on as [`Self::receive`], with the bytes that arrived meanwhile; does nothing if
    /// the step has not run.
    ///
    /// # Errors
    /// As [`Self::receive`], and when there is no signature.
    pub fn finish_step(&mut self) -> Result<Vec<Zeroizing<Vec<u8>>>, rustls::Error> {
        let Some(done) = self.awaited.as_ref().and_then(AwaitedStep::take) else { return Ok(Vec::new()) };
        self.awaited = None;
        self.step = None;
        self.connection = Some(done.connection);
        self.outgoing.extend_from_slice(&done.outgoing);
        self.refused = done.refused;
        done.outcome?;
        self.answered |= !self.outgoing.is_empty();
        let mut messages = done.messages;
        messages.extend(self.receive(&[])?);
        Ok(messages)
    }

    fn is_away(&self) -> bool {
        self.connection.is_none()
    }

    /// Queues one message; it becomes one record.
    ///
    /// # Errors
    /// When TLS has no room for it.
    pub fn send(&mut self, message: &[u8]) -> Result<(), rustls::Error> {
        let connection = self.connection.as_mut().ok_or(rustls::Error::HandshakeNotComplete)?;
        connection.writer().write_all(message).map_err(io_error)?;
        collect_output(connection, &mut self.outgoing);
        Ok(())
    }

    /// Up to `limit` bytes of ciphertext for the peer; empty when there are none.
    pub fn take_output(&mut self, limit: usize) -> Vec<u8> {
        if let Some(connection) = &mut self.connection {
            collect_output(connection, &mut self.outgoing);
        }
        let length = limit.min(self.outgoing.len());
        self.outgoing.drain(..length).collect()
    }

    /// Whether the peer's bytes were good, and made us send something.
    pub fn has_answered(&self) -> bool {
        self.answered
    }

    /// Whether ciphertext waits to be [taken](Self::take_output).
    pub fn has_output(&self) -> bool {
        !self.outgoing.is_empty() || self.connection.as_ref().is_some_and(|it| it.wants_write())
    }

    /// Whether the handshake is still under way.
    pub fn is_handshaking(&self) -> bool {
        self.connection.as_ref().is_none_or(|connection| connection.is_handshaking())
    }

    /// Whether exported keys are this connection's alone: with TLS 1.3, and with TLS 1.2 and the extended master secret.
    /// Without that, a server that a client trusts can give another connection, to a third party, the same master secret
    /// and so the same keys (RFC 7627 §1).
    pub fn may_export(&self) -> bool {
        match self.version() {
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
        let connection = self.connection.as_ref().ok_or(rustls::Error::HandshakeNotComplete)?;
        connection.export_keying_material(output, label.as_bytes(), None).map(|_| ())
    }

    /// The fault of the peer's certificate, if that has ended the handshake.
    pub fn refused_certificate(&self) -> Option<&CertificateFault> {
        self.refused.as_deref()
    }

    /// The peer's own certificate.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.peer_certificates()?.first()
    }

    /// The certificates that the peer showed, its own first.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.connection.as_ref()?.peer_certificates()
    }

    /// Version and suite, for people.
    pub fn description(&self) -> String {
        let version = match self.version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "TLS",
        };
        let suite = self.connection.as_ref().and_then(|connection| connection.negotiated_cipher_suite());
        let suite = suite.and_then(|suite| suite.suite().as_str());
        format!("{version} {}", suite.unwrap_or("unknown suite"))
    }

    fn version(&self) -> Option<rustls::ProtocolVersion> {
        self.connection.as_ref()?.protocol_version()
    }
}

/// Gives a record to TLS; returns the plaintext that it brought, if any.
fn receive_record(
    connection: &mut Connection,
    record: &[u8],
) -> Result<Option<Zeroizing<Vec<u8>>>, rustls::Error> {
    let mut cursor = Cursor::new(record);
    while (cursor.position() as usize) < record.len() {
        let taken = connection.read_tls(&mut cursor).map_err(io_error)?;
        let state = connection.process_new_packets()?;
        if taken == 0 {
            break;
        }
        if state.plaintext_bytes_to_read() > 0 {
            let mut plaintext = Zeroizing::new(vec![0; state.plaintext_bytes_to_read()]);
            connection.reader().read_exact(&mut plaintext).map_err(io_error)?;
            return Ok(Some(plaintext));
        }
    }
    Ok(None)
}

/// Takes the ciphertext that TLS has for the peer.
fn collect_output(connection: &mut Connection, outgoing: &mut Vec<u8>) {
    while connection.wants_write() {
        // Writing to a Vec cannot fail.
        if connection.write_tls(outgoing).is_err() {
            break;
        }
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
