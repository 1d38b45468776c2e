//! Directives on the data channel, pings and renewal of keys.

use adit_core::{Cipher, CompressionFraming};

use super::args::Args;
use super::draft::Draft;
use super::model::{Digest, Mssfix, OnTimeout};
use super::table::{Effect, done, done_but, skip};

type Done = Result<Effect, String>;

/// OpenVPN's default list since 2.6.
pub(super) const DEFAULT_CIPHERS: [Cipher; 3] =
    [Cipher::Aes256Gcm, Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305];

const CIPHERS: &str = "`AES-256-GCM`, `AES-128-GCM` or `CHACHA20-POLY1305`";

/// Ciphers that OpenVPN has or had and adit has not.
fn is_foreign(name: &str) -> bool {
    let families =
        ["AES-", "BF-", "DES-", "DESX-", "CAST5-", "RC2-", "CAMELLIA-", "SEED-", "ARIA-", "SM4-", "IDEA-"];
    let upper = name.to_ascii_uppercase();
    upper == "NONE" || upper == "BF" || families.iter().any(|family| upper.starts_with(family))
}

pub(super) fn cipher(_: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?;
    if Cipher::from_name(name).is_none() && !is_foreign(name) {
        return Err(args.bad(name, CIPHERS));
    }
    done()
}

pub(super) fn data_ciphers(draft: &mut Draft, args: &Args<'_>) -> Done {
    let mut ciphers = Vec::new();
    let mut left_out = Vec::new();
    for item in args.list(0)? {
        let (name, optional) = item.strip_prefix('?').map_or((item.as_str(), false), |name| (name, true));
        if name == "DEFAULT" {
            ciphers.extend(DEFAULT_CIPHERS);
        } else if let Some(cipher) = Cipher::from_name(name) {
            ciphers.push(cipher);
        } else if optional || is_foreign(name) {
            left_out.push(name.to_string());
        } else {
            return Err(args.bad(name, CIPHERS));
        }
    }
    let mut unique: Vec<Cipher> = Vec::new();
    for cipher in ciphers {
        if !unique.contains(&cipher) {
            unique.push(cipher);
        }
    }
    if unique.is_empty() {
        return Err(args.bad(args.get(0)?, format!("at least one of {CIPHERS}")));
    }
    draft.data.ciphers = Some(unique);
    if left_out.is_empty() {
        done()
    } else {
        done_but(format!("left out: {}, which adit has not", left_out.join(", ")))
    }
}

pub(super) fn fallback(draft: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?;
    match Cipher::from_name(name) {
        Some(cipher) => draft.data.fallback = Some(cipher),
        None if is_foreign(name) => {
            return skip(format!(
                "adit has no {name}: a peer that cannot negotiate is turned away with a message"
            ));
        }
        None => return Err(args.bad(name, CIPHERS)),
    }
    done()
}

pub(super) fn auth(draft: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?;
    draft.data.auth = match name.to_ascii_uppercase().as_str() {
        "SHA1" | "SHA-1" | "RSA-SHA1" => Digest::Sha1,
        "SHA256" | "SHA2-256" | "SHA-256" | "RSA-SHA256" => Digest::Sha256,
        "SHA384" | "SHA2-384" | "SHA-384" | "RSA-SHA384" => Digest::Sha384,
        "SHA512" | "SHA2-512" | "SHA-512" | "RSA-SHA512" => Digest::Sha512,
        "NONE" => {
            return skip("data ciphers authenticate themselves; `tls-auth` needs a digest and takes SHA1");
        }
        _ => return Err(args.bad(name, "`SHA1`, `SHA256`, `SHA384` or `SHA512`")),
    };
    done()
}

const NEVER_COMPRESSES: &str = "only the framing: adit does not compress, and drops what the peer compressed; turn compression off there";

pub(super) fn comp_lzo(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.data.compression = CompressionFraming::LzoNo;
    match args.opt(0) {
        Some("no") => done(),
        None | Some("yes" | "adaptive") => done_but(NEVER_COMPRESSES),
        Some(other) => Err(args.bad(other, "`no`")),
    }
}

