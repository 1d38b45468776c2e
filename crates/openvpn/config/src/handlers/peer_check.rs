//! Directives on the peer's certificate.

use adit_pki::object_names::oid_of;
use adit_pki::{NameCheck, NameField};

use crate::directives::args::Args;
use crate::directives::{Effect, done, done_but};
use crate::draft::Draft;
use crate::model::SERVER_AUTH;

type Done = Result<Effect, String>;

const CLIENT_AUTH: &str = "1.3.6.1.5.5.7.3.2";

/// Extended key usages (RFC 5280 §4.2.1.12), by OpenSSL's long name and short name.
const USAGES: &[(&str, &str, &str)] = &[
    (SERVER_AUTH, "TLS Web Server Authentication", "serverAuth"),
    (CLIENT_AUTH, "TLS Web Client Authentication", "clientAuth"),
    ("1.3.6.1.5.5.7.3.3", "Code Signing", "codeSigning"),
    ("1.3.6.1.5.5.7.3.4", "E-mail Protection", "emailProtection"),
    ("1.3.6.1.5.5.7.3.5", "IPSec End System", "ipsecEndSystem"),
    ("1.3.6.1.5.5.7.3.6", "IPSec Tunnel", "ipsecTunnel"),
    ("1.3.6.1.5.5.7.3.7", "IPSec User", "ipsecUser"),
    ("1.3.6.1.5.5.7.3.8", "Time Stamping", "timeStamping"),
    ("1.3.6.1.5.5.7.3.9", "OCSP Signing", "OCSPSigning"),
    ("1.3.6.1.5.5.7.3.17", "ipsec Internet Key Exchange", "ipsecIKE"),
    ("2.5.29.37.0", "Any Extended Key Usage", "anyExtendedKeyUsage"),
];

