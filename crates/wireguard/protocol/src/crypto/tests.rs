use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hex"))
        .collect()
}

/// wireguard-go device/kdf_test.go.
#[test]
fn key_derivation_agrees_with_upstream() {
    let rows: [(&[u8], &[u8], [&str; 3]); 3] = [
        (
            b"test-key",
            b"test-input",
            [
                "6f0e5ad38daba1bea8a0d213688736f19763239305e0f58aba697f9ffc41c633",
                "df1194df20802a4fe594cde27e92991c8cae66c366e8106aaa937a55fa371e8a",
                "fac6e2745a325f5dc5d11a5b165aad08b0ada28e7b4e666b7c077934a4d76c24",
            ],
        ),
        (
            b"wireguard",
            b"wireguard",
            [
                "491d43bbfdaa8750aaf535e334ecbfe5129967cd64635101c566d4caefda96e8",
                "1e71a379baefd8a79aa4662212fcafe19a23e2b609a3db7d6bcba8f560e3d25f",
                "31e1ae48bddfbe5de38f295e5452b1909a1b4e38e183926af3780b0c1e1f0160",
            ],
        ),
        (
            b"",
            b"",
            [
                "8387b46bf43eccfcf349552a095d8315c4055beb90208fb1be23b894bc2ed5d0",
                "58a0e5f6faefccf4807bff1f05fa8a9217945762040bcec2f4b4a62bdfe0e86e",
                "0ce6ea98ec548f8e281e93e32db65621c45eb18dc6f0a7ad94178610a2f7338e",
            ],
        ),
    ];
    for (key, input, expected) in rows {
        let three: [Secret; 3] = kdf(key, input);
        let [one, two]: [Secret; 2] = kdf(key, input);
        let [alone]: [Secret; 1] = kdf(key, input);
        for (secret, expected) in three.iter().zip(expected) {
            assert_eq!(secret.to_vec(), hex(expected));
        }
        assert_eq!((&one, &two, &alone), (&three[0], &three[1], &three[0]));
    }
}

/// RFC 7693 appendix B: BLAKE2s-256 of "abc".
#[test]
fn hash_agrees_with_the_rfc() {
    let expected = "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982";
    assert_eq!(hash(&[b"a", b"bc"]).to_vec(), hex(expected));
}

/// draft-irtf-cfrg-xchacha-03 appendix A.3.1.
#[test]
fn xchacha_agrees_with_the_draft() {
    let plain =
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
        sunscreen would be it.";
    let aad = hex("50515253c0c1c2c3c4c5c6c7");
    let key: [u8; 32] = std::array::from_fn(|index| 0x80 + index as u8);
    let nonce: [u8; 24] = std::array::from_fn(|index| 0x40 + index as u8);
    let expected = hex("bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa644
        0bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b23835
        65d3fff921f9664c97637da9768812f615c68b13b52ec0875924c1c7987947deafd8780acf49");
    let mut sealed = vec![0; plain.len() + TAG_LEN];
    xseal(&key, &nonce, &aad, plain, &mut sealed).expect("seals");
    assert_eq!(sealed, expected);
    let mut opened = vec![0; plain.len()];
    xopen(&key, &nonce, &aad, &sealed, &mut opened).expect("opens");
    assert_eq!(opened, plain);
    sealed[3] ^= 1;
    assert_eq!(xopen(&key, &nonce, &aad, &sealed, &mut opened), Err(Refused));
}

/// RFC 7748 §6.1.
#[test]
fn agreement_agrees_with_the_rfc() {
    let array = |text: &str| <[u8; 32]>::try_from(hex(text)).expect("32 bytes");
    let rows = [
        (
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
        ),
        (
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
        ),
    ];
    let [alice, bob] = rows.map(|(private, public)| {
        let pair = KeyPair::new(&array(private)).expect("a key");
        assert_eq!(pair.public.0, array(public));
        pair
    });
    let shared = array("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
    assert_eq!(*alice.agree(&bob.public).expect("agrees"), shared);
    assert_eq!(*bob.agree(&alice.public).expect("agrees"), shared);
}

/// The points whose products are all zeros (https://cr.yp.to/ecdh.html#validate; of the twelve there, those that differ
/// modulo 2^255).
#[test]
fn points_of_low_order_are_refused() {
    let points = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];
    let own = KeyPair::new(&[0x48; 32]).expect("a key");
    for point in points {
        let point = PublicKey(hex(point).try_into().expect("32 bytes"));
        assert!(own.agree(&point).is_err(), "{point}");
    }
}
