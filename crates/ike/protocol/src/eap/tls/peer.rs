//! The peer's side of EAP-TLS, the TLS client.

use super::connection::{CONFIRMATION, Received, Setup, TlsRun};
use super::packet::{ACKNOWLEDGEMENT, Packet};
use crate::crypto::Secret;
use crate::eap::step::Answer;

/// The peer's side.
#[derive(Default)]
pub(in crate::eap) struct PeerSide {
    run: Option<TlsRun>,
    key: Option<Secret>,
    refusal: Option<String>,
}

impl PeerSide {
    /// The key, once the authenticator has proved its identity and has confirmed that it accepts this end's certificate.
    pub(in crate::eap) const fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    /// The reason why one end refuses the other.
    pub(in crate::eap) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// A request of the authenticator.
    pub(in crate::eap) fn handle(&mut self, setup: &Setup<'_>, data: &[u8]) -> Answer {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let packet = Packet::decode(data)?;
        if packet.is_start {
            if self.run.is_some() {
                return Err("it begins EAP-TLS once more".to_owned());
            }
            let run = self.run.insert(TlsRun::client(setup).map_err(|error| error.to_string())?);
            return run.send().ok_or_else(|| "TLS does not begin".to_owned());
        }
        let run = self.run.as_mut().ok_or("it sends a message of EAP-TLS before the start")?;
        let plaintext = match run.receive(&packet) {
            Ok(Received::Fragment(packet)) => return Ok(packet),
            Ok(Received::Acknowledgement) => {
                return Err("it sends an empty message of EAP-TLS that is not due".to_owned());
            }
            Ok(Received::Message(plaintext)) => plaintext,
            // The authenticator gets the alert, and ends EAP then.
            Err(reason) => {
                self.refusal = Some(reason);
                return Ok(run.send().unwrap_or_else(|| ACKNOWLEDGEMENT.to_vec()));
            }
        };
        let answer = run.send();
        let needs_record = run.is_confirmed_by_record();
        // The record counts after this end's certificate alone (RFC 9190 section 2.1.1).
        let is_confirmed = plaintext.as_slice() == CONFIRMATION && needs_record && answer.is_none();
        if !plaintext.is_empty() && !is_confirmed {
            return Err("it sends data by EAP-TLS that are not due".to_owned());
        }
        if !run.is_handshaking() && (is_confirmed || !needs_record) {
            self.key = Some(run.msk()?);
        }
        Ok(answer.unwrap_or_else(|| ACKNOWLEDGEMENT.to_vec()))
    }
}
