//! The commands that ask for the daemon, its configuration and its credentials.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use adit_ike_config::{Document, Pool, PoolAddresses};
use adit_ike_vici::{Message, Value};
use adit_pki::inspect::{hex, subject_and_serial};
use adit_pki::{pem, subject_key_digest};
use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::caller::Caller;
use super::connection::section;
use super::look;
use super::view::View;
use crate::loaded::{KeyId, SecretKind, key_ids};

/// The algorithms that `adit` has, by strongSwan's names of kinds and algorithms.
const ALGORITHMS: [(&str, &[&str]); 6] = [
    ("encryption", &["AES_CBC"]),
    ("integrity", &["HMAC_SHA1_96", "HMAC_SHA2_256_128", "HMAC_SHA2_384_192", "HMAC_SHA2_512_256"]),
    ("aead", &["AES_GCM_16", "CHACHA20_POLY1305"]),
    ("hasher", &["HASH_SHA1", "HASH_SHA2_256", "HASH_SHA2_384", "HASH_SHA2_512", "HASH_IDENTITY"]),
    ("prf", &["PRF_HMAC_SHA1", "PRF_HMAC_SHA2_256", "PRF_HMAC_SHA2_384", "PRF_HMAC_SHA2_512"]),
    (
        "ke",
        &[
            "ECP_256",
            "ECP_384",
            "ECP_521",
            "CURVE_25519",
            "MODP_2048",
            "MODP_3072",
            "MODP_4096",
            "ML_KEM_768",
            "ML_KEM_1024",
        ],
    ),
];
/// strongSwan 5.9's name of the kind `ke`.
const OLDER_KE: &str = "dh";

/// The program and the system.
pub(super) fn version() -> Message {
    let system = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Message::new()
        .with("daemon", "adit")
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("sysname", text(system.sysname()))
        .with("release", text(system.release()))
        .with("machine", text(system.machine()))
}

/// The use of the daemon. It has no worker threads and no queues of jobs as strongSwan has them: their numbers are 0.
pub(super) fn stats(view: &View) -> Message {
    let running = adit_io::clock() - view.began;
    let since = adit_io::unix_at_origin() + (view.began - adit_core::Instant::ORIGIN);
    let since = adit_pki::date(rustls_pki_types::UnixTime::since_unix_epoch(since));
    let since = since.trim_end_matches(" +00:00");
    let [connecting, half_open, established] = view.look(look::counts).unwrap_or_default();
    let total = connecting + half_open + established;
    let by_priority = || {
        let priorities = ["critical", "high", "medium", "low"].into_iter();
        priorities.fold(Message::new(), |section, priority| section.with(priority, 0))
    };
    let workers = Message::new().with("total", 0).with("idle", 0).with_section("active", by_priority());
    let ike_sas = Message::new().with("total", total).with("half-open", half_open);
    Message::new()
        .with_section("uptime", Message::new().with("running", in_words(running)).with("since", since))
        .with_section("workers", workers)
        .with_section("queues", by_priority())
        .with("scheduled", 0)
        .with_section("ikesas", ike_sas)
        .with_list("plugins", ["adit"])
}

/// A time as strongSwan writes it: in the largest unit of which there are two at least.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "day"), (3600, "hour"), (60, "minute")];
    let unit = units.into_iter().find(|(length, _)| seconds > length * 2).unwrap_or((1, "second"));
    let count = seconds / unit.0;
    format!("{count} {}{}", unit.1, if count == 1 { "" } else { "s" })
}

/// The algorithms, with the program in the place of strongSwan's plugin.
pub(super) fn algorithms() -> Message {
    let of = |names: &[&str]| names.iter().fold(Message::new(), |section, name| section.with(name, "adit"));
    let mut all = Message::new();
    for (kind, names) in ALGORITHMS {
        all = all.with_section(kind, of(names));
        if kind == "ke" {
            all = all.with_section(OLDER_KE, of(names));
        }
    }
    all
}

