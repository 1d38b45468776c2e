//! Directives on the data channel, pings and renewal of keys.

use std::time::Duration;

use adit_core::{Cipher, Digest, IdleLimit, ReplayWindow};
use adit_openvpn::codec::Compression;
use adit_openvpn::params::{Fragment, MssFix};

use crate::directives::args::Args;
use crate::directives::{Effect, done, done_but, skip};
use crate::draft::Draft;

type Done = Result<Effect, String>;

/// OpenVPN's default list since 2.6.
pub(crate) const DEFAULT_CIPHERS: [Cipher; 3] =
    [Cipher::Aes256Gcm, Cipher::Aes128Gcm, Cipher::ChaCha20Poly1305];

const CIPHERS: &str = "`AES-256-GCM`, `AES-192-GCM`, `AES-128-GCM`, `CHACHA20-POLY1305`, or for old peers \
                       `AES-256-CBC`, `AES-192-CBC` or `AES-128-CBC`";

/// A cipher by its name, or a part of why adit has it not: "`BF-CBC`, which ...". `None`: no such cipher.
fn by_name(name: &str) -> Option<Result<Cipher, String>> {
    const SMALL_BLOCKS: [&str; 7] = ["BF", "DES", "DESX", "CAST5", "RC2", "IDEA", "RC5"];
    const OTHERS: [&str; 5] = ["AES", "CAMELLIA", "SEED", "ARIA", "SM4"];
    if let Some(cipher) = Cipher::from_name(name) {
        return Some(Ok(cipher));
    }
    let upper = name.to_ascii_uppercase();
    let family = upper.split('-').next().unwrap_or_default();
    if SMALL_BLOCKS.contains(&family) {
        return Some(Err(format!(
            "{name}, whose blocks of 64 bits give away what they hide after some gigabytes (SWEET32)"
        )));
    }
    if upper == "NONE" {
        return Some(Err("none, which would leave the tunnel open to everybody".to_owned()));
    }
    // A family alone is no cipher.
    (OTHERS.contains(&family) && upper != family).then(|| Err(format!("{name}, which adit has not")))
}

pub(crate) fn cipher(draft: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?;
    match by_name(name) {
        Some(Ok(cipher)) => draft.data.cipher = Some(cipher),
        Some(Err(_)) => {}
        None => return Err(args.bad(name, CIPHERS)),
    }
    done()
}

pub(crate) fn data_ciphers(draft: &mut Draft, args: &Args<'_>) -> Done {
    let mut ciphers = Vec::new();
    let mut left_out = Vec::new();
    for item in args.list(0)? {
        let (name, optional) = item.strip_prefix('?').map_or((item.as_str(), false), |name| (name, true));
        match by_name(name) {
            _ if name == "DEFAULT" => ciphers.extend(DEFAULT_CIPHERS),
            Some(Ok(cipher)) => ciphers.push(cipher),
            Some(Err(why)) => left_out.push(why),
            None if optional => left_out.push(format!("{name}, which adit has not")),
            None => return Err(args.bad(name, CIPHERS)),
        }
    }
    let mut unique: Vec<Cipher> = Vec::new();
    for cipher in ciphers {
        if !unique.contains(&cipher) {
            unique.push(cipher);
        }
    }
    let left_out = left_out.join("; ");
    if unique.is_empty() {
        return Err(format!(
            "{}. It was left out: {left_out}",
            args.bad(args.get(0)?, format!("at least one of {CIPHERS}"))
        ));
    }
    draft.data.ciphers = Some(unique);
    if left_out.is_empty() { done() } else { done_but(format!("left out: {left_out}")) }
}

pub(crate) fn fallback(draft: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?;
    match by_name(name) {
        Some(Ok(cipher)) => draft.data.fallback = Some(cipher),
        Some(Err(why)) => {
            return skip(format!("{why}: a peer that cannot negotiate is turned away with a message"));
        }
        None => return Err(args.bad(name, CIPHERS)),
    }
    done()
}

