//! The files of a server and of its clients, read back.

use adit_core::IpNet;
use adit_ike::suite::{self, Algorithms, Preference, choose};
use adit_pki::Purpose;
use adit_pki::issue::{Authority, Issued, Serial, Wanted};
use adit_setup::{Layout, Login};
use time::OffsetDateTime;
use zeroize::Zeroizing;

use super::*;

mod list;

use self::list::Value;

const PASSWORD: &str = "aaaaa-bbbbb-ccccc-ddddd";

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn layout(routes: &[&str]) -> Layout {
    Layout {
        device: Some("adit0".to_owned()),
        server: nets(&["10.8.0.1/24", "fd00::1/64"]),
        pool: ("10.8.0.2".parse().unwrap(), "10.8.0.254".parse().unwrap()),
        last: "10.8.0.254".parse().unwrap(),
        pool6: Some("fd00::1000/64".parse().unwrap()),
        routes: nets(routes),
        forward: Vec::new(),
        dns: vec!["192.0.2.53".to_owned(), "lan.example".to_owned(), "2001:db8::53".to_owned()],
    }
}

const FULL: &[&str] = &["0.0.0.0/0", "::/0"];
const SPLIT: &[&str] = &["10.8.0.0/24", "192.168.1.0/24", "fd00::/64"];

/// A server with its authority.
struct Bed {
    endpoint: Endpoint,
    layout: Layout,
    authority: Authority,
    now: OffsetDateTime,
    is_alone: bool,
}

impl Bed {
    fn new(host: &str, routes: &[&str]) -> Self {
        let now = OffsetDateTime::now_utc();
        let authority = Authority::create("adit CA 0a0b0c0d", &Serial::from_random([1; 16]), now).unwrap();
        Bed {
            endpoint: Endpoint { host: host.to_owned(), port: 1194 },
            layout: layout(routes),
            authority,
            now,
            is_alone: false,
        }
    }

    fn issue(&self, purpose: Purpose, name: &str, ike_names: &[IkeName]) -> Issued {
        let wanted = Wanted { purpose, name, ike_names };
        self.authority.issue_as(&wanted, &Serial::from_random([2; 16]), self.now).unwrap()
    }

    /// The files of the server.
    fn server(&self) -> Vec<SetupFile> {
        let issued = self.issue(Purpose::Server, "adit-server", &Ipsec.server_names(&self.endpoint));
        let list = self.authority.revocation_list(1, [], self.now).unwrap();
        let (authority, revoked) = (Some(self.authority.certificate()), Some(list.as_str()));
        let made = Renewed { issued: Some(&issued), authority, revoked };
        let (endpoint, layout) = (&self.endpoint, &self.layout);
        Ipsec
            .server(&NativeServer { endpoint, layout, device: "adit0", is_alone: self.is_alone, made })
            .unwrap()
    }

    /// The files of a client.
    fn client(&self, name: &str, has_certificate: bool) -> Vec<SetupFile> {
        let name: ClientName = name.parse().unwrap();
        let password = Zeroizing::new(PASSWORD.to_owned());
        let login = match has_certificate {
            true => {
                let issued = self.issue(Purpose::Client, name.as_str(), &Ipsec.client_names(&name));
                Login::Certificate { issued, password }
            }
            false => Login::Password(password),
        };
        let (endpoint, networks, authority) = (&self.endpoint, &self.layout.routes, &self.authority);
        Ipsec.client(&NativeClient { name: &name, endpoint, networks, authority, login: &login }).unwrap()
    }
}

fn text(files: &[SetupFile], path: &str) -> String {
    let found = files.iter().find(|file| file.path == Path::new(path)).unwrap_or_else(|| panic!("no {path}"));
    String::from_utf8(found.content.to_vec()).unwrap()
}

/// The value behind the first line with that key.
fn value(text: &str, key: &str) -> String {
    let lines = text.lines().map(str::trim).find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
    lines.unwrap_or_else(|| panic!("no {key}: {text}")).to_owned()
}

