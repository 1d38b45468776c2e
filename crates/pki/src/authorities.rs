//! The certificates that are trusted, judged as OpenSSL judges them for OpenVPN: a certificate path must end at a
//! self-signed CA certificate, and every other trusted certificate may stand in the middle of a path.

use std::fmt;

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::VerifiedPath;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::ca_fault::{CaFacts, CaFault, FaultyCa, Terms, first_fault};
use crate::canonical_name::CanonicalName;
use crate::certificate::{is_self_signed, subject_text};
use crate::path_check::{self, Above};
use crate::purpose::Purpose;
use crate::refusal::Refusal;
use crate::revocation::RevocationLists;
use crate::signed_list::SignedList;

/// The longest path that is followed to find its fault. Verification follows no longer one.
const MAX_PATH: usize = 8;

/// The certificates that are trusted.
#[derive(Debug)]
pub struct Authorities {
    /// The self-signed certificates, as the verification takes them.
    anchors: Vec<TrustAnchor<'static>>,
    /// The root certificates, whole and in the same order.
    roots: Vec<CertificateDer<'static>>,
    /// The facts by which they are judged, in the same order.
    facts: Vec<CaFacts>,
    /// The certificates that another one signed.
    intermediates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// Sorts these certificates into those at which a path may end, and those that may stand in its middle.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn new(certificates: Vec<CertificateDer<'static>>) -> Result<Self, String> {
        let (anchors, roots, facts, intermediates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut sorted = Authorities { anchors, roots, facts, intermediates };
        for certificate in certificates {
            let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|error| error.to_string())?;
            if is_self_signed(&parsed) {
                let anchor = webpki::anchor_from_trusted_cert(&certificate);
                sorted.anchors.push(anchor.map_err(|error| error.to_string())?.to_owned());
                sorted.facts.push(CaFacts::new(&parsed));
                sorted.roots.push(certificate);
            } else {
                sorted.intermediates.push(certificate);
            }
        }
        Ok(sorted)
    }

    /// The certificates at which a path may end.
    pub(crate) fn anchors(&self) -> &[TrustAnchor<'static>] {
        &self.anchors
    }

    /// The certificates from which a path may be built: the trusted ones first, as OpenSSL searches them first,
    /// then those that the peer sent.
    pub(crate) fn candidates<'a>(&'a self, sent: &'a [CertificateDer<'_>]) -> Vec<CertificateDer<'a>> {
        let mut candidates: Vec<CertificateDer<'a>> = Vec::new();
        for certificate in self.intermediates.iter().chain(sent) {
            // Each is tried once, however often a peer sends it.
            if !candidates.iter().any(|known| known == certificate) {
                candidates.push(CertificateDer::from(certificate.as_ref()));
            }
        }
        candidates
    }

    /// The certificates at which the path ends: several, where one was renewed with the same key.
    pub(crate) fn roots_of<'a>(
        &'a self,
        path: &'a VerifiedPath<'_>,
    ) -> impl Iterator<Item = (&'a CertificateDer<'static>, &'a CaFacts)> {
        let all = self.anchors.iter().zip(self.roots.iter().zip(&self.facts));
        all.filter(|(anchor, _)| *anchor == path.anchor()).map(|(_, root)| root)
    }

    /// Judges the points that the verification leaves out: everything about the root, the key usage of all, and
    /// revocation. One root without fault suffices.
    ///
    /// # Errors
    /// The fault of the path.
    pub(crate) fn judge(
        &self,
        leaf: &X509Certificate<'_>,
        path: &VerifiedPath<'_>,
        terms: Terms<'_>,
    ) -> Result<(), Refusal> {
        let read = |certificate: CertificateDer<'_>| {
            let facts = CaFacts::read(&certificate);
            (certificate.into_owned(), facts)
        };
        let middle: Vec<_> =
            path.intermediate_certificates().map(|certificate| read(certificate.der())).collect();
        let mut first = None;
        for root in self.roots_of(path) {
            // A leaf that is itself among the trusted ones need not be a CA.
            let root = Some(root).filter(|(root, _)| !middle.is_empty() || **root != path.end_entity().der());
            let root = root.map(|(root, facts)| (root, Some(facts)));
            let above: Vec<Above<'_>> =
                middle.iter().map(|(certificate, facts)| (certificate, facts.as_ref())).chain(root).collect();
            match path_check::judge(leaf, &above, terms) {
                Ok(()) => return Ok(()),
                Err(error) => first.get_or_insert(error),
            };
        }
        Err(first.unwrap_or(Refusal::UnknownIssuer))
    }

    /// The certificates above `leaf`, followed by name alone: as far as a path that was refused is known.
    pub(crate) fn follow<'a>(
        &'a self,
        leaf: &'a CertificateDer<'a>,
        sent: &'a [CertificateDer<'a>],
    ) -> Vec<&'a CertificateDer<'a>> {
        // Each is read once, however many a peer sends. Above a trusted certificate only trusted ones count, as for OpenSSL.
        let names = |it: &'a CertificateDer<'a>| {
            let (_, parsed) = X509Certificate::from_der(it).ok()?;
            Some((parsed.subject().as_raw().to_vec(), parsed.issuer().as_raw().to_vec(), it))
        };
        let mut known: Vec<_> = self.roots.iter().chain(&self.intermediates).filter_map(names).collect();
        let trusted = known.len();
        known.extend(sent.iter().filter_map(names));
        let mut path = Vec::new();
        let Some((_, mut wanted, _)) = names(leaf) else { return path };
        while path.len() < MAX_PATH
            && let Some(place) = known.iter().position(|(subject, ..)| *subject == wanted)
        {
            let (subject, issuer, next) = &known[place];
            path.push(*next);
            if subject == issuer {
                break;
            }
            wanted.clone_from(issuer);
            if place < trusted {
                known.truncate(trusted);
            }
        }
        path
    }

    /// Whether the certificate is one of those that are trusted, root or not.
    pub(crate) fn trusts(&self, certificate: &CertificateDer<'_>) -> bool {
        self.is_root(certificate) || self.intermediates.iter().any(|trusted| trusted == certificate)
    }

    /// Whether the certificate is one of the roots.
    pub(crate) fn is_root(&self, certificate: &CertificateDer<'_>) -> bool {
        self.roots.iter().any(|root| root == certificate)
    }

    /// The revocation lists of which no trusted certificate is the issuer: they revoke nothing.
    pub fn unmatched_lists(&self, lists: &RevocationLists) -> Vec<UnmatchedList> {
        let subjects = || {
            let all = self.roots.iter().chain(&self.intermediates);
            all.filter_map(|it| Some(X509Certificate::from_der(it).ok()?.1))
        };
        let names: Vec<CanonicalName> = subjects().map(|it| CanonicalName::new(it.subject())).collect();
        let unmatched = lists.signed_lists().iter().filter(|list| !names.iter().any(|name| list.is_of(name)));
        let trusted: Vec<String> = subjects().map(|it| subject_text(it.subject())).collect();
        let warning = |list: &SignedList| UnmatchedList {
            issuer: list.content.issuer_text.clone(),
            trusted: trusted.clone(),
        };
        unmatched.map(warning).collect()
    }

    /// The faults that keep trusted certificates from being part of any path of a peer with this purpose at
    /// that time.
    pub fn warnings(&self, purpose: Purpose, now: UnixTime) -> Vec<AuthorityWarning> {
        let terms = Terms { purpose, now, lists: None, algorithms: &[] };
        let others: Vec<_> = self.intermediates.iter().map(CaFacts::read).collect();
        let all = self.facts.iter().map(Some).chain(others.iter().map(Option::as_ref));
        let faulty = all.filter_map(|facts| first_fault([facts], terms));
        let mut warnings: Vec<AuthorityWarning> = faulty.map(AuthorityWarning::Faulty).collect();
        for certificate in &self.intermediates {
            let path = self.follow(certificate, &[]);
            let last = path.last().copied().unwrap_or(certificate);
            if self.is_root(last) {
                continue;
            }
            if let (Ok((_, own)), Ok((_, last))) =
                (X509Certificate::from_der(certificate), X509Certificate::from_der(last))
            {
                let [subject, issuer] = [own.subject(), last.issuer()].map(subject_text);
                warnings.push(AuthorityWarning::NoRoot { subject, issuer });
            }
        }
        warnings
    }
}

