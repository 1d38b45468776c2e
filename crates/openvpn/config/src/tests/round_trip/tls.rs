//! Arbitrary certificates and keys. They need not be valid: the parser does not decode them.

use std::collections::BTreeSet;

use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::KeyDirection;
use adit_openvpn::wrap::v2::{Metadata, ServerKey};
use adit_pki::{NameCheck, NameField};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::text;
use crate::handlers::tls::{CIPHERS, GROUPS, SUITES};
use crate::model::*;
use crate::{Pem, Secret};

fn pem(label: &'static str) -> impl Strategy<Value = Pem> {
    "[A-Za-z0-9+/=]{0,64}"
        .prop_map(move |body| Pem::new(&format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----")))
}

fn tls_names(table: &'static [(u16, &'static str, &'static str)]) -> impl Strategy<Value = Vec<TlsName>> {
    let all: Vec<_> = table.iter().map(|(id, name, _)| TlsName { id: *id, name }).collect();
    subsequence(all, 0..=table.len()).prop_shuffle().prop_map(|mut names| {
        let mut seen = BTreeSet::new();
        names.retain(|name| name.name != "P-256" && seen.insert(name.id));
        names
    })
}

fn crl() -> impl Strategy<Value = Crl> {
    prop_oneof![
        pem("X509 CRL").prop_map(Crl::Inline),
        "[ -Z^-~]{1,40}".prop_map(|path| Crl::File(path.into())),
        "[ -Z^-~]{1,40}".prop_map(|path| Crl::Directory(path.into())),
    ]
}

fn peer_check() -> impl Strategy<Value = PeerCheck> {
    let kinds: Vec<fn(String) -> NameCheck> =
        vec![NameCheck::Subject, NameCheck::CommonName, NameCheck::CommonNamePrefix];
    let name = (select(kinds), text()).prop_map(|(kind, value)| kind(format!("CN={value}")));
    let hash = |length| vec(vec(any::<u8>(), length), 0..3);
    let (own, issuer) = (hash(32..=32), prop_oneof![hash(20..=20), hash(32..=32)]);
    let hashes =
        prop_oneof![own.prop_map(|own| (own, Vec::new())), issuer.prop_map(|hash| (Vec::new(), hash))];
    let field = prop_oneof![
        select(vec!["2.5.4.3", "0.9.2342.19200300.100.1.1", "1.2.3.4"])
            .prop_map(|oid| NameField::Subject(oid.to_owned())),
        select(vec![NameField::Serial, NameField::SubjectEmail, NameField::IssuerEmail]),
    ];
    let usages = option::of(vec(1..=u16::MAX, 0..4));
    let extended = option::of(select(vec!["1.3.6.1.5.5.7.3.3", "1.2.3.4"]).prop_map(str::to_owned));
    (any::<bool>(), usages, extended, hashes, option::of(name), vec(field, 0..4)).prop_map(
        |(usage, key_usages, extended_usage, (fingerprints, issuer_fingerprints), name, name_fields)| {
            PeerCheck {
                usage,
                key_usages,
                extended_usage,
                fingerprints,
                issuer_fingerprints,
                name,
                name_fields,
            }
        },
    )
}

pub(crate) fn tls() -> impl Strategy<Value = Tls> {
    let versions = select(vec![
        (TlsVersion::V1_2, None),
        (TlsVersion::V1_3, None),
        (TlsVersion::V1_2, Some(TlsVersion::V1_2)),
        (TlsVersion::V1_2, Some(TlsVersion::V1_3)),
        (TlsVersion::V1_3, Some(TlsVersion::V1_3)),
    ]);
    (
        (pem("CERTIFICATE"), pem("CERTIFICATE"), pem("EC PRIVATE KEY")),
        versions,
        (tls_names(CIPHERS), tls_names(SUITES), tls_names(GROUPS)),
        (peer_check(), option::of(crl())),
        (any::<bool>(), select(vec![CertProfile::Preferred, CertProfile::SuiteB])),
        (option::of("[A-Za-z0-9+/]{64}\n[A-Za-z0-9+/]{1,64}"), option::of("[ -~]{1,40}")),
    )
        .prop_map(
            |(
                (ca, cert, key),
                (version_min, version_max),
                (ciphers, suites, groups),
                (peer, crl),
                (has_ca, cert_profile),
                (packed, password),
            )| {
                Tls {
                    ca: (has_ca || peer.fingerprints.is_empty()).then_some(ca),
                    identity: packed.is_none().then_some(Identity { cert, key }),
                    external: None,
                    pkcs12: packed.map(|text| Secret::new(&text)),
                    key_password: match password {
                        Some(path) if path != "stdin" => KeyPassword::File(path.into()),
                        _ => KeyPassword::Prompt,
                    },
                    version_min,
                    version_max,
                    ciphers,
                    suites,
                    groups,
                    cert_profile,
                    peer,
                    crl,
                }
            },
        )
}

pub(crate) fn external() -> impl Strategy<Value = ExternalIdentity> {
    let certificate = prop_oneof![
        pem("CERTIFICATE").prop_map(ManagementCertificate::Given),
        (text(), option::of(pem("CERTIFICATE")))
            .prop_map(|(hint, extra)| ManagementCertificate::Asked { hint, extra }),
    ];
    let management =
        (certificate, any::<[bool; 4]>()).prop_map(|(certificate, [nopadding, pkcs1, pss, digest])| {
            let forms = SignatureForms { nopadding, pkcs1: pkcs1 || !nopadding, pss, digest };
            ExternalIdentity::Management(ManagementIdentity { certificate, forms })
        });
    prop_oneof![management, pkcs11().prop_map(ExternalIdentity::Pkcs11)]
}

fn pkcs11() -> impl Strategy<Value = Pkcs11Identity> {
    let provider =
        (text(), any::<bool>(), any::<bool>()).prop_map(|(path, protected, private_certificates)| {
            Pkcs11Provider { path: path.into(), protected, private_certificates }
        });
    let pin_cache = option::of((0..10_000_u64).prop_map(std::time::Duration::from_secs));
    (option::of(text()), vec(provider, 1..4), pin_cache, option::of(pem("CERTIFICATE")))
        .prop_map(|(id, providers, pin_cache, extra)| Pkcs11Identity { id, providers, pin_cache, extra })
}

pub(crate) fn wrap() -> impl Strategy<Value = Wrap> {
    let key = || {
        any::<[u8; 32]>().prop_map(|part| {
            let mut bytes = [0; 256];
            bytes.iter_mut().zip(part.iter().cycle()).for_each(|(byte, part)| *byte = *part);
            StaticKey::from_bytes(&bytes)
        })
    };
    prop_oneof![
        Just(Wrap::None),
        (key(), direction()).prop_map(|(key, direction)| Wrap::TlsAuth { key, direction }),
        key().prop_map(|key| Wrap::TlsCrypt { key }),
        (key(), vec(any::<u8>(), 0..300)).prop_map(|(key, text)| {
            let wrapped = ServerKey::from_bytes(&[9; 128]).wrap(&key, &Metadata::User(text));
            Wrap::TlsCryptV2 { key: wrapped.unwrap() }
        }),
    ]
}

pub(crate) fn direction() -> impl Strategy<Value = KeyDirection> {
    select(vec![KeyDirection::Bidirectional, KeyDirection::Normal, KeyDirection::Inverse])
}
