//! The control channel's knowledge of the peer: the name that it proved, its certificates, its peer info.

use adit_pki::RevocationLists;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::ControlChannel;
use crate::key_state::KeyStateError;

/// Certificates of a chain that scripts are given at most.
const MAX_CHAIN: usize = 16;

impl ControlChannel {
    /// The common name the peer proved.
    pub(crate) fn peer_name(&self) -> Option<&str> {
        self.peer_name.as_deref()
    }

    /// TLS of an exchange is complete: the peer has proved its name, or that it has none.
    pub(crate) fn is_identified(&self) -> bool {
        self.identified
    }

    /// A server: it answered the TLS of the peer.
    pub(crate) fn has_answered_tls(&self) -> bool {
        self.exchanges.iter().any(|exchange| exchange.state.tls().has_answered())
    }

    /// The peer acknowledged our first reset, and with it the session id that we sent to its address.
    pub(crate) fn reset_is_acknowledged(&self) -> bool {
        self.exchanges.first().is_some_and(|exchange| exchange.state.reset_is_acknowledged())
    }

    /// The peer answered at least once.
    pub(crate) fn heard(&self) -> bool {
        self.exchanges.iter().any(|exchange| exchange.state.heard())
    }

    /// The peer's certificate and the authorities that issued it, for scripts. To find them takes time in each handshake.
    pub(crate) fn peer_certificates(&self) -> Vec<CertificateDer<'static>> {
        complete_chain(self.shown_certificates(), &self.params.authorities)
    }

    /// The certificates that the peer showed, its own first.
    pub(crate) fn shown_certificates(&self) -> &[CertificateDer<'static>] {
        let shown = self.exchanges.iter().rev().find_map(|exchange| exchange.state.tls().peer_certificates());
        shown.unwrap_or_default()
    }

    /// Whether the peer's certificate is on one of the lists.
    pub(crate) fn is_revoked(&self, lists: &RevocationLists) -> bool {
        let mut proven = self.exchanges.iter().filter_map(|exchange| exchange.state.tls().peer_certificate());
        proven.any(|certificate| lists.names(certificate))
    }

    /// The peer's options string, from the newest exchange that has one.
    pub(crate) fn peer_options(&self) -> Option<&str> {
        self.exchanges.iter().rev().find_map(|exchange| exchange.state.remote_options())
    }

    /// The `IV_` lines that the peer sent in the first exchange.
    pub(crate) fn peer_info(&self) -> Option<&str> {
        self.exchanges.first().and_then(|exchange| exchange.state.remote_info())
    }

    /// Whether keys can be [exported](crate::tls::TlsChannel::may_export) from the present exchanges.
    pub(crate) fn may_export(&self) -> bool {
        self.exchanges.iter().all(|exchange| exchange.state.may_export())
    }

    /// The peer-id of a point-to-point tunnel whose ends can export.
    pub(crate) fn point_to_point_peer_id(&self) -> Result<u32, KeyStateError> {
        let first = self.exchanges.first().ok_or(KeyStateError::MissingKeySource)?;
        first.state.export_point_to_point_peer_id()
    }

    /// Version and suite of the control channel, for people.
    pub(crate) fn tls_description(&self) -> &str {
        &self.tls_description
    }

    /// Notes the name of the peer; a later exchange must prove the same name.
    pub(super) fn identify(&mut self, index: usize) -> bool {
        let tls = self.exchanges[index].state.tls();
        let name = tls.peer_certificate().and_then(|it| self.params.name_fields.name(it));
        self.tls_description = tls.description();
        if self.identified && self.peer_name != name {
            let text = format!(
                "the peer proved to be \"{}\" and then, in a renegotiation, \"{}\"",
                self.peer_name.as_deref().unwrap_or_default(),
                name.as_deref().unwrap_or_default()
            );
            self.give_up(text, true);
            return false;
        }
        (self.peer_name, self.identified) = (name, true);
        true
    }
}

/// The peer's certificate, then its issuer's, and so on up to a root, as far as these are there. TLS has verified that
/// there is such a way. It goes by the names of the issuers: a peer may show other certificates beside or between those
/// of the way.
fn complete_chain(
    shown: &[CertificateDer<'static>],
    authorities: &[CertificateDer<'static>],
) -> Vec<CertificateDer<'static>> {
    let mut chain: Vec<CertificateDer<'static>> = shown.first().cloned().into_iter().collect();
    while chain.len() < MAX_CHAIN {
        let Some(Ok((_, last))) = chain.last().map(|der| X509Certificate::from_der(der)) else { break };
        if last.issuer().as_raw() == last.subject().as_raw() {
            break;
        }
        let issued_it = |der: &&CertificateDer<'static>| {
            let issuer = X509Certificate::from_der(der);
            issuer.is_ok_and(|(_, issuer)| issuer.subject().as_raw() == last.issuer().as_raw())
        };
        // Those of `ca` go first: a peer may show another certificate under the same name.
        let Some(issuer) = authorities.iter().chain(shown).find(issued_it).cloned() else { break };
        chain.push(issuer);
    }
    chain
}