fn is_oid(text: &str) -> bool {
    text.contains('.')
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(crate) fn remote_cert_tls(draft: &mut Draft, args: &Args<'_>) -> Done {
    let server = args.choice(0, &[("server", true), ("client", false)])?;
    draft.tls.wants_server = Some((server, args.entry.at.clone()));
    draft.tls.peer.usage = true;
    done()
}

pub(crate) fn remote_cert_eku(draft: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?;
    let known = USAGES.iter().find(|(oid, long, short)| name == *oid || name == *long || name == *short);
    let oid = match known {
        Some((oid, ..)) => *oid,
        None if is_oid(name) => name,
        None => {
            return Err(args.bad(
                name,
                "`remote-cert-tls server` or `remote-cert-tls client` instead, or an OID such as 1.3.6.1.5.5.7.3.1",
            ));
        }
    };
    if oid == SERVER_AUTH || oid == CLIENT_AUTH {
        draft.tls.wants_server = Some((oid == SERVER_AUTH, args.entry.at.clone()));
    }
    draft.tls.peer.extended_usage = Some(oid.to_owned());
    done()
}

pub(crate) fn remote_cert_ku(draft: &mut Draft, args: &Args<'_>) -> Done {
    let mut usages = Vec::new();
    for word in args.all() {
        match u16::from_str_radix(word, 16) {
            Ok(bits) if bits != 0 => usages.push(bits),
            _ => return Err(args.bad(word, "bits in hexadecimal such as `a0` or `80`")),
        }
    }
    draft.tls.peer.key_usages = Some(usages);
    done()
}

pub(crate) fn verify_x509_name(draft: &mut Draft, args: &Args<'_>) -> Done {
    let value = args.get(0)?;
    if value.is_empty() {
        return Err(args.usage());
    }
    type Kind = fn(String) -> NameCheck;
    let kinds: [(&str, Kind); 3] = [
        ("subject", NameCheck::Subject),
        ("name", NameCheck::CommonName),
        ("name-prefix", NameCheck::CommonNamePrefix),
    ];
    let check = if args.opt(1).is_some() { args.choice(1, &kinds)? } else { NameCheck::Subject };
    let check = check(value.into());
    if matches!(check, NameCheck::Subject(_)) && !value.contains('=') {
        return Err(args.bad(
            value,
            format!("the whole subject such as \"CN=…\", or `verify-x509-name {value} name` to compare the common name"),
        ));
    }
    draft.tls.peer.name = Some(check);
    done()
}

pub(crate) fn username_field(draft: &mut Draft, args: &Args<'_>) -> Done {
    let mut fields = Vec::new();
    for word in args.all() {
        // OpenVPN's options.c does so: OpenSSL's `uid` is another attribute than `UID`.
        let is_small = !word.contains(|letter: char| letter.is_ascii_uppercase());
        let known = if is_small { oid_of(&word.to_ascii_uppercase()) } else { oid_of(word) };
        fields.push(match (word.as_str(), known) {
            ("ext:subjectAltName", _) => NameField::SubjectEmail,
            ("ext:issuerAltName", _) => NameField::IssuerEmail,
            ("serialNumber", _) => NameField::Serial,
            (_, Some(oid)) => NameField::Subject(oid.to_owned()),
            (oid, None) if is_oid(oid) => NameField::Subject(oid.to_owned()),
            (other, None) => {
                return Err(args.bad(
                    other,
                    "an attribute of the subject such as `CN`, `UID` or `emailAddress`, `serialNumber`, or \
                     `ext:subjectAltName`",
                ));
            }
        });
    }
    draft.tls.peer.name_fields = fields;
    done()
}

pub(crate) fn peer_fingerprint(draft: &mut Draft, args: &Args<'_>) -> Done {
    let found = fingerprints(args, 32)?;
    draft.tls.peer.fingerprints.extend(found);
    exclusive(draft)?;
    done()
}

pub(crate) fn verify_hash(draft: &mut Draft, args: &Args<'_>) -> Done {
    let sha1 = match args.opt(1) {
        None => args.inline().is_none(),
        Some("SHA1") => true,
        Some("SHA256") => false,
        Some(other) => return Err(args.bad(other, "`SHA256` or `SHA1`")),
    };
    let found = fingerprints(args, if sha1 { 20 } else { 32 })?;
    draft.tls.peer.issuer_fingerprints.extend(found);
    exclusive(draft)?;
    if sha1 {
        done_but("SHA-1 can be forged with effort; better write the SHA-256, `verify-hash HASH SHA256`")
    } else {
        done()
    }
}

fn exclusive(draft: &Draft) -> Result<(), String> {
    let peer = &draft.tls.peer;
    if !peer.fingerprints.is_empty() && !peer.issuer_fingerprints.is_empty() {
        return Err("`peer-fingerprint` and `verify-hash` exclude each other; keep `peer-fingerprint`".into());
    }
    Ok(())
}

/// The fingerprints of one line, or of a block with one on each line.
fn fingerprints(args: &Args<'_>, length: usize) -> Result<Vec<Vec<u8>>, String> {
    let Some(inline) = args.inline() else {
        return Ok(vec![fingerprint(args, args.get(0)?, length)?]);
    };
    let lines = inline.text.lines().map(str::trim);
    let found: Result<Vec<_>, _> = lines
        .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
        .map(|line| fingerprint(args, line, length))
        .collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(format!("`{}`: the block is empty; write one fingerprint on each line", args.name()))
        }
        other => other,
    }
}

fn fingerprint(args: &Args<'_>, text: &str, length: usize) -> Result<Vec<u8>, String> {
    let text = text.trim();
    let byte = |pair: &str| match pair.len() {
        2 if pair.bytes().all(|digit| digit.is_ascii_hexdigit()) => u8::from_str_radix(pair, 16).ok(),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
    bytes.filter(|bytes| bytes.len() == length).ok_or_else(|| {
        args.bad(
            text.chars().take(120).collect::<String>(),
            format!("{length} pairs of hexadecimal digits with `:` between them (`openssl x509 -fingerprint -sha256 -noout -in FILE`)"),
        )
    })
}
