//! Static keys (`secret`): the directives that they need, and those that have no place beside them.

use adit_core::Cipher;
use adit_core::configuration::{Kind, Problem};
use adit_openvpn::wrap::KeyDirection;

use super::side::Side;
use crate::draft::Draft;
use crate::model::SharedSecret;
use crate::parser::Parser;

/// The directives that OpenVPN, too, takes in files with TLS alone (options.c, `options_postprocess_verify_ce`), and
/// those that stand for such.
#[rustfmt::skip]
const WITH_TLS_ALONE: &[&str] = &[
    "client", "pull", "tls-client", "tls-server", "auth-user-pass",
    "ca", "capath", "cert", "extra-certs", "key", "pkcs12", "dh", "crl-verify", "askpass",
    "management-external-key", "management-external-cert", "pkcs11-providers", "pkcs11-id",
    "pkcs11-id-management",
    "tls-auth", "tls-crypt", "tls-crypt-v2",
    "tls-cipher", "tls-ciphersuites", "tls-groups", "tls-cert-profile", "tls-version-min", "tls-version-max",
    "peer-fingerprint", "verify-hash", "verify-x509-name", "x509-username-field",
    "remote-cert-tls", "remote-cert-ku", "remote-cert-eku", "tls-export-cert",
    "tls-timeout", "hand-window", "tran-window", "reneg-sec", "reneg-bytes", "reneg-pkts",
    "tls-exit", "single-session", "push-peer-info",
];
/// The directives about agreeing on a cipher.
const NEGOTIATION: &[&str] =
    &["data-ciphers", "ncp-ciphers", "data-ciphers-fallback", "compat-mode", "ncp-disable"];

const NO_SECRECY: &str = "a static key has no forward secrecy, who learns it reads all that was ever sent";

/// The static key; `None` if there is none, or if there are problems.
pub(super) fn shared_secret(draft: &Draft, parser: &mut Parser<'_>) -> Option<SharedSecret> {
    let material = draft.tls.secret.as_ref()?;
    let at = &material.at;
    if !draft.sides.static_keys {
        parser.problems.push(at.problem(format!(
            "`secret` cannot be used unless the file says `allow-deprecated-insecure-static-crypto`: {NO_SECRECY}, \
             and OpenVPN 2.8 drops it; use `ca`, `cert` and `key`, or `peer-fingerprint` in place of `ca`"
        )));
        return None;
    }
    check_company(draft, parser);
    revise_report(parser);
    parser.warnings.push(at.problem(format!(
        "`secret`: {NO_SECRECY}; what was recorded before adit starts can be sent to it once more; and OpenVPN 2.8 \
         drops it: move to certificates (`tls-server` and `tls-client` with \
         `ca` or `peer-fingerprint`)"
    )));
    if draft.tls.direction == KeyDirection::Bidirectional {
        parser.warnings.push(at.problem(
            "`secret` without a direction: both ends seal with the same keys, so that what an end sent can be sent \
             back to it; write `secret FILE 0` at one end and `secret FILE 1` at the other (`key-direction` with a \
             block)",
        ));
    }
    let key = parser.static_key(material, draft);
    let cipher = draft.data.cipher.filter(|cipher| !cipher.is_aead());
    if cipher.is_none() {
        let told = match draft.data.cipher {
            Some(cipher) => format!("{cipher} is none"),
            None => "OpenVPN's default is BF-CBC, whose blocks of 64 bits give away what they hide (SWEET32)"
                .into(),
        };
        parser.problems.push(at.problem(format!(
            "`secret` needs a cipher that works with static keys, and {told}: write `cipher {}` at both ends",
            Cipher::Aes256Cbc
        )));
    }
    Some(SharedSecret { key: key?, direction: draft.tls.direction, cipher: cipher? })
}

/// An end with `remote` connects, one without listens. Over TCP, `proto` decides.
pub(crate) fn side(draft: &Draft) -> Side {
    let waits = match &draft.sides.tcp_end {
        Some((listens, _)) => *listens,
        None => draft.client.remotes.is_empty(),
    };
    if waits { Side::PointToPoint } else { Side::Client }
}

