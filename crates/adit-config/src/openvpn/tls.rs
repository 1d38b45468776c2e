//! Directives on certificates, keys and TLS.

use std::path::PathBuf;

use super::args::Args;
use super::draft::{Draft, Material, Source};
use super::model::{Eku, KeyDirection, KeyUsage, NameCheck, NameKind, TlsVersion};
use super::table::{Effect, done, done_but, skip};

type Done = Result<Effect, String>;

/// What older tools write beside an inline block: `ca [inline]`.
const BLOCK_FOLLOWS: &str = "[inline]";

fn material(slot: &mut Option<Material>, args: &Args<'_>) -> Done {
    let source = match args.inline() {
        Some(inline) => Source::Inline(inline.clone()),
        None if args.get(0)? == BLOCK_FOLLOWS => return skip("the block gives it"),
        None => Source::File(PathBuf::from(args.get(0)?)),
    };
    *slot = Some(Material { at: args.entry.at.clone(), source });
    done()
}

pub(super) fn ca(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.ca, args)
}

pub(super) fn cert(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.cert, args)
}

pub(super) fn extra_certs(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.extra, args)
}

pub(super) fn key(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.key, args)
}

pub(super) fn tls_auth(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.opt(1).is_some() {
        draft.tls.direction = Some(direction(args, 1)?);
    }
    material(&mut draft.tls.tls_auth, args)
}

pub(super) fn tls_crypt(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.tls_crypt, args)
}

fn direction(args: &Args<'_>, index: usize) -> Result<KeyDirection, String> {
    args.choice(index, &[("0", KeyDirection::Normal), ("1", KeyDirection::Inverse)])
}

pub(super) fn key_direction(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.direction = match args.get(0)? {
        "bidirectional" => None,
        _ => Some(direction(args, 0)?),
    };
    done()
}

pub(super) fn version_min(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.opt(1).is_some_and(|word| word != "or-highest") {
        return Err(args.usage());
    }
    match args.get(0)? {
        "1.0" | "1.1" => {
            draft.tls.version_min = Some(TlsVersion::V1_2);
            done_but("adit's oldest is 1.2")
        }
        "1.2" => {
            draft.tls.version_min = Some(TlsVersion::V1_2);
            done()
        }
        "1.3" => {
            draft.tls.version_min = Some(TlsVersion::V1_3);
            done()
        }
        _ if args.opt(1).is_some() => {
            draft.tls.version_min = Some(TlsVersion::V1_3);
            done_but("adit's newest is 1.3")
        }
        other => Err(args.bad(other, "`1.2` or `1.3`")),
    }
}

pub(super) fn version_max(draft: &mut Draft, args: &Args<'_>) -> Done {
    let max = args.choice(0, &[("1.2", TlsVersion::V1_2), ("1.3", TlsVersion::V1_3)])?;
    draft.tls.version_max = Some(max);
    done()
}

pub(super) fn ciphers(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.ciphers = args.list(0)?;
    done()
}

pub(super) fn suites(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.suites = args.list(0)?;
    done()
}

pub(super) fn groups(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.groups = args.list(0)?;
    done()
}

pub(super) fn ecdh_curve(draft: &mut Draft, args: &Args<'_>) -> Done {
    // `tls-groups` supersedes it in OpenVPN too (since 2.5).
    if draft.tls.groups.is_empty() {
        draft.tls.groups = args.list(0)?;
        return done_but("taken as `tls-groups`");
    }
    skip("`tls-groups` decides")
}

pub(super) fn remote_cert_tls(draft: &mut Draft, args: &Args<'_>) -> Done {
    let eku = match args.get(0)? {
        "server" => Eku::ServerAuth,
        "client" => Eku::ClientAuth,
        other => return Err(args.bad(other, "`server` in a client's file, `client` in a server's")),
    };
    draft.tls.eku = Some(eku);
    draft.tls.ku = KeyUsage::Present;
    done()
}

pub(super) fn remote_cert_ku(draft: &mut Draft, args: &Args<'_>) -> Done {
    let mut bits = Vec::new();
    for word in args.all() {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        match u16::from_str_radix(digits, 16) {
            Ok(value) if value != 0 => bits.push(value),
            _ => return Err(args.bad(word, "key usage bits in hexadecimal such as `a0 88`")),
        }
    }
    draft.tls.ku = if bits.is_empty() { KeyUsage::Present } else { KeyUsage::OneOf(bits) };
    done()
}

pub(super) fn remote_cert_eku(draft: &mut Draft, args: &Args<'_>) -> Done {
    let found = args.get(0)?;
    let dotted = |oid: &str| {
        oid.contains('.')
            && oid.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    draft.tls.eku = Some(match found {
        "TLS Web Server Authentication" | "serverAuth" | "1.3.6.1.5.5.7.3.1" => Eku::ServerAuth,
        "TLS Web Client Authentication" | "clientAuth" | "1.3.6.1.5.5.7.3.2" => Eku::ClientAuth,
        oid if dotted(oid) => Eku::Oid(oid.into()),
        other => {
            return Err(args.bad(
                other,
                "\"TLS Web Server Authentication\", \"TLS Web Client Authentication\" or a dotted OID",
            ));
        }
    });
    done()
}

pub(super) fn verify_x509_name(draft: &mut Draft, args: &Args<'_>) -> Done {
    let value = args.get(0)?;
    if value.is_empty() {
        return Err(args.usage());
    }
    let kinds =
        [("subject", NameKind::Subject), ("name", NameKind::Name), ("name-prefix", NameKind::NamePrefix)];
    let kind = if args.opt(1).is_some() { args.choice(1, &kinds)? } else { NameKind::Subject };
    if kind == NameKind::Subject && !value.contains('=') {
        return Err(args.bad(
            value,
            format!("the whole subject such as \"CN=…\", or `verify-x509-name {value} name` to compare the common name"),
        ));
    }
    draft.tls.name = Some(NameCheck { kind, value: value.into() });
    done()
}

pub(super) fn cert_profile(_: &mut Draft, args: &Args<'_>) -> Done {
    match args.get(0)? {
        "preferred" | "suiteb" => {
            skip("adit takes RSA from 2048 bits, ECDSA and Ed25519, with SHA-256 or better")
        }
        "legacy" | "insecure" => skip(
            "adit takes no weaker certificates: RSA from 2048 bits, ECDSA, Ed25519, with SHA-256 or better",
        ),
        other => Err(args.bad(other, "`preferred`")),
    }
}
