//! Wrappings of the control channel, and the datagrams that those can forge who do not return a cookie.

use adit_config::{KeyOwner, TlsCryptV2Key};
use adit_core::UnixTime;
use adit_openvpn::Role;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::v2::{ClientKey, Metadata, ServerKey};
use adit_openvpn::wrap::{HmacDigest, KeyDirection, Wrap, WrapConfig};
use adit_testbed::{TestbedError, static_key, tls_crypt_v2_keys};

/// A kind of wrapping, with the lines that say it to a server and a client.
#[derive(Debug)]
pub(crate) struct Wrapping {
    pub(crate) name: &'static str,
    pub(crate) lines: [String; 2],
    /// As the attackers have it.
    pub(crate) client: WrapConfig,
}

/// A kind of datagram.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) datagrams: Vec<Vec<u8>>,
}

fn unusable(what: &str) -> TestbedError {
    TestbedError::Output { command: "openvpn --genkey".to_owned(), output: what.to_owned() }
}

fn read_key(text: &str) -> Result<StaticKey, TestbedError> {
    let key = adit_config::StaticKey::parse(text).map_err(|error| unusable(&error))?;
    Ok(StaticKey::from_bytes(key.bytes()))
}

/// All wrappings, with fresh keys.
pub(crate) fn wrappings() -> Result<[Wrapping; 4], TestbedError> {
    let text = static_key()?;
    let key = read_key(&text)?;
    let auth =
        |direction: u8| format!("auth SHA256\nkey-direction {direction}\n<tls-auth>\n{text}</tls-auth>\n");
    let crypt = format!("<tls-crypt>\n{text}</tls-crypt>\n");
    let [server, client] = tls_crypt_v2_keys()?;
    let own = TlsCryptV2Key::parse(&client, KeyOwner::Client).map_err(|error| unusable(&error))?;
    let own = ClientKey::from_bytes(own.bytes()).map_err(|error| unusable(&error.to_string()))?;
    let v2 = [server, client].map(|text| format!("<tls-crypt-v2>\n{text}</tls-crypt-v2>\n"));
    Ok([
        Wrapping { name: "none", lines: Default::default(), client: WrapConfig::Plain },
        Wrapping {
            name: "tls-auth",
            lines: [auth(0), auth(1)],
            client: WrapConfig::tls_auth(&key, HmacDigest::Sha256, KeyDirection::Inverse),
        },
        Wrapping {
            name: "tls-crypt",
            lines: [crypt.clone(), crypt],
            client: WrapConfig::tls_crypt(&key, Role::Client),
        },
        Wrapping { name: "tls-crypt-v2", lines: v2, client: WrapConfig::tls_crypt_v2(&own) },
    ])
}

/// Fresh keys of tls-crypt-v2, one for the clients and one with the metadata `refused` for the attackers.
pub(crate) fn refused_key() -> Result<Wrapping, TestbedError> {
    let [server, client] = tls_crypt_v2_keys()?;
    let key = TlsCryptV2Key::parse(&server, KeyOwner::Server).map_err(|error| unusable(&error))?;
    let key = key.bytes().try_into().map_err(|_| unusable("the length of the server's key"))?;
    let own = read_key(&static_key()?)?;
    let own = ServerKey::from_bytes(key).wrap(&own, &Metadata::User(b"refused".to_vec()));
    let own = own.map_err(|error| unusable(&error.to_string()))?;
    let lines = [server, client].map(|text| format!("<tls-crypt-v2>\n{text}</tls-crypt-v2>\n"));
    Ok(Wrapping { name: "tls-crypt-v2", lines, client: WrapConfig::tls_crypt_v2(&own) })
}

impl Wrapping {
    /// What can be sent to a server with this wrapping by those who forge or replay.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let own_key = self.name == "tls-crypt-v2";
        let (reset, third) = match own_key {
            true => (Opcode::HardResetClientV3, Opcode::ControlWkc),
            false => (Opcode::HardResetClientV2, Opcode::Control),
        };
        let mut early = self.client.instantiate(UnixTime(1_700_000_000));
        let resets = series(|number| sealed(&mut early, reset, number, &first()));
        let mut kinds = Vec::new();
        if self.name == "none" {
            kinds.push(Kind { name: "resets", datagrams: resets });
            let data = |number: u8| [vec![9 << 3, 0, 0, number], vec![number; 60]].concat();
            kinds.push(Kind { name: "data of no session", datagrams: series(data) });
            let garbage = |number: u8| vec![number; 60];
            kinds.push(Kind { name: "garbage", datagrams: series(garbage) });
        } else {
            let forged = |at: usize| resets.iter().map(|datagram| spoilt(datagram, at)).collect();
            kinds.push(Kind { name: "forged resets", datagrams: forged(20) });
            if own_key {
                kinds.push(Kind { name: "forged client keys", datagrams: forged(100) });
                let mut old = self.client.instantiate_after(UnixTime(1_700_000_000), 0);
                let old = series(|number| sealed(&mut old, reset, number, &first()));
                kinds.push(Kind { name: "replayed resets of an old client", datagrams: old });
            }
            kinds.push(Kind { name: "replayed resets", datagrams: resets });
        }
        let mut wrap = self.client.instantiate(UnixTime(1_700_000_000));
        let thirds = series(|number| sealed(&mut wrap, third, number, &guess(number)));
        kinds.push(Kind { name: "guessed cookies", datagrams: thirds });
        kinds
    }
}

fn series(make: impl FnMut(u8) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..=255).map(make).collect()
}

fn spoilt(datagram: &[u8], at: usize) -> Vec<u8> {
    let mut datagram = datagram.to_vec();
    if let Some(byte) = datagram.get_mut(at) {
        *byte ^= 1;
    }
    datagram
}

fn first() -> ControlBody {
    ControlBody { packet_id: Some(0), ..ControlBody::default() }
}

/// The third packet of a client that has not seen the second.
fn guess(number: u8) -> ControlBody {
    ControlBody {
        acks: vec![0],
        peer_sid: Some(Sid([number, 0x55, 2, 3, 4, 5, 6, 0x77])),
        packet_id: Some(1),
        payload: vec![0x16; 200],
    }
}

fn sealed(wrap: &mut Wrap, opcode: Opcode, number: u8, body: &ControlBody) -> Vec<u8> {
    let (mut bytes, mut datagram) = (Vec::new(), Vec::new());
    body.encode(&mut bytes);
    // It fails after 2³² datagrams.
    let _ =
        wrap.seal(Header { opcode, key_id: 0 }, Sid([number, 1, 2, 3, 4, 5, 6, 7]), &bytes, &mut datagram);
    datagram
}
