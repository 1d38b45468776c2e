//! A TLS connection whose records go through packets of EAP-TLS.

use std::io::{Cursor, Read as _, Write as _};
use std::sync::{Arc, LazyLock};

use adit_pki::tls::{TlsKey, TlsVerifier};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, Connection, Error, NamedGroup, ProtocolVersion, ServerConfig,
    ServerConnection, SupportedProtocolVersion,
};
use rustls_pki_types::{ServerName, UnixTime};
use zeroize::Zeroizing;

use super::credentials::{TlsCredentials, TlsVersions};
use super::fragments::{Incoming, Outgoing};
use super::judge::IdentityJudge;
use super::packet::{ACKNOWLEDGEMENT, Packet};
use crate::crypto::Secret;
use crate::eap::EapType;
use crate::wire::Identification;

/// The name of a server, which is neither sent nor verified: the identity counts, see [`IdentityJudge`].
const NO_NAME: &str = "eap.invalid";
/// The label of the key with TLS 1.2 (RFC 5216 section 2.3).
const LABEL: &[u8] = b"client EAP encryption";
/// The label of the key with TLS 1.3 (RFC 9190 section 2.3).
const LABEL_13: &[u8] = b"EXPORTER_EAP_TLS_Key_Material";
/// The bytes that are exported: the MSK, and the EMSK, which has no use here. With TLS 1.3 their number is a part of the derivation.
const KEY_MATERIAL: usize = 128;
/// The bytes of the MSK.
const MSK: usize = 64;
/// The protected indication of success (RFC 9190 section 2.5).
pub(super) const CONFIRMATION: [u8; 1] = [0];

/// AWS-LC, with groups whose share fits one packet. The certificates that the hybrid groups would hide are within the IKE SA already.
static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    let mut provider = aws_lc_rs::default_provider();
    let groups = [NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1];
    provider.kx_groups.retain(|group| groups.contains(&group.name()));
    Arc::new(provider)
});

/// The parameters of a connection.
pub(in crate::eap) struct Setup<'a> {
    pub(in crate::eap) credentials: &'a TlsCredentials,
    /// The identity that the other end must prove.
    pub(in crate::eap) other: &'a Identification,
    /// The time by which certificates are judged.
    pub(in crate::eap) wall: UnixTime,
}

/// A TLS connection of either side.
pub(super) struct TlsRun {
    connection: Box<Connection>,
    verifier: Arc<TlsVerifier<IdentityJudge>>,
    incoming: Incoming,
    outgoing: Outgoing,
}

/// The meaning of a packet.
pub(super) enum Received {
    /// It is a fragment, or acknowledges one: this packet is sent next.
    Fragment(Vec<u8>),
    /// The other end has taken all, and says nothing.
    Acknowledgement,
    /// It is the end of a TLS message, which has this plaintext.
    Message(Zeroizing<Vec<u8>>),
}

impl TlsRun {
    /// The side of the peer, which begins the handshake.
    ///
    /// # Errors
    /// rustls does not take the certificate.
    pub(super) fn client(setup: &Setup<'_>) -> Result<Self, Error> {
        let Setup { credentials, other, wall } = setup;
        let verifier = verifier(credentials, other);
        let mut config = ClientConfig::builder_with_details(PROVIDER.clone(), Arc::new(At(*wall)))
            .with_protocol_versions(versions(credentials.versions))?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_client_cert_resolver(certified(credentials));
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        let name =
            ServerName::try_from(NO_NAME).map_err(|_| Error::General("the name of no server".to_owned()))?;
        let connection = ClientConnection::new(Arc::new(config), name)?;
        Ok(Self::new(Connection::Client(connection), verifier))
    }

    /// The side of the authenticator, which demands a certificate.
    ///
    /// # Errors
    /// rustls does not take the certificate.
    pub(super) fn server(setup: &Setup<'_>) -> Result<Self, Error> {
        let Setup { credentials, other, wall } = setup;
        let verifier = verifier(credentials, other);
        let mut config = ServerConfig::builder_with_details(PROVIDER.clone(), Arc::new(At(*wall)))
            .with_protocol_versions(versions(credentials.versions))?
            .with_client_cert_verifier(verifier.clone())
            .with_cert_resolver(certified(credentials));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let connection = ServerConnection::new(Arc::new(config))?;
        Ok(Self::new(Connection::Server(connection), verifier))
    }

    fn new(connection: Connection, verifier: Arc<TlsVerifier<IdentityJudge>>) -> Self {
        let connection = Box::new(connection);
        TlsRun { connection, verifier, incoming: Incoming::default(), outgoing: Outgoing::default() }
    }