/// Refuses directives that are of no use beside a static key, and those that would leave the tunnel without
/// protection.
fn check_company(draft: &Draft, parser: &mut Parser<'_>) {
    let told = parser.report.iter().filter(|entry| entry.kind != Kind::Refused);
    let mut problems = Vec::new();
    for entry in told {
        let name = entry.directive.as_str();
        let text = match name {
            _ if WITH_TLS_ALONE.contains(&name) => {
                format!("`{name}` belongs to TLS, and `secret` takes the place of TLS; remove one of the two")
            }
            "replay-persist" => {
                "`replay-persist`: adit does not keep beyond its end what it took; remove it, and know \
                                 that what was recorded before adit's start can then be sent to it once more"
                    .to_owned()
            }
            _ => continue,
        };
        problems.push(Problem { file: entry.file.clone(), line: Some(entry.line), text });
    }
    parser.problems.extend(problems);
    if let Some(at) = &draft.sides.server {
        let text =
            "a server of many clients needs TLS, and `secret` takes the place of TLS; remove one of the two";
        parser.problems.push(at.problem(text));
    }
    if let Some(at) = &draft.data.no_auth {
        let text = "`auth none` would let an attacker change packets; write `auth SHA256` at both ends";
        parser.problems.push(at.problem(text));
    }
}

