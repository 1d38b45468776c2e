//! `adit init --wireguard`, `adit add-client --wireguard`, and the work of `revoke` and `renew` on their files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use adit_wireguard::{AllowedIp, PublicKey};
use adit_wireguard_config::{Config, parse};

use crate::bed::Bed;

/// A server of both protocols. No interface of that name runs, so no running interface gets a test's orders.
fn with_server() -> Bed {
    Bed::with("--endpoint vpn.example:443 --proto tcp --wireguard --dev adit-setup")
}

/// A WireGuard file, which has no mistake and causes no warning.
fn config(bed: &Bed, file: &str) -> Config {
    let parsed = parse(bed.text(file).as_bytes(), file).unwrap();
    assert!(parsed.warnings.is_empty(), "{file}: {:?}", parsed.warnings);
    bed.assert_good(file);
    parsed.config
}

fn server(bed: &Bed) -> Config {
    config(bed, "adit-setup.conf")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn public_key(config: &Config) -> PublicKey {
    config.interface.private_key.as_ref().unwrap().public_key()
}

#[test]
fn a_server_of_both_protocols_is_made_in_one_step() {
    let bed = with_server();
    assert_eq!(mode(&bed.dir.join("adit-setup.conf")), 0o600);
    let interface = server(&bed).interface;
    assert_eq!(interface.listen_port, Some(51820));
    let openvpn = bed.text("server.conf");
    assert!(openvpn.contains("\ndev adit-setup\ndev-type tun\n"), "{openvpn}");
    // Its first address in each network is the server's, as in OpenVPN.
    let value = |directive: &str| {
        let line = openvpn.lines().find_map(|line| line.strip_prefix(directive)).unwrap();
        line.split(' ').next().unwrap().to_owned()
    };
    let v4 = value("server ").strip_suffix(".0").unwrap().to_owned() + ".1/24";
    let shown: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(shown, [v4, value("ifconfig-ipv6 ")]);
    bed.good(&format!("check {}", bed.dir.join("server.conf").display()));
    let said = bed.refused("init DIR --endpoint vpn.example:443 --wireguard");
    assert!(said.contains("`adit init` made it already"), "{said}");
}

#[test]
fn a_directory_that_is_there_gets_wireguard() {
    let bed = Bed::empty();
    let said = bed.refused("init DIR --wireguard");
    assert!(said.contains("--endpoint HOST[:PORT]") && !bed.dir.exists(), "{said}");
    bed.good("init DIR --endpoint vpn.example");
    bed.good("add-client DIR alice");
    let before = bed.text("server.conf");
    assert!(bed.refused("add-client DIR alice --wireguard").contains("--wireguard"));
    // Of both nothing is made where one cannot be.
    bed.refused("add-client DIR bob --openvpn --wireguard");
    assert!(!bed.is_there("clients/bob.ovpn"));

    let said = bed.refused("init DIR --endpoint other.example --wireguard");
    assert!(said.contains("vpn.example:1194"), "{said}");
    // A file that is not adit's.
    fs::write(bed.dir.join("adit-setup.conf"), "mine").unwrap();
    let said = bed.refused("init DIR --wireguard --dev adit-setup");
    assert!(said.contains("adit did not make it") && bed.text("adit-setup.conf") == "mine", "{said}");
    assert_eq!(bed.text("server.conf"), before);
    fs::remove_file(bed.dir.join("adit-setup.conf")).unwrap();

    let said = bed.good("init DIR --wireguard --dev adit-setup --wireguard-port 4500");
    assert!(said.contains("restart the server"), "{said}");
    assert_eq!(server(&bed).interface.listen_port, Some(4500));
    let after = bed.text("server.conf");
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let kept = lines(&after).iter().filter(|line| lines(&before).contains(line)).count();
    assert_eq!(lines(&before).len() - kept, 3, "`dev`, `server` and `server-ipv6` alone have changed");
    bed.good("add-client DIR alice --wireguard");
    assert!(bed.text("clients/alice.conf").contains("Endpoint = vpn.example:4500\n"));
    assert!(bed.is_there("clients/alice.ovpn"));
}

/// The device that the owner chose stays, and names the file.
#[test]
fn the_device_of_server_conf_counts() {
    let bed = Bed::empty();
    bed.good("init DIR --endpoint vpn.example");
    let text = bed.text("server.conf").replace("dev tun\n", "dev office\ndev-type tun\n");
    fs::write(bed.dir.join("server.conf"), text).unwrap();
    let said = bed.refused("init DIR --wireguard --dev adit-setup");
    assert!(said.contains("`dev office`"), "{said}");
    bed.good("init DIR --wireguard");
    assert!(bed.is_there("office.conf"));
    for name in ["tun", "tap0", "server", "sixteen--letters"] {
        bed.refused(&format!("init DIR --wireguard --dev {name}"));
    }
}

#[test]
fn a_client_gets_keys_an_address_and_what_openvpn_would_push() {
    let bed = with_server();
    let openvpn = bed.text("server.conf")
        + "push \"route 192.168.1.0 255.255.255.0\"\npush \"dhcp-option DNS 192.168.1.53\"\n";
    fs::write(bed.dir.join("server.conf"), openvpn).unwrap();
    let said = bed.good("add-client DIR alice --wireguard");
    let text = bed.text("clients/alice.conf");
    assert!(said.contains(&text), "it is printed: {said}");
    assert_eq!(mode(&bed.dir.join("clients/alice.conf")), 0o600);
    bed.good("add-client DIR bob --wireguard");
    let (server, alice) = (server(&bed), config(&bed, "clients/alice.conf"));
    let ours = &alice.peers[0];
    assert_eq!(ours.public_key, public_key(&server));
    assert_eq!(
        (ours.endpoint.as_ref().unwrap().host.as_str(), ours.persistent_keepalive),
        ("vpn.example", Some(25))
    );
    assert!(ours.allowed_ips.contains(&AllowedIp::Add("192.168.1.0/24".parse().unwrap())));
    assert_eq!(alice.interface.dns, ["192.168.1.53".parse::<std::net::IpAddr>().unwrap()]);
    // Both are peers of the server, with the addresses that they have.
    for (peer, name) in server.peers.iter().zip(["alice", "bob"]) {
        let client = config(&bed, &format!("clients/{name}.conf"));
        assert_eq!(
            (peer.public_key, &peer.preshared_key),
            (public_key(&client), &client.peers[0].preshared_key)
        );
        let addresses: Vec<_> = client.interface.addresses.iter().map(|net| AllowedIp::Add(*net)).collect();
        assert_eq!((&peer.allowed_ips, addresses.len()), (&addresses, 2));
        assert!(
            bed.text("adit-setup.conf")
                .contains(&format!("\n[Peer]\n#adit: name = {name}\n#adit: post-quantum = on\nPublicKey = "))
        );
    }
    let v4 = |config: &Config| config.interface.addresses[0].to_string();
    assert!(v4(&alice).ends_with(".128/32"), "{}", v4(&alice));
    let index = bed.text("pki/index.json");
    assert!(index.contains(&public_key(&alice).to_base64()));
    let private = text.lines().find_map(|line| line.strip_prefix("PrivateKey = ")).unwrap();
    assert!(!index.contains(private), "private keys are the clients' alone");
}

#[test]
fn a_name_is_one_client_of_both_protocols() {
    let bed = with_server();
    bed.good("add-client DIR alice");
    assert!(bed.refused("add-client DIR Alice --wireguard").contains("choose another name"));
    bed.good("add-client DIR alice --wireguard");
    assert!(bed.refused("add-client DIR alice --wireguard").contains("clients/alice.conf"));
    assert!(bed.refused("add-client DIR alice --openvpn --wireguard").contains("choose another name"));
    bed.good("add-client DIR bob --openvpn --wireguard");
    assert!(bed.is_there("clients/bob.ovpn") && bed.is_there("clients/bob.conf"));
    bed.good("add-client DIR carol --wireguard");
    assert!(!bed.is_there("clients/carol.ovpn"));
    assert!(bed.refused("add-client DIR Carol").contains("choose another name"));
    // Of both, the one that is missing is made.
    let said = bed.good("add-client DIR carol --openvpn --wireguard");
    assert!(
        said.contains("Note: there is a client carol already") && bed.is_there("clients/carol.ovpn"),
        "{said}"
    );
    bed.refused("add-client DIR dave --qr");
    let said = bed.good("add-client DIR a.name@that.is.long --wireguard");
    assert!(said.contains("another name before"), "{said}");
}

#[test]
fn revoke_shuts_a_name_out_of_both_protocols() {
    let bed = with_server();
    bed.good("add-client DIR alice --openvpn --wireguard --qr");
    bed.good("add-client DIR bob --wireguard");
    let alice = config(&bed, "clients/alice.conf");
    let list = bed.text("crl.pem");
    let said = bed.good("revoke DIR alice");
    assert!(said.contains("Revoked alice.") && said.contains("wg syncconf adit-setup"), "{said}");
    assert_ne!(bed.text("crl.pem"), list);
    let peers = server(&bed).peers;
    assert_eq!(
        peers.iter().map(|peer| peer.public_key).collect::<Vec<_>>(),
        [public_key(&config(&bed, "clients/bob.conf"))]
    );
    assert!(!bed.text("adit-setup.conf").contains("alice"));
    for ending in ["ovpn", "conf", "png", "svg"] {
        assert!(!bed.is_there(&format!("clients/alice.{ending}")), "{ending}");
    }
    assert!(bed.good("revoke DIR alice").contains("was revoked already"));
    // Her name and her address are free, her key is not.
    bed.good("add-client DIR alice --wireguard");
    let again = config(&bed, "clients/alice.conf");
    assert_eq!(again.interface.addresses, alice.interface.addresses);
    assert_ne!(public_key(&again), public_key(&alice));
    // A client of WireGuard alone.
    bed.good("revoke DIR bob");
    assert_eq!(server(&bed).peers.len(), 1);
    bed.refused("revoke DIR carol");
}

/// A command was interrupted between the index and the server's file: whichever comes next completes it.
#[test]
fn the_next_command_completes_a_revocation() {
    let bed = with_server();
    bed.good("add-client DIR alice --wireguard");
    let before = bed.text("adit-setup.conf");
    bed.good("revoke DIR alice");
    fs::write(bed.dir.join("adit-setup.conf"), before).unwrap();
    let said = bed.good("add-client DIR bob");
    assert!(said.contains("lost a revoked key of alice"), "{said}");
    assert!(server(&bed).peers.is_empty());
}

#[test]
fn renew_makes_new_keys() {
    let bed = with_server();
    bed.good("add-client DIR alice --wireguard --qr");
    bed.good("add-client DIR bob");
    let (before, image) =
        (config(&bed, "clients/alice.conf"), fs::read(bed.dir.join("clients/alice.png")).unwrap());
    let said = bed.refused("renew DIR alice");
    assert!(said.contains("--wireguard"), "{said}");
    bed.refused("renew DIR bob --wireguard");
    bed.refused("renew DIR --wireguard");
    bed.good("renew DIR alice --wireguard");
    let after = config(&bed, "clients/alice.conf");
    assert_eq!(after.interface.addresses, before.interface.addresses);
    assert_ne!(public_key(&after), public_key(&before));
    assert_ne!(after.peers[0].preshared_key, before.peers[0].preshared_key);
    let keys: Vec<_> = server(&bed).peers.iter().map(|peer| peer.public_key).collect();
    assert_eq!(keys, [public_key(&after)]);
    assert_ne!(
        fs::read(bed.dir.join("clients/alice.png")).unwrap(),
        image,
        "the image is that of the new file"
    );
}

#[test]
fn addresses_end() {
    let bed = with_server();
    let text = bed.text("server.conf").replace(".127 255", ".253 255");
    fs::write(bed.dir.join("server.conf"), text).unwrap();
    bed.good("add-client DIR alice --wireguard");
    let said = bed.refused("add-client DIR bob --wireguard");
    assert!(said.contains("no address is left") && !bed.is_there("clients/bob.conf"), "{said}");
    assert_eq!(server(&bed).peers.len(), 1);
    // Lines that the owner wrote by hand are taken as well.
    bed.good("revoke DIR alice");
    let alice = "[Peer]\n# by hand\nPublicKey = AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\nAllowedIPs = ";
    let last = server(&bed).interface.addresses[0].broadcast().to_string().replace(".255", ".254");
    let text = bed.text("adit-setup.conf") + alice + &last + "\n";
    fs::write(bed.dir.join("adit-setup.conf"), text).unwrap();
    bed.refused("add-client DIR bob --wireguard");
    assert!(bed.text("adit-setup.conf").contains("# by hand"));
}

#[test]
fn a_qr_code_is_shown_and_written() {
    let bed = with_server();
    let said = bed.good("add-client DIR alice --wireguard --qr");
    // To a pipe it is drawn without colours. The content of the code is tested where it is made.
    assert!(said.contains("█") && !said.contains('\x1b') && !said.contains("PrivateKey"), "{said}");
    assert!(said.lines().all(|line| !line.contains('█') || line.chars().count() <= 80), "{said}");
    for (name, start) in [("alice.png", &b"\x89PNG"[..]), ("alice.svg", b"<?xml")] {
        let path = bed.dir.join("clients").join(name);
        assert_eq!(mode(&path), 0o600);
        assert!(fs::read(&path).unwrap().starts_with(start));
    }
}

/// Several at once get addresses of their own.
#[test]
fn clients_made_at_once_do_not_lose_each_other() {
    let bed = with_server();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let bed = &bed;
            scope.spawn(move || bed.good(&format!("add-client DIR client{number} --wireguard")));
        }
    });
    let peers = server(&bed).peers;
    let mut addresses: Vec<String> = peers.iter().map(|peer| format!("{:?}", peer.allowed_ips)).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!((peers.len(), addresses.len()), (4, 4));
}
