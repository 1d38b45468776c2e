//! Proposals as devices and gateways make them, also with algorithms that adit does not have.

use crate::wire::{Proposal, ProtocolId, Transform, TransformType};

// Numbers of algorithms (IANA, Internet Key Exchange Version 2 Parameters).
pub(super) const DES3: (u16, u16) = (3, 0);
pub(super) const CBC128: (u16, u16) = (12, 128);
pub(super) const CBC192: (u16, u16) = (12, 192);
pub(super) const CBC256: (u16, u16) = (12, 256);
pub(super) const CTR256: (u16, u16) = (13, 256);
pub(super) const GCM8_256: (u16, u16) = (18, 256);
pub(super) const GCM128: (u16, u16) = (20, 128);
pub(super) const GCM256: (u16, u16) = (20, 256);
pub(super) const CHACHA: (u16, u16) = (28, 0);
pub(super) const SHA1: u16 = 2;
pub(super) const XCBC: u16 = 5;
pub(super) const CMAC: u16 = 8;
pub(super) const SHA256: u16 = 12;
pub(super) const SHA384: u16 = 13;
pub(super) const SHA512: u16 = 14;
pub(super) const PRF_SHA1: u16 = 2;
pub(super) const PRF_XCBC: u16 = 4;
pub(super) const PRF_SHA256: u16 = 5;
pub(super) const PRF_SHA384: u16 = 6;
pub(super) const PRF_SHA512: u16 = 7;
pub(super) const PRF_CMAC: u16 = 8;
pub(super) const MODP1024: u16 = 2;
pub(super) const MODP1536: u16 = 5;
pub(super) const MODP2048: u16 = 14;
pub(super) const MODP3072: u16 = 15;
pub(super) const MODP4096: u16 = 16;
pub(super) const P256: u16 = 19;
pub(super) const P384: u16 = 20;
pub(super) const X25519: u16 = 31;

/// The algorithms of a proposal for an IKE SA.
pub(super) struct Ike<'a> {
    pub(super) ciphers: &'a [(u16, u16)],
    pub(super) integrity: &'a [u16],
    pub(super) prf: &'a [u16],
    pub(super) groups: &'a [u16],
}

fn transforms(kind: TransformType, ids: &[u16]) -> impl Iterator<Item = Transform> {
    ids.iter().map(move |id| Transform::new(kind, *id, None))
}

fn ciphers(all: &[(u16, u16)]) -> impl Iterator<Item = Transform> {
    let cipher = |(id, bits): &(u16, u16)| {
        Transform::new(TransformType::ENCRYPTION, *id, Some(*bits).filter(|bits| *bits > 0))
    };
    all.iter().map(cipher)
}

fn numbered(all: Vec<(ProtocolId, Vec<Transform>)>) -> Vec<Proposal> {
    let proposal =
        |(number, (protocol, transforms))| Proposal { number, protocol, spi: Vec::new(), transforms };
    (1..).zip(all).map(proposal).collect()
}

pub(super) fn ike(all: &[Ike<'_>]) -> Vec<Proposal> {
    let one = |ike: &Ike<'_>| {
        let transforms = ciphers(ike.ciphers)
            .chain(transforms(TransformType::PRF, ike.prf))
            .chain(transforms(TransformType::INTEGRITY, ike.integrity))
            .chain(transforms(TransformType::KEY_EXCHANGE, ike.groups));
        (ProtocolId::IKE, transforms.collect())
    };
    numbered(all.iter().map(one).collect())
}

/// The algorithms of a proposal for a child SA: ciphers, integrity algorithms and groups.
pub(super) type Esp<'a> = (&'a [(u16, u16)], &'a [u16], &'a [u16]);

/// Proposals for child SAs, with sequence numbers of 32 bits.
pub(super) fn esp(all: &[Esp<'_>]) -> Vec<Proposal> {
    let one = |(of_ciphers, integrity, groups): &Esp<'_>| {
        let transforms = ciphers(of_ciphers)
            .chain(transforms(TransformType::INTEGRITY, integrity))
            .chain(transforms(TransformType::KEY_EXCHANGE, groups))
            .chain(transforms(TransformType::SEQUENCE_NUMBERS, &[0]));
        (ProtocolId::ESP, transforms.collect())
    };
    numbered(all.iter().map(one).collect())
}
