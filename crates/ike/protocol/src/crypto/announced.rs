//! The methods of authentication that an end announces (RFC 9593): the data of a notify `SUPPORTED_AUTH_METHODS`.

use adit_pki::signature::{Digest, Scheme, Sha1};

use crate::wire::AuthMethod;

/// Most announcements of a notify that are read.
const MOST: usize = 64;
/// The octets of an announcement before its `AlgorithmIdentifier`: its length, the method, and the number of an authority
/// (RFC 9593 section 3.2.3).
const HEAD: usize = 3;

/// The schemes of digital signatures that this end verifies, those that it prefers first.
const SCHEMES: [Scheme; 10] = [
    Scheme::Ecdsa(Digest::Sha512),
    Scheme::Ecdsa(Digest::Sha384),
    Scheme::Ecdsa(Digest::Sha256),
    Scheme::Ed25519,
    Scheme::RsaPss(Digest::Sha512),
    Scheme::RsaPss(Digest::Sha384),
    Scheme::RsaPss(Digest::Sha256),
    Scheme::RsaPkcs1(Digest::Sha512),
    Scheme::RsaPkcs1(Digest::Sha384),
    Scheme::RsaPkcs1(Digest::Sha256),
];

/// The methods by which an end lets its peer authenticate, those that it prefers first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnouncedMethods {
    /// The methods without an `AlgorithmIdentifier`.
    methods: Vec<AuthMethod>,
    /// The schemes of digital signatures (method 14).
    schemes: Vec<Scheme>,
}

impl AnnouncedMethods {
    /// The method of a pre-shared key.
    pub fn shared_key() -> Self {
        AnnouncedMethods { methods: vec![AuthMethod::SHARED_KEY], schemes: Vec::new() }
    }

    /// The methods of certificates that this end verifies. `sha1`: whether RSA with SHA-1 (method 1) is one of them.
    pub fn certificates(sha1: Sha1) -> Self {
        let curves = [AuthMethod::ECDSA_P521, AuthMethod::ECDSA_P384, AuthMethod::ECDSA_P256];
        let rsa = (sha1 == Sha1::Accepted).then_some(AuthMethod::RSA_SIGNATURE);
        AnnouncedMethods { methods: curves.into_iter().chain(rsa).collect(), schemes: SCHEMES.to_vec() }
    }

    /// The list for a message that has to be short: of RSA by PSS, whose `AlgorithmIdentifier` has 67 bytes, with SHA-256 alone.
    pub fn short(&self) -> Self {
        let is_kept = |scheme: &&Scheme| {
            !matches!(scheme, Scheme::RsaPss(_)) || **scheme == Scheme::RsaPss(Digest::Sha256)
        };
        AnnouncedMethods {
            methods: self.methods.clone(),
            schemes: self.schemes.iter().filter(is_kept).copied().collect(),
        }
    }

    /// Adds the methods of another list that are not in this one.
    pub fn add(&mut self, other: &AnnouncedMethods) {
        let method = |method: &&AuthMethod| !self.methods.contains(method);
        let methods: Vec<AuthMethod> = other.methods.iter().filter(method).copied().collect();
        let scheme = |scheme: &&Scheme| !self.schemes.contains(scheme);
        let schemes: Vec<Scheme> = other.schemes.iter().filter(scheme).copied().collect();
        self.methods.extend(methods);
        self.schemes.extend(schemes);
    }

    /// The methods in the data of a notify. Announcements of other forms and of algorithms that are not supported are skipped, as RFC
    /// 9593 section 3.2 demands, and so is the rest after an announcement that is cut short. An announcement for one authority
    /// counts like one for all.
    pub fn decode(mut data: &[u8]) -> Self {
        let mut all = AnnouncedMethods::default();
        for _ in 0..MOST {
            let Some((announcement, rest)) =
                data.first().and_then(|length| data.split_at_checked(usize::from(*length)))
            else {
                break;
            };
            data = rest;
            match announcement {
                // Without a method, the length says nothing of the rest.
                [] | [_] => break,
                [_, method, further @ ..] => all.read(AuthMethod(*method), further),
            }
        }
        all
    }

    /// Reads an announcement of that method, whose further octets are the number of an authority and an `AlgorithmIdentifier`.
    fn read(&mut self, method: AuthMethod, further: &[u8]) {
        match (method, further) {
            (AuthMethod::SHARED_KEY | AuthMethod::NULL, []) => self.methods.push(method),
            (_, [_]) if method.has_certificate() => self.methods.push(method),
            (AuthMethod::DIGITAL_SIGNATURE, [_, algorithm @ ..]) => {
                self.schemes.extend(Scheme::from_algorithm_identifier(algorithm));
            }
            _ => {}
        }
    }

