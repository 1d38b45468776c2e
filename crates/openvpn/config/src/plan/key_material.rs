//! Certificates and keys, inline or from files.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use adit_core::configuration::Problem;
use adit_openvpn::params::TlsCryptV2;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::{ClientKey, ServerKey};
use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

use crate::draft::{Draft, Material, Source, TlsDraft};
use crate::model::{Crl, Identity, KeyPassword, Tls, TlsVersion, Wrap};
use crate::parser::Parser;
use crate::{Pem, Secret, TokenSecret};

/// Larger files are no certificates or keys.
const MAX_FILE: usize = 4 << 20;

impl Parser<'_> {
    /// Certificates, keys and TLS settings; `None` if there are problems.
    pub(crate) fn tls(&mut self, draft: &mut Draft, file: &str) -> Option<Tls> {
        let tls = &draft.tls;
        // As in OpenVPN, fingerprints can stand in for an authority, and PKCS#12 files hold authorities.
        let ca = match (&tls.ca, tls.peer.fingerprints.is_empty() && tls.pkcs12.is_none()) {
            (None, false) => Some(None),
            (None, true) if tls.capath.is_some() => Some(None),
            (ca, _) => self
                .required(ca, "ca", file)
                .and_then(|material| self.certificates(material, draft))
                .map(Some),
        };
        let hashed = match &tls.capath {
            None => Some(None),
            Some(material) => self.hashed_files(material, draft).map(Some),
        };
        let external = self.external(draft, file);
        let identity = match &external {
            Some(None) => self.identity(draft, file),
            Some(Some(_)) | None => Some(None),
        };
        let pkcs12 = match draft.tls.pkcs12.take() {
            None => Some(None),
            Some(material) => self.packed(&material, draft).map(Some),
        };
        let tls = &draft.tls;
        let version_min = tls.version_min.unwrap_or(TlsVersion::V1_2);
        if tls.version_max.is_some_and(|max| max < version_min) {
            self.problem_in(file, "`tls-version-max` is lower than `tls-version-min`; no version is left");
        }
        let key_password = match std::mem::take(&mut draft.tls.key_password) {
            KeyPassword::File(path) => KeyPassword::File(draft.directory.join(path)),
            KeyPassword::Prompt => KeyPassword::Prompt,
        };
        let TlsDraft { version_max, ciphers, suites, groups, cert_profile, peer, crl, .. } =
            std::mem::take(&mut draft.tls);
        let crl = crl.map(|crl| match crl {
            Crl::File(path) => Crl::File(draft.directory.join(path)),
            Crl::Directory(path) => Crl::Directory(draft.directory.join(path)),
            inline => inline,
        });
        let (ca, crl) = match hashed? {
            None => (ca?, crl),
            Some((authorities, lists)) => (joined(ca?, authorities), lists.map(Crl::Inline).or(crl)),
        };
        Some(Tls {
            ca,
            identity: identity?,
            external: external?,
            pkcs12: pkcs12?,
            key_password,
            version_min,
            version_max,
            ciphers,
            suites,
            groups,
            cert_profile,
            peer,
            crl,
        })
    }

    /// The authorities of `capath`, and its revocation lists if it has any; `None` if there are problems.
    fn hashed_files(&mut self, material: &Material, draft: &Draft) -> Option<(Pem, Option<Pem>)> {
        let content = Pem::new(&self.text(material, draft)?);
        let authorities = content.blocks(|label| Pem::CERTIFICATE.contains(&label));
        let lists = content.blocks(|label| label == "X509 CRL");
        let has_lists = lists.labels().next().is_some();
        let has_others = draft.tls.ca.is_some() || draft.tls.pkcs12.is_some();
        if authorities.certificates() == 0 && !(has_others && has_lists) {
            self.problems.push(material.at.problem(
                "no certificate in the directory: the names of its files are hashes, such as `9d66eef0.0`; \
                 `openssl rehash DIRECTORY` gives them those names",
            ));
            return None;
        }
        if has_lists && draft.tls.crl.is_some() {
            self.problems.push(material.at.problem(
                "the directory of `capath` holds revocation lists, and `crl-verify` names others; keep all of them \
                 in one of the two",
            ));
            return None;
        }
        Some((authorities, has_lists.then_some(lists)))
    }

    /// Our certificate and key, which a client with a username can do without; `None` if there are problems.
    fn identity(&mut self, draft: &Draft, file: &str) -> Option<Option<Identity>> {
        let tls = &draft.tls;
        if tls.pkcs12.is_some() {
            for (material, name) in [(&tls.cert, "cert"), (&tls.key, "key"), (&tls.extra, "extra-certs")] {
                if let Some(material) = material {
                    let text =
                        format!("`{name}` beside `pkcs12`, which holds all of it; remove one of the two");
                    self.problems.push(material.at.problem(text));
                }
            }
            return Some(None);
        }
        if tls.cert.is_none() && tls.key.is_none() && draft.client.auth.is_some() {
            return Some(None);
        }
        let cert =
            self.required(&tls.cert, "cert", file).and_then(|material| self.certificates(material, draft));
        let extra = tls.extra.as_ref().map(|material| self.certificates(material, draft));
        let key = self.required(&tls.key, "key", file).and_then(|material| self.private_key(material, draft));
        let cert = match extra {
            None => cert?,
            Some(extra) => cert?.join(&extra?),
        };
        Some(Some(Identity { cert, key: key? }))
    }

    /// The wrapping of control packets; `None` if there are problems. A server's `tls-crypt-v2` is not read
    /// here: it stands beside the others.
    pub(crate) fn wrap(&mut self, draft: &Draft, is_server: bool) -> Option<Wrap> {
        let tls = &draft.tls;
        if let (Some(material), false) = (&tls.tls_crypt_v2, is_server) {
            if tls.tls_auth.is_some() || tls.tls_crypt.is_some() {
                self.problems.push(material.at.problem(
                    "`tls-crypt-v2` cannot be used beside `tls-auth` or `tls-crypt` in a client's file; keep the one \
                     that the server has",
                ));
                return None;
            }
            return Some(Wrap::TlsCryptV2 { key: self.key(material, draft, ClientKey::parse)? });
        }
        match (&tls.tls_auth, &tls.tls_crypt) {
            (None, None) => Some(Wrap::None),
            (Some(material), None) => {
                let key = self.static_key(material, draft)?;
                Some(Wrap::TlsAuth { key, direction: tls.direction })
            }
            (None, Some(material)) => Some(Wrap::TlsCrypt { key: self.static_key(material, draft)? }),
            (Some(_), Some(material)) => {
                self.problems.push(material.at.problem(
                    "`tls-auth` and `tls-crypt` cannot both be used; keep the one that the other side has",
                ));
                None
            }
        }
    }

    pub(super) fn required<'m>(
        &mut self,
        material: &'m Option<Material>,
        name: &str,
        file: &str,
    ) -> Option<&'m Material> {
        if material.is_none() {
            let what = match name {
                "ca" => {
                    "the authority that signed the peer's certificate; or name that certificate by \
                         `peer-fingerprint`"
                }
                "cert" => "our own certificate",
                _ => "our private key; or both in one by `pkcs12 FILE`",
            };
            self.problem_in(
                file,
                format!("`{name}` is missing ({what}): write `{name} FILE` or a block `<{name}>`"),
            );
        }
        material.as_ref()
    }

    fn text(&mut self, material: &Material, draft: &Draft) -> Option<Zeroizing<String>> {
        match self.try_text(material, draft) {
            Ok(text) => Some(text),
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    fn try_text(&self, material: &Material, draft: &Draft) -> Result<Zeroizing<String>, Problem> {
        let path = match &material.source {
            Source::Inline(inline) => return Ok(inline.text.clone()),
            Source::File(path) => path,
        };
        let named = |what: &str| material.at.problem(format!("`{}` {what}", path.display()));
        let bytes = self.bytes(material, path, draft)?;
        // The text around PEM blocks may have another encoding: a name in the text that a PKCS#12 file was unpacked to.
        let text = match String::from_utf8_lossy(&bytes) {
            Cow::Borrowed(text) => Zeroizing::new(text.to_owned()),
            Cow::Owned(text) if text.contains("-----BEGIN ") => Zeroizing::new(text),
            Cow::Owned(_) => {
                return Err(named(
                    "is not text: PEM is wanted, and DER becomes PEM by `openssl x509 -inform DER -in FILE -out NEWFILE`, a \
                     key by `openssl pkey -inform DER -in FILE -out NEWFILE`",
                ));
            }
        };
        if text.lines().any(|line| line.trim_start().starts_with("</")) {
            return Err(named("holds the end of an inline block; only PEM text belongs there"));
        }
        Ok(text)
    }

    fn bytes(&self, material: &Material, path: &Path, draft: &Draft) -> Result<Zeroizing<Vec<u8>>, Problem> {
        let path = draft.directory.join(path);
        let named = |what: &str| material.at.problem(format!("`{}` {what}", path.display()));
        let bytes = (self.load)(&path).map_err(|why| named(&format!("cannot be read: {why}")))?;
        let bytes = Zeroizing::new(bytes);
        if bytes.len() > MAX_FILE {
            return Err(named("is too large for certificates or a key"));
        }
        Ok(bytes)
    }

    /// A PKCS#12 file as base64, in lines as OpenSSL wants them.
    fn packed(&mut self, material: &Material, draft: &Draft) -> Option<Secret> {
        let encoded = match &material.source {
            Source::Inline(inline) => {
                Ok(Zeroizing::new(inline.text.split_ascii_whitespace().collect::<String>()))
            }
            Source::File(path) => {
                self.bytes(material, path, draft).map(|bytes| Zeroizing::new(Base64::encode_string(&bytes)))
            }
        };
        match encoded {
            Ok(encoded) if encoded.is_empty() => {
                self.problems.push(material.at.problem("`pkcs12`: it is empty"));
                None
            }
            Ok(encoded) => {
                let mut text = Zeroizing::new(String::with_capacity(encoded.len() + encoded.len() / 32));
                for (number, c) in encoded.chars().enumerate() {
                    if number > 0 && number % 64 == 0 {
                        text.push('\n');
                    }
                    text.push(c);
                }
                Some(Secret::new(&text))
            }
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    pub(super) fn certificates(&mut self, material: &Material, draft: &Draft) -> Option<Pem> {
        let pem = Pem::new(&self.text(material, draft)?);
        if pem.certificates() == 0 {
            self.problems
                .push(material.at.problem("no certificate in it: no line `-----BEGIN CERTIFICATE-----`"));
            return None;
        }
        Some(pem)
    }

    fn private_key(&mut self, material: &Material, draft: &Draft) -> Option<Pem> {
        let pem = Pem::new(&self.text(material, draft)?);
        if !pem.labels().any(|label| label.ends_with("PRIVATE KEY")) {
            let found: Vec<&str> = pem.labels().collect();
            let found = if found.is_empty() { String::new() } else { format!(", but {}", found.join(", ")) };
            let text = format!("no private key in it: no line `-----BEGIN PRIVATE KEY-----`{found}");
            self.problems.push(material.at.problem(text));
            return None;
        }
        Some(pem)
    }

    /// A server's `tls-crypt-v2`, if it has one and there is no problem with it.
    pub(crate) fn tls_crypt_v2(&mut self, draft: &Draft) -> Option<TlsCryptV2> {
        let tls = &draft.tls;
        let key = self.key(tls.tls_crypt_v2.as_ref()?, draft, ServerKey::parse)?;
        Some(TlsCryptV2 {
            key: Arc::new(key),
            force_cookie: tls.force_cookie,
            max_age: tls.client_key_max_age,
        })
    }

    /// `auth-gen-token-secret`; `None` if there are problems.
    pub(crate) fn token_secret(&mut self, material: &Material, draft: &Draft) -> Option<TokenSecret> {
        self.key(material, draft, TokenSecret::parse)
    }

    /// A static key; `None` if there are problems.
    pub(crate) fn static_key(&mut self, material: &Material, draft: &Draft) -> Option<StaticKey> {
        self.key(material, draft, StaticKey::parse)
    }

    /// The key that `parse` reads; `None` if there are problems.
    fn key<T>(
        &mut self,
        material: &Material,
        draft: &Draft,
        parse: fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(material, draft)?;
        parse(&text).map_err(|why| self.problems.push(material.at.problem(why))).ok()
    }
}

/// The authorities of `ca` and of `capath`, each of which may have none.
fn joined(ca: Option<Pem>, hashed: Pem) -> Option<Pem> {
    match ca {
        Some(ca) => Some(ca.join(&hashed)),
        None => (hashed.certificates() > 0).then_some(hashed),
    }
}
