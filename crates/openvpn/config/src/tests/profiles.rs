//! Files that providers and tools write, with other names and keys: the result of each as a whole.

use std::path::Path;
use std::time::Duration;

use adit_core::configuration::Kind;
use adit_core::{Cipher, Digest, Transport};
use adit_openvpn::codec::Compression;
use adit_openvpn::params::{AuthRetry, Keepalive, MssFix};
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::KeyDirection;
use adit_pki::NameCheck;

use crate::*;

const CERT: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";

fn blocks() -> String {
    format!("<ca>\n{CERT}{CERT}</ca>\n<cert>\n{CERT}</cert>\n<key>\n{KEY}</key>\n")
}

fn static_key(name: &str) -> String {
    let text = StaticKey::from_bytes(&[7; 256]).to_text();
    format!("<{name}>\n#\n# 2048 bit OpenVPN static key\n#\n{}</{name}>\n", text.as_str())
}

fn load(path: &Path) -> Result<Vec<u8>, String> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("crt" | "pem") => Ok(CERT.into()),
        Some("key") if path.ends_with("ta.key") || path.ends_with("tls-crypt.key") => {
            Ok(StaticKey::from_bytes(&[7; 256]).to_text().as_bytes().to_vec())
        }
        Some("key") => Ok(KEY.into()),
        _ => Err("no such file".into()),
    }
}

fn good(text: &str) -> Parsed {
    parse("profile", text.as_bytes(), &load).unwrap_or_else(|failure| panic!("{failure}"))
}

fn client(text: &str) -> (Config, ClientConfig, Parsed) {
    let parsed = good(text);
    match parsed.config.role.clone() {
        Role::Client(client) => (parsed.config.clone(), *client, parsed),
        _ => panic!("a client"),
    }
}

fn server(text: &str) -> (Config, ServerConfig, Parsed) {
    let parsed = good(text);
    match parsed.config.role.clone() {
        Role::Server(server) => (parsed.config.clone(), *server, parsed),
        _ => panic!("a server"),
    }
}

fn kind(parsed: &Parsed, directive: &str) -> Kind {
    parsed.report.iter().find(|line| line.directive == directive).unwrap().kind
}

/// The form of eduVPN's profiles.
#[test]
fn edu_client() {
    let text = "# Profile: default\n# Expires: 2030-01-01\n\ndev tun\nclient\nnobind\nremote-cert-tls server\n\
                server-poll-timeout 10\ntls-version-min 1.3\ndata-ciphers AES-256-GCM:CHACHA20-POLY1305\nreneg-sec 0\n"
        .to_string()
        + &blocks()
        + &static_key("tls-crypt")
        + "remote vpn.example.org 1194 udp\nremote vpn.example.org 1194 tcp\n";
    let (config, client, parsed) = client(&text);
    assert_eq!(config.tls.version_min, TlsVersion::V1_3);
    assert_eq!(config.data.ciphers, [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305]);
    assert_eq!(config.rekey.after, None);
    assert_eq!(config.tls.ca.as_ref().map_or(0, Pem::certificates), 2);
    assert!(matches!(config.wrap, Wrap::TlsCrypt { .. }));
    let transports: Vec<_> = client.remotes.iter().map(|remote| remote.transport).collect();
    assert_eq!(transports, [Transport::Udp, Transport::Tcp]);
    assert!(client.remotes.iter().all(|remote| remote.connect_timeout == Duration::from_secs(10)));
    assert!(parsed.warnings.is_empty() && parsed.report.iter().all(|line| line.kind == Kind::Used));
}