pub(crate) fn auth(draft: &mut Draft, args: &Args<'_>) -> Done {
    let name = args.get(0)?;
    draft.data.no_auth = None;
    if name.eq_ignore_ascii_case("none") {
        draft.data.no_auth = Some(args.entry.at.clone());
        return skip("`data-ciphers` authenticate themselves; `tls-auth` needs a digest and takes SHA1");
    }
    let digest = Digest::from_name(name)
        .ok_or_else(|| args.bad(name, "`SHA1`, `SHA224`, `SHA256`, `SHA384` or `SHA512`"))?;
    draft.data.auth = Some(digest);
    done()
}

pub(crate) fn compat_mode(draft: &mut Draft, args: &Args<'_>) -> Done {
    let found = args.get(0)?;
    let numbers: Option<Vec<u32>> =
        found.split('.').map(|part| part.parse().ok().filter(|number| *number < 100)).collect();
    let Some([major, minor, patch]) = numbers.as_deref() else {
        return Err(args.bad(found, "a version such as 2.4.0"));
    };
    let version = major * 10_000 + minor * 100 + patch;
    draft.data.compat = Some(version);
    match version {
        2_07_00.. => done_but("adit adapts to the peer by itself"),
        2_06_00.. => done_but("adit offers no epoch data format; else it adapts to the peer by itself"),
        _ => done_but("adit offers nothing newer than OpenVPN 2.5, and TLS 1.2 at least"),
    }
}

const DECOMPRESSES: &str = "what the peer compresses is decompressed; adit itself compresses nothing, as that has been used to break encryption (VORACLE)";

pub(crate) fn comp_lzo(draft: &mut Draft, args: &Args<'_>) -> Done {
    let compresses = match args.opt(0) {
        Some("no") => false,
        None | Some("yes" | "adaptive") => true,
        Some(other) => return Err(args.bad(other, "`no`, `yes` or `adaptive`")),
    };
    draft.data.migrate = false;
    frame(draft, args, Compression::LzoNo, compresses)
}

pub(crate) fn compress(draft: &mut Draft, args: &Args<'_>) -> Done {
    // OpenVPN puts the byte of `lz4` where `stub` has its own, that of `lz4-v2` where `stub-v2` has its own,
    // and that of `lzo` where `comp-lzo` has its own.
    let (framing, compresses) = match args.opt(0) {
        None | Some("stub") => (Compression::Stub, false),
        Some("stub-v2") => (Compression::StubV2, false),
        Some("lz4") => (Compression::Stub, true),
        Some("lz4-v2") => (Compression::StubV2, true),
        Some("lzo") => (Compression::LzoNo, true),
        Some("migrate") => (Compression::None, false),
        Some(other) => return Err(args.bad(other, "`stub-v2`, `stub`, `lzo`, `lz4` or `lz4-v2`")),
    };
    draft.data.migrate = args.opt(0) == Some("migrate");
    frame(draft, args, framing, compresses)
}

/// The last framing counts, and with it whether an algorithm is named.
fn frame(draft: &mut Draft, args: &Args<'_>, framing: Compression, compresses: bool) -> Done {
    draft.data.compression = framing;
    draft.data.algorithm = compresses.then(|| args.entry.at.clone());
    if compresses { done_but(DECOMPRESSES) } else { done() }
}

/// OpenVPN takes no permission back that `no` denied (options.c).
pub(crate) fn allow_compression(draft: &mut Draft, args: &Args<'_>) -> Done {
    let mode = args.get(0)?;
    let allows = match mode {
        "no" => false,
        "asym" | "yes" => true,
        other => return Err(args.bad(other, "`no`, `asym` or `yes`")),
    };
    if allows && let Some((false, before)) = &draft.data.allow_compression {
        return Err(format!(
            "`allow-compression {mode}`: line {} says `no` already; remove one of the two",
            before.line
        ));
    }
    draft.data.allow_compression = Some((allows, args.entry.at.clone()));
    if mode == "yes" {
        done_but("as `asym`: what comes is decompressed, and nothing compressed")
    } else {
        done()
    }
}