/// Why a trusted certificate is part of no path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorityWarning {
    /// The certificate has a fault.
    Faulty(FaultyCa),
    /// The certificate is an intermediate one, and no self-signed one above it is trusted.
    NoRoot {
        /// Its subject.
        subject: String,
        /// The name of the issuer that is missing.
        issuer: String,
    },
}

impl fmt::Display for AuthorityWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthorityWarning::Faulty(faulty) => {
                let effect = match faulty.fault {
                    CaFault::NotACa | CaFault::NoCertSign => {
                        "it verifies nothing, unless it is the other end's own certificate"
                    }
                    _ => "the other end cannot be verified by it",
                };
                write!(f, "{faulty}; {effect}")
            }
            AuthorityWarning::NoRoot { subject, issuer } => write!(
                f,
                "{subject} is an intermediate certificate, and no self-signed CA certificate above it is trusted, so that it verifies nothing: add that of {issuer}"
            ),
        }
    }
}

/// A revocation list of an authority that is not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmatchedList {
    /// The list's authority.
    pub issuer: String,
    /// The subjects of the trusted certificates.
    pub trusted: Vec<String>,
}

impl fmt::Display for UnmatchedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the revocation list of {} revokes nothing that a trusted CA certificate has issued, as none has that name; trusted are {}",
            self.issuer,
            self.trusted.join("; ")
        )
    }
}