pub(super) fn compress(draft: &mut Draft, args: &Args<'_>) -> Done {
    // OpenVPN puts the byte of `lz4` where `stub` has its own, that of `lz4-v2` where `stub-v2` has its own,
    // and that of `lzo` where `comp-lzo` has its own.
    let (framing, compresses) = match args.opt(0) {
        None | Some("stub") => (CompressionFraming::Stub, false),
        Some("stub-v2") => (CompressionFraming::StubV2, false),
        Some("lz4") => (CompressionFraming::Stub, true),
        Some("lz4-v2") => (CompressionFraming::StubV2, true),
        Some("lzo") => (CompressionFraming::LzoNo, true),
        Some("migrate") => return skip("adit adapts to a client's framing without being told"),
        Some(other) => return Err(args.bad(other, "`stub-v2` or `stub`")),
    };
    draft.data.compression = framing;
    if compresses { done_but(NEVER_COMPRESSES) } else { done() }
}

pub(super) fn allow_compression(_: &mut Draft, args: &Args<'_>) -> Done {
    match args.get(0)? {
        "no" | "asym" | "yes" => done(),
        other => Err(args.bad(other, "`no`")),
    }
}

pub(super) fn replay_window(draft: &mut Draft, args: &Args<'_>) -> Done {
    // OpenVPN takes 0 to 65536 packets and 0 to 600 seconds (packet_id.h); 0 packets means strict order,
    // which a window of one packet gives.
    let packets = args.number(0, 0..=65_536u32)?.max(1);
    let time = args.opt_number(1, 0..=600u64)?;
    draft.data.replay_window = Some(packets);
    if time.is_some() {
        return done_but("by packets alone; time does not make a packet late");
    }
    done()
}

pub(super) fn mssfix(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.opt(0).is_none() {
        draft.data.mssfix = Mssfix::Default;
        return done();
    }
    let bytes: u16 = args.number(0, 0..=u16::MAX)?;
    if bytes != 0 && bytes < 576 {
        return Err(args.bad(bytes, "0 to leave segments alone, or at least 576"));
    }
    draft.data.mssfix = match (bytes, args.opt(1)) {
        (_, Some(other)) if other != "mtu" && other != "fixed" => {
            return Err(args.bad(other, "`mtu` or `fixed`"));
        }
        (0, _) => Mssfix::Off,
        (_, Some("mtu")) => Mssfix::Outer(bytes),
        (_, Some(_)) => Mssfix::Fixed(bytes),
        (_, None) => Mssfix::Payload(bytes),
    };
    done()
}

pub(super) fn keepalive(draft: &mut Draft, args: &Args<'_>) -> Done {
    let (ping, timeout) = (args.seconds(0)?, args.seconds(1)?);
    if ping.is_zero() && timeout.is_zero() {
        draft.keepalive = None;
        return done_but("no pings");
    }
    if ping.is_zero() || ping * 2 > timeout {
        return Err(args.bad(
            args.all().join(" "),
            "a first value of at least 1, and a second of at least twice the first; `keepalive 10 60` is usual",
        ));
    }
    draft.keepalive = Some((ping, timeout));
    done()
}

pub(super) fn ping(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.liveness.ping = args.seconds_or_never(0)?;
    done()
}

pub(super) fn ping_restart(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.liveness.timeout = args.seconds_or_never(0)?;
    draft.liveness.on_timeout = OnTimeout::Restart;
    done()
}

pub(super) fn ping_exit(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.liveness.timeout = args.seconds_or_never(0)?;
    draft.liveness.on_timeout = OnTimeout::Exit;
    done()
}

pub(super) fn reneg_sec(draft: &mut Draft, args: &Args<'_>) -> Done {
    let after = args.seconds_or_never(0)?;
    draft.rekey.after = after;
    match args.opt(1) {
        None => done(),
        Some(_) => {
            args.seconds(1)?;
            done_but("the first value alone; a server spreads renewals by itself")
        }
    }
}

pub(super) fn tran_window(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.rekey.transition = args.seconds(0)?;
    done()
}

pub(super) fn hand_window(draft: &mut Draft, args: &Args<'_>) -> Done {
    let seconds = args.seconds(0)?;
    if seconds.is_zero() {
        return Err(args.bad(0, "at least 1 second; 60 is usual"));
    }
    draft.rekey.handshake = seconds;
    done()
}

pub(super) fn tls_timeout(draft: &mut Draft, args: &Args<'_>) -> Done {
    let seconds = args.seconds(0)?;
    if seconds.is_zero() {
        return Err(args.bad(0, "at least 1 second; 2 is usual"));
    }
    draft.rekey.retransmit = seconds;
    done()
}