/// The names of the connections.
pub(super) fn connections(view: &View) -> Message {
    let config = view.configured.config();
    Message::new().with_list("conns", config.connections.iter().map(|own| &own.name))
}

/// The identifiers of the private keys.
pub(super) fn keys(view: &View) -> Message {
    let ids = key_ids(&view.configured.config());
    Message::new().with_list("keys", ids.iter().map(|id| hex(id)))
}

/// The names of the secrets that both ends have.
pub(super) fn secrets(view: &View) -> Message {
    let config = view.configured.config();
    let kinds = [SecretKind::Ike, SecretKind::Eap, SecretKind::Ppk].into_iter();
    let names: Vec<&String> = kinds.flat_map(|kind| kind.of(&config)).map(|own| &own.name).collect();
    Message::new().with_list("keys", names)
}

/// The names of the authorities.
pub(super) fn authorities(view: &View) -> Message {
    let config = view.configured.config();
    Message::new().with_list("authorities", config.authorities.iter().map(|own| &own.name))
}

/// The pools, with the addresses that peers have.
pub(super) fn pools(message: &Message, view: &View) -> Message {
    let config = view.configured.config();
    let leases = leases(view);
    let with_leases = message.text("leases") == Some("yes");
    let is_asked = |pool: &&Pool| message.text("name").is_none_or(|asked| asked == pool.name);
    let mut all = Message::new();
    for pool in config.pools.iter().filter(is_asked) {
        let of_pool: Vec<&Lease> = leases.iter().filter(|lease| has(pool, lease.address)).collect();
        let (base, size) = extent(pool);
        let mut section = Message::new()
            .with("base", base)
            .with("size", size)
            .with("online", of_pool.len())
            .with("offline", 0);
        if with_leases {
            let mut list = Message::new();
            for (number, lease) in of_pool.iter().enumerate() {
                let one = Message::new()
                    .with("address", lease.address)
                    .with("identity", &lease.identity)
                    .with("status", "online");
                list = list.with_section(&number.to_string(), one);
            }
            section = section.with_section("leases", list);
        }
        all = all.with_section(&pool.name, section);
    }
    all
}

/// An inner address that a peer has.
struct Lease {
    address: IpAddr,
    identity: String,
}

fn leases(view: &View) -> Vec<Lease> {
    let all = look::established(view).unwrap_or_default();
    let of = |sa: &super::sas::IkeSa| {
        let identity = super::names::identity(&sa.info.detail.remote_identity);
        let addresses = sa.info.detail.peer_inner.clone().into_iter();
        addresses.map(move |address| Lease { address, identity: identity.clone() }).collect::<Vec<_>>()
    };
    all.iter().flat_map(of).collect()
}

fn has(pool: &Pool, address: IpAddr) -> bool {
    match pool.addrs {
        PoolAddresses::Network(network) => network.contains(&address),
        PoolAddresses::Range(first, last) => (first..=last).contains(&address),
    }
}

/// The first address of a pool, and the number of addresses; that is bounded, as strongSwan's is.
fn extent(pool: &Pool) -> (IpAddr, u64) {
    /// Most addresses of a pool of strongSwan: 31 bits.
    const MOST: u64 = (1 << 31) - 1;
    match pool.addrs {
        PoolAddresses::Network(network) => {
            let bits = u32::from(network.max_prefix_len() - network.prefix_len());
            let all = 1_u64.checked_shl(bits).unwrap_or(MOST);
            // The first and the last address are none of hosts, where there are others.
            let hosts = if bits > 1 { all - 2 } else { all };
            (network.addr(), hosts.min(MOST))
        }
        PoolAddresses::Range(first, last) => {
            let number = |address| match address {
                IpAddr::V4(address) => u128::from(u32::from(address)),
                IpAddr::V6(address) => u128::from(address),
            };
            let size = number(last).saturating_sub(number(first)).saturating_add(1);
            (first, u64::try_from(size).unwrap_or(MOST).min(MOST))
        }
    }
}

