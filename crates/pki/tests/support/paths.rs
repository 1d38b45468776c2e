//! Certificate paths that a few bytes describe, and whether they must be accepted.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "test support")]

use std::sync::LazyLock;
use std::time::Duration;

use adit_core::is_unprintable;
use adit_pki::{Authorities, PeerRequirements, Purpose, Revocations, SIGNATURE_ALGORITHMS, Verifier};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, DnValue,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ED25519,
    RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls_pki_types::{CertificateDer, UnixTime};

/// 2026-01-01 in seconds since 1970, when cases are judged.
const NOW: u64 = 1_767_225_600;

/// The certificates that a client presents, and the authorities and lists by which a server judges them. All
/// certificates are in DER.
pub struct Case {
    /// The authorities that the server trusts.
    pub ca: Vec<Vec<u8>>,
    /// The certificates that the client presents, its own first.
    pub shown: Vec<Vec<u8>>,
    pub requirements: PeerRequirements,
    /// Whether the client must be accepted.
    pub good: bool,
}

/// Judges the certificates that a client shows, its own first, by those that are trusted, all in DER. `None` if one of the
/// trusted ones cannot be read.
///
/// # Panics
///
/// If a warning or the reason of a refusal holds characters that must not reach a log.
pub fn verdict(ca: &[Vec<u8>], shown: &[Vec<u8>], requirements: PeerRequirements) -> Option<bool> {
    let der = |certificates: &[Vec<u8>]| -> Vec<CertificateDer<'static>> {
        certificates.iter().cloned().map(CertificateDer::from).collect()
    };
    let authorities = Authorities::new(der(ca)).ok()?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW));
    let warnings = authorities.warnings(Purpose::Client, now);
    assert!(warnings.iter().all(|it| !it.to_string().contains(is_unprintable)), "{warnings:?}");
    let verifier = Verifier::new(Purpose::Client, Some(authorities), requirements, SIGNATURE_ALGORITHMS);
    let shown = der(shown);
    let (leaf, others) = shown.split_first()?;
    let verdict = verifier.verify(leaf, others, now);
    if let Err(refusal) = &verdict {
        let text = refusal.to_string();
        assert!(!text.is_empty() && !text.contains(is_unprintable), "{text:?}");
    }
    Some(verdict.is_ok())
}

/// The faults of one certificate.
#[derive(Clone, Copy)]
struct Faults(u8);

impl Faults {
    fn has(self, bit: u8) -> bool {
        self.0 & (1 << bit) != 0
    }

    fn expired(self) -> bool {
        self.has(0)
    }

    fn no_ca(self) -> bool {
        self.has(1)
    }

    /// keyCertSign of a CA, or digitalSignature of a leaf, is missing.
    fn unfit_key_usage(self) -> bool {
        self.has(2)
    }

    fn names_client(self) -> bool {
        self.has(3)
    }

    fn names_server(self) -> bool {
        self.has(4)
    }

    fn revoked(self) -> bool {
        self.has(5)
    }

    fn no_ca_below(self) -> bool {
        self.has(6)
    }

    fn is_for_clients(self) -> bool {
        self.names_client() || !self.names_server()
    }

    fn is_good_ca(self, cas_below: usize) -> bool {
        !(self.expired() || self.no_ca() || self.unfit_key_usage())
            && self.is_for_clients()
            && !(self.no_ca_below() && cas_below > 0)
    }
}

/// The place of each certificate, and the requirements.
#[derive(Clone, Copy)]
struct Layout(u8);

impl Layout {
    fn has(self, bit: u8) -> bool {
        self.0 & (1 << bit) != 0
    }

    fn with_intermediate(self) -> bool {
        self.has(0)
    }

    fn root_in_ca(self) -> bool {
        !self.has(1)
    }

    fn intermediate_in_ca(self) -> bool {
        self.has(2)
    }

    fn intermediate_shown(self) -> bool {
        !self.has(3)
    }

    /// [`PeerRequirements::require_usage`].
    fn demands_usage(self) -> bool {
        self.has(4)
    }

    fn with_lists(self) -> bool {
        self.has(5)
    }

    /// The lists name their issuers in another encoding than the certificates.
    fn other_encoding(self) -> bool {
        self.has(6)
    }

    fn root_shown(self) -> bool {
        self.has(7)
    }
}

static KEYS: LazyLock<[KeyPair; 3]> =
    LazyLock::new(|| [(); 3].map(|()| KeyPair::generate_for(&PKCS_ED25519).unwrap()));
const NAMES: [&str; 3] = ["Root", "Middle", "leaf"];
const ROOT: usize = 0;
const INTERMEDIATE: usize = 1;
const LEAF: usize = 2;

