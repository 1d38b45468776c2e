//! An initiator that sends messages as a device does: its own order of payloads, its notifies, its proposals.

use std::net::{IpAddr, SocketAddr};

use adit_pki::signature::Sha1;
use rustls_pki_types::{CertificateDer, UnixTime};

use super::super::world::{WALL, seconds};
use super::gateway::{Gateway, address, deliver};
use super::habits::{Habits, Login, ProofOf};
use crate::crypto::{
    Contents, IkeKeys, KeyShare, Nonces, PeerHashes, Protection, SignedOctets, certificate_proof, first_seed,
    rekey_seed, shared_key_proof, verify_certificate_proof,
};
use crate::eap::{Peer, PeerTurn, Surroundings};
use crate::machine::nat;
use crate::machine::payloads::{Payloads, notify};
use crate::suite::{Algorithms, Group, IkeSuite, Preference, choose, ike_proposals};
use crate::wire::{
    AddressRange, AuthMethod, Authentication, Certificate, CertificateEncoding, Configuration,
    ConfigurationAttribute, ConfigurationAttributeType, ConfigurationType, Delete, ExchangeType, Flags,
    Header, IdType, Identification, KeyExchange, Message, Notify, NotifyType, Payload, ProtocolId, Spi,
    TrafficSelector, Transform, TransformType, decode_chain, encode_chain,
};

/// All that an answer may have chosen.
const ANY_IKE: &str = "aes256gcm16-aes128gcm16-prfsha256-prfsha384-prfsha512-x25519-ecp256-ecp384-modp2048, \
     chacha20poly1305-prfsha256-prfsha384-prfsha512-x25519-ecp256-ecp384-modp2048, \
     aes256-aes128-sha256-sha384-sha512-x25519-ecp256-ecp384-modp2048";
/// Most times that the first request is sent.
const MOST_FIRST: usize = 4;
/// The name of the gateway.
pub(super) const GATEWAY: &str = "vpn.example";

/// The keys of an IKE SA at the device.
struct Channel {
    suite: IkeSuite,
    keys: IkeKeys,
    seal: Protection,
    open: Protection,
    own_spi: Spi,
    peer_spi: Spi,
    /// The number of the next request.
    next: u32,
}

impl Channel {
    fn new(suite: IkeSuite, keys: IkeKeys, [own_spi, peer_spi]: [Spi; 2]) -> Self {
        let seal = Protection::new(&suite, &keys.initiator).expect("keys");
        let open = Protection::new(&suite, &keys.responder).expect("keys");
        Channel { suite, keys, seal, open, own_spi, peer_spi, next: 0 }
    }
}

/// A device that has an IKE SA with a gateway.
pub(super) struct Device<'a> {
    habits: &'a Habits,
    is_v6: bool,
    channel: Channel,
    /// Its inner addresses.
    pub(super) inner: Vec<IpAddr>,
    /// The SPI of the packets that it receives.
    child: u32,
    /// How often it chose an SPI or a nonce.
    chosen: u8,
    /// Further payloads of its rekeys.
    pub(super) beside: Vec<Payload>,
}

/// The first messages, and the nonces, of which the proofs are made.
struct First {
    own: Vec<u8>,
    peer: Vec<u8>,
    nonces: [Vec<u8>; 2],
}

impl<'a> Device<'a> {
    /// Connects: the first exchange and the authentication, with the first child SA.
    ///
    /// # Errors
    /// The error of the gateway.
    pub(super) fn connect(
        habits: &'a Habits,
        is_v6: bool,
        gateway: &mut Gateway,
    ) -> Result<Self, NotifyType> {
        let (mut device, first) = Device::init(habits, is_v6, gateway)?;
        device.authenticate(gateway, &first)?;
        Ok(device)
    }