/// The form of eduVPN's servers, without the scripts and the management that it needs.
#[test]
fn edu_server() {
    let text = "verb 3\ndev-type tun\nuser openvpn\ngroup openvpn\ntopology subnet\npersist-key\npersist-tun\n\
                remote-cert-tls client\ndh none\ntls-version-min 1.3\ndata-ciphers AES-256-GCM:CHACHA20-POLY1305\n\
                reneg-sec 36000\nserver 10.42.42.0 255.255.255.0\nserver-ipv6 fd42::/112\nmax-clients 250\n\
                keepalive 10 60\nscript-security 2\ndev tun0\nport 1194\nsetenv PROFILE_ID default\nproto tcp6-server\n\
                local ::\nlog /dev/null\ntcp-nodelay\npush \"redirect-gateway def1 ipv6\"\n\
                push \"route 192.0.2.7 255.255.255.255 net_gateway\"\npush \"dhcp-option DNS 9.9.9.9\"\n\
                push \"block-outside-dns\"\n"
        .to_string()
        + &blocks()
        + &static_key("tls-crypt");
    let (config, server, parsed) = server(&text);
    assert_eq!(config.device.name.as_deref(), Some("tun0"));
    assert_eq!(server.ipv6.unwrap().pool, Some("fd42::2/112".parse().unwrap()));
    assert_eq!(server.listen[0].family, Family::V6);
    assert_eq!(server.push.iter().filter(|option| option.contains("TCP_NODELAY")).count(), 1);
    assert_eq!(kind(&parsed, "setenv"), Kind::Used);
    assert_eq!(server.access.env, [("PROFILE_ID".to_owned(), "default".to_owned())]);
}

/// The form that commercial providers hand out: CRLF, old options, passwords.
#[test]
fn provider_client() {
    let text = "client\r\ndev tun\r\nproto udp\r\nremote us1.example.com 1194\r\nremote-random\r\nresolv-retry infinite\r\n\
                nobind\r\ntun-mtu 1500\r\ntun-mtu-extra 32\r\nmssfix 1450\r\npersist-key\r\npersist-tun\r\nping 15\r\n\
                ping-restart 0\r\nping-timer-rem\r\nreneg-sec 0\r\ncomp-lzo no\r\nverify-x509-name CN=us1.example.com\r\n\
                remote-cert-tls server\r\nverb 3\r\npull\r\nfast-io\r\ncipher AES-256-CBC\r\nauth SHA512\r\n\
                key-direction 1\r\n"
        .to_string()
        + &static_key("tls-auth").replace('\n', "\r\n")
        + &blocks().replace('\n', "\r\n");
    let (config, client, parsed) = client(&text);
    assert_eq!(config.data.compression, Compression::LzoNo);
    assert_eq!(config.data.mssfix, MssFix::Payload(1450));
    assert_eq!(config.data.auth, Digest::Sha512);
    assert!(matches!(config.wrap, Wrap::TlsAuth { direction: KeyDirection::Inverse, .. }));
    assert_eq!(config.liveness, Keepalive { ping: Some(Duration::from_secs(15)), ..Keepalive::default() });
    assert_eq!(config.tls.identity.as_ref().unwrap().key.text(), KEY, "line ends are made \\n");
    assert!(client.remote_random);
    for directive in ["cipher", "fast-io", "tun-mtu-extra", "persist-key"] {
        assert_eq!(kind(&parsed, directive), Kind::Ignored, "{directive}");
    }

    // With a username no certificate of one's own is needed.
    let (start, _) = text.split_once("<cert>").unwrap();
    let text = start.replace("pull\r\n", "auth-user-pass\r\nauth-retry interact\r\n");
    let (config, client, _) = self::client(&text);
    assert_eq!(config.tls.identity, None);
    let wanted =
        UserAuth { source: UserPass::Prompt, retry: AuthRetry::Interact, nocache: false, challenge: None };
    assert_eq!(client.auth, Some(wanted));
    let failure = parse("profile", start.as_bytes(), &load).unwrap_err();
    assert!(failure.to_string().contains("`cert` is missing"), "{failure}");
}

