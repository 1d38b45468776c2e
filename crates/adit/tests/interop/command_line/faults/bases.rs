//! Configurations without a fault, with the files that they name.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use adit_testbed::{Authority, Identity, KeyKind, Purpose, Validity, static_key, tls_crypt_v2_keys};

/// The word that stands for the directory of a configuration.
const HERE: &str = "HERE";
/// The file that is a program.
const PROGRAM: &str = "up.sh";

/// Certificates and keys.
pub(super) struct Material {
    authority: String,
    /// An authority that has signed nothing here.
    other: String,
    server: Identity,
    client: Identity,
    list: String,
    static_key: String,
    v2: [String; 2],
}

impl Material {
    pub(super) fn create() -> Self {
        let [authority, other] = [KeyKind::Ecdsa; 2].map(|kind| Authority::create(kind).unwrap());
        Material {
            server: authority.issue("server", Purpose::Server, Validity::Now).unwrap(),
            client: authority.issue("client", Purpose::Client, Validity::Now).unwrap(),
            list: authority.revocations().unwrap(),
            other: other.certificate,
            authority: authority.certificate,
            static_key: static_key().unwrap(),
            v2: tls_crypt_v2_keys().unwrap(),
        }
    }
}

/// An entry beside a configuration in its directory.
pub(super) enum Entry {
    Text(Vec<u8>),
    Directory,
}

/// A configuration and the files beside it.
pub(super) struct Files {
    /// The name of the configuration's file.
    name: String,
    /// The lines of the configuration.
    pub(super) lines: Vec<String>,
    /// The entries beside the configuration, with their names.
    pub(super) beside: Vec<(&'static str, Entry)>,
}

impl Files {
    /// Writes all files into a directory; returns the path of the configuration.
    pub(super) fn write(&self, directory: &Path) -> PathBuf {
        for (name, entry) in &self.beside {
            let path = directory.join(name);
            match entry {
                Entry::Text(text) => fs::write(&path, text).unwrap(),
                Entry::Directory => fs::create_dir(&path).unwrap(),
            }
            let mode = if *name == PROGRAM { 0o755 } else { 0o700 };
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let file = directory.join(&self.name);
        let text = self.lines.join("\n") + "\n";
        fs::write(&file, text.replace(HERE, directory.to_str().unwrap())).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        file
    }
}

/// The kinds of configurations.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    ClientInline,
    ClientFiles,
    ServerInline,
    ServerFiles,
    PointToPoint,
    WireGuard,
}

impl Base {
    pub(super) const ALL: [Base; 6] = [
        Base::ClientInline,
        Base::ClientFiles,
        Base::ServerInline,
        Base::ServerFiles,
        Base::PointToPoint,
        Base::WireGuard,
    ];

    /// The configuration, in a file that is called `name` with the ending `.conf`: a WireGuard device is called `name`.
    pub(super) fn files(self, material: &Material, name: &str) -> Files {
        let openvpn = |text: &str, beside: &[(&'static str, &str)]| openvpn(name, text, beside);
        match self {
            Base::ClientInline => openvpn(&[CLIENT, &inline(material, &material.client)].concat(), &[]),
            Base::ClientFiles => openvpn(CLIENT_FILES, &beside(material, &material.client)),
            Base::ServerInline => openvpn(&[SERVER, &inline(material, &material.server)].concat(), &[]),
            Base::ServerFiles => openvpn(SERVER_FILES, &beside(material, &material.server)),
            Base::PointToPoint => openvpn(STATIC, &[("ta.key", &material.static_key)]),
            Base::WireGuard => {
                Files { name: format!("{name}.conf"), lines: lines(WIREGUARD), beside: Vec::new() }
            }
        }
    }
}

const CLIENT: &str = "client\ndev tun\nproto udp\nremote 192.0.2.1 1194\nnobind\nremote-cert-tls server\nverb 3\n\
    cipher AES-256-GCM\nauth SHA256\nkeepalive 10 60\nreneg-sec 3600\ntun-mtu 1500\nroute 10.99.0.0 255.255.0.0\n";
const CLIENT_FILES: &str = "client\ndev tun\nremote 192.0.2.1 1194 udp\nnobind\nca ca.crt\ncert own.crt\nkey own.key\n\
    tls-auth ta.key 1\nauth-user-pass pass\ncrl-verify list.pem\nscript-security 2\nup HERE/up.sh\nremote-cert-tls server\nverb 3\n";
const SERVER: &str = "server 10.80.0.0 255.255.255.0\ndev tun\ntopology subnet\nport 1195\nproto udp\ndh none\n\
    keepalive 10 60\nmax-clients 20\npush \"route 10.81.0.0 255.255.0.0\"\nverb 3\nuser nobody\n";
const SERVER_FILES: &str = "mode server\ntls-server\ndev tun\ntopology subnet\nifconfig 10.80.0.1 255.255.255.0\n\
    ifconfig-pool 10.80.0.10 10.80.0.99 255.255.255.0\nport 1195\ndh none\nca ca.crt\ncert own.crt\nkey own.key\n\
    tls-crypt-v2 v2.key\ncrl-verify list.pem\nclient-config-dir clients\nscript-security 2\nclient-connect HERE/up.sh\n\
    ifconfig-pool-persist HERE/leases\nverb 3\n";
const STATIC: &str = "dev tun\nifconfig 10.82.0.1 10.82.0.2\nsecret ta.key\nallow-deprecated-insecure-static-crypto\n\
    cipher AES-256-CBC\nport 1196\nkeepalive 10 60\nverb 3\n";
const WIREGUARD: &str = "[Interface]\nPrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=\nAddress = 10.83.0.1/24\n\
    ListenPort = 51899\nMTU = 1420\nTable = main\n[Peer]\nPublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=\n\
    PresharedKey = AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\nAllowedIPs = 10.83.0.2/32, 10.84.0.0/16\n\
    Endpoint = 192.0.2.1:51820\nPersistentKeepalive = 25\n";

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn openvpn(name: &str, text: &str, beside: &[(&'static str, &str)]) -> Files {
    let entry = |(name, text): &(&'static str, &str)| (*name, Entry::Text(text.as_bytes().to_vec()));
    let mut files = Files {
        name: format!("{name}.conf"),
        lines: lines(text),
        beside: beside.iter().map(entry).collect(),
    };
    if text.contains("client-config-dir") {
        files.beside.push(("clients", Entry::Directory));
    }
    files
}

fn inline(material: &Material, own: &Identity) -> String {
    let blocks = [
        ("ca", &material.authority),
        ("cert", &own.certificate),
        ("key", &own.key),
        ("tls-crypt", &material.static_key),
        ("crl-verify", &material.list),
    ];
    blocks.map(|(name, text)| format!("<{name}>\n{}\n</{name}>\n", text.trim_end())).concat()
}

fn beside<'a>(material: &'a Material, own: &'a Identity) -> Vec<(&'static str, &'a str)> {
    vec![
        ("ca.crt", &material.authority),
        ("other.crt", &material.other),
        ("own.crt", &own.certificate),
        ("own.key", &own.key),
        ("ta.key", &material.static_key),
        ("v2.key", &material.v2[0]),
        ("list.pem", &material.list),
        ("pass", "ann\nsecret\n"),
        (PROGRAM, "#!/bin/sh\n"),
    ]
}
