//! The commands that load and unload connections, secrets, certificates, pools and authorities.

use adit_ike_config::{Document, KeyKind, PrivateKeyFile, SecretBytes};
use adit_ike_vici::{Message, Value};
use adit_pki::inspect::hex;
use zeroize::Zeroizing;

use super::query::is_pool_in_use;
use super::text::read;
use super::view::View;
use crate::loaded::{CertificateKind, Change, KeyId, SecretKind};
use crate::translate::private_keys::identifier;

/// The commands here.
const COMMANDS: [&str; 14] = [
    "load-conn",
    "unload-conn",
    "load-cert",
    "load-key",
    "unload-key",
    "load-token",
    "load-shared",
    "unload-shared",
    "load-pool",
    "unload-pool",
    "load-authority",
    "unload-authority",
    "clear-creds",
    "flush-certs",
];
/// The name of what came by VICI, in messages.
const NAME: &str = "VICI";

/// Whether a command is one of these.
pub(super) fn is_known(command: &str) -> bool {
    COMMANDS.contains(&command)
}

/// Carries out a command.
///
/// # Errors
/// Something is missing or wrong: the text says it.
pub(super) fn run(command: &str, message: &Message, view: &View) -> Result<Message, String> {
    let load = |change| view.configured.load(change);
    match command {
        "load-conn" => each_section(message, "connection", |name, section| {
            read("connections", name, section)?
                .connections
                .into_iter()
                .try_for_each(|connection| load(Change::Connection(Box::new(connection))))
        })?,
        "unload-conn" => load(Change::RemoveConnection(named(message, "unload: missing connection name")?))?,
        "load-cert" => {
            if let Some((kind, document)) = certificate(message)? {
                load(Change::Certificate(kind, document))?;
            }
        }
        "load-key" => return load_key(message, view),
        "unload-key" => load(Change::RemoveKey(key_id(message)?))?,
        "load-token" => return Err("this daemon reads no private key from a token".to_owned()),
        "load-shared" => return load_shared(message, view),
        "unload-shared" => load(Change::RemoveSecret(id(message, "unique identifier missing")?))?,
        "load-pool" => each_section(message, "pool", |name, section| {
            read("pools", name, section)?.pools.into_iter().try_for_each(|pool| load(Change::Pool(pool)))
        })?,
        "unload-pool" => {
            let name = named(message, "missing pool name to unload")?;
            if is_pool_in_use(&name, view) {
                return Err(format!("pool '{name}' has online leases, unable to unload"));
            }
            load(Change::RemovePool(name))?;
        }
        "load-authority" => each_section(message, "authority", |name, section| {
            let authorities = read("authorities", name, section)?.authorities;
            authorities.into_iter().try_for_each(|authority| load(Change::Authority(authority)))
        })?,
        "unload-authority" => {
            load(Change::RemoveAuthority(named(message, "unload: missing authority name")?))?;
        }
        "clear-creds" => load(Change::ClearCredentials)?,
        // Certificates of peers are not kept.
        _ => {}
    }
    Ok(Message::new())
}

/// Takes each section of a message; at least one must be there.
fn each_section(
    message: &Message,
    what: &str,
    mut take: impl FnMut(&str, &Message) -> Result<(), String>,
) -> Result<(), String> {
    if message.is_empty() {
        return Err(format!("the message has no section with the name of a {what}"));
    }
    for (name, value) in message.elements() {
        let Value::Section(section) = value else {
            return Err(format!("`{name}` is no section with the name of a {what}"));
        };
        take(name, section).map_err(|why| format!("{name}: {why}"))?;
    }
    Ok(())
}

fn named(message: &Message, missing: &str) -> Result<String, String> {
    message.text("name").map(str::to_owned).ok_or_else(|| missing.to_owned())
}

fn id(message: &Message, missing: &str) -> Result<String, String> {
    message.text("id").map(str::to_owned).ok_or_else(|| missing.to_owned())
}

fn bytes(message: &Message, name: &str) -> Option<Zeroizing<Vec<u8>>> {
    match message.get(name)? {
        Value::Bytes(bytes) if !bytes.is_empty() => Some(bytes.clone()),
        Value::Bytes(_) | Value::List(_) | Value::Section(_) => None,
    }
}

fn document(content: Zeroizing<Vec<u8>>) -> Document {
    Document { name: NAME.to_owned(), place: None, content: SecretBytes::new(content) }
}

