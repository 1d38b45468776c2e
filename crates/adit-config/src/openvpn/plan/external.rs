//! Our certificate, where its private key is held elsewhere.

use crate::openvpn::draft::{Draft, Material};
use crate::openvpn::model::{ExternalIdentity, ManagementCertificate, ManagementIdentity, SignatureForms};
use crate::openvpn::parser::Parser;

impl Parser<'_> {
    /// Who holds our key, if the file says that it is held elsewhere; `None` if there are problems.
    pub(super) fn external(&mut self, draft: &Draft, file: &str) -> Option<Option<ExternalIdentity>> {
        let external = &draft.tls.external;
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
        let extra = match &tls.extra {
            None => None,
            Some(material) => Some(self.certificates(material, draft)?),
        };
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