    fn init(habits: &'a Habits, is_v6: bool, gateway: &mut Gateway) -> Result<(Self, First), NotifyType> {
        gateway.called += 1;
        let own_spi = Spi((0xD0_0000 + gateway.called).to_be_bytes());
        let nonce = vec![7; 32];
        let (mut cookie, mut group) = (None, habits.group);
        for _ in 0..MOST_FIRST {
            let share = group.map(|group| KeyShare::new(group, &mut |bytes| bytes.fill(9)).expect("a key"));
            let exchange = match &share {
                Some(share) => KeyExchange { method: share.group().number(), data: share.public().to_vec() },
                // MODP of 1024 bits.
                None => KeyExchange { method: 2, data: vec![5; 128] },
            };
            let mut payloads: Vec<Payload> = cookie.iter().cloned().map(Payload::Notify).collect();
            payloads.extend([
                Payload::SecurityAssociation(habits.ike.clone()),
                Payload::KeyExchange(exchange),
                Payload::Nonce(nonce.clone()),
            ]);
            let ends = [address(is_v6, habits.number), address(is_v6, 1)].map(|ip| SocketAddr::new(ip, 500));
            payloads.extend(habits.first(nat::notifies([own_spi, Spi::ZERO], Some(ends[0]), ends[1])));
            let flags = Flags { is_initiator: true, ..Flags::default() };
            let header = Header {
                initiator_spi: own_spi,
                responder_spi: Spi::ZERO,
                minor_version: 0,
                exchange: ExchangeType::IKE_SA_INIT,
                flags,
                message_id: 0,
            };
            let own = Message { header, payloads, sealed: None }.encode();
            let Some(peer) = deliver(gateway, habits, is_v6, false, &own).pop() else {
                return Err(NotifyType(0));
            };
            let answer = Message::decode(&peer).expect("a message");
            let found = Payloads(&answer.payloads);
            if let Some(asked) = found.notify(NotifyType::COOKIE) {
                cookie = Some(asked.clone());
            } else if let Some(wanted) = found.notify(NotifyType::INVALID_KE_PAYLOAD) {
                group = crate::machine::init::wanted_group(&wanted.data);
            } else if let Some(error) = found.error() {
                return Err(error.kind);
            } else {
                let share = share.expect("a group that is answered");
                let secret = share.finish(&found.key_exchange().expect("KE").data).expect("a secret");
                let nonces = [nonce, found.nonce().expect("a nonce").to_vec()];
                let suite = suite_of(found);
                let of_keys = Nonces { initiator: &nonces[0], responder: &nonces[1] };
                let seed = first_seed(suite.prf, &of_keys, &secret);
                let peer_spi = answer.header.responder_spi;
                let keys = IkeKeys::derive(&suite, &seed, &of_keys, own_spi, peer_spi);
                let mut channel = Channel::new(suite, keys, [own_spi, peer_spi]);
                channel.next = 1;
                let device = Device {
                    habits,
                    is_v6,
                    channel,
                    inner: Vec::new(),
                    child: 0,
                    chosen: 0,
                    beside: Vec::new(),
                };
                return Ok((device, First { own, peer, nonces }));
            }
        }
        panic!("{}: no answer after {MOST_FIRST} requests", habits.name)
    }

    fn authenticate(&mut self, gateway: &mut Gateway, first: &First) -> Result<(), NotifyType> {
        let octets = |identity, proof_key| SignedOctets {
            message: &first.own,
            received: None,
            peer_nonce: &first.nonces[1],
            proof_key,
            identity,
            intermediate: &[],
        };
        let habits = self.habits;
        let (prf, proof_key) = (self.channel.suite.prf, self.channel.keys.initiator_proof.clone());
        let own = octets(&habits.identity, &proof_key);
        let mut payloads = vec![Payload::IdInitiator(habits.identity.clone())];
        match &habits.login {
            Login::Certificate(own_certificate, hashes) => {
                payloads.push(x509(own_certificate.key.certificate()));
                let proof = certificate_proof(
                    prf,
                    &own_certificate.key,
                    &own,
                    PeerHashes { hashes: hashes.as_ref(), announced: None, sha1: Sha1::Refused },
                );
                payloads.push(Payload::Authentication(proof.expect("a proof")));
            }
            Login::Password(_) => {}
            Login::SharedKey(key) => {
                let data = shared_key_proof(prf, key, &own).to_vec();
                payloads
                    .push(Payload::Authentication(Authentication { method: AuthMethod::SHARED_KEY, data }));
            }
        }
        self.child = self.choose_child();
        // The first child SA has no key exchange of its own (RFC 7296 section 1.2).
        let mut offers = self.offer(self.child);
        let is_group = |transform: &Transform| transform.kind == TransformType::KEY_EXCHANGE;
        offers.iter_mut().for_each(|offer| offer.transforms.retain(|transform| !is_group(transform)));
        payloads.extend(habits.rest(offers, self.ask()));
        let mut answer = self.request(gateway, ExchangeType::IKE_AUTH, payloads);
        error_of(&answer)?;
        self.verify_gateway(first, &answer);
        if let Login::Password(credentials) = &habits.login {
            let mut peer = Peer::new(credentials.clone());
            let wall = UnixTime::since_unix_epoch(seconds(WALL));
            let gateway_identity = Identification { kind: IdType::FQDN, data: GATEWAY.as_bytes().to_vec() };
            loop {
                let eap = answer.iter().find_map(|payload| match payload {
                    Payload::Eap(eap) => Some(eap),
                    _ => None,
                });
                let next = match peer
                    .handle(
                        eap.expect("EAP"),
                        Surroundings {
                            fill: &mut |bytes| bytes.fill(3),
                            wall,
                            authenticator: &gateway_identity,
                        },
                    )
                    .expect("EAP goes on")
                {
                    PeerTurn::Response(eap) => Payload::Eap(eap),
                    PeerTurn::Success(msk) => {
                        let data = shared_key_proof(prf, &msk, &own).to_vec();
                        Payload::Authentication(Authentication { method: AuthMethod::SHARED_KEY, data })
                    }
                };
                let is_last = matches!(next, Payload::Authentication(_));
                answer = self.request(gateway, ExchangeType::IKE_AUTH, vec![next]);
                error_of(&answer)?;
                if is_last {
                    break;
                }
            }
        }
        self.take_child(&answer);
        Ok(())
    }

