//! Datagrams of attackers that do not return the server's cookie: forged, replayed or made up.

use adit_core::UnixTime;
use adit_load::{Kind, LoadError};
use adit_openvpn::wire::{ControlBody, Header, Opcode, Sid};
use adit_openvpn::wrap::{Wrap, WrapConfig};

use crate::wrapping::Wrapping;

/// All kinds of datagrams that attackers without a key can send to a server with this wrapping.
///
/// # Errors
/// When the wrapping's key cannot be used.
pub fn kinds(wrapping: &Wrapping) -> Result<Vec<Kind>, LoadError> {
    let client = wrapping.client()?;
    Ok(match wrapping {
        Wrapping::None => {
            let mut kinds =
                vec![Kind { name: "resets", datagrams: resets(&client, Opcode::HardResetClientV2) }];
            let data = |number: u8| [vec![9 << 3, 0, 0, number], vec![number; 60]].concat();
            kinds.push(Kind { name: "data of no session", datagrams: series(data) });
            kinds.push(Kind { name: "garbage", datagrams: series(|number| vec![number; 60]) });
            kinds.push(guessed_cookies(&client, Opcode::Control));
            kinds
        }
        Wrapping::TlsAuth(_) | Wrapping::TlsCrypt(_) => {
            let resets = resets(&client, Opcode::HardResetClientV2);
            vec![
                Kind { name: "forged resets", datagrams: altered(&resets, 20) },
                Kind { name: "replayed resets", datagrams: resets },
                guessed_cookies(&client, Opcode::Control),
            ]
        }
        Wrapping::TlsCryptV2(_) => {
            let recent = resets(&client, Opcode::HardResetClientV3);
            // The packet ids of a client that does not announce early negotiation start at 1.
            let mut old = client.instantiate_after(UnixTime(WALL), 0);
            let old = series(|number| sealed(&mut old, Opcode::HardResetClientV3, number, &first()));
            vec![
                Kind { name: "forged resets", datagrams: altered(&recent, 20) },
                Kind { name: "forged client keys", datagrams: altered(&recent, 100) },
                Kind { name: "replayed resets of an old client", datagrams: old },
                Kind { name: "replayed resets", datagrams: recent },
                guessed_cookies(&client, Opcode::ControlWkc),
            ]
        }
    })
}

/// When they were sealed, in seconds since 1970: servers do not look at that before a control channel.
const WALL: u64 = 1_700_000_000;

fn resets(client: &WrapConfig, opcode: Opcode) -> Vec<Vec<u8>> {
    let mut wrap = client.instantiate(UnixTime(WALL));
    series(|number| sealed(&mut wrap, opcode, number, &first()))
}

/// Third packets of clients that have not seen the second, and so guess the server's session id.
fn guessed_cookies(client: &WrapConfig, opcode: Opcode) -> Kind {
    let mut wrap = client.instantiate(UnixTime(WALL));
    let datagrams = series(|number| sealed(&mut wrap, opcode, number, &guess(number)));
    Kind { name: "guessed cookies", datagrams }
}

/// The datagrams with one bit of this byte changed.
fn altered(datagrams: &[Vec<u8>], at: usize) -> Vec<Vec<u8>> {
    let alter = |datagram: &Vec<u8>| {
        let mut datagram = datagram.clone();
        if let Some(byte) = datagram.get_mut(at) {
            *byte ^= 1;
        }
        datagram
    };
    datagrams.iter().map(alter).collect()
}

fn series(make: impl FnMut(u8) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..=u8::MAX).map(make).collect()
}

fn first() -> ControlBody {
    ControlBody { packet_id: Some(0), ..ControlBody::default() }
}

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
    // It can fail only after 2³² datagrams.
    let _ =
        wrap.seal(Header { opcode, key_id: 0 }, Sid([number, 1, 2, 3, 4, 5, 6, 7]), &bytes, &mut datagram);
    datagram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrapping_has_its_kinds() {
        let kinds = kinds(&Wrapping::None).unwrap();
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
        assert_eq!(names, ["resets", "data of no session", "garbage", "guessed cookies"]);
        for kind in &kinds {
            let mut different = kind.datagrams.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), 256, "{}", kind.name);
        }
        assert!(super::kinds(&Wrapping::TlsCrypt("no key".to_owned())).is_err());
    }
}
