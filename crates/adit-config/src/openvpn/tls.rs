//! Directives on certificates, keys and TLS.

use std::path::PathBuf;
use std::time::Duration;

use super::args::Args;
use super::draft::{Draft, Material, Source};
use super::model::{Crl, KeyDirection, NameCheck, NameKind, TlsName, TlsVersion};
use super::table::{Effect, done, done_but, skip};
use crate::Pem;

const DAY: Duration = Duration::from_secs(86_400);

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

pub(super) fn tls_crypt_v2(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.opt(1).is_some() {
        draft.tls.force_cookie = args.choice(1, &[("force-cookie", true), ("allow-noncookie", false)])?;
    }
    material(&mut draft.tls.tls_crypt_v2, args)
}

pub(super) fn tls_crypt_v2_max_age(draft: &mut Draft, args: &Args<'_>) -> Done {
    let days = args.number(0, 1..=i32::MAX as u32)?;
    draft.tls.client_key_max_age = Some(DAY * days);
    done()
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

/// TLS 1.2 suites (IANA registry), by IANA's name with dashes, as OpenVPN writes them, and by OpenSSL's.
pub(super) const CIPHERS: &[(u16, &str, &str)] = &[
    (0xC02C, "TLS-ECDHE-ECDSA-WITH-AES-256-GCM-SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (0xC02B, "TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (0xCCA9, "TLS-ECDHE-ECDSA-WITH-CHACHA20-POLY1305-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (0xC030, "TLS-ECDHE-RSA-WITH-AES-256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    (0xC02F, "TLS-ECDHE-RSA-WITH-AES-128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    (0xCCA8, "TLS-ECDHE-RSA-WITH-CHACHA20-POLY1305-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
];

/// TLS 1.3 suites (RFC 8446 §B.4).
pub(super) const SUITES: &[(u16, &str, &str)] = &[
    (0x1302, "TLS_AES_256_GCM_SHA384", "TLS-AES-256-GCM-SHA384"),
    (0x1301, "TLS_AES_128_GCM_SHA256", "TLS-AES-128-GCM-SHA256"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256", "TLS-CHACHA20-POLY1305-SHA256"),
];

/// Key exchange groups (IANA registry).
pub(super) const GROUPS: &[(u16, &str, &str)] = &[
    (0x001D, "X25519", "x25519"),
    (0x0017, "secp256r1", "prime256v1"),
    (0x0018, "secp384r1", "P-384"),
    (0x0017, "P-256", "P-256"),
    (0x11EC, "X25519MLKEM768", "x25519_mlkem768"),
];

/// The names of a list that adit has, each once, and how many it has not. What OpenSSL's lists hold besides
/// names (`!aNULL`, `@SECLEVEL=1`) only takes away what adit never had.
fn known(list: &[String], known: &'static [(u16, &str, &str)]) -> (Vec<TlsName>, Vec<String>) {
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for item in list.iter().filter(|item| !item.starts_with(['!', '@', '-'])) {
        let item = item.strip_prefix('?').unwrap_or(item);
        let is = |name: &str| name.eq_ignore_ascii_case(item);
        match known.iter().find(|(_, ours, theirs)| is(ours) || is(theirs)) {
            Some((id, ..)) if found.iter().any(|name: &TlsName| name.id == *id) => {}
            Some((id, name, _)) => found.push(TlsName { id: *id, name }),
            None => unknown.push(item.to_string()),
        }
    }
    (found, unknown)
}

/// Reads a list of TLS names into `slot`, and says what of it adit has not.
fn names(slot: &mut Vec<TlsName>, args: &Args<'_>, table: &'static [(u16, &str, &str)]) -> Done {
    let list = args.list(0)?;
    if list.iter().any(|item| item == "DEFAULT") {
        slot.clear();
        return skip("adit's own list holds");
    }
    let (found, unknown) = known(&list, table);
    if found.is_empty() {
        slot.clear();
        return skip("adit has none of them; its own list holds, which is all forward-secret");
    }
    *slot = found;
    if unknown.is_empty() {
        done()
    } else {
        done_but(format!("left out: {}, which adit has not", unknown.join(", ")))
    }
}

pub(super) fn ciphers(draft: &mut Draft, args: &Args<'_>) -> Done {
    names(&mut draft.tls.ciphers, args, CIPHERS)
}

pub(super) fn suites(draft: &mut Draft, args: &Args<'_>) -> Done {
    names(&mut draft.tls.suites, args, SUITES)
}

pub(super) fn groups(draft: &mut Draft, args: &Args<'_>) -> Done {
    names(&mut draft.tls.groups, args, GROUPS)
}

pub(super) fn ecdh_curve(draft: &mut Draft, args: &Args<'_>) -> Done {
    // `tls-groups` supersedes it in OpenVPN too (since 2.5).
    if draft.tls.groups.is_empty() {
        names(&mut draft.tls.groups, args, GROUPS)
    } else {
        skip("`tls-groups` decides")
    }
}

pub(super) fn remote_cert_tls(draft: &mut Draft, args: &Args<'_>) -> Done {
    let server = args.choice(0, &[("server", true), ("client", false)])?;
    draft.tls.wants_server = Some((server, args.entry.at.clone()));
    done()
}

pub(super) fn remote_cert_eku(draft: &mut Draft, args: &Args<'_>) -> Done {
    let server = match args.get(0)? {
        "TLS Web Server Authentication" | "serverAuth" | "1.3.6.1.5.5.7.3.1" => true,
        "TLS Web Client Authentication" | "clientAuth" | "1.3.6.1.5.5.7.3.2" => false,
        other => return Err(args.bad(other, "`remote-cert-tls server` or `remote-cert-tls client` instead")),
    };
    draft.tls.wants_server = Some((server, args.entry.at.clone()));
    done_but("the key usage extension must be there too, as with `remote-cert-tls`")
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

pub(super) fn crl_verify(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.crl = Some(match args.inline() {
        Some(inline) => Crl::Inline(Pem::new(&inline.text)),
        None if args.get(0)? == BLOCK_FOLLOWS => return skip("the block gives it"),
        None => {
            let path = PathBuf::from(args.get(0)?);
            match args.opt(1) {
                None => Crl::File(path),
                Some("dir") => Crl::Directory(path),
                Some(other) => return Err(args.bad(other, "`dir` or nothing")),
            }
        }
    });
    done()
}

pub(super) fn cert_profile(_: &mut Draft, args: &Args<'_>) -> Done {
    match args.get(0)? {
        "preferred" | "suiteb" | "legacy" | "insecure" => done(),
        other => Err(args.bad(other, "`preferred`")),
    }
}
