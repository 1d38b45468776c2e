//! The directories beside the file, and the files that keys name in them.

use super::world::{World, problems_in};
use crate::{Config, KeyKind};

/// A certificate of P-256, made by `openssl req -x509`.
const CERTIFICATE: &str = include_str!("ca.pem");

fn world() -> World {
    World::default()
        .with("x509/moon.pem", CERTIFICATE)
        .with("x509/.moon.pem.swp", "x")
        .with("x509ca/b.pem", CERTIFICATE)
        .with("x509ca/a.pem", [CERTIFICATE, CERTIFICATE].concat())
        .with("x509ca/old/c.pem", CERTIFICATE)
        .with("x509crl/list.crl", "list")
        .with("pubkey/sun.pub", "public")
        .with("private/moon.key", "key of moon")
        .with("rsa/r.pem", "rsa")
        .with("ecdsa/e.pem", "ecdsa")
        .with("pkcs8/p.pem", "pkcs8")
        .with("pkcs12/m.p12", "container")
        .with("/srv/other.pem", CERTIFICATE)
}

fn config(text: &str) -> Config {
    world().parse(text).unwrap_or_else(|failure| panic!("{failure}")).config
}

#[test]
fn all_files_of_the_directories_are_read_in_the_order_of_their_names() {
    let credentials = config("secrets { }").credentials;
    let names = |all: &[crate::Document]| {
        all.iter().map(|one| one.name.replace("/etc/swanctl/", "")).collect::<Vec<_>>()
    };
    assert_eq!(names(&credentials.certificates), ["x509/moon.pem"]);
    assert_eq!(names(&credentials.authorities), ["x509ca/a.pem", "x509ca/b.pem"]);
    assert_eq!(names(&credentials.revocation_lists), ["x509crl/list.crl"]);
    assert_eq!(names(&credentials.public_keys), ["pubkey/sun.pub"]);
    let keys = credentials.private_keys.iter().map(|key| (key.document.name.as_str(), key.kind));
    let expected = [
        ("/etc/swanctl/private/moon.key", KeyKind::Any),
        ("/etc/swanctl/rsa/r.pem", KeyKind::Rsa),
        ("/etc/swanctl/ecdsa/e.pem", KeyKind::Ecdsa),
        ("/etc/swanctl/pkcs8/p.pem", KeyKind::Pkcs8),
    ];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    assert_eq!(credentials.containers.len(), 1);
    assert_eq!(credentials.authorities[0].certificates().map(|all| all.len()), Ok(2));
    assert_eq!(credentials.private_keys[0].document.content.bytes().as_slice(), b"key of moon");
    assert!(!format!("{credentials:?}").contains("key of moon"), "no content is shown");
}

#[test]
fn keys_name_files_of_their_directories_other_files_and_bytes() {
    let text = "\
connections { a {
  local { certs = moon.pem, /srv/other.pem
          cert-more { file = /srv/other.pem } }
  remote { cacerts = a.pem, b.pem
           pubkeys = sun.pub, 0x0a0b
           cacert { file = /srv/other.pem } }
} }
authorities { x { cacert = b.pem }
              y { file = /srv/other.pem } }
secrets { private-moon { file = moon.key
                         secret = \"a password\" }
          pkcs12 { file = m.p12
                   secret = 0x61 } }
";
    let config = config(text);
    let connection = &config.connections[0];
    let names = |all: &[crate::Document]| all.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        names(&connection.local[0].certs),
        ["/etc/swanctl/x509/moon.pem", "/srv/other.pem", "/srv/other.pem"]
    );
    assert_eq!(connection.local[0].certs[0].place.as_ref().map(|place| place.line), Some(2));
    let remote = &connection.remote[0];
    assert_eq!((remote.cacerts.len(), names(&remote.pubkeys)[1].as_str()), (3, "0x0a0b…"));
    assert_eq!(remote.pubkeys[1].content.bytes().as_slice(), [10, 11]);
    assert_eq!(config.authorities.len(), 2);
    assert_eq!(
        config.credentials.authorities.len(),
        2,
        "an authority that is there already is not added again"
    );
    let password = config.credentials.private_keys[0].password.as_ref().map(|one| one.bytes().to_vec());
    assert_eq!(password.as_deref(), Some(b"a password".as_slice()));
    let password = config.credentials.containers[0].password.as_ref().map(|one| one.bytes().to_vec());
    assert_eq!(password.as_deref(), Some(b"a".as_slice()));
}

#[test]
fn files_that_cannot_be_used_are_named_with_their_line() {
    let world =
        world().with("x509/note.txt", "a note").with("private/empty", "").with("x509/bad.pem", "-----BEGIN");
    let text = "\
connections { a {
  local { certs = sun.pem }
  remote { cacerts = /srv/none.pem
           certs = bad.pem }
  remote2 { cert { handle = 0a } }
  local2 { cert { slot = 1 } }
} }
authorities { x { crl_uris = http://example.org/a.crl } }
secrets { rsa { file = moon.key }
          private { secret = x }
          token-1 { handle = 0a } }
";
    let found = problems_in(&world, text);
    let expected = [
        "swanctl.conf:2: `certs`: x509/sun.pem cannot be read: No such file or directory",
        "swanctl.conf:3: `cacerts`: /srv/none.pem cannot be read: No such file or directory",
        "swanctl.conf:4: `certs`: x509/bad.pem: ",
        "swanctl.conf:5: `handle`: it is refused: adit reads no certificate from a token; write ",
        "swanctl.conf:6: the section has no `file`",
        "swanctl.conf:8: the authority has no `cacert`",
        "swanctl.conf:9: `file`: there is no file rsa/moon.key",
        "swanctl.conf:10: the section has no `file`",
        "swanctl.conf:11: adit reads no private key from a token; put the key into a file in `private`",
        "private/empty: private/empty is empty",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found:?} is not {expected:?}");
    }
}

#[test]
fn a_file_without_a_certificate_is_left_out_with_a_warning() {
    let parsed = world().with("x509/note.txt", "a note").parse("secrets { }").expect("a good file");
    assert_eq!(parsed.config.credentials.certificates.len(), 1);
    let warnings: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("note.txt"), "{warnings:?}");
}

#[test]
fn a_configuration_whose_lines_have_moved_is_equal() {
    let text = "connections { a { local { certs = moon.pem\n} mobike = no\n} }\nauthorities { x { cacert = b.pem\n} }";
    assert_eq!(config(text), config(&format!("# a comment\n\n{text}")));
    assert_ne!(config(text), config(&text.replace("no", "yes")));
}
