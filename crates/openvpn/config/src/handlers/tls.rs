//! Directives on certificates, keys and TLS.

use std::path::PathBuf;
use std::time::Duration;

use adit_openvpn::wrap::KeyDirection;

use crate::HASHED_FILES;
use crate::Pem;
use crate::directives::args::Args;
use crate::directives::{Effect, done, done_but, skip};
use crate::draft::{Draft, Material, Source};
use crate::model::{CertProfile, Crl, KeyPassword, TlsName, TlsVersion};

const DAY: Duration = Duration::from_secs(86_400);

type Done = Result<Effect, String>;

/// The word that older tools write beside an inline block: `ca [inline]`.
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

pub(crate) fn ca(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.ca, args)
}

pub(crate) fn capath(draft: &mut Draft, args: &Args<'_>) -> Done {
    let directory = args.get(0)?;
    if directory.is_empty() {
        return Err(args.usage());
    }
    let source = Source::File(PathBuf::from(directory).join(HASHED_FILES));
    draft.tls.capath = Some(Material { at: args.entry.at.clone(), source });
    done_but(
        "its certificates `HASH.N` and revocation lists `HASH.rN` (`openssl rehash`) are read with the configuration, \
         and again when that is",
    )
}

pub(crate) fn cert(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.cert, args)
}

pub(crate) fn extra_certs(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.extra, args)
}

pub(crate) fn key(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.key, args)
}

pub(crate) fn pkcs12(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.pkcs12, args)
}

pub(crate) fn askpass(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.key_password = match args.opt(0) {
        None | Some("stdin") => KeyPassword::Prompt,
        Some("") => return Err(args.usage()),
        Some(path) => KeyPassword::File(path.into()),
    };
    done()
}

pub(crate) fn tls_auth(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.opt(1).is_some() {
        draft.tls.direction = direction(args, 1)?;
    }
    material(&mut draft.tls.tls_auth, args)
}

pub(crate) fn secret(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.opt(1).is_some() {
        draft.tls.direction = direction(args, 1)?;
    }
    material(&mut draft.tls.secret, args)
}

pub(crate) fn static_keys(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.sides.static_keys = true;
    done()
}

pub(crate) fn tls_crypt(draft: &mut Draft, args: &Args<'_>) -> Done {
    material(&mut draft.tls.tls_crypt, args)
}

pub(crate) fn tls_crypt_v2(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.opt(1).is_some() {
        draft.tls.force_cookie = args.choice(1, &[("force-cookie", true), ("allow-noncookie", false)])?;
    }
    material(&mut draft.tls.tls_crypt_v2, args)
}

pub(crate) fn tls_crypt_v2_max_age(draft: &mut Draft, args: &Args<'_>) -> Done {
    let days = args.number(0, 1..=i32::MAX as u32)?;
    draft.tls.client_key_max_age = Some(DAY * days);
    done()
}

fn direction(args: &Args<'_>, index: usize) -> Result<KeyDirection, String> {
    args.choice(index, &[("0", KeyDirection::Normal), ("1", KeyDirection::Inverse)])
}

pub(crate) fn key_direction(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.direction = match args.get(0)? {
        "bidirectional" => KeyDirection::Bidirectional,
        _ => direction(args, 0)?,
    };
    done()
}