/// Sends an event for each connection.
///
/// # Errors
/// The program at the other end has gone.
pub(super) fn list_connections(message: &Message, view: &View, caller: &Caller) -> io::Result<Message> {
    let config = view.configured.config();
    let asked =
        config.connections.iter().filter(|own| message.text("ike").is_none_or(|name| name == own.name));
    for connection in asked {
        caller.event("list-conn", Message::new().with_section(&connection.name, section(connection)))?;
    }
    Ok(Message::new())
}

/// Sends an event for each certificate and each revocation list.
///
/// # Errors
/// The program at the other end has gone.
pub(super) fn list_certificates(message: &Message, view: &View, caller: &Caller) -> io::Result<Message> {
    let config = view.configured.config();
    let keys = key_ids(&config);
    let is = |name: &str, value: &str| {
        let is = |asked: &str| asked.eq_ignore_ascii_case(value) || asked.eq_ignore_ascii_case("any");
        message.text(name).is_none_or(is)
    };
    for (flag, documents) in
        [("NONE", &config.credentials.certificates), ("CA", &config.credentials.authorities)]
    {
        if !is("type", "X509") || !is("flag", flag) {
            continue;
        }
        for certificate in documents.iter().flat_map(certificates) {
            if is("subject", &subject(&certificate)) {
                caller.event("list-cert", certificate_message(&certificate, flag, &keys))?;
            }
        }
    }
    if is("type", "X509_CRL") && message.text("subject").is_none() {
        for list in config.credentials.revocation_lists.iter().filter_map(revocation_list) {
            caller.event(
                "list-cert",
                with_data(Message::new().with("type", "X509_CRL").with("flag", "NONE"), list),
            )?;
        }
    }
    Ok(Message::new())
}

fn certificates(document: &Document) -> Vec<CertificateDer<'static>> {
    document.certificates().unwrap_or_default()
}

fn certificate_message(
    certificate: &CertificateDer<'_>,
    flag: &str,
    keys: &std::collections::BTreeSet<KeyId>,
) -> Message {
    let mut message = Message::new().with("type", "X509").with("flag", flag);
    if subject_key_digest(certificate).is_some_and(|key| keys.contains(&key)) {
        message = message.with("has_privkey", "yes");
    }
    with_data(message, certificate.to_vec())
}

fn with_data(message: Message, data: Vec<u8>) -> Message {
    message.with_value("data", Value::Bytes(Zeroizing::new(data)))
}

/// A revocation list in DER.
fn revocation_list(document: &Document) -> Option<Vec<u8>> {
    pem::revocation_list(document.content.bytes())
}

fn subject(certificate: &CertificateDer<'_>) -> String {
    subject_and_serial(certificate).map(|(subject, _)| subject).unwrap_or_default()
}

/// Sends an event for each authority.
///
/// # Errors
/// The program at the other end has gone.
pub(super) fn list_authorities(message: &Message, view: &View, caller: &Caller) -> io::Result<Message> {
    let config = view.configured.config();
    let is_asked = |name: &str| message.text("name").is_none_or(|asked| asked == name);
    for authority in config.authorities.iter().filter(|own| is_asked(&own.name)) {
        let certificate = certificates(&authority.cacert).into_iter().next();
        let name = certificate.map(|certificate| subject(&certificate)).unwrap_or_default();
        let none: [&str; 0] = [];
        let section =
            Message::new().with("cacert", name).with_list("crl_uris", none).with_list("ocsp_uris", none);
        caller.event("list-authority", Message::new().with_section(&authority.name, section))?;
    }
    Ok(Message::new())
}

/// Whether peers have addresses of the pool of that name.
pub(super) fn is_pool_in_use(name: &str, view: &View) -> bool {
    let config = view.configured.config();
    config.pool(name).is_some_and(|pool| leases(view).iter().any(|lease| has(pool, lease.address)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_largest_unit_of_which_there_are_more_than_two() {
        for (seconds, expected) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (120, "120 seconds"),
            (121, "2 minutes"),
            (7201, "2 hours"),
            (200_000, "2 days"),
        ] {
            assert_eq!(in_words(Duration::from_secs(seconds)), expected);
        }
    }
}