    /// The data of a notify. Empty: there are no methods.
    pub fn encode(&self) -> Vec<u8> {
        let mut data = Vec::new();
        for scheme in &self.schemes {
            let algorithm = scheme.algorithm_identifier();
            let length = (HEAD + algorithm.len()) as u8;
            data.extend([length, AuthMethod::DIGITAL_SIGNATURE.0, 0]);
            data.extend(algorithm);
        }
        for method in &self.methods {
            match method.has_certificate() {
                true => data.extend([3, method.0, 0]),
                false => data.extend([2, method.0]),
            }
        }
        data
    }

    /// Whether the list has digital signatures of that scheme.
    pub fn has_scheme(&self, scheme: Scheme) -> bool {
        self.schemes.contains(&scheme)
    }

    /// Whether the list has that method, which is another one than digital signatures.
    pub fn has_method(&self, method: AuthMethod) -> bool {
        self.methods.contains(&method)
    }
}

impl AuthMethod {
    /// Whether it is a method of certificates other than digital signatures, whose announcement has three octets (RFC 9593
    /// section 3.2.2).
    fn has_certificate(self) -> bool {
        matches!(
            self,
            AuthMethod::RSA_SIGNATURE
                | AuthMethod::ECDSA_P256
                | AuthMethod::ECDSA_P384
                | AuthMethod::ECDSA_P521
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An announcement of digital signatures, with the `AlgorithmIdentifier` that RFC 7427 prints.
    fn digital(length: u8, link: u8, algorithm: &[u8]) -> Vec<u8> {
        [&[length, 14, link], algorithm].concat()
    }

    const ECDSA_SHA256: &[u8] = &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    const PKCS1_SHA256: &[u8] =
        &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b, 0x05, 0x00];

    #[test]
    fn announcements_of_two_three_and_more_octets_are_those_of_rfc_9593() {
        let data = [
            vec![2, 2, 3, 9, 0],
            digital(15, 0, ECDSA_SHA256),
            digital(18, 1, PKCS1_SHA256),
            digital(3 + 7, 0, &[0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70]),
        ];
        let all = AnnouncedMethods::decode(&data.concat());
        assert_eq!(all.methods, [AuthMethod::SHARED_KEY, AuthMethod::ECDSA_P256]);
        let schemes = [Scheme::Ecdsa(Digest::Sha256), Scheme::RsaPkcs1(Digest::Sha256), Scheme::Ed25519];
        assert_eq!(all.schemes, schemes);
        assert!(all.has_scheme(Scheme::Ed25519) && !all.has_scheme(Scheme::RsaPss(Digest::Sha256)));
        assert!(all.has_method(AuthMethod::SHARED_KEY) && !all.has_method(AuthMethod::ECDSA_P384));
        assert_eq!(AnnouncedMethods::shared_key().encode(), [2, 2]);
        let expected = [digital(15, 0, ECDSA_SHA256), vec![3, 9, 0]].concat();
        let one = AnnouncedMethods {
            methods: vec![AuthMethod::ECDSA_P256],
            schemes: vec![Scheme::Ecdsa(Digest::Sha256)],
        };
        assert_eq!(one.encode(), expected);
    }

    #[test]
    fn announcements_that_are_not_understood_are_skipped_and_a_short_one_ends_the_list() {
        // Another length than the method has, an unknown method, and an algorithm that is none.
        for skipped in
            [&[3, 2, 0][..], &[2, 9], &[2, 99], &[5, 99, 1, 2, 3], &[5, 14, 0, 0x30, 0], &[3, 14, 0]]
        {
            let found = AnnouncedMethods::decode(&[skipped, &[2, 2]].concat());
            assert_eq!(found, AnnouncedMethods::shared_key(), "{skipped:?}");
        }
        for short in [&[0, 2, 2][..], &[1, 2, 2], &[9, 14, 0], &[2]] {
            assert_eq!(AnnouncedMethods::decode(short), AnnouncedMethods::default(), "{short:?}");
        }
        let many = [2, 2].repeat(1000);
        assert_eq!(AnnouncedMethods::decode(&many).methods.len(), MOST);
    }

    #[test]
    fn what_this_end_announces_is_what_it_verifies() {
        let mut all = AnnouncedMethods::shared_key();
        all.add(&AnnouncedMethods::certificates(Sha1::Refused));
        assert!(!all.has_method(AuthMethod::RSA_SIGNATURE));
        let before = all.clone();
        all.add(&before);
        assert_eq!(all, before, "each method is announced once");
        all.add(&AnnouncedMethods::certificates(Sha1::Accepted));
        assert!(all.has_method(AuthMethod::RSA_SIGNATURE));
        assert_eq!(AnnouncedMethods::decode(&all.encode()), all);
        let short = all.short();
        assert!(
            all.has_scheme(Scheme::RsaPss(Digest::Sha512))
                && !short.has_scheme(Scheme::RsaPss(Digest::Sha512))
        );
        assert!(short.has_scheme(Scheme::RsaPss(Digest::Sha256)) && short.encode().len() < 200);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let all = AnnouncedMethods::decode(&data);
            prop_assert_eq!(AnnouncedMethods::decode(&all.encode()), all);
        }
    }
}