    /// The gateway proves its identity by a method that the device knows.
    fn verify_gateway(&self, first: &First, answer: &[Payload]) {
        let (Some(identity), Some(proof)) = (
            answer.iter().find_map(|payload| match payload {
                Payload::IdResponder(identity) => Some(identity),
                _ => None,
            }),
            answer.iter().find_map(|payload| match payload {
                Payload::Authentication(proof) => Some(proof),
                _ => None,
            }),
        ) else {
            panic!("{}: the gateway proves nothing", self.habits.name)
        };
        let octets = SignedOctets {
            message: &first.peer,
            received: None,
            peer_nonce: &first.nonces[0],
            proof_key: &self.channel.keys.responder_proof,
            identity,
            intermediate: &[],
        };
        if let Login::SharedKey(key) = &self.habits.login {
            let expected = shared_key_proof(self.channel.suite.prf, key, &octets);
            assert_eq!(proof.data, *expected, "{}", self.habits.name);
            return;
        }
        let certificate = answer.iter().find_map(|payload| match payload {
            Payload::Certificate(certificate) => Some(CertificateDer::from(certificate.data.as_slice())),
            _ => None,
        });
        let certificate = certificate.expect("a device gets the certificate unasked");
        let sha1 = Sha1::Refused;
        let verified = verify_certificate_proof(self.channel.suite.prf, &certificate, &octets, proof, sha1);
        assert!(verified.is_ok(), "{}: {verified:?}", self.habits.name);
        assert!(adit_pki::has_name(&certificate, adit_pki::CertificateName::Dns(GATEWAY)));
        let method = match self.habits.knows {
            ProofOf::Curve => AuthMethod::ECDSA_P256,
            ProofOf::Digital => AuthMethod::DIGITAL_SIGNATURE,
        };
        assert_eq!(proof.method, method, "{}", self.habits.name);
    }

    /// Takes the first child SA, and the inner addresses.
    fn take_child(&mut self, answer: &[Payload]) {
        let found = Payloads(answer);
        let chosen =
            found.proposals().unwrap_or_else(|| panic!("{}: no child SA: {answer:?}", self.habits.name));
        assert_eq!((chosen.len(), chosen[0].spi.len()), (1, 4), "{}", self.habits.name);
        let [own, gateway] = found.selectors().expect("selectors");
        if self.habits.asks.is_empty() {
            return;
        }
        self.inner = answer.iter().find_map(inner_of).unwrap_or_default();
        assert_eq!(self.inner.len(), 2, "{}: addresses of both families", self.habits.name);
        assert!(
            self.inner.iter().all(|inner| own.iter().any(|selector| is_host(selector, *inner))),
            "{own:?}"
        );
        assert_eq!(gateway, everything(), "{}: all traffic goes into the tunnel", self.habits.name);
    }

