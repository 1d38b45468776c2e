//! The names and values of a subject's attributes that scripts get from OpenVPN and from adit.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use adit_pki::object_names;
use adit_testbed::{Namespace, Scratch, can_run, program};
use rcgen::string::{BmpString, Ia5String, PrintableString, TeletexString, UniversalString};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, KeyUsagePurpose,
};

use super::chains::issue::Made;
use super::chains::trial::{Trial, Verdict};
use super::requirements::output;
use super::revocation_lists::forms::{Author, certify};
use super::revocation_lists::identity;
use crate::bed::PROGRAMS;
use crate::options::{Part, Program};

/// A value of one string type. Those of one byte a character get ASCII, as rcgen writes no other.
type Encode = fn(String) -> DnValue;

const TYPES: [Encode; 6] = [
    |text| DnValue::Utf8String(format!("{text} é€")),
    |text| DnValue::BmpString(BmpString::try_from(format!("{text} é€")).unwrap()),
    |text| DnValue::UniversalString(UniversalString::try_from(format!("{text} é€")).unwrap()),
    |text| DnValue::TeletexString(TeletexString::try_from(text).unwrap()),
    |text| DnValue::PrintableString(PrintableString::try_from(text).unwrap()),
    |text| DnValue::Ia5String(Ia5String::try_from(text).unwrap()),
];

/// A name with an attribute of each object identifier that OpenSSL names, and of one that it does not. Their string types
/// begin with another one in each name.
fn name(first: usize) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    let others = [("1.2.3.4.5", "")];
    for (place, (oid, _)) in object_names::short_names().chain(others).enumerate() {
        let parts: Vec<u64> = oid.split('.').map(|part| part.parse().unwrap()).collect();
        if parts.len() > 1 {
            let encode = TYPES[(first + place) % TYPES.len()];
            name.push(DnType::CustomDnType(parts), encode(format!("v{place}")));
        }
    }
    name
}

/// A server's certificate, whose subject is the [`name`] of `first`, and its key.
fn certificate(author: &Author, first: usize) -> [String; 2] {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(first);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    certify(&author.issuer, params)
}

/// The text that a script of `tls-verify` gets from `client` about the server's certificate: the subject and the variables of its
/// attributes.
fn told(client: Program, author: &Author, server: &[String; 2], namespace: &Namespace) -> String {
    let directory = Scratch::create("subject").unwrap();
    let told = directory.path().join("told");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = 0 ] || exit 0\n\
         {{ printf 'subject=%s\\n' \"$2\"; tr '\\0' '\\n' </proc/$$/environ | grep '^X509_0_' | LC_ALL=C sort; }} >{}\n",
        told.display()
    );
    let script = executable(&directory, &script);
    let trusted = format!("<ca>\n{}</ca>\n", author.ca);
    let verifying = format!("{trusted}script-security 2\ntls-verify {}\n", script.display());
    let made = Made { shows: identity(server), verifying };
    let own = Made { shows: identity(&author.good), verifying: trusted };
    let trial = Trial { verifier: client, part: Part::Client, made: &made, own: &own };
    let outcome = trial.run(namespace, &directory).unwrap();
    assert_eq!(outcome.verdict, Verdict::Accepts, "{client:?}");
    std::fs::read_to_string(told).unwrap()
}

fn executable(directory: &Scratch, text: &str) -> PathBuf {
    let script = directory.write("verify.sh", text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// Every attribute of OpenSSL's table, in six string types.
#[test]
fn scripts_get_every_attribute_as_from_openvpn() {
    if !can_run("scripts_get_every_attribute_as_from_openvpn", &PROGRAMS) {
        return;
    }
    let author = Author::new();
    let namespace = Namespace::create("subject").unwrap();
    for first in 0..TYPES.len() {
        let server = certificate(&author, first);
        let [openvpn, adit] =
            [Program::OpenVpn, Program::Adit].map(|client| told(client, &author, &server, &namespace));
        let others: Vec<(&str, &str)> =
            openvpn.lines().zip(adit.lines()).filter(|(theirs, ours)| theirs != ours).collect();
        assert!(others.is_empty(), "{first}: (OpenVPN, adit): {others:#?}");
        assert_eq!(openvpn.lines().count(), adit.lines().count(), "{first}");
        assert!(adit.lines().count() > 1_000 && adit.contains("X509_0_UID=v"), "{adit}");
    }
}

/// The table of names is OpenSSL's. Later versions have more.
#[test]
fn names_are_those_that_openssl_prints() {
    if !can_run("names_are_those_that_openssl_prints", &["openssl"]) {
        return;
    }
    let mut command = program("openssl").unwrap();
    command.args(["list", "-objects"]);
    let listing = output(command);
    let mut common = 0;
    for line in listing.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(" = ").unwrap();
        let oid = rest.rsplit(", ").next().unwrap();
        match object_names::short_name(oid) {
            Some(ours) => {
                // Two names stand for ISO's organization.
                assert!(ours == name || oid == "1.3", "{oid}: {ours}, OpenSSL: {name}");
                common += 1;
            }
            // The listing cuts long identifiers off.
            None => assert!(oid.ends_with('.') || !is_of_names(oid), "{oid} {name} is missing"),
        }
    }
    assert!(common > 1_000, "{common}");
}

/// Whether the arc is one of attributes of names: X.520 or RFC 4519.
fn is_of_names(oid: &str) -> bool {
    oid.starts_with("2.5.4.") || oid.starts_with("0.9.2342.19200300.100.1.")
}