#[test]
fn a_servers_files_are_taken_by_adit_for_hosts_and_addresses_of_either_family() {
    for host in ["vpn.example", "192.0.2.1", "2001:db8::1"] {
        for routes in [FULL, SPLIT] {
            // `server` reads them back.
            let files = Bed::new(host, routes).server();
            let server = text(&files, "swanctl.conf");
            assert_eq!(value(&server, "id"), host);
            assert_eq!(value(&server, "local_ts"), routes.join(", "));
            assert_eq!(value(&server, "addrs"), "10.8.0.2-10.8.0.254");
            assert_eq!(value(&server, "dns"), "192.0.2.53, 2001:db8::53", "names of domains are none");
            assert!(
                server.contains("\n#adit: device = adit0\n") && server.contains("addrs = fd00::1000/64\n")
            );
            assert!(files.iter().all(|file| file.access == adit_setup::files::Access::Owner));
        }
    }
}

/// Windows takes no rekey of a server with a key exchange, and phones sleep for hours.
#[test]
fn the_server_leaves_rekeys_to_the_devices() {
    let files = Bed::new("vpn.example", FULL).server();
    let content = made::parsed(&files, Path::new("swanctl.conf"));
    let connections: Vec<_> = content.planned.iter().map(|planned| &planned.connection).collect();
    assert!(!connections.is_empty());
    for connection in connections {
        assert_eq!(connection.times.ike_rekey, None);
        assert!(connection.children.iter().all(|child| child.rekey.is_none() && child.lifetime.is_none()));
    }
}

/// A server without `server.conf` forwards by its own file, and its clients reach what that file says.
#[test]
fn a_server_alone_has_a_tunnel_of_its_own() {
    for (routes, forward, expected) in [
        (FULL, FULL, "#adit: forward = internet\n"),
        (SPLIT, &["192.168.1.0/24"][..], "#adit: forward = 192.168.1.0/24\n"),
    ] {
        let mut bed = Bed { is_alone: true, ..Bed::new("vpn.example", routes) };
        bed.layout.forward = nets(forward);
        let server = text(&bed.server(), "swanctl.conf");
        assert!(server.contains(&format!("\n#adit: device = adit0\n{expected}\nconnections")), "{server}");
        assert!(server.contains("with a tunnel of its own") && !server.contains("server.conf"), "{server}");
        let folder = adit_testbed::Scratch::create("alone").unwrap();
        for file in bed.server() {
            let path = folder.path().join(&file.path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &*file.content).unwrap();
        }
        let path = folder.path().join("swanctl.conf");
        assert_eq!(Ipsec.networks(&path, &std::fs::read_to_string(&path).unwrap()), Ok(nets(routes)));
        assert!(Ipsec.networks(&path, "connections {\n}\n").is_err());
    }
    let mut shared = Bed::new("vpn.example", FULL);
    shared.layout.forward = nets(FULL);
    assert!(!text(&shared.server(), "swanctl.conf").contains("forward"), "server.conf says it");
}

/// A name with a dot or an `@` is one section and one user; the password is in the server's file of the user.
#[test]
fn a_client_with_a_password_is_a_user_of_the_server() {
    let bed = Bed::new("vpn.example", FULL);
    let mut files = bed.server();
    for name in ["a.b", "a-b", "x@y.example", "10.0.0.1"] {
        let made = bed.client(name, false);
        let user = Ipsec.password_file(&name.parse().unwrap());
        files.extend(made.into_iter().filter(|file| file.path == user));
    }
    made::check(&files, Path::new("swanctl.conf")).unwrap();
    let content = made::parsed(&files, Path::new("swanctl.conf"));
    assert_eq!(content.parsed.config.passwords.len(), 4);
    let names: Vec<&str> = content.planned.iter().map(|planned| planned.connection.name.as_str()).collect();
    assert_eq!(names, ["ikev2+certificate", "ikev2+password"]);
    assert!(
        text(&files, "users/a.b.conf")
            .contains(&format!("eap-a%2Eb {{\n    id = a.b\n    secret = \"{PASSWORD}\""))
    );
    assert!(text(&files, "users/10.0.0.1.conf").contains("id = fqdn:10.0.0.1\n"));
    assert!(bed.client("alice", true).iter().all(|file| !file.path.starts_with("users")));
}

