//! The habits of devices: what they offer, in which order, and what they ask for. Sources: messages of the devices that were published
//! with reports to strongSwan, libreswan and Algo, and AOSP's IKE library.

use crate::crypto::{Secret, SignatureHashes};
use crate::eap::{Credentials, NtHash};
use crate::machine::OwnCertificate;
use crate::suite::Group;
use crate::wire::{IdType, Identification, NotifyType, Payload, Proposal};

use super::offers::*;
use super::player::{GATEWAY, everything, group, said};

/// How a device proves its identity.
pub(super) enum Login {
    /// By a certificate. The hashes are those that the gateway announces; `None`: the device does not know RFC 7427.
    Certificate(OwnCertificate, Option<SignatureHashes>),
    Password(Credentials),
    SharedKey(Secret),
}

/// How a device verifies the gateway's proof.
#[derive(Clone, Copy)]
pub(super) enum ProofOf {
    /// By methods 9 to 11 (RFC 4754).
    Curve,
    /// By method 14 (RFC 7427).
    Digital,
}

/// A payload behind the nonce of the first message.
#[derive(Clone, Copy)]
pub(super) enum First {
    Redirect,
    Nat,
    Fragmentation,
    Hashes,
    Vendor,
}

/// A payload behind the proof.
#[derive(Clone, Copy)]
pub(super) enum Rest {
    InitialContact,
    Responder,
    Configuration,
    NoTfc,
    NonFirstFragments,
    Child,
    Mobike,
    EapOnly,
}

pub(super) struct Habits {
    pub(super) name: &'static str,
    /// The last number of its address.
    pub(super) number: u16,
    pub(super) ike: Vec<Proposal>,
    /// The group of the first key exchange. `None`: MODP of 1024 bits, which adit does not have.
    pub(super) group: Option<Group>,
    pub(super) esp: Vec<Proposal>,
    /// The group of the key exchange when it rekeys a child SA. `None`: there is none.
    pub(super) child_group: Option<Group>,
    pub(super) first: Vec<First>,
    pub(super) rest: Vec<Rest>,
    /// The attributes that it asks for.
    pub(super) asks: Vec<u16>,
    pub(super) identity: Identification,
    pub(super) login: Login,
    pub(super) knows: ProofOf,
}

impl Habits {
    /// The payloads behind the nonce.
    pub(super) fn first(&self, nat: [Payload; 2]) -> Vec<Payload> {
        let payloads = |first: &First| match first {
            First::Redirect => vec![said(NotifyType::REDIRECT_SUPPORTED)],
            First::Nat => nat.to_vec(),
            First::Fragmentation => vec![said(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED)],
            First::Hashes => {
                let hashes = SignatureHashes::own().encode();
                vec![crate::machine::payloads::notify(NotifyType::SIGNATURE_HASH_ALGORITHMS, hashes)]
            }
            First::Vendor => vec![Payload::VendorId(vec![0x1E; 20]), Payload::VendorId(vec![0xFB; 16])],
        };
        self.first.iter().flat_map(payloads).collect()
    }

    /// The payloads behind the proof.
    pub(super) fn rest(&self, offer: Vec<Proposal>, ask: Option<Payload>) -> Vec<Payload> {
        let payloads = |rest: &Rest| match rest {
            Rest::InitialContact => vec![said(NotifyType::INITIAL_CONTACT)],
            Rest::Responder => {
                let identity = Identification { kind: IdType::FQDN, data: GATEWAY.as_bytes().to_vec() };
                vec![Payload::IdResponder(identity)]
            }
            Rest::Configuration => ask.iter().cloned().collect(),
            Rest::NoTfc => vec![said(NotifyType::ESP_TFC_PADDING_NOT_SUPPORTED)],
            Rest::NonFirstFragments => vec![said(NotifyType::NON_FIRST_FRAGMENTS_ALSO)],
            Rest::Child => {
                let sa = vec![Payload::SecurityAssociation(offer.clone())];
                sa.into_iter().chain(self.selectors()).collect()
            }
            Rest::Mobike => vec![said(NotifyType::MOBIKE_SUPPORTED)],
            Rest::EapOnly => vec![said(NotifyType::EAP_ONLY_AUTHENTICATION)],
        };
        self.rest.iter().flat_map(payloads).collect()
    }

