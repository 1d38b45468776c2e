//! Our certificate, where its private key is held elsewhere.

use std::path::PathBuf;

use crate::Pem;
use crate::draft::{Draft, Material};
use crate::model::{
    ExternalIdentity, ManagementCertificate, ManagementIdentity, Pkcs11Identity, Pkcs11Provider,
    SignatureForms,
};
use crate::parser::Parser;

impl Parser<'_> {
    /// The holder of our key, if the file says that it is held elsewhere; `None` if there are problems.
    pub(super) fn external(&mut self, draft: &Draft, file: &str) -> Option<Option<ExternalIdentity>> {
        let external = &draft.tls.external;
        if external.providers.is_some() || external.id.is_some() || external.id_by_management.is_some() {
            return Some(Some(ExternalIdentity::Pkcs11(self.on_a_token(draft)?)));
        }
        match (&external.key, &external.certificate) {
            (Some((forms, _)), _) => {
                let identity = self.held_by_management(draft, *forms, file)?;
                Some(Some(ExternalIdentity::Management(identity)))
            }
            (None, Some((_, at))) => {
                self.problems.push(at.problem(
                    "`management-external-cert`: the key of that certificate is held at the management socket, too: \
                     write `management-external-key`",
                ));
                None
            }
            (None, None) => Some(None),
        }
    }

    fn held_by_management(
        &mut self,
        draft: &Draft,
        forms: SignatureForms,
        file: &str,
    ) -> Option<ManagementIdentity> {
        let tls = &draft.tls;
        let asked = tls.external.certificate.as_ref();
        let mut alone =
            self.stands_alone("management-external-key", &[(&tls.key, "key"), (&tls.pkcs12, "pkcs12")]);
        if asked.is_some() {
            alone &= self.stands_alone("management-external-cert", &[(&tls.cert, "cert")]);
        }
        if !alone {
            return None;
        }
        let extra = self.extra(draft)?;
        let certificate = match asked {
            Some((hint, _)) => ManagementCertificate::Asked { hint: hint.clone(), extra },
            None => {
                let material = self.required(&tls.cert, "cert", file)?;
                let cert = self.certificates(material, draft)?;
                ManagementCertificate::Given(match extra {
                    Some(extra) => cert.join(&extra),
                    None => cert,
                })
            }
        };
        Some(ManagementIdentity { certificate, forms })
    }

    fn on_a_token(&mut self, draft: &Draft) -> Option<Pkcs11Identity> {
        let (tls, external) = (&draft.tls, &draft.tls.external);
        for (at, name) in [
            (external.key.as_ref().map(|(_, at)| at), "management-external-key"),
            (external.certificate.as_ref().map(|(_, at)| at), "management-external-cert"),
        ] {
            if let Some(at) = at {
                self.problems.push(at.problem(format!("`{name}` beside `pkcs11-id`; remove one of the two")));
                return None;
            }
        }
        let others = [(&tls.cert, "cert"), (&tls.key, "key"), (&tls.pkcs12, "pkcs12")];
        if !self.stands_alone("pkcs11-id", &others) {
            return None;
        }
        let id = match (&external.id, &external.id_by_management) {
            (Some((id, _)), None) => Some(id.clone()),
            (None, Some(_)) => None,
            (Some(_), Some(at)) => {
                self.problems
                    .push(at.problem("`pkcs11-id-management` beside `pkcs11-id`; remove one of the two"));
                return None;
            }
            (None, None) => {
                let (_, at) = external.providers.as_ref()?;
                self.problems.push(at.problem(
                    "`pkcs11-providers` without `pkcs11-id`, which names the certificate; \
                     `openvpn --show-pkcs11-ids PROVIDER` shows those that are there",
                ));
                return None;
            }
        };
        let default: Vec<PathBuf> = vec![Pkcs11Provider::DEFAULT.into()];
        let paths = external.providers.as_ref().map_or(&default, |(paths, _)| paths);
        let at = |switches: &[bool], index: usize| switches.get(index).copied().unwrap_or_default();
        let provider = |(index, path): (usize, &PathBuf)| Pkcs11Provider {
            path: path.clone(),
            protected: at(&external.protected, index),
            private_certificates: at(&external.private_certificates, index),
        };
        Some(Pkcs11Identity {
            id,
            providers: paths.iter().enumerate().map(provider).collect(),
            pin_cache: external.pin_cache,
            extra: self.extra(draft)?,
        })
    }

    /// `extra-certs`, if there are any; `None` if there are problems.
    fn extra(&mut self, draft: &Draft) -> Option<Option<Pem>> {
        match &draft.tls.extra {
            None => Some(None),
            Some(material) => self.certificates(material, draft).map(Some),
        }
    }

    /// Whether none of these is there, which `directive` takes the place of. Each that is there is a problem.
    fn stands_alone(&mut self, directive: &str, others: &[(&Option<Material>, &str)]) -> bool {
        let before = self.problems.len();
        for (material, name) in others {
            if let Some(material) = material {
                let text =
                    format!("`{name}` beside `{directive}`, which takes its place; remove one of the two");
                self.problems.push(material.at.problem(text));
            }
        }
        self.problems.len() == before
    }
}
