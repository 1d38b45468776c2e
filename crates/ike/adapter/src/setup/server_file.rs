//! The server's file of swanctl, with the files in the folders beside it.

use std::fmt::Write as _;
use std::net::IpAddr;

use adit_core::IpNet;
use adit_setup::{NativeServer, Renewed, SetupFile};
use zeroize::Zeroizing;

use super::facts::{Facts, identity, listed, section};

/// The server's file.
pub(super) const FILE: &str = "swanctl.conf";
/// The folder of the clients' passwords.
pub(super) const USERS: &str = "users";

/// The proposals for IKE SAs: AES-GCM by the groups of Apple's profiles, Windows (ECP) and Android (X25519 or MODP of 2048 bits), and
/// AES-CBC, which Apple's devices offer that were set up by hand.
pub(super) const IKE: &str = "aes256gcm16-aes128gcm16-prfsha256-prfsha384-prfsha512-x25519-ecp256-ecp384-modp2048, \
     chacha20poly1305-prfsha256-prfsha384-prfsha512-x25519-ecp256-ecp384-modp2048, \
     aes256-aes128-sha256-sha384-sha512-x25519-ecp256-ecp384-modp2048";
/// The proposals for child SAs. A device may rekey with a key exchange of its own, or without one.
pub(super) const ESP: &str = "aes256gcm16-aes128gcm16-x25519-ecp256-ecp384-modp2048, \
     chacha20poly1305-x25519-ecp256-ecp384-modp2048, aes256-aes128-sha256-x25519-ecp256-ecp384-modp2048";

/// The connections, which no client's name is: `adit block` takes either.
pub(super) const BY_CERTIFICATE: &str = "ikev2+certificate";
const BY_PASSWORD: &str = "ikev2+password";

/// Room for the file of a password, so that it never moves and leaves a copy of the password behind.
const ROOM: usize = 1024;

/// The text of a new server's file.
pub(super) fn text(server: &NativeServer<'_>) -> String {
    let NativeServer { endpoint, layout, device, is_alone, .. } = server;
    let place = if *is_alone {
        "with a tunnel of its own"
    } else {
        "beside OpenVPN in server.conf, with the same device and addresses"
    };
    let mut text = format!(
        "# IKEv2 server {host}, made by `adit init`: {place}.\n\
         # `adit add-client --ikev2` adds clients, `adit revoke` removes them. Its certificate is in x509, the certificate's key in\n\
         # private, the authority in x509ca, the revoked certificates in x509crl, the passwords of clients in {USERS}.\n\
         # The names of connections have a `+`, as no client's name has: `adit block` takes either.\n\
         #adit: device = {device}\n\
         {forward}\n\
         connections {{\n",
        host = endpoint.host,
        forward = if *is_alone { forward(&layout.forward) } else { String::new() },
    );
    text.push_str(&connection(server));
    let (first, last) = layout.pool;
    // Writing to a string cannot fail.
    let _ = write!(text, "}}\n\npools {{\n  v4 {{\n    addrs = {first}-{last}\n");
    let dns = layout.dns.iter().filter(|word| word.parse::<IpAddr>().is_ok());
    let dns: Vec<&str> = dns.map(String::as_str).collect();
    if !dns.is_empty() {
        let _ = writeln!(text, "    dns = {}", dns.join(", "));
    }
    text.push_str("  }\n");
    if let Some(pool) = layout.pool6 {
        let _ = write!(text, "  v6 {{\n    addrs = {pool}\n  }}\n");
    }
    let _ = write!(text, "}}\n\ninclude {USERS}/*.conf\n");
    text
}

/// The lines by which packets of clients are forwarded to these networks.
fn forward(networks: &[IpNet]) -> String {
    let (all, some): (Vec<IpNet>, Vec<IpNet>) =
        networks.iter().partition(|network| network.prefix_len() == 0);
    let internet = (!all.is_empty()).then(|| "internet".to_owned());
    let values = internet.into_iter().chain(some.iter().map(ToString::to_string));
    values.map(|value| format!("#adit: forward = {value}\n")).collect()
}

/// The connection of peers with certificates, from which that of peers with passwords inherits. The devices rekey, and not the server:
/// Windows takes no rekey of a child SA from a server behind a NAT. A device sleeps for hours.
fn connection(server: &NativeServer<'_>) -> String {
    let pools = if server.layout.pool6.is_some() { "v4, v6" } else { "v4" };
    format!(
        "  {BY_CERTIFICATE} {{\n    \
             version = 2\n    \
             proposals = {IKE}\n    \
             send_cert = always\n    \
             unique = replace\n    \
             rekey_time = 0\n    \
             dpd_delay = 8h\n    \
             pools = {pools}\n    \
             local {{\n      \
               auth = pubkey\n      \
               certs = server.pem\n      \
               id = {host}\n    \
             }}\n    \
             remote {{\n      \
               auth = pubkey\n      \
               id = %any\n      \
               cacerts = ca.pem\n    \
             }}\n    \
             children {{\n      \
               net {{\n        \
                 local_ts = {networks}\n        \
                 remote_ts = dynamic\n        \
                 esp_proposals = {ESP}\n        \
                 rekey_time = 0\n      \
               }}\n    \
             }}\n  \
           }}\n",
        host = server.endpoint.host,
        networks = listed(&server.layout.routes),
    )
}

/// The files that state what was made anew.
pub(super) fn renewed(renewed: &Renewed<'_>) -> Vec<SetupFile> {
    let Renewed { issued, authority, revoked } = renewed;
    let mut files = Vec::new();
    if let Some(issued) = issued {
        files.push(SetupFile::new("private/server.pem", issued.key.as_bytes()));
        files.push(SetupFile::new("x509/server.pem", issued.certificate.as_bytes()));
    }
    files.extend(authority.map(|text| SetupFile::new("x509ca/ca.pem", text)));
    files.extend(revoked.map(|text| SetupFile::new("x509crl/crl.pem", text)));
    files
}

/// The file by which the server knows a client's password; `None`: the client has a certificate. Each such file brings the connection of
/// peers with passwords, which all of them are taken together for: a server without passwords has none.
pub(super) fn user(facts: &Facts<'_>) -> Option<Zeroizing<Vec<u8>>> {
    if facts.has_certificate() {
        return None;
    }
    let mut text = Zeroizing::new(String::with_capacity(ROOM));
    let (name, password) = (facts.name, facts.login.password());
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# The password of {name}, made by `adit add-client`; `adit revoke` removes it.\n\
         connections {{\n  \
           {BY_PASSWORD} : connections.{BY_CERTIFICATE} {{\n    \
             remote {{\n      auth = eap-mschapv2\n      eap_id = %any\n      cacerts =\n    }}\n  \
           }}\n}}\n\
         secrets {{\n  eap-{section} {{\n    id = {id}\n    secret = \"{password}\"\n  }}\n}}\n",
        section = section(name),
        id = identity(name),
    );
    Some(Zeroizing::new(std::mem::take(&mut *text).into_bytes()))
}
