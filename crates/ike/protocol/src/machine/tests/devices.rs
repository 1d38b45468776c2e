//! Native clients of operating systems, and gateways of clouds and of other makers, played by their proposals, orders of payloads and
//! habits.

mod gateway;
mod habits;
mod offers;
mod player;
mod sites;

use std::sync::Arc;

use adit_core::PoolRanges;

use self::gateway::Gateway;
use self::habits::{Habits, android, devices};
use self::player::{Device, GATEWAY, said};
use self::sites::{Site, presets, sites};
use super::authority::{Authority, Validity, certified, key};
use super::world::{B, connection, identity, params, seconds};
use crate::eap::{NtHash, Users};
use crate::machine::{
    Addresses, Connection, EapUsers, Inner, LocalProof, OwnCertificate, PeerIdentity, Pool, RemoteProof,
    SharedKey, Times, Traffic, Unique,
};
use crate::suite::{esp_proposals, ike_proposals};
use crate::wire::{
    Configuration, ConfigurationAttribute, ConfigurationAttributeType, ConfigurationType, NotifyType, Payload,
};

/// The proposals of the server that `adit init --ikev2` makes.
const IKE: &str = "aes256gcm16-aes128gcm16-prfsha256-prfsha384-prfsha512-x25519-ecp256-ecp384-modp2048, \
     chacha20poly1305-prfsha256-prfsha384-prfsha512-x25519-ecp256-ecp384-modp2048, \
     aes256-aes128-sha256-sha384-sha512-x25519-ecp256-ecp384-modp2048";
const ESP: &str = "aes256gcm16-aes128gcm16-x25519-ecp256-ecp384-modp2048, \
     chacha20poly1305-x25519-ecp256-ecp384-modp2048, aes256-aes128-sha256-x25519-ecp256-ecp384-modp2048";
/// Hours of sleep that an IKE SA outlasts, and that it does not.
const SHORT_SLEEP: u64 = 7 * 3600;
const LONG_SLEEP: u64 = 9 * 3600;

/// The server that `adit init --ikev2` makes, with its two connections.
fn server(root: &Authority, own: &OwnCertificate) -> Gateway {
    let all = |network: &str| Traffic::all_of(network.parse().unwrap());
    let dynamic = Traffic { addresses: Addresses::Dynamic, protocol: 0, ports: (0, u16::MAX) };
    let with = |name: &str, proof| {
        let mut made = certified(B, own.clone(), root.accepts(None));
        made.name = name.to_owned();
        made.local_auth.identity = identity(GATEWAY);
        made.remote_auth.identity = PeerIdentity::Any;
        made.remote_auth.proof = proof;
        (made.ike, made.unique) = (ike_proposals(IKE).unwrap(), Unique::Replace);
        let child = &mut made.children[0];
        (child.esp, child.rekey) = (esp_proposals(ESP).unwrap(), None);
        (child.local, child.remote) = (vec![all("0.0.0.0/0"), all("::/0")], vec![dynamic.clone()]);
        let ranges = PoolRanges {
            v4: Some(([10, 9, 0, 2].into(), [10, 9, 0, 254].into())),
            v6: Some("fd00:9::1000/64".parse().unwrap()),
        };
        made.inner =
            Inner::Give(Box::new(Pool { ranges, dns: vec!["10.9.0.1".parse().unwrap()], ..Pool::default() }));
        made.mobike = true;
        let dead_peer_detection = Some(seconds(8 * 3600));
        made.times = Times { ike_rekey: None, dead_peer_detection, ..Times::default() };
        made
    };
    let mut users = Users::default();
    users.add("alice", NtHash::of_password("secret"));
    let by_password = RemoteProof::Eap(EapUsers {
        names: Some(PeerIdentity::Any),
        users: Some(Arc::new(users)),
        tls: None,
    });
    let by_certificate = RemoteProof::Certificate(root.accepts(None));
    let mut all = params(with("ikev2+certificate", by_certificate));
    all.connections.push(with("ikev2+password", by_password));
    Gateway::new(all)
}

/// Each device gets in over both families, has addresses of both, rekeys child SAs and the IKE SA, and keeps its addresses over sleeps.
fn lives(habits: &Habits, gateway: &mut Gateway) {
    let name = habits.name;
    for is_v6 in [false, true] {
        let mut device =
            Device::connect(habits, is_v6, gateway).unwrap_or_else(|error| panic!("{name}: {error}"));
        let inner = device.inner.clone();
        device.rekey_child(gateway);
        device.rekey_ike(gateway);
        device.rekey_child(gateway);
        gateway.pass(seconds(SHORT_SLEEP));
        assert!(device.is_answered(gateway), "{name}: it wakes after a short sleep");
        // It comes back in another IKE SA, as it does not know what the gateway thinks of the first one.
        let device = Device::connect(habits, is_v6, gateway).expect(name);
        assert_eq!(device.inner, inner, "{name}: it has the addresses that it had");
        assert!(gateway.inner() == std::slice::from_ref(&inner), "{name}: the first IKE SA is gone");
        gateway.pass(seconds(LONG_SLEEP));
        assert!(gateway.inner().is_empty(), "{name}: the gateway has given it up");
        let device = Device::connect(habits, is_v6, gateway).expect(name);
        assert_eq!(device.inner, inner, "{name}: it has its addresses after a long sleep");
    }
}