    /// Makes another child SA in the place of the one that is there, as the device does, and deletes that.
    pub(super) fn rekey_child(&mut self, gateway: &mut Gateway) {
        let (old, new) = (self.child, self.choose_child());
        let spi = old.to_be_bytes().to_vec();
        let rekeyed = Notify {
            protocol: ProtocolId::ESP,
            spi: spi.clone(),
            kind: NotifyType::REKEY_SA,
            data: Vec::new(),
        };
        let mut payloads = vec![Payload::Notify(rekeyed), Payload::SecurityAssociation(self.offer(new))];
        payloads.push(Payload::Nonce(vec![self.chosen; 32]));
        if let Some(group) = self.habits.child_group {
            let share = KeyShare::new(group, &mut |bytes| bytes.fill(8)).expect("a key");
            payloads.push(Payload::KeyExchange(KeyExchange {
                method: group.number(),
                data: share.public().to_vec(),
            }));
        }
        payloads.extend(self.habits.selectors());
        payloads.extend(self.beside.iter().cloned());
        let answer = self.request(gateway, ExchangeType::CREATE_CHILD_SA, payloads);
        assert!(
            error_of(&answer).is_ok() && Payloads(&answer).proposals().is_some(),
            "{}: {answer:?}",
            self.habits.name
        );
        assert_eq!(Payloads(&answer).key_exchange().is_some(), self.habits.child_group.is_some());
        self.child = new;
        let delete = Payload::Delete(Delete { protocol: ProtocolId::ESP, spis: vec![spi] });
        let answer = self.request(gateway, ExchangeType::INFORMATIONAL, vec![delete]);
        assert!(matches!(answer[..], [Payload::Delete(_)]), "{}: {answer:?}", self.habits.name);
    }

    /// Makes another IKE SA in the place of the one that is there, and deletes that.
    pub(super) fn rekey_ike(&mut self, gateway: &mut Gateway) {
        self.chosen += 1;
        let group = self.channel.suite.group;
        let share = KeyShare::new(group, &mut |bytes| bytes.fill(6)).expect("a key");
        let (own_spi, nonce) = (Spi([self.chosen + 1; 8]), vec![self.chosen; 32]);
        let mut offers = self.habits.ike.clone();
        offers.iter_mut().for_each(|offer| offer.spi = own_spi.0.to_vec());
        let payloads = vec![
            Payload::SecurityAssociation(offers),
            Payload::Nonce(nonce.clone()),
            Payload::KeyExchange(KeyExchange { method: group.number(), data: share.public().to_vec() }),
        ];
        let answer = self.request(gateway, ExchangeType::CREATE_CHILD_SA, payloads);
        assert!(error_of(&answer).is_ok(), "{}: {answer:?}", self.habits.name);
        let found = Payloads(&answer);
        let secret = share.finish(&found.key_exchange().expect("KE").data).expect("a secret");
        let nonces = Nonces { initiator: &nonce, responder: found.nonce().expect("a nonce") };
        let (old, suite) = (&self.channel, suite_of(found));
        let seed = rekey_seed(old.suite.prf, &old.keys.derivation, &nonces, &secret.into());
        let peer_spi = Spi(found.proposals().unwrap()[0].spi.clone().try_into().unwrap());
        let keys = IkeKeys::derive(&suite, &seed, &nonces, own_spi, peer_spi);
        let delete = Payload::Delete(Delete { protocol: ProtocolId::IKE, spis: Vec::new() });
        assert_eq!(self.request(gateway, ExchangeType::INFORMATIONAL, vec![delete]), []);
        self.channel = Channel::new(suite, keys, [own_spi, peer_spi]);
    }

    /// Whether the gateway answers in the IKE SA.
    pub(super) fn is_answered(&mut self, gateway: &mut Gateway) -> bool {
        let bytes = self.seal(ExchangeType::INFORMATIONAL, &[]);
        !deliver(gateway, self.habits, self.is_v6, true, &bytes).is_empty()
    }

    fn choose_child(&mut self) -> u32 {
        self.chosen += 1;
        u32::from_be_bytes([0xC0, 0, 0, self.chosen])
    }

    fn offer(&self, spi: u32) -> Vec<crate::wire::Proposal> {
        let mut offers = self.habits.esp.clone();
        offers.iter_mut().for_each(|offer| offer.spi = spi.to_be_bytes().to_vec());
        offers
    }