#[test]
fn a_client_has_a_file_for_each_kind_of_device_and_adit_takes_its_own() {
    let bed = Bed::new("vpn.example", FULL);
    for name in ["alice", "bob.laptop", "x@y.example"] {
        for has_certificate in [true, false] {
            let files = bed.client(name, has_certificate);
            for path in Ipsec.client_paths(&name.parse().unwrap()) {
                assert!(files.iter().any(|file| file.path.starts_with(&path)), "{}", path.display());
            }
            let own = text(&files, &format!("clients/{name}.swanctl/{name}.conf"));
            assert_eq!(
                (value(&own, "remote_addrs"), value(&own, "remote_ts")),
                ("vpn.example".to_owned(), FULL.join(", "))
            );
            assert_eq!(own.contains(PASSWORD), !has_certificate);
        }
    }
}

/// The keywords of the algorithms that the device of a file names, for an IKE SA and for a child SA.
fn keywords(words: &[[&str; 2]], found: &[String]) -> String {
    let keyword = |word: &String| {
        let known = words.iter().find(|[name, _]| name == word);
        known.unwrap_or_else(|| panic!("{word} is no algorithm of the device"))[1]
    };
    found.iter().map(keyword).filter(|it| !it.is_empty()).collect::<Vec<_>>().join("-")
}

fn is_accepted(of: fn(&str) -> Result<Vec<Algorithms>, suite::BadKeyword>, own: &str, offered: &str) -> bool {
    let offered: Vec<_> = of(offered).unwrap().iter().map(|offer| offer.to_wire(1, &[])).collect();
    choose(&of(own).unwrap(), &offered, Preference::Own).is_some()
}

fn assert_accepted(ike: &str, esp: &str) {
    assert!(is_accepted(suite::ike_proposals, server_file::IKE, ike), "{ike}");
    assert!(is_accepted(suite::esp_proposals, server_file::ESP, esp), "{esp}");
}

#[test]
fn apples_profile_is_a_property_list_whose_algorithms_the_server_accepts() {
    let words: &[[&str; 2]] = &[["AES-256-GCM", "aes256gcm16"], ["SHA2-256", "prfsha256"], ["19", "ecp256"]];
    for (routes, is_full) in [(FULL, "1"), (SPLIT, "0")] {
        let bed = Bed::new("vpn.example", routes);
        let profile = list::read(&text(&bed.client("alice", true), "clients/alice.mobileconfig"));
        let parts = profile.at("PayloadContent").items();
        let kinds: Vec<&str> = parts.iter().map(|part| part.at("PayloadType").text()).collect();
        assert_eq!(kinds, ["com.apple.vpn.managed", "com.apple.security.root", "com.apple.security.pkcs12"]);
        let (vpn, pkcs12) = (&parts[0], &parts[2]);
        let ike = vpn.at("IKEv2");
        assert_eq!(ike.at("PayloadCertificateUUID").text(), pkcs12.at("PayloadUUID").text());
        assert_eq!(ike.at("RemoteIdentifier").text(), "vpn.example");
        assert_eq!(ike.at("ServerCertificateIssuerCommonName").text(), "adit CA 0a0b0c0d");
        assert_eq!(vpn.at("IPv4").at("OverridePrimary").text(), is_full);
        let sealed = adit_pki::pkcs12::decode_base64(pkcs12.at("PayloadContent").text()).unwrap();
        let opened = adit_pki::pkcs12::open(&sealed, pkcs12.at("Password").text()).unwrap();
        assert_eq!(
            adit_pki::inspect::common_name(&String::from_utf8(opened.certificates).unwrap()).unwrap(),
            "alice"
        );
        let of = |key: &str, names: &[&str]| {
            let section = ike.at(key);
            keywords(words, &names.iter().map(|name| section.at(name).text().to_owned()).collect::<Vec<_>>())
        };
        let own = ["EncryptionAlgorithm", "IntegrityAlgorithm", "DiffieHellmanGroup"];
        let child = of("ChildSecurityAssociationParameters", &own[..1]);
        assert_accepted(&of("IKESecurityAssociationParameters", &own), &child);
    }
}

