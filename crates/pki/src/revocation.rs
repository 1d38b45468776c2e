//! Which certificates are revoked.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{
    CertificateDer, CertificateRevocationListDer, SignatureVerificationAlgorithm, UnixTime,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::der_values::{Values, tag};
use crate::list_fault::{ListFault, RevocationError};
use crate::list_warning::{self, ListWarning};
use crate::signed_list::{self, SignedList};

/// The revoked certificates, at one time.
pub struct RevocationLists(Lists);

enum Lists {
    /// Signed lists of the authorities.
    Signed(Vec<SignedList>),
    /// Serial numbers in decimal, of any issuer.
    Serials(BTreeSet<String>),
}

impl RevocationLists {
    fn signed(pem: &[u8]) -> Result<Self, RevocationError> {
        let mut lists = Vec::new();
        for der in CertificateRevocationListDer::pem_slice_iter(pem) {
            let der = der.map_err(|error| RevocationError::Pem(error.to_string()))?;
            lists.push(SignedList::new(&der)?);
        }
        if lists.is_empty() && Values::inside(tag::SEQUENCE, pem).is_some() {
            return Err(RevocationError::Der);
        }
        if lists.is_empty() { Err(RevocationError::Empty) } else { Ok(RevocationLists(Lists::Signed(lists))) }
    }

    fn serials(names: &[u8]) -> Self {
        let names = String::from_utf8_lossy(names);
        RevocationLists(Lists::Serials(names.lines().map(str::to_owned).collect()))
    }

    /// Whether a list names that certificate. Signatures and dates of signed lists are judged with a certificate's path,
    /// not here.
    pub fn names(&self, certificate: &CertificateDer<'_>) -> bool {
        X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| self.names_parsed(&parsed))
    }

    fn names_parsed(&self, certificate: &X509Certificate<'_>) -> bool {
        match &self.0 {
            Lists::Signed(lists) => signed_list::names(lists, certificate),
            Lists::Serials(serials) => serials.contains(&certificate.tbs_certificate.serial.to_string()),
        }
    }

    /// The warnings about the lists; none where serial numbers are named.
    pub fn warnings(&self) -> Vec<ListWarning> {
        list_warning::warnings(self.signed_lists())
    }

    /// The signed lists; none where serial numbers are named.
    pub(crate) fn signed_lists(&self) -> &[SignedList] {
        match &self.0 {
            Lists::Signed(lists) => lists,
            Lists::Serials(_) => &[],
        }
    }

    /// The fault that the lists find in `certificate`, which `issuer` signed.
    pub(crate) fn fault(
        &self,
        certificate: &X509Certificate<'_>,
        issuer: &X509Certificate<'_>,
        now: UnixTime,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Option<ListFault> {
        match &self.0 {
            Lists::Signed(lists) => signed_list::fault(lists, certificate, issuer, now, algorithms),
            Lists::Serials(_) => self.names_parsed(certificate).then_some(ListFault::Revoked),
        }
    }
}

/// The revocation lists in force. Copies share them: lists that one is given by [`Revocations::update`] hold for the
/// next verdict on all.
#[derive(Clone)]
pub struct Revocations(Arc<RwLock<Arc<RevocationLists>>>);

impl fmt::Debug for Revocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Revocations(..)")
    }
}

impl Revocations {
    /// RevocationLists signed by the authorities, as PEM.
    ///
    /// # Errors
    /// If there is none in it, or one that cannot be read.
    pub fn from_lists(pem: &[u8]) -> Result<Self, RevocationError> {
        Ok(Self::new(RevocationLists::signed(pem)?))
    }

    /// Serial numbers in decimal, one a line; other lines have no effect.
    pub fn from_serials(names: &[u8]) -> Self {
        Self::new(RevocationLists::serials(names))
    }

    fn new(lists: RevocationLists) -> Self {
        Revocations(Arc::new(RwLock::new(Arc::new(lists))))
    }

    /// Replaces the lists by newer ones of the same form.
    ///
    /// # Errors
    /// If they cannot be used; the old ones then stay in force.
    pub fn update(&self, content: &[u8]) -> Result<(), RevocationError> {
        let lists = match self.current().0 {
            Lists::Signed(_) => RevocationLists::signed(content)?,
            Lists::Serials(_) => RevocationLists::serials(content),
        };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(lists);
        Ok(())
    }

    /// Whether both are copies of one.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The lists in force now.
    pub fn current(&self) -> Arc<RevocationLists> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_list_is_said() {
        assert_eq!(Revocations::from_lists(b"").unwrap_err(), RevocationError::Empty);
        let broken = b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
        assert!(matches!(Revocations::from_lists(broken), Err(RevocationError::List(_))));
    }
}