#[test]
fn each_native_client_gets_in_over_both_families_rekeys_twice_sleeps_and_wakes() {
    let root = Authority::root("Root");
    let own = root.issue(GATEWAY, &key(), Validity::Now);
    let certificate = || root.issue("alice", &key(), Validity::Now);
    for habits in devices(&certificate) {
        lives(&habits, &mut server(&root, &own));
    }
}

/// Android's own client sends a key of 4,096 bits first, and is asked for X25519. It knows RSA alone: a server with an RSA certificate
/// serves it (docs/use/IKEV2-ANDROID.md).
#[test]
fn androids_own_client_gets_in_where_the_server_has_an_rsa_certificate() {
    let root = Authority::root("Root");
    let pem = include_str!("../../../../../pki/tests/data/private_key/rsa2048.key");
    let own = root.issue(GATEWAY, &rcgen::KeyPair::from_pem(pem).expect("a key"), Validity::Now);
    for version in [11, 14] {
        lives(&android(version), &mut server(&root, &own));
    }
}

#[test]
fn offers_that_are_weak_alone_are_refused_and_the_log_names_the_way_out() {
    let root = Authority::root("Root");
    let own = root.issue(GATEWAY, &key(), Validity::Now);
    for habits in presets() {
        for is_v6 in [false, true] {
            let mut gateway = server(&root, &own);
            let refused = Device::connect(&habits, is_v6, &mut gateway).err();
            assert_eq!(refused, Some(NotifyType::NO_PROPOSAL_CHOSEN), "{}", habits.name);
            let log = gateway.log.join("\n");
            assert!(
                log.contains("Set-VpnConnectionIPsecConfiguration") && log.contains("group 14, 19 or 20"),
                "{log}"
            );
        }
    }
}

/// The connection of a gateway to a site of its page.
fn to_site(site: &Site) -> Gateway {
    let [ike, esp] = site.documented;
    let mut own: Connection = connection(B);
    let shared_key = || SharedKey(b"a long text".to_vec().into());
    own.local_auth.proof = LocalProof::SharedKey(shared_key());
    own.local_auth.identity = identity(GATEWAY);
    own.remote_auth.identity = PeerIdentity::Exactly(identity("site.example"));
    own.remote_auth.proof = RemoteProof::SharedKey(shared_key());
    own.ike = ike_proposals(ike).unwrap();
    own.children[0].esp = esp_proposals(esp).unwrap();
    Gateway::new(params(own))
}

/// MikroTik asks for an inner address in a rekey.
#[test]
fn payloads_that_have_no_place_in_a_rekey_are_ignored() {
    let all = sites();
    let site = all.iter().find(|site| site.habits.name == "MikroTik").expect("MikroTik");
    let mut gateway = to_site(site);
    let mut peer = Device::connect(&site.habits, false, &mut gateway).unwrap();
    let kind = ConfigurationAttributeType::INTERNAL_IP4_ADDRESS;
    let attributes = vec![ConfigurationAttribute { kind, value: Vec::new() }];
    let asks = Configuration { kind: ConfigurationType::REQUEST, attributes };
    peer.beside = vec![
        Payload::Configuration(asks),
        said(NotifyType::ADDITIONAL_TS_POSSIBLE),
        said(NotifyType(40_960)),
        Payload::VendorId(vec![1; 16]),
    ];
    peer.rekey_child(&mut gateway);
    peer.rekey_child(&mut gateway);
    assert!(peer.is_answered(&mut gateway));
}

/// A gateway that calls connects with the proposals of the page about it, and rekeys with the group that the page names.
#[test]
fn each_gateway_connects_by_the_proposals_of_its_page() {
    for site in sites() {
        let mut gateway = to_site(&site);
        let mut peer = Device::connect(&site.habits, false, &mut gateway)
            .unwrap_or_else(|error| panic!("{}: {error}", site.habits.name));
        peer.rekey_child(&mut gateway);
        peer.rekey_ike(&mut gateway);
        peer.rekey_child(&mut gateway);
        assert!(peer.is_answered(&mut gateway), "{}", site.habits.name);
    }
}
