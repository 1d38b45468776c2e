//! The text form of static keys.

use zeroize::Zeroizing;

use super::StaticKey;

const BEGIN: &str = "-----BEGIN OpenVPN Static key V1-----";
const END: &str = "-----END OpenVPN Static key V1-----";

impl StaticKey {
    /// Reads the file form: 512 hexadecimal digits between a BEGIN and an END line, anything around them. Among them,
    /// lines that start with `#` or `;` are comments.
    ///
    /// # Errors
    /// The fault, without a digit of the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(str::trim).skip_while(|line| *line != BEGIN);
        if lines.next().is_none() {
            return Err(format!(
                "no `{BEGIN}` line: an OpenVPN static key is wanted (`openvpn --genkey secret FILE` makes one)"
            ));
        }
        let mut key = Zeroizing::new([0u8; 256]);
        let mut digits = 0usize;
        let mut ended = false;
        for line in lines {
            if line == END {
                ended = true;
                break;
            }
            if line.starts_with(['#', ';']) {
                continue;
            }
            for digit in line.chars().filter(|c| !c.is_ascii_whitespace()) {
                let Some(value) = digit.to_digit(16) else {
                    return Err("the static key holds something that is no hexadecimal digit".into());
                };
                let Some(byte) = key.get_mut(digits / 2) else {
                    return Err("the static key is longer than 256 bytes".into());
                };
                *byte = (*byte << 4) | value as u8;
                digits += 1;
            }
        }
        if !ended {
            return Err(format!("the static key has no `{END}` line: the file was cut short"));
        }
        if digits != 512 {
            return Err(format!("the static key is {} bytes long, 256 are wanted", digits / 2));
        }
        Ok(StaticKey::from_bytes(&key))
    }

    /// The file form that [`StaticKey::parse`] and OpenVPN read.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(700));
        text.push_str(BEGIN);
        text.push('\n');
        for line in self.as_bytes().chunks(16) {
            for byte in line {
                for nibble in [byte >> 4, byte & 15] {
                    text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
                }
            }
            text.push('\n');
        }
        text.push_str(END);
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> StaticKey {
        let mut bytes = [0; 256];
        bytes.iter_mut().zip(0u8..=255).for_each(|(byte, value)| *byte = value);
        StaticKey::from_bytes(&bytes)
    }

    #[test]
    fn static_key_round_trip() {
        let text = key().to_text();
        assert_eq!(text.lines().nth(1), Some("000102030405060708090a0b0c0d0e0f"));
        assert_eq!(StaticKey::parse(&text), Ok(key()));
        assert_eq!(StaticKey::parse(&format!("#\n# 2048 bit\n#\n{}", text.replace('\n', "\r\n"))), Ok(key()));
    }

    #[test]
    fn bad_static_keys_are_told_apart() {
        let text = key().to_text().to_string();
        for (bad, word) in [
            (String::new(), "BEGIN"),
            (text.replace(END, ""), "cut short"),
            (text.replacen("00", "0", 1), "255 bytes"),
            (text.replacen("00", "000000", 1), "longer"),
            (text.replacen("00", "0g", 1), "hexadecimal"),
        ] {
            let error = StaticKey::parse(&bad).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }

    /// The key of OpenVPN's tests/unit_tests/openvpn/test_pkt.c, as a configuration holds it.
    const TEST_PKT_KEY: &str = "<tls-auth>
-----BEGIN OpenVPN Static key V1-----
37268ea8f95d7f71f9fb8fc03770c460
daf714a483d815c013ce0a537efc18f2
8f4f172669d9e6a413bac6741d8ea054
00f49b7fd6326470f23798c606bf53d4
de63ebc64ec59d57ce5d04d5b62e68b5
3ca6e5354351097fa370446c4d269f18
7bb6ae54af2dc70ff7317fe2f8754b82
82aad4202f9fa42c8640245d883e2c54
a0c1c489a036cf3a8964d8d289c1583b
9447c262b1da5fd167a5d27bd5ac5143
17bc2343a31a2efc38dd920d910375f5
1c2e27f3afd36c49269da079f7ce466e
bb0f9ad13e9bbb4665974e6bc24b513c
5700393bf4a3e7f967e2f384069ac8a8
e78b18b15604993fd16515cce9c0f3e4
2b4126b999005ade802797b0eeb8b9e6
-----END OpenVPN Static key V1-----
</tls-auth>
";

    #[test]
    fn static_keys_of_openvpn() {
        let key = StaticKey::parse(TEST_PKT_KEY).unwrap();
        assert_eq!(key.as_bytes()[..4], [0x37, 0x26, 0x8e, 0xa8]);
        assert_eq!(key.as_bytes()[252..], [0xee, 0xb8, 0xb9, 0xe6]);
        assert_eq!(*key.to_text(), TEST_PKT_KEY[11..TEST_PKT_KEY.len() - 12]);
        let text = TEST_PKT_KEY.replace("8f4f", "# half way\n; here\n 8f4f").replace('\n', "\r\n");
        assert_eq!(StaticKey::parse(&text), Ok(key));
        assert!(StaticKey::parse("deadbeef").is_err());
        assert!(StaticKey::parse(&TEST_PKT_KEY.replace("END", "FIN")).is_err());
    }

    proptest! {
        #[test]
        fn parse_undoes_print(bytes in prop::collection::vec(any::<u8>(), 256)) {
            let key = StaticKey::from_bytes(&bytes.try_into().unwrap());
            prop_assert_eq!(StaticKey::parse(&key.to_text()), Ok(key));
        }

        #[test]
        fn parse_never_panics(text in any::<String>()) {
            let _ = StaticKey::parse(&text);
            let _ = StaticKey::parse(&format!("{BEGIN}\n{text}\n{END}"));
        }
    }
}