    /// A packet of the other end.
    ///
    /// # Errors
    /// The reason why the handshake has failed, for the log. An alert may wait to be [sent](Self::send).
    pub(super) fn receive(&mut self, packet: &Packet<'_>) -> Result<Received, String> {
        let is_empty = packet.data.is_empty() && packet.total.is_none_or(|total| total == 0);
        if let Some(next) = self.outgoing.next() {
            let text = "it sends TLS in the place of an acknowledgement of a fragment";
            return is_empty.then_some(Received::Fragment(next)).ok_or_else(|| text.to_owned());
        }
        match self.incoming.add(packet)? {
            None => Ok(Received::Fragment(ACKNOWLEDGEMENT.to_vec())),
            Some(message) if message.is_empty() => Ok(Received::Acknowledgement),
            Some(message) => self.feed(&message).map(Received::Message).map_err(|error| self.reason(error)),
        }
    }

    fn feed(&mut self, message: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        let io_error = |error: std::io::Error| Error::General(error.to_string());
        let mut plaintext = Zeroizing::new(Vec::new());
        let mut cursor = Cursor::new(message);
        while (cursor.position() as usize) < message.len() {
            let taken = self.connection.read_tls(&mut cursor).map_err(io_error)?;
            let state = self.connection.process_new_packets()?;
            let mut part = Zeroizing::new(vec![0; state.plaintext_bytes_to_read()]);
            self.connection.reader().read_exact(&mut part).map_err(io_error)?;
            plaintext.extend_from_slice(&part);
            if taken == 0 {
                break;
            }
        }
        Ok(plaintext)
    }

    fn reason(&self, error: Error) -> String {
        match (self.verifier.judge().take_refusal(), error) {
            (Some(refusal), _) => refusal,
            (None, Error::AlertReceived(alert)) => format!("it sends the TLS alert {alert:?}"),
            (None, Error::NoCertificatesPresented) => "it shows no certificate".to_owned(),
            (None, error) => format!("TLS: {}", adit_core::printable(&error.to_string())),
        }
    }

    /// The first packet of the bytes that TLS has for the other end; `None` if there are none.
    pub(super) fn send(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        // Writing to a Vec does not fail.
        while self.connection.wants_write() && self.connection.write_tls(&mut bytes).is_ok() {}
        (!bytes.is_empty()).then(|| self.outgoing.begin(bytes))
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the end of the handshake is confirmed by a record, as TLS 1.3 needs it.
    pub(super) fn is_confirmed_by_record(&self) -> bool {
        self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    /// Writes the protected indication of success.
    ///
    /// # Errors
    /// TLS has no room for it.
    pub(super) fn confirm(&mut self) -> Result<(), String> {
        self.connection.writer().write_all(&CONFIRMATION).map_err(|error| error.to_string())
    }

    /// The key of EAP.
    ///
    /// # Errors
    /// The handshake has not ended.
    pub(super) fn msk(&self) -> Result<Secret, String> {
        let mut material = Zeroizing::new(vec![0; KEY_MATERIAL]);
        let kind = [EapType::TLS.0];
        let (label, context) =
            if self.is_confirmed_by_record() { (LABEL_13, Some(kind.as_slice())) } else { (LABEL, None) };
        let exported = self.connection.export_keying_material(material.as_mut_slice(), label, context);
        exported.map_err(|error| error.to_string())?;
        material.truncate(MSK);
        Ok(material)
    }
}

/// A clock that stands still. A handshake takes seconds.
#[derive(Debug)]
struct At(UnixTime);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

fn versions(versions: TlsVersions) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    let (tls13, tls12) = BOTH.split_at(1);
    match versions {
        TlsVersions::Both => &BOTH,
        TlsVersions::Tls12 => tls12,
        TlsVersions::Tls13 => tls13,
    }
}

fn verifier(credentials: &TlsCredentials, other: &Identification) -> Arc<TlsVerifier<IdentityJudge>> {
    let judge = IdentityJudge::new(credentials.verifier.clone(), other.clone());
    TlsVerifier::new(judge, PROVIDER.signature_verification_algorithms)
}

fn certified(credentials: &TlsCredentials) -> Arc<SingleCertAndKey> {
    let chain = [credentials.key.certificate()].into_iter().chain(&credentials.chain).cloned().collect();
    let key = Arc::new(TlsKey::new(credentials.key.clone()));
    Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key)))
}
