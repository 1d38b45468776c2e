//! Indexes of a server's directory with WireGuard.

use std::net::IpAddr;

use adit_setup::{Index, Peer, Proto};

use super::*;

fn index() -> Index {
    let endpoint = Endpoint { host: "vpn.example".into(), port: 1194 };
    Index::new(endpoint, Proto::Udp, "adit-server", NAME)
}

fn parse(json: &str) -> Result<Index, String> {
    Index::parse(json, &WireGuard)
}

#[test]
fn indexes_are_checked() {
    let index = index();
    assert_eq!(parse(&index.to_json()), Ok(index.clone()));
    for (from, to) in
        [("\"format\": 1", "\"format\": 2"), ("vpn.example", "a b"), ("adit-server", "a\\nb"), ("{", "")]
    {
        let json = index.to_json().replacen(from, to, 1);
        assert!(parse(&json).is_err(), "{json}");
    }
}

#[test]
fn keys_in_an_index_are_checked() {
    let mut index = index();
    index.begin_keys("adit0");
    index.finish_keys();
    let (key, now) = (PublicKey([1; 32]).to_base64(), OffsetDateTime::UNIX_EPOCH);
    index.begin_peer(Peer::new("alice", key.clone(), vec![IpAddr::from([10, 8, 0, 1])], now), now);
    let json = index.to_json();
    assert_eq!(parse(&json), Ok(index));
    for (from, to) in [("adit0", "../x"), ("adit0", "sixteen--letters"), ("adit0", ""), (&*key, &key[4..])] {
        assert!(parse(&json.replacen(from, to, 1)).is_err(), "{to:?}");
    }
}

/// The text of the file is the same as ever: programs and older versions of adit read it.
#[test]
fn the_index_stands_in_its_file_under_the_name_of_the_protocol() {
    let mut index = index();
    index.begin_keys("adit0");
    let now = OffsetDateTime::UNIX_EPOCH;
    index.begin_peer(Peer::new("alice", "KEY".to_owned(), vec![IpAddr::from([10, 8, 0, 1])], now), now);
    let expected = r#"{
  "format": 1,
  "endpoint": {
    "host": "vpn.example",
    "port": 1194
  },
  "proto": "udp",
  "server_name": "adit-server",
  "lists": 0,
  "issued": [],
  "wireguard": {
    "device": "adit0",
    "unfinished": true,
    "peers": [
      {
        "name": "alice",
        "public_key": "KEY",
        "addresses": [
          "10.8.0.1"
        ],
        "made": "1970-01-01T00:00:00Z",
        "unfinished": true
      }
    ]
  }
}
"#;
    assert_eq!(index.to_json(), expected);
}