/// The certificate of a request, with its kind. `None`: it is of a kind that is not read, as in files.
fn certificate(message: &Message) -> Result<Option<(CertificateKind, Document)>, String> {
    let kind = message.text("type").ok_or("certificate type missing")?;
    let flag = message.text("flag").unwrap_or("NONE");
    let document = document(bytes(message, "data").ok_or("certificate data missing")?);
    let is = |name: &str| kind.eq_ignore_ascii_case(name);
    if is("X509_CRL") {
        return Ok(Some((CertificateKind::RevocationList, document)));
    }
    if is("PUBKEY") {
        return Ok(Some((CertificateKind::PublicKey, document)));
    }
    if is("X509_AC") || is("OCSP_RESPONSE") {
        return Ok(None);
    }
    if !is("X509") {
        return Err(format!("invalid certificate type '{kind}'"));
    }
    let kind = match flag.to_ascii_uppercase().as_str() {
        "NONE" => Some(CertificateKind::End),
        "CA" => Some(CertificateKind::Authority),
        "AA" | "OCSP" => None,
        _ => return Err(format!("invalid certificate flag '{flag}'")),
    };
    document.certificates().map_err(|why| format!("parsing X509 certificate failed: {why}"))?;
    Ok(kind.map(|kind| (kind, document)))
}

fn load_key(message: &Message, view: &View) -> Result<Message, String> {
    let kind = message.text("type").ok_or("private key type missing")?;
    if !["any", "rsa", "ecdsa", "ed25519", "ed448", "bliss"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known))
    {
        return Err(format!("invalid key type: {kind}"));
    }
    let document = document(bytes(message, "data").ok_or("private key data missing")?);
    let key = PrivateKeyFile { document, kind: KeyKind::Any, password: None };
    let id = identifier(&key).map_err(|why| format!("parsing {kind} private key failed: {why}"))?;
    view.configured.load(Change::Key(key))?;
    Ok(Message::new().with("id", hex(&id)))
}

fn key_id(message: &Message) -> Result<KeyId, String> {
    let text = id(message, "key id missing")?;
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    let bytes: Vec<u8> = digits
        .chunks_exact(2)
        .filter_map(|pair| u8::try_from(pair.iter().fold(0, |all, digit| all << 4 | digit)).ok())
        .collect();
    KeyId::try_from(bytes.as_slice()).map_err(|_| "key not found".to_owned())
}

fn load_shared(message: &Message, view: &View) -> Result<Message, String> {
    let kind = message.text("type").ok_or("shared key type missing")?;
    let data = bytes(message, "data").ok_or("shared key data missing")?;
    let (kind, prefix) = match kind.to_ascii_uppercase().as_str() {
        "IKE" => (SecretKind::Ike, "ike"),
        "PPK" => (SecretKind::Ppk, "ppk"),
        "EAP" => (SecretKind::Eap, "eap"),
        // They are for XAuth and for hashes of passwords, which files may have without effect, too.
        "XAUTH" | "NTLM" => return Ok(Message::new()),
        _ => return Err(format!("invalid shared key type: {kind}")),
    };
    let mut section = Message::new().with_value("secret", Value::Bytes(as_digits(&data)));
    if let Some(Value::List(owners)) = message.get("owners") {
        for (number, owner) in owners.iter().enumerate() {
            section = section.with_value(&format!("id-{number}"), Value::Bytes(owner.clone()));
        }
    }
    let mut config = read("secrets", prefix, &section)?;
    let secrets = match kind {
        SecretKind::Ike => &mut config.shared_keys,
        SecretKind::Ppk => &mut config.post_quantum_keys,
        SecretKind::Eap => &mut config.passwords,
    };
    let mut secret = secrets.pop().ok_or("shared key data missing")?;
    // Without an identifier, the owners are the name.
    let own = || secret.owners.iter().map(super::names::pattern).collect::<Vec<_>>().join(",");
    secret.name = message.text("id").map_or_else(own, str::to_owned);
    view.configured.load(Change::Secret(kind, secret))?;
    Ok(Message::new())
}

/// A secret as `0x` and digits, in which each byte can stand in a file.
fn as_digits(secret: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut digits = Zeroizing::new(Vec::with_capacity(2 + 2 * secret.len()));
    digits.extend_from_slice(b"0x");
    for byte in secret {
        for digit in [byte >> 4, byte & 15] {
            digits.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
        }
    }
    digits
}