/// The form of an old server set up by hand: key files, tls-auth with a direction, Diffie-Hellman parameters.
#[test]
fn server_with_files() {
    let text = "port 1194\nproto udp\ndev tun\nca ca.crt\ncert server.crt\nkey server.key  # keep secret\n\
                dh dh2048.pem\ntopology subnet\nserver 10.8.0.0 255.255.255.0\nifconfig-pool-persist ipp.txt\n\
                ;push \"route 192.168.10.0 255.255.255.0\"\npush \"redirect-gateway def1 bypass-dhcp\"\n\
                client-to-client\nkeepalive 10 120\ntls-auth ta.key 0\ncipher AES-256-GCM\nuser nobody\ngroup nogroup\n\
                persist-key\npersist-tun\nstatus /run/openvpn-status.log\nlog-append  /var/log/openvpn.log\nverb 3\n\
                explicit-exit-notify 1\nremote-cert-tls client\n";
    let (config, server, parsed) = server(text);
    assert!(matches!(config.wrap, Wrap::TlsAuth { direction: KeyDirection::Normal, .. }));
    assert_eq!(config.liveness.timeout, Some(Duration::from_secs(240)));
    assert!(server.client_to_client && server.exit_notify == 1);
    assert_eq!(server.push[0], "redirect-gateway def1 bypass-dhcp");
    assert!(server.push.contains(&"ping-restart 120".to_string()));
    for directive in ["dh", "cipher"] {
        assert_eq!(kind(&parsed, directive), Kind::Ignored, "{directive}");
    }
}

/// The form that a widespread install script writes, for the server and for its clients.
#[test]
fn install_script() {
    let text = "port 1194\nproto udp6\ndev tun\nuser nobody\ngroup nogroup\npersist-key\npersist-tun\nkeepalive 10 120\n\
                topology subnet\nserver 10.8.0.0 255.255.255.0\nifconfig-pool-persist ipp.txt\n\
                push \"dhcp-option DNS 1.0.0.1\"\npush \"redirect-gateway def1 bypass-dhcp\"\n\
                server-ipv6 fd42:42:42:42::/112\ntun-ipv6\npush tun-ipv6\npush \"route-ipv6 2000::/3\"\n\
                push \"redirect-gateway ipv6\"\ndh none\necdh-curve prime256v1\ntls-crypt tls-crypt.key\nca ca.crt\n\
                cert server.crt\nkey server.key\nauth SHA256\ncipher AES-128-GCM\nncp-ciphers AES-128-GCM\ntls-server\n\
                tls-version-min 1.2\ntls-cipher TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256\nstatus /var/log/status.log\nverb 3\n";
    let (config, server, _) = server(text);
    assert_eq!(config.data.ciphers, [Cipher::Aes128Gcm]);
    assert_eq!(config.tls.ciphers.iter().map(|name| name.id).collect::<Vec<_>>(), [0xC02B]);
    assert_eq!(config.tls.groups.iter().map(|name| name.name).collect::<Vec<_>>(), ["secp256r1"]);
    assert_eq!(server.push.iter().filter(|option| *option == "tun-ipv6").count(), 1);

    let text = "client\nproto udp\nexplicit-exit-notify\nremote 192.0.2.1 1194\ndev tun\nresolv-retry infinite\nnobind\n\
                persist-key\npersist-tun\nremote-cert-tls server\nverify-x509-name server_abc name\nauth SHA256\n\
                auth-nocache\ncipher AES-128-GCM\ntls-client\ntls-version-min 1.2\n\
                tls-cipher TLS-ECDHE-ECDSA-WITH-AES-128-GCM-SHA256\nignore-unknown-option block-outside-dns\n\
                setenv opt block-outside-dns # Prevent Windows 10 DNS leak\nverb 3\n"
        .to_string()
        + &blocks()
        + &static_key("tls-crypt");
    let (config, client, _) = client(&text);
    assert!(matches!(config.tls.peer.name, Some(NameCheck::CommonName(_))));
    assert_eq!(client.remotes[0].exit_notify, 1);
}
