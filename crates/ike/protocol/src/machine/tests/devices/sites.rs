//! The habits of gateways of clouds and of other makers, by their manuals.

use crate::wire::Proposal;

use super::habits::{First, Habits, Login, ProofOf, Rest, host, windows_by_hand};
use super::offers::*;
use super::player::group;

/// A gateway that calls a site of adit, with a pre-shared key.
pub(super) struct Site {
    pub(super) habits: Habits,
    /// The proposals of the page about it in `docs/use`.
    pub(super) documented: [&'static str; 2],
}

fn site(
    name: &'static str,
    number: u16,
    offers: [Vec<Proposal>; 2],
    child_group: u16,
    documented: [&'static str; 2],
) -> Site {
    let [ike, esp] = offers;
    let habits = Habits {
        name,
        number,
        group: group(ike[0].transforms.last().unwrap().id),
        ike,
        esp,
        child_group: group(child_group),
        first: vec![First::Nat, First::Fragmentation, First::Vendor],
        rest: vec![Rest::InitialContact, Rest::Child],
        asks: Vec::new(),
        identity: host("site.example"),
        login: Login::SharedKey(b"a long text".to_vec().into()),
        knows: ProofOf::Curve,
    };
    Site { habits, documented }
}

const BY_P384: [&str; 2] = ["aes256gcm16-prfsha384-ecp384", "aes256gcm16-ecp384"];

/// The gateways, as the pages say that they are to be set.
pub(super) fn sites() -> Vec<Site> {
    let gcm = |prf, groups| Ike { ciphers: &[GCM256], integrity: &[], prf, groups };
    let by_gcm = |groups| esp(&[(&[GCM256], &[], groups)]);
    let aws: Vec<u16> = (14..=24).collect();
    vec![
        site(
            "AWS",
            31,
            [
                ike(&[gcm(&[PRF_SHA384], &[P384])]),
                esp(&[
                    (&[GCM256, GCM128], &[], &aws),
                    (&[CBC256, CBC128], &[SHA256, SHA384, SHA512, SHA1], &aws),
                ]),
            ],
            P384,
            BY_P384,
        ),
        site(
            "Azure with a policy",
            32,
            [ike(&[gcm(&[PRF_SHA384], &[P384])]), by_gcm(&[P384])],
            P384,
            BY_P384,
        ),
        site(
            "Google Cloud",
            33,
            [
                ike(&[
                    Ike {
                        ciphers: &[GCM256, GCM128, CBC256, CBC192, CBC128],
                        integrity: &[SHA256, SHA384, SHA512, SHA1],
                        prf: &[PRF_SHA256, PRF_SHA384, PRF_SHA512],
                        groups: &[P256, P384, MODP4096, MODP2048],
                    },
                    gcm(&[PRF_SHA256, PRF_SHA384], &[P256, P384, MODP4096, MODP2048]),
                ]),
                esp(&[
                    (&[GCM256, GCM128], &[], &[P256, MODP2048]),
                    (&[CBC256], &[SHA256], &[P256, MODP2048]),
                ]),
            ],
            P256,
            ["aes256gcm16-prfsha256-ecp256", "aes256gcm16-ecp256"],
        ),
        site(
            "FortiGate",
            34,
            [
                ike(&[
                    Ike { ciphers: &[CBC256], integrity: &[SHA256], prf: &[PRF_SHA256], groups: &[MODP2048] },
                    gcm(&[PRF_SHA384], &[P384]),
                ]),
                esp(&[(&[CBC256], &[SHA256], &[MODP2048])]),
            ],
            MODP2048,
            [
                "aes256gcm16-prfsha384-ecp384, aes256-sha256-modp2048",
                "aes256gcm16-ecp384, aes256-sha256-modp2048",
            ],
        ),
        site("Cisco ASA", 35, [ike(&[gcm(&[PRF_SHA384], &[P384])]), by_gcm(&[P384])], P384, BY_P384),
        site(
            "MikroTik",
            36,
            [
                ike(&[Ike { ciphers: &[CBC256], integrity: &[SHA256], prf: &[PRF_SHA256], groups: &[P256] }]),
                by_gcm(&[P256]),
            ],
            P256,
            ["aes256-sha256-ecp256", "aes256gcm16-ecp256"],
        ),
    ]
}

/// Offers that gateways make without settings of the user's: they have nothing that is safe.
pub(super) fn presets() -> Vec<Habits> {
    let preset = |name, number, prf, hash| {
        let weak = ike(&[Ike { ciphers: &[CBC256], integrity: &[hash], prf: &[prf], groups: &[MODP1024] }]);
        site(name, number, [weak, esp(&[(&[CBC256], &[SHA1], &[])])], 0, BY_P384).habits
    };
    vec![
        preset("Azure without a policy", 41, PRF_SHA1, SHA1),
        preset("MikroTik's preset", 42, PRF_SHA1, SHA1),
        windows_by_hand(),
    ]
}