#[test]
fn apples_profile_of_a_client_with_a_password_has_it_and_no_certificate_of_the_client() {
    let bed = Bed::new("vpn.example", FULL);
    let read = || list::read(&text(&bed.client("x@y.example", false), "clients/x@y.example.mobileconfig"));
    let profile = read();
    let parts = profile.at("PayloadContent").items();
    let ike = parts[0].at("IKEv2");
    assert_eq!((parts.len(), ike.at("AuthPassword").text()), (2, PASSWORD));
    assert_eq!((ike.at("ExtendedAuthEnabled").text(), ike.at("AuthName").text()), ("1", "x@y.example"));
    // A profile that is made anew replaces the one that a device has.
    let uuids = |profile: &Value| {
        let parts = profile.at("PayloadContent").items().iter().chain([profile]);
        parts.map(|part| part.at("PayloadUUID").text().to_owned()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(uuids(&profile), uuids(&read()));
    assert_eq!(uuids(&profile).len(), 3);
}

#[test]
fn windowss_script_names_algorithms_that_the_server_accepts() {
    let words: &[[&str; 2]] =
        &[["GCMAES256", "aes256gcm16"], ["SHA256", "prfsha256"], ["ECP256", "ecp256"], ["None", ""]];
    for (routes, has_certificate) in [(FULL, true), (SPLIT, false)] {
        let script =
            text(&Bed::new("vpn.example", routes).client("alice", has_certificate), "clients/alice.ps1");
        // A key does not stay behind where Windows refuses it.
        let has_import = script.contains("try { Import-PfxCertificate")
            && script.contains("finally { Remove-Item $file }");
        assert_eq!(has_import, has_certificate, "{script}");
        let option = |name: &str| {
            let (_, rest) =
                script.split_once(&format!(" -{name} ")).unwrap_or_else(|| panic!("no {name}: {script}"));
            rest.split_whitespace().next().unwrap().to_owned()
        };
        let of = |names: &[&str]| keywords(words, &names.iter().map(|name| option(name)).collect::<Vec<_>>());
        assert_eq!(option("CipherTransformConstants"), option("AuthenticationTransformConstants"));
        assert_accepted(
            &of(&["EncryptionMethod", "IntegrityCheckMethod", "DHGroup"]),
            &of(&["CipherTransformConstants", "PfsGroup"]),
        );
        let method = if has_certificate { "MachineCertificate" } else { "Eap" };
        assert_eq!(option("AuthenticationMethod"), method);
        assert_eq!(
            script.matches("Add-VpnConnectionRoute").count(),
            if routes == SPLIT { SPLIT.len() } else { 0 }
        );
        assert_eq!(script.contains("-SplitTunneling"), routes == SPLIT);
        let mut lines = script.lines().filter(|line| !line.starts_with('#'));
        assert!(lines.all(|line| line.matches('\'').count() % 2 == 0), "{script}");
    }
}

/// The keys are those of strongSwan's page "VPN Profiles" of its app.
#[test]
fn the_apps_profile_has_its_keys_and_algorithms_that_the_server_accepts() {
    for (routes, has_certificate) in [(FULL, true), (SPLIT, false)] {
        let files = Bed::new("vpn.example", routes).client("alice", has_certificate);
        let profile: serde_json::Value = serde_json::from_str(&text(&files, "clients/alice.sswan")).unwrap();
        let at =
            |pointer: &str| profile.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
        assert_eq!(at("/uuid").len(), 36);
        assert_eq!(at("/type"), if has_certificate { "ikev2-cert" } else { "ikev2-eap" });
        assert_eq!((at("/remote/addr"), at("/remote/id")), ("vpn.example", "vpn.example"));
        assert!(adit_pki::pkcs12::decode_base64(at("/remote/cert")).unwrap().starts_with(&[0x30]));
        assert_accepted(at("/ike-proposal"), at("/esp-proposal"));
        assert_eq!(
            at("/split-tunneling/subnets"),
            if routes == SPLIT { SPLIT.join(" ") } else { String::new() }
        );
        if has_certificate {
            let sealed = adit_pki::pkcs12::decode_base64(at("/local/p12")).unwrap();
            assert!(adit_pki::pkcs12::open(&sealed, PASSWORD).is_ok());
            assert_eq!(at("/local/id"), "alice");
        } else {
            assert_eq!(at("/local/eap_id"), "alice");
        }
        assert!(!profile.to_string().contains(PASSWORD), "the app asks for it");
    }
    assert_accepted(facts::suite::IKE, facts::suite::ESP);
}
