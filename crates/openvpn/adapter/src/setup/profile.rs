//! The files of a server and of its clients, with all that they need inline.

use std::fmt::Write as _;
use std::path::Path;

use adit_pki::inspect::is_same_authority;
use adit_pki::issue::{Authority, Issued};
use zeroize::Zeroizing;

use adit_setup::{NewClient, NewServer, Proto, SetupError};

use super::secrets::WrapKey;
use super::{reach, read};

const CIPHERS: &str = "AES-256-GCM:CHACHA20-POLY1305:AES-128-GCM";
/// Room for either profile, so that its text never moves and leaves a copy of a key behind.
const ROOM: usize = 32 << 10;

/// The server's configuration, for adit and OpenVPN 2.6.
pub(super) fn server(server: &NewServer<'_>) -> Zeroizing<String> {
    let NewServer { index, networks, user, reach, revoked, authority, issued, secret } = *server;
    let mut text = Zeroizing::new(String::with_capacity(ROOM));
    let family = if index.endpoint.is_ipv6() { "6" } else { "" };
    let (proto, port) = (index.proto.name(), index.endpoint.port);
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "# OpenVPN server {endpoint}, made by `adit init`. Runs with adit and with OpenVPN 2.6.\n\
         # It holds private keys: keep it readable by its owner alone.\n\
         \n\
         port {port}\n\
         proto {proto}{family}\n\
         dev tun\n\
         topology subnet\n\
         server {v4} 255.255.255.0\n\
         server-ipv6 {v6}/64\n\
         keepalive 10 60\n",
        endpoint = index.endpoint,
        v4 = networks.v4,
        v6 = networks.v6,
    );
    text.push_str(match index.proto {
        Proto::Udp => "explicit-exit-notify 1\n",
        Proto::Tcp => "tcp-nodelay\n",
    });
    let _ = write!(
        text,
        "persist-tun\n\
         persist-key\n\
         # The user that the server runs as, once all is set up.\n\
         user {user}\n\
         group {group}\n\
         verb 3\n\
         \n\
         tls-version-min 1.2\n\
         remote-cert-tls client\n\
         dh none\n\
         data-ciphers {CIPHERS}\n\
         # Made anew by `adit revoke`; a running server sees it.\n\
         crl-verify {revoked}\n\
         \n\
         {reach}\
         \n",
        reach = reach::lines(reach),
        revoked = quoted(revoked),
        user = user.name,
        group = user.group,
    );
    blocks(&mut text, authority, issued, ("tls-crypt-v2", secret.text.as_str()));
    text
}

/// A path as one word of a configuration.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let odd = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '#' | ';');
    if !text.contains(odd) {
        return text;
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A client's profile, for adit, OpenVPN 2.6 and OpenVPN Connect.
pub(super) fn client(client: &NewClient<'_>, key: &WrapKey) -> Zeroizing<String> {
    let NewClient { name, index, authority, issued, .. } = *client;
    let mut text = Zeroizing::new(String::with_capacity(ROOM));
    let (host, port, proto) = (&index.endpoint.host, index.endpoint.port, index.proto.name());
    // MirageVPN sends its first packet over TCP without a length unless this line is there, too.
    let proto_line = if index.proto == Proto::Tcp { "proto tcp\n" } else { "" };
    let _ = write!(
        text,
        "# OpenVPN client {name} of {endpoint}, made by `adit add-client`.\n\
         # It holds a private key: keep it readable by its owner alone.\n\
         \n\
         client\n\
         dev tun\n\
         {proto_line}\
         remote {host} {port} {proto}\n\
         nobind\n\
         resolv-retry infinite\n\
         persist-tun\n\
         verb 3\n",
        endpoint = index.endpoint,
    );
    if index.proto == Proto::Udp {
        text.push_str("explicit-exit-notify 1\n");
    }
    let _ = write!(
        text,
        "\n\
         tls-version-min 1.2\n\
         remote-cert-tls server\n\
         verify-x509-name {server} name\n\
         data-ciphers {CIPHERS}\n\
         \n",
        server = index.server_name,
    );
    blocks(&mut text, authority, issued, (key.directive, key.text.as_str()));
    text
}

fn blocks(text: &mut String, authority: &Authority, issued: &Issued, key: (&str, &str)) {
    let parts: [(&str, &str); 4] =
        [("ca", authority.certificate()), ("cert", &issued.certificate), ("key", &issued.key), key];
    for (name, body) in parts {
        let _ = writeln!(text, "<{name}>");
        for line in body.lines().filter(|line| !line.is_empty()) {
            text.push_str(line);
            text.push('\n');
        }
        let _ = writeln!(text, "</{name}>");
    }
}

/// A configuration with another certificate and key in place of those inline. `None` if it has none inline.
pub(super) fn with_certificate(configuration: &str, issued: &Issued) -> Option<Zeroizing<String>> {
    let half = with_block(configuration, "cert", &issued.certificate)?;
    with_block(&half, "key", &issued.key)
}

/// A configuration with another certificate in place of the authority's: of those inline in `ca`, the one with the
/// same name and key. `None` if it has none.
pub(super) fn with_authority(configuration: &str, certificate: &str) -> Option<Zeroizing<String>> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let block = read::block(configuration, "ca")?;
    let is_ours = |part: &&str| is_same_authority(part, certificate);
    let replaced = |part| match Some(part).filter(is_ours).and_then(|part| part.split_once(BEGIN)) {
        Some((before, _)) => [before, certificate.trim_end()].concat(),
        None => part.to_owned(),
    };
    block.split_inclusive(END).any(|part| is_ours(&part)).then_some(())?;
    let parts: Vec<String> = block.split_inclusive(END).map(replaced).collect();
    with_block(configuration, "ca", &parts.concat())
}

fn with_block(configuration: &str, directive: &str, body: &str) -> Option<Zeroizing<String>> {
    let (begin, end) = (format!("<{directive}>\n"), format!("</{directive}>"));
    let (before, rest) = configuration.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    let mut text = Zeroizing::new(String::with_capacity(configuration.len() + body.len() + 1));
    for part in [before, &begin, body.trim_end(), "\n", &end, after] {
        text.push_str(part);
    }
    Some(text)
}

/// Reads back what was made: nothing leaves that adit itself would refuse.
pub(super) fn check(text: &str, file: &str) -> Result<(), SetupError> {
    let load = |_: &Path| Err("the file stands alone".to_string());
    match adit_openvpn_config::parse(file, text.as_bytes(), &load) {
        Ok(parsed) if parsed.warnings.is_empty() => Ok(()),
        Ok(parsed) => {
            let warnings: Vec<_> = parsed.warnings.iter().map(ToString::to_string).collect();
            Err(SetupError::Unreadable(warnings.join("\n")))
        }
        Err(failure) => Err(SetupError::Unreadable(failure.to_string())),
    }
}