/// Nothing is negotiated: `cipher` decides.
fn revise_report(parser: &mut Parser<'_>) {
    for entry in &mut parser.report {
        match entry.directive.as_str() {
            "cipher" if entry.kind == Kind::Ignored => {
                (entry.kind, entry.reason) = (Kind::Used, String::new())
            }
            name if NEGOTIATION.contains(&name) && entry.kind == Kind::Used => {
                let reason = "with `secret` nothing is negotiated: `cipher` decides".to_owned();
                (entry.kind, entry.reason) = (Kind::Ignored, reason);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use adit_core::{Digest, Transport};
    use adit_openvpn::static_key::StaticKey;

    use super::*;
    use crate::model::{Bind, Role};
    use crate::{Parsed, parse};

    fn load(path: &Path) -> Result<Vec<u8>, String> {
        match path.to_str() {
            Some("static.key") => Ok(StaticKey::from_bytes(&[7; 256]).to_text().as_bytes().to_vec()),
            _ => Err("no such file".into()),
        }
    }

    const OPT_IN: &str = "allow-deprecated-insecure-static-crypto";
    const BASE: &str = "dev tun\nifconfig 10.4.0.1 10.4.0.2\nallow-deprecated-insecure-static-crypto";

    fn good(text: &str) -> Parsed {
        parse("f", format!("{BASE}\n{text}").as_bytes(), &load).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// The problem of these lines alone, behind the three of [`BASE`].
    fn bad(text: &str) -> String {
        let failure = parse("f", format!("{BASE}\n{text}").as_bytes(), &load).expect_err(text);
        assert_eq!(failure.problems.len(), 1, "{failure}");
        failure.to_string()
    }

    #[test]
    fn an_end_with_remote_connects() {
        let parsed = good(
            "remote east.example\nsecret static.key 1\ncipher AES-256-CBC\nauth SHA256\nkeepalive 10 60",
        );
        let secret = parsed.config.secret.clone().unwrap();
        assert_eq!((secret.direction, secret.cipher), (KeyDirection::Inverse, Cipher::Aes256Cbc));
        assert_eq!(secret.key, StaticKey::from_bytes(&[7; 256]));
        assert_eq!(parsed.config.data.auth, Digest::Sha256);
        let Role::Client(client) = &parsed.config.role else { panic!("it connects") };
        assert!(!client.pull);
        assert_eq!(client.remotes[0].bind, Some(Bind { address: None, port: 1194 }));
        assert!(parsed.report.iter().any(|entry| entry.directive == "cipher" && entry.kind == Kind::Used));
        let [warning] = &parsed.warnings[..] else { panic!("{:?}", parsed.warnings) };
        assert!(warning.text.contains("no forward secrecy") && warning.line == Some(5));
    }

    #[test]
    fn an_end_without_remote_listens() {
        let key = StaticKey::from_bytes(&[7; 256]).to_text();
        let parsed = good(&format!("port 5000\ncipher AES-128-CBC\n<secret>\n{}</secret>", key.as_str()));
        let Role::PointToPoint(point) = &parsed.config.role else { panic!("it waits") };
        assert_eq!((point.listen[0].port, point.listen[0].transport), (5000, Transport::Udp));
        assert_eq!(parsed.config.secret.unwrap().direction, KeyDirection::Bidirectional);
        assert!(parsed.warnings.iter().any(|warning| warning.text.contains("without a direction")));

        let key = "secret static.key 0\ncipher AES-192-CBC";
        let tcp = good(&format!("proto tcp-server\nremote 192.0.2.1\n{key}"));
        assert!(matches!(tcp.config.role, Role::PointToPoint(point) if point.remotes == ["192.0.2.1"]));
        let tcp = good(&format!("proto tcp-client\nremote 192.0.2.1\n{key}"));
        assert!(matches!(tcp.config.role, Role::Client(_)));
    }

    #[test]
    fn it_needs_an_explicit_option() {
        let text = format!("{}\nsecret static.key 0\ncipher AES-256-CBC", BASE.replace(OPT_IN, ""));
        let failure = parse("f", text.as_bytes(), &load).expect_err("refused");
        let told = failure.to_string();
        assert!(
            told.contains("f:4: `secret` cannot be used unless the file says") && told.contains(OPT_IN),
            "{told}"
        );
        assert!(told.contains("use `ca`, `cert` and `key`"), "{told}");
        // By itself it changes nothing.
        let told =
            parse("f", format!("client\nremote a\n{OPT_IN}").as_bytes(), &load).expect_err("no certificates");
        assert!(told.to_string().contains("`ca` is missing"), "{told}");
    }

    #[test]
    fn directives_that_need_tls_are_problems() {
        let key = "secret static.key 0\ncipher AES-256-CBC";
        for (lines, expected) in [
            ("secret static.key 0".to_owned(), "f:4: `secret` needs a cipher"),
            (
                "secret static.key 0\ncipher AES-256-GCM".into(),
                "AES-256-GCM is none: write `cipher AES-256-CBC`",
            ),
            ("secret static.key 0\ncipher BF-CBC".into(), "64 bits"),
            ("secret nofile\ncipher AES-256-CBC".into(), "`nofile` cannot be read"),
            ("secret static.key 2\ncipher AES-256-CBC".into(), "`0` or `1`"),
            (format!("{key}\nauth none"), "f:6: `auth none` would let an attacker"),
            (format!("{key}\nreneg-sec 60"), "f:6: `reneg-sec` belongs to TLS"),
            (format!("{key}\nreplay-persist x"), "remove it, and know"),
            (format!("{key}\npull"), "`pull` belongs to TLS"),
            (format!("{key}\ntls-server"), "`tls-server` belongs to TLS"),
            (format!("{key}\ntls-client\nremote a"), "`tls-client` belongs to TLS"),
            (format!("{key}\nserver 10.8.0.0 255.255.255.0"), "a server of many clients needs TLS"),
            (format!("{key}\nproto tcp-client"), "`remote` is missing"),
            (format!("{key}\nredirect-gateway"), "belongs into a client's"),
        ] {
            let failure = parse("f", format!("{BASE}\n{lines}").as_bytes(), &load).expect_err(&lines);
            assert!(failure.to_string().contains(expected), "{lines}\n{expected}\n{failure}");
        }
        for line in [
            "ca x",
            "capath x",
            "tls-auth x",
            "verify-x509-name a name",
            "<peer-fingerprint>\n</peer-fingerprint>",
        ] {
            let failure = parse("f", format!("{BASE}\n{key}\n{line}").as_bytes(), &load);
            assert!(failure.is_err(), "{line}");
        }
        assert!(
            bad("remote a\nsecret static.key 0\ncipher AES-256-CBC\nhand-window 9").contains("`hand-window`")
        );
    }
}