pub(crate) fn fragment(draft: &mut Draft, args: &Args<'_>) -> Done {
    // The least that OpenVPN takes (options.c).
    let bytes = args.number(0, 68..=u16::MAX)?;
    let fragment = match args.opt(1) {
        None => Fragment::Payload(bytes),
        Some("mtu") => Fragment::Mtu(bytes),
        Some(other) => return Err(args.bad(other, "`mtu`, or nothing")),
    };
    draft.data.fragment = Some((fragment, args.entry.at.clone()));
    done()
}

pub(crate) fn replay_window(draft: &mut Draft, args: &Args<'_>) -> Done {
    // OpenVPN takes 0 to 65536 packets and 0 to 600 seconds (packet_id.h); 0 packets means strict order,
    // which a window of one packet gives.
    let packets = args.number(0, 0..=65_536u32)?.max(1);
    let time = args.opt_number(1, 0..=600)?.map_or(ReplayWindow::default().time, Duration::from_secs);
    draft.data.replay_window = Some(ReplayWindow { packets, time });
    done()
}

pub(crate) fn mssfix(draft: &mut Draft, args: &Args<'_>) -> Done {
    if args.opt(0).is_none() {
        draft.data.mssfix = MssFix::Default;
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
        (0, _) => MssFix::Off,
        (_, Some("mtu")) => MssFix::Mtu(bytes),
        (_, Some(_)) => MssFix::Fixed(bytes),
        (_, None) => MssFix::Payload(bytes),
    };
    done()
}

pub(crate) fn keepalive(draft: &mut Draft, args: &Args<'_>) -> Done {
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

pub(crate) fn ping(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.liveness.ping = args.seconds_or_never(0)?;
    done()
}

pub(crate) fn ping_restart(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.liveness.timeout = args.seconds_or_never(0)?;
    draft.liveness.exit = false;
    done()
}

pub(crate) fn ping_exit(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.liveness.timeout = args.seconds_or_never(0)?;
    draft.liveness.exit = true;
    done()
}

/// `inactive SECONDS [BYTES]`; 0 is without limit.
pub(crate) fn idle_limit(args: &Args<'_>) -> Result<IdleLimit, String> {
    let bytes = args.opt_number(1, 0..=i64::MAX as u64)?.unwrap_or(0);
    Ok(IdleLimit { after: args.seconds(0)?, bytes })
}

pub(crate) fn inactive(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.limits.idle = Some(idle_limit(args)?);
    done()
}

pub(crate) fn session_timeout(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.limits.length = Some(args.seconds(0)?);
    done()
}

pub(crate) fn reneg_sec(draft: &mut Draft, args: &Args<'_>) -> Done {
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

/// As OpenVPN: both directions together, since the present keys came.
pub(crate) fn reneg_bytes(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.rekey.limits.bytes = args.number(0, 0..=u64::MAX)?;
    done()
}

pub(crate) fn reneg_packets(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.rekey.limits.packets = args.number(0, 0..=u64::MAX)?;
    done()
}

pub(crate) fn tran_window(draft: &mut Draft, args: &Args<'_>) -> Done {
    draft.rekey.transition = args.seconds(0)?;
    done()
}

pub(crate) fn hand_window(draft: &mut Draft, args: &Args<'_>) -> Done {
    let seconds = args.seconds(0)?;
    if seconds.is_zero() {
        return Err(args.bad(0, "at least 1 second; 60 is usual"));
    }
    draft.rekey.handshake = seconds;
    done()
}

pub(crate) fn tls_timeout(draft: &mut Draft, args: &Args<'_>) -> Done {
    let seconds = args.seconds(0)?;
    if seconds.is_zero() {
        return Err(args.bad(0, "at least 1 second; 2 is usual"));
    }
    draft.rekey.retransmit = seconds;
    done()
}