/// The case that these bytes describe: the faults of root, intermediate and leaf, and the layout. [`verdict`] judges it
/// in 2026.
pub fn case(bytes: [u8; 4]) -> Case {
    let [root, intermediate, leaf, layout] = bytes;
    let (faults, layout) = ([root, intermediate, leaf].map(Faults), Layout(layout));
    let above_leaf = if layout.with_intermediate() { INTERMEDIATE } else { ROOT };
    let params: Vec<CertificateParams> = (0..3).map(|place| params(place, faults[place])).collect();
    let sign = |place: usize, issuer: usize| {
        let issuer = Issuer::from_params(&params[issuer], &KEYS[issuer]);
        params[place].signed_by(&KEYS[place], &issuer).unwrap().der().to_vec()
    };
    let root = params[ROOT].self_signed(&KEYS[ROOT]).unwrap().der().to_vec();
    let intermediate = sign(INTERMEDIATE, ROOT);
    let mut shown = vec![sign(LEAF, above_leaf)];
    let mut ca = Vec::new();
    ca.extend(layout.intermediate_in_ca().then(|| intermediate.clone()));
    ca.extend(layout.root_in_ca().then(|| root.clone()));
    shown.extend(layout.intermediate_shown().then_some(intermediate));
    shown.extend(layout.root_shown().then_some(root));
    let lists = layout.with_lists().then(|| lists(faults, above_leaf, layout.other_encoding()));
    let requirements = PeerRequirements {
        require_usage: layout.demands_usage(),
        revocations: lists.map(|lists| Revocations::from_lists(lists.as_bytes()).unwrap()),
        ..PeerRequirements::default()
    };
    Case { ca, shown, requirements, good: is_good(faults, layout) }
}

fn is_good([root, intermediate, leaf]: [Faults; 3], layout: Layout) -> bool {
    let below = usize::from(layout.with_intermediate());
    let found = layout.intermediate_in_ca() || layout.intermediate_shown();
    let intermediate_is_good =
        found && intermediate.is_good_ca(0) && !(layout.with_lists() && intermediate.revoked());
    let leaf_is_good = !leaf.expired()
        && !leaf.unfit_key_usage()
        && leaf.is_for_clients()
        && (leaf.names_client() || !layout.demands_usage());
    layout.root_in_ca()
        && root.is_good_ca(below)
        && (!layout.with_intermediate() || intermediate_is_good)
        && leaf_is_good
        && !(layout.with_lists() && (root.revoked() || leaf.revoked()))
}

fn params(place: usize, faults: Faults) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, NAMES[place]);
    params.serial_number = Some(SerialNumber::from(place as u64 + 1));
    params.not_before = date_time_ymd(2019, 1, 1);
    params.not_after = date_time_ymd(if faults.expired() { 2020 } else { 2040 }, 1, 1);
    params.use_authority_key_identifier_extension = true;
    let (is_ca, fit, unfit) = match place {
        LEAF => (IsCa::NoCa, vec![KeyUsagePurpose::DigitalSignature], KeyUsagePurpose::DataEncipherment),
        _ if faults.no_ca() => {
            (IsCa::ExplicitNoCa, vec![KeyUsagePurpose::KeyCertSign], KeyUsagePurpose::CrlSign)
        }
        _ => {
            let below = match faults.no_ca_below() {
                true => BasicConstraints::Constrained(0),
                false => BasicConstraints::Unconstrained,
            };
            let signs = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            (IsCa::Ca(below), signs, KeyUsagePurpose::CrlSign)
        }
    };
    params.is_ca = is_ca;
    params.key_usages = if faults.unfit_key_usage() { vec![unfit] } else { fit };
    let client = faults.names_client().then_some(ExtendedKeyUsagePurpose::ClientAuth);
    let server = faults.names_server().then_some(ExtendedKeyUsagePurpose::ServerAuth);
    params.extended_key_usages = client.into_iter().chain(server).collect();
    params
}

/// The lists of root and intermediate, in PEM.
fn lists(faults: [Faults; 3], above_leaf: usize, other_encoding: bool) -> String {
    let list = |issuer: usize| {
        let mut params = CertificateParams::default();
        params.key_usages = vec![KeyUsagePurpose::CrlSign];
        params.distinguished_name = DistinguishedName::new();
        let value = match other_encoding {
            true => DnValue::PrintableString(NAMES[issuer].to_ascii_uppercase().as_str().try_into().unwrap()),
            false => DnValue::Utf8String(NAMES[issuer].to_owned()),
        };
        params.distinguished_name.push(DnType::CommonName, value);
        let issued = |place: usize| match place {
            LEAF => issuer == above_leaf,
            _ => issuer == ROOT,
        };
        let revoked = (0..3).filter(|place| issued(*place) && faults[*place].revoked());
        let revoked = revoked.map(|place| RevokedCertParams {
            serial_number: SerialNumber::from(place as u64 + 1),
            revocation_time: date_time_ymd(2025, 6, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2025, 6, 1),
            next_update: date_time_ymd(2040, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&Issuer::from_params(&params, &KEYS[issuer])).unwrap().pem().unwrap()
    };
    list(ROOT) + &list(INTERMEDIATE)
}