    /// Its selectors: all traffic of both ends.
    pub(super) fn selectors(&self) -> [Payload; 2] {
        [Payload::SelectorsInitiator(everything()), Payload::SelectorsResponder(everything())]
    }
}

pub(super) fn host(name: &str) -> Identification {
    Identification { kind: IdType::FQDN, data: name.as_bytes().to_vec() }
}

fn password() -> Login {
    let password = Some(NtHash::of_password("secret"));
    Login::Password(Credentials { name: "alice".into(), password, tls: None, authenticator: None })
}

/// iOS and macOS: no hashes, no request for certificates, all of `IKE_AUTH` in this order.
fn apple(
    name: &'static str,
    number: u16,
    login: Login,
    of_ike: Vec<Proposal>,
    of_esp: Vec<Proposal>,
) -> Habits {
    let mut rest = vec![
        Rest::InitialContact,
        Rest::Responder,
        Rest::Configuration,
        Rest::NoTfc,
        Rest::NonFirstFragments,
        Rest::Child,
        Rest::Mobike,
    ];
    rest.extend(matches!(login, Login::Password(_)).then_some(Rest::EapOnly));
    Habits {
        name,
        number,
        group: group(of_ike[0].transforms.last().unwrap().id),
        ike: of_ike,
        esp: of_esp,
        child_group: None,
        first: vec![First::Redirect, First::Nat, First::Fragmentation],
        rest,
        asks: vec![1, 2, 6, 3, 8, 12, 10, 25],
        identity: host("alice"),
        login,
        knows: ProofOf::Curve,
    }
}

/// The devices, each with a certificate of `certificate` if it has one.
pub(super) fn devices(certificate: &dyn Fn() -> OwnCertificate) -> Vec<Habits> {
    let by_curve = || Login::Certificate(certificate(), None);
    let cbc = |groups| Ike { ciphers: &[CBC256], integrity: &[SHA256], prf: &[PRF_SHA256], groups };
    let gcm = |groups| Ike { ciphers: &[GCM256], integrity: &[], prf: &[PRF_SHA256], groups };
    let old =
        |of_ciphers| Ike { ciphers: of_ciphers, integrity: &[SHA1], prf: &[PRF_SHA1], groups: &[MODP1024] };
    let of_apple = esp(&[(&[CBC256], &[SHA256], &[]), (&[CBC128], &[SHA1], &[]), (&[DES3], &[SHA1], &[])]);
    let by_hand = ike(&[cbc(&[MODP2048]), cbc(&[P256]), cbc(&[MODP1536]), old(&[CBC128]), old(&[DES3])]);
    let newer = ike(&[gcm(&[P256]), gcm(&[MODP2048]), cbc(&[P256]), cbc(&[MODP2048])]);
    let of_newer = esp(&[(&[GCM256], &[], &[]), (&[CBC256], &[SHA256], &[])]);
    let by_group = esp(&[(&[GCM256], &[], &[P256]), (&[GCM256], &[], &[])]);
    vec![
        apple("iOS 16, set up by hand", 11, password(), by_hand, of_apple),
        apple("iOS of 2025, set up by hand", 12, password(), newer, of_newer),
        apple("iOS by adit's profile", 13, by_curve(), ike(&[gcm(&[P256])]), esp(&[(&[GCM256], &[], &[])])),
        Habits {
            child_group: group(P256),
            ..apple("iOS, which rekeys with a group first", 14, by_curve(), ike(&[gcm(&[P256])]), by_group)
        },
        apple("macOS 13", 15, password(), ike(&[cbc(&[MODP2048])]), esp(&[(&[CBC256], &[SHA256], &[])])),
        windows("Windows 10 by adit's script", 16, Login::Certificate(certificate(), None)),
        windows("Windows 11 by adit's script, with a password", 17, password()),
        app("strongSwan's app", 18, Login::Certificate(certificate(), Some(SignatureHashes::own()))),
    ]
}

/// Windows: no identity of the gateway, vendor IDs, addresses of its own kind, no group for child SAs.
fn windows(name: &'static str, number: u16, login: Login) -> Habits {
    Habits {
        name,
        number,
        ike: ike(&[Ike { ciphers: &[GCM256], integrity: &[], prf: &[PRF_SHA256], groups: &[P256] }]),
        group: group(P256),
        esp: esp(&[(&[GCM256], &[], &[])]),
        child_group: None,
        first: vec![First::Fragmentation, First::Nat, First::Vendor],
        rest: vec![Rest::Configuration, Rest::Child, Rest::Mobike],
        asks: vec![1, 3, 4, 23456, 8, 10, 23457],
        // With a password the identity is an address.
        identity: match login {
            Login::Password(_) => {
                Identification { kind: IdType::IPV4_ADDR, data: vec![192, 168, 1, number as u8] }
            }
            Login::Certificate(..) | Login::SharedKey(_) => host("alice"),
        },
        login,
        knows: ProofOf::Curve,
    }
}

