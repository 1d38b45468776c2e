//! tls-crypt-v2: what is no key of this server's is refused, and any key with any metadata comes back as it was.
#![no_main]

use std::sync::LazyLock;

use adit_openvpn::static_key::{STATIC_KEY_LEN, StaticKey};
use adit_openvpn::wrap::v2::{ClientKey, MAX_METADATA_LEN, Metadata, ServerKey};
use libfuzzer_sys::fuzz_target;

static SERVER: LazyLock<[ServerKey; 2]> =
    LazyLock::new(|| [[3; 128], [4; 128]].map(|bytes| ServerKey::from_bytes(&bytes)));

fuzz_target!(|data: &[u8]| {
    let [server, other] = &*SERVER;
    assert!(server.unwrap(data).is_err(), "a key that this server did not wrap");
    if let Ok(key) = ClientKey::from_bytes(data) {
        assert_eq!(key.to_bytes().as_slice(), data);
    }

    // The first two bytes say which bit of the wrapped key is turned.
    let Some((turned, metadata)) = data.split_first_chunk::<2>() else { return };
    let key = StaticKey::from_bytes(&std::array::from_fn(|index| turned[index % 2] ^ index as u8));
    let wrapped = server.wrap(&key, &Metadata::Other(metadata.to_vec()));
    assert_eq!(wrapped.is_ok(), metadata.len() <= MAX_METADATA_LEN);
    let Ok(wrapped) = wrapped else { return };
    let file = wrapped.to_bytes();
    assert_eq!(ClientKey::from_bytes(&file), Ok(wrapped));
    let mut bytes = file[STATIC_KEY_LEN..].to_vec();

    let (opened, said) = server.unwrap(&bytes).expect("a key that was just wrapped");
    assert_eq!(opened, key);
    match said {
        Metadata::User(text) => assert_eq!(metadata, [&[0], text.as_slice()].concat()),
        Metadata::Made(time) => assert_eq!(metadata[1..9], time.0.to_be_bytes()),
        Metadata::Other(bytes) => assert_eq!(metadata, bytes),
    }
    assert!(other.unwrap(&bytes).is_err(), "a key of another server's");
    let bit = usize::from(u16::from_be_bytes(*turned)) % (8 * bytes.len());
    bytes[bit / 8] ^= 1 << (bit % 8);
    assert!(server.unwrap(&bytes).is_err(), "a changed key");
});