pub(crate) fn version_min(draft: &mut Draft, args: &Args<'_>) -> Done {
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

pub(crate) fn version_max(draft: &mut Draft, args: &Args<'_>) -> Done {
    let max = args.choice(0, &[("1.2", TlsVersion::V1_2), ("1.3", TlsVersion::V1_3)])?;
    draft.tls.version_max = Some(max);
    done()
}

/// TLS 1.2 suites (IANA registry), by IANA's name with dashes, as OpenVPN writes them, and by OpenSSL's.
pub(crate) const CIPHERS: &[(u16, &str, &str)] = &[
    (0xC02C, "TLS-ECDHE-ECDSA-WITH-AES-256-GCM-SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (0xC02B, "TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (0xCCA9, "TLS-ECDHE-ECDSA-WITH-CHACHA20-POLY1305-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (0xC030, "TLS-ECDHE-RSA-WITH-AES-256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    (0xC02F, "TLS-ECDHE-RSA-WITH-AES-128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    (0xCCA8, "TLS-ECDHE-RSA-WITH-CHACHA20-POLY1305-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
];

/// TLS 1.3 suites (RFC 8446 §B.4).
pub(crate) const SUITES: &[(u16, &str, &str)] = &[
    (0x1302, "TLS_AES_256_GCM_SHA384", "TLS-AES-256-GCM-SHA384"),
    (0x1301, "TLS_AES_128_GCM_SHA256", "TLS-AES-128-GCM-SHA256"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256", "TLS-CHACHA20-POLY1305-SHA256"),
];

/// Key exchange groups (IANA registry).
pub(crate) const GROUPS: &[(u16, &str, &str)] = &[
    (0x001D, "X25519", "x25519"),
    (0x0017, "secp256r1", "prime256v1"),
    (0x0018, "secp384r1", "P-384"),
    (0x0017, "P-256", "P-256"),
    (0x11EC, "X25519MLKEM768", "x25519_mlkem768"),
    (0x11EB, "SecP256r1MLKEM768", "secp256r1_mlkem768"),
];

/// Words of OpenSSL's and GnuTLS's lists that stand for many suites. adit has only the best of any of them.
const CLASSES: &[&str] = &[
    "DEFAULT",
    "ALL",
    "HIGH",
    "MEDIUM",
    "LOW",
    "SECURE",
    "SECURE128",
    "SECURE192",
    "SECURE256",
    "NORMAL",
    "COMPLEMENTOFDEFAULT",
    "COMPLEMENTOFALL",
    "ECDHE",
    "EECDH",
    "KECDHE",
    "KEECDH",
    "ECDSA",
    "AECDSA",
    "RSA",
    "ARSA",
    "AES",
    "AES128",
    "AES256",
    "AESGCM",
    "CHACHA20",
    "SHA256",
    "SHA384",
    "TLSV1.2",
    "DHE",
    "EDH",
    "KDHE",
    "SUITEB128",
    "SUITEB128ONLY",
    "SUITEB192",
    "FIPS",
];

/// The result of reading a list of names.
#[derive(Default)]
struct Names {
    /// The names that adit has, each once.
    found: Vec<TlsName>,
    /// The names that adit has not.
    unknown: Vec<String>,
    /// A word that stands for many is among them.
    class: bool,
}

impl Names {
    /// Reads a list of names. The items of OpenSSL's lists besides names (`!aNULL`, `@SECLEVEL=1`) only take
    /// away names that adit never had.
    fn of(list: &[String], table: &'static [(u16, &str, &str)]) -> Self {
        let mut names = Names::default();
        for item in list.iter().filter(|item| !item.starts_with(['!', '@', '-'])) {
            let item = item.trim_start_matches(['?', '+', '*']);
            let is = |name: &str| name.eq_ignore_ascii_case(item);
            match table.iter().find(|(_, ours, theirs)| is(ours) || is(theirs)) {
                Some((id, ..)) if names.found.iter().any(|name: &TlsName| name.id == *id) => {}
                Some((id, name, _)) => names.found.push(TlsName { id: *id, name }),
                None if item.split('+').all(|word| CLASSES.contains(&word.to_ascii_uppercase().as_str())) => {
                    names.class = true;
                }
                None => names.unknown.push(item.to_string()),
            }
        }
        names
    }
}

/// Reads a list of TLS names into `slot`, and reports the names that adit does not have.
fn names(slot: &mut Vec<TlsName>, args: &Args<'_>, table: &'static [(u16, &str, &str)]) -> Done {
    slot.clear();
    let Names { found, unknown, class } = Names::of(&args.list(0)?, table);
    if class {
        return skip("adit's own list holds, which is all forward-secret and authenticated");
    }
    if found.is_empty() {
        let mut ours: Vec<&str> = table.iter().map(|(_, name, _)| *name).collect();
        ours.dedup();
        return Err(args.bad(args.get(0)?, format!("at least one of {}", ours.join(", "))));
    }
    *slot = found;
    if unknown.is_empty() {
        done()
    } else {
        done_but(format!("left out: {}, which adit has not", unknown.join(", ")))
    }
}

pub(crate) fn ciphers(draft: &mut Draft, args: &Args<'_>) -> Done {
    names(&mut draft.tls.ciphers, args, CIPHERS)
}

pub(crate) fn suites(draft: &mut Draft, args: &Args<'_>) -> Done {
    names(&mut draft.tls.suites, args, SUITES)
}

pub(crate) fn groups(draft: &mut Draft, args: &Args<'_>) -> Done {
    names(&mut draft.tls.groups, args, GROUPS)
}

pub(crate) fn ecdh_curve(draft: &mut Draft, args: &Args<'_>) -> Done {
    // `tls-groups` supersedes it in OpenVPN too (since 2.5).
    if draft.tls.groups.is_empty() {
        names(&mut draft.tls.groups, args, GROUPS)
    } else {
        skip("`tls-groups` decides")
    }
}

pub(crate) fn crl_verify(draft: &mut Draft, args: &Args<'_>) -> Done {
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

pub(crate) fn cert_profile(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.tls.cert_profile = CertProfile::Preferred;
    match args.get(0)? {
        "preferred" => done(),
        "legacy" | "insecure" => done_but(
            "adit goes no lower than `preferred`: RSA from 2048 bits, ECDSA and Ed25519, with SHA-256 or better",
        ),
        "suiteb" => {
            draft.tls.cert_profile = CertProfile::SuiteB;
            done()
        }
        other => Err(args.bad(other, "`preferred`, `suiteb`, `legacy` or `insecure`")),
    }
}

pub(crate) fn tls_exit(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.client.tls_exit = true;
    done_but("it ends a client; a server goes on with the others")
}

pub(crate) fn export_certificates(draft: &mut Draft, args: &Args<'_>) -> Done {
    args.get(0)?;
    draft.access.export_certificates = true;
    done_but(
        "`tls-verify` finds the certificate in the file that `peer_cert` names, which is made in `tmp-dir`",
    )
}

pub(crate) fn push_peer_info(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.client.push_peer_info = true;
    done_but("the server gets what `setenv UV_…` sets; nothing else that identifies the machine")
}

pub(crate) fn single_session(draft: &mut Draft, _: &Args<'_>) -> Done {
    draft.server.single = true;
    done_but("it holds for a point-to-point tunnel; elsewhere each client has one connection anyway")
}