/// strongSwan's app: every safe algorithm, groups in the proposals for child SAs, too.
fn app(name: &'static str, number: u16, login: Login) -> Habits {
    let groups = &[X25519, P256, P384, MODP3072, MODP2048];
    let prf = &[PRF_SHA256, PRF_SHA384, PRF_SHA512];
    Habits {
        name,
        number,
        ike: ike(&[
            Ike { ciphers: &[GCM256, GCM128, CHACHA], integrity: &[], prf, groups },
            Ike { ciphers: &[CBC256, CBC192, CBC128], integrity: &[SHA256, SHA384, SHA512], prf, groups },
        ]),
        group: group(X25519),
        esp: esp(&[(&[GCM256, GCM128, CHACHA], &[], groups), (&[CBC256, CBC128], &[SHA256], groups)]),
        child_group: group(X25519),
        first: vec![First::Nat, First::Fragmentation, First::Hashes, First::Redirect],
        rest: vec![
            Rest::InitialContact,
            Rest::Responder,
            Rest::Configuration,
            Rest::Child,
            Rest::Mobike,
            Rest::EapOnly,
        ],
        asks: vec![1, 3, 8, 10],
        identity: host("alice"),
        login,
        knows: ProofOf::Digital,
    }
}

/// Android's own client of that version, by a password. It verifies RSA alone.
pub(super) fn android(version: u16) -> Habits {
    let prf = &[PRF_SHA512, PRF_SHA384, PRF_SHA256, PRF_XCBC, PRF_CMAC, PRF_SHA1];
    let groups = &[MODP4096, X25519, MODP3072, MODP2048];
    let integrity = &[SHA512, SHA384, SHA256, XCBC, CMAC];
    let mut rest = vec![Rest::Responder, Rest::Configuration, Rest::Child];
    // MOBIKE came with version 12.
    rest.extend((version >= 12).then_some(Rest::Mobike));
    let kind = if version >= 14 { IdType::KEY_ID } else { IdType::FQDN };
    Habits {
        name: if version >= 14 { "Android 14" } else { "Android 11" },
        number: version + 20,
        ike: ike(&[
            Ike { ciphers: &[CBC256, CTR256, CBC192, CBC128], integrity, prf, groups },
            Ike { ciphers: &[CHACHA, GCM256, GCM8_256, GCM128], integrity: &[], prf, groups },
        ]),
        group: group(MODP4096),
        esp: esp(&[
            (&[CBC256, CBC192, CBC128], &[SHA512, SHA384, SHA256], &[]),
            (&[CHACHA, GCM256, GCM128], &[], &[]),
        ]),
        child_group: None,
        first: vec![First::Nat, First::Fragmentation, First::Hashes],
        rest,
        asks: vec![1, 3, 8, 10, 7],
        identity: Identification { kind, data: b"alice".to_vec() },
        login: password(),
        knows: ProofOf::Digital,
    }
}

/// The devices that offer MODP of 1024 bits alone: Windows whose connection was made by hand, in one proposal for each combination.
pub(super) fn windows_by_hand() -> Habits {
    let (cbc, hashes) =
        ([DES3, CBC128, CBC192, CBC256], [(SHA1, PRF_SHA1), (SHA256, PRF_SHA256), (SHA384, PRF_SHA384)]);
    let mut all = Vec::new();
    for cipher in &cbc {
        for (integrity, prf) in &hashes {
            all.push((
                std::slice::from_ref(cipher),
                std::slice::from_ref(integrity),
                std::slice::from_ref(prf),
            ));
        }
    }
    let proposals: Vec<Ike<'_>> = all
        .iter()
        .map(|(ciphers, integrity, prf)| Ike { ciphers, integrity, prf, groups: &[MODP1024] })
        .collect();
    let mut habits = windows("Windows 10 by hand", 19, password());
    (habits.ike, habits.group) = (ike(&proposals), None);
    habits
}