    /// The request for inner addresses; none for a site.
    fn ask(&self) -> Option<Payload> {
        let attribute = |kind: &u16| ConfigurationAttribute {
            kind: ConfigurationAttributeType(*kind),
            value: Vec::new(),
        };
        let attributes: Vec<_> = self.habits.asks.iter().map(attribute).collect();
        let kind = ConfigurationType::REQUEST;
        (!attributes.is_empty()).then_some(Payload::Configuration(Configuration { kind, attributes }))
    }

    fn seal(&mut self, exchange: ExchangeType, payloads: &[Payload]) -> Vec<u8> {
        let mut plain = Vec::new();
        let first = encode_chain(payloads, &mut plain);
        let header = Header {
            initiator_spi: self.channel.own_spi,
            responder_spi: self.channel.peer_spi,
            minor_version: 0,
            exchange,
            flags: Flags { is_initiator: true, ..Flags::default() },
            message_id: self.channel.next,
        };
        self.channel.next += 1;
        let contents = Contents { first, fragment: None, plain: &plain };
        self.channel.seal.seal(&header, &contents, &mut |bytes| bytes.fill(4)).expect("a message")
    }

    /// The payloads of the answer to a request.
    fn request(
        &mut self,
        gateway: &mut Gateway,
        exchange: ExchangeType,
        payloads: Vec<Payload>,
    ) -> Vec<Payload> {
        let bytes = self.seal(exchange, &payloads);
        let (mut first, mut plain) = (None, Vec::new());
        for answer in deliver(gateway, self.habits, self.is_v6, true, &bytes) {
            let message = Message::decode(&answer).expect("a message");
            if !message.header.flags.is_response {
                continue;
            }
            let sealed = message.sealed.expect("a protected message");
            // Of fragments the first names the kind of the first payload.
            first.get_or_insert(sealed.first);
            plain.extend_from_slice(&self.channel.open.open(&answer, &sealed).expect("the keys"));
        }
        let first = first.unwrap_or_else(|| panic!("{}: no answer: {:?}", self.habits.name, gateway.log));
        decode_chain(first, &plain).expect("payloads")
    }
}

fn x509(der: &CertificateDer<'_>) -> Payload {
    Payload::Certificate(Certificate { encoding: CertificateEncoding::X509_SIGNATURE, data: der.to_vec() })
}

fn error_of(payloads: &[Payload]) -> Result<(), NotifyType> {
    Payloads(payloads).error().map_or(Ok(()), |error| Err(error.kind))
}

/// The suite that an answer chose.
fn suite_of(answer: Payloads<'_>) -> IkeSuite {
    let all: Vec<Algorithms> = ike_proposals(ANY_IKE).expect("keywords");
    let chosen = choose(&all, answer.proposals().expect("SA"), Preference::Own).expect("a proposal");
    chosen.ike_suite().expect("a suite")
}

fn inner_of(payload: &Payload) -> Option<Vec<IpAddr>> {
    let Payload::Configuration(reply) = payload else { return None };
    let address = |attribute: &ConfigurationAttribute| match attribute.kind {
        ConfigurationAttributeType::INTERNAL_IP4_ADDRESS => {
            <[u8; 4]>::try_from(attribute.value.as_slice()).ok().map(IpAddr::from)
        }
        ConfigurationAttributeType::INTERNAL_IP6_ADDRESS => {
            <[u8; 16]>::try_from(attribute.value.get(..16)?).ok().map(IpAddr::from)
        }
        _ => None,
    };
    Some(reply.attributes.iter().filter_map(address).collect())
}

fn is_host(selector: &TrafficSelector, address: IpAddr) -> bool {
    match (&selector.addresses, address) {
        (AddressRange::V4(first, last), IpAddr::V4(address)) => *first == address && *last == address,
        (AddressRange::V6(first, last), IpAddr::V6(address)) => *first == address && *last == address,
        _ => false,
    }
}

/// The selectors of all traffic.
pub(super) fn everything() -> Vec<TrafficSelector> {
    let of = |addresses| TrafficSelector { protocol: 0, first_port: 0, last_port: u16::MAX, addresses };
    vec![
        of(AddressRange::V4([0; 4].into(), [255; 4].into())),
        of(AddressRange::V6([0; 16].into(), [255; 16].into())),
    ]
}

/// A notify without data.
pub(super) fn said(kind: NotifyType) -> Payload {
    notify(kind, Vec::new())
}

/// The group of a number, for the tables of habits. `None`: adit does not have it.
pub(super) fn group(number: u16) -> Option<Group> {
    Group::from_number(number)
}
