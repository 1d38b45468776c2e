//! `adit init --ikev2`, `adit add-client --ikev2`, and the work of `revoke` and `renew` on their files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use adit_pki::inspect;

use crate::bed::Bed;

fn with_server() -> Bed {
    Bed::with("--endpoint vpn.example:443 --proto tcp --ikev2 --dev adit-setup --full-tunnel")
}

/// The names that the server's tunnel keeps out.
fn blocked(bed: &Bed) -> String {
    let lists = fs::read_dir(bed.state().join("ipsec")).into_iter().flatten();
    lists.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

/// All files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}

const OF_A_CLIENT: [&str; 4] = ["mobileconfig", "ps1", "sswan", "swanctl"];

#[test]
fn a_server_of_ikev2_is_made_in_one_step_and_its_files_are_its_owners() {
    let bed = with_server();
    for file in ["server.conf", "swanctl.conf"] {
        bed.assert_good(file);
    }
    assert!(bed.text("server.conf").contains("\ndev adit-setup\ndev-type tun\n"));
    let server = bed.text("swanctl.conf");
    assert!(
        server.contains("#adit: device = adit-setup\n") && server.contains("local_ts = 0.0.0.0/0, ::/0\n"),
        "{server}"
    );
    assert_eq!(bed.text("x509crl/crl.pem"), bed.text("crl.pem"));
    assert_eq!(bed.text("x509ca/ca.pem"), bed.text("pki/ca.crt"));
    for path in files_below(&bed.dir)
        .iter()
        .filter(|path| !path.ends_with("crl.pem") && !path.ends_with("pki/ca.crt"))
    {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
    let said = bed.refused("init DIR --endpoint vpn.example:443 --ikev2");
    assert!(said.contains("has IKEv2: `adit init` made it already"), "{said}");
}

#[test]
fn a_directory_that_is_there_gets_ikev2_beside_wireguard() {
    let bed = Bed::empty();
    assert!(bed.refused("init DIR --ikev2").contains("--endpoint HOST[:PORT]") && !bed.dir.exists());
    bed.good("init DIR --endpoint 192.0.2.1 --wireguard --dev adit-setup");
    bed.good("add-client DIR alice");
    let before = bed.text("server.conf");
    assert!(bed.refused("add-client DIR alice --ikev2").contains("adit init") && !bed.is_there("users"));
    // Of both nothing is made where one cannot be.
    bed.refused("add-client DIR bob --openvpn --ikev2");
    assert!(!bed.is_there("clients/bob.ovpn"));
    let said = bed.good("init DIR --ikev2");
    assert!(
        said.contains("adit-setup.conf") && said.contains("swanctl.conf"),
        "all run in one process: {said}"
    );
    assert_eq!(bed.text("server.conf"), before, "its device has a name already");
    bed.assert_good("swanctl.conf");
    // A client has all three by one name.
    bed.good("add-client DIR alice --ikev2 --wireguard");
    assert!(bed.refused("add-client DIR alice --ikev2").contains("choose another name"));
    assert!(bed.refused("add-client DIR ALICE --ikev2").contains("choose another name"));
    bed.refused("add-client DIR bob --password");
}

#[test]
fn a_client_could_not_pass_for_the_server() {
    let bed = with_server();
    for words in ["VPN.example --ikev2", "vpn.example", "vpn.example --ikev2 --password"] {
        let said = bed.refused(&format!("add-client DIR {words}"));
        assert!(said.contains("is the name of the server"), "{words}: {said}");
    }
    let other = Bed::empty();
    other.good("init DIR --endpoint vpn.example");
    other.good("add-client DIR vpn.example");
    assert!(other.refused("init DIR --ikev2").contains("is the name of the server"));
}

#[test]
fn a_client_gets_files_for_each_device_and_revoke_takes_all_of_it_away() {
    let bed = with_server();
    let said = bed.good("add-client DIR laptop --ikev2");
    assert!(OF_A_CLIENT.iter().all(|ending| said.contains(&format!("laptop.{ending}"))), "{said}");
    let said = bed.good("add-client DIR a.phone --ikev2 --password");
    let password = said.lines().find_map(|line| line.strip_prefix("The password of a.phone: ")).unwrap();
    assert!(bed.text("users/a.phone.conf").contains(password), "{said}");
    for name in ["laptop", "a.phone"] {
        bed.assert_good(&format!("clients/{name}.swanctl/{name}.conf"));
    }
    bed.assert_good("swanctl.conf");
    let certificate = bed.text("clients/laptop.swanctl/x509/laptop.pem");
    let serial = inspect::serial(&certificate).unwrap();

    for name in ["laptop", "a.phone"] {
        bed.good(&format!("revoke DIR {name}"));
        assert!(OF_A_CLIENT.iter().all(|ending| !bed.is_there(&format!("clients/{name}.{ending}"))));
    }
    assert!(!bed.is_there("users/a.phone.conf"));
    assert!(inspect::serials_listed(&bed.text("x509crl/crl.pem")).contains(&serial));
    assert_eq!(blocked(&bed), "a.phone\nlaptop\n");
    // A name may come back, and gets in then; the certificate from before does not.
    bed.good("add-client DIR laptop --ikev2");
    assert_eq!(blocked(&bed), "a.phone\n");
    assert!(inspect::serials_listed(&bed.text("x509crl/crl.pem")).contains(&serial));
    bed.assert_good("swanctl.conf");
}

/// The certificates of both servers are renewed by one command, and the files of a client by another.
#[test]
fn certificates_and_passwords_are_renewed() {
    let bed = with_server();
    bed.good("add-client DIR laptop --ikev2");
    bed.good("add-client DIR phone --ikev2 --password");
    let read = || ["x509/server.pem", "private/server.pem", "x509ca/ca.pem"].map(|file| bed.text(file));
    let before = read();
    bed.good("renew DIR");
    let after = read();
    assert!(before[0] != after[0] && before[1] != after[1] && before[2] == after[2]);
    bed.good("renew DIR --ca");
    assert_ne!(read()[2], before[2]);
    assert_eq!(bed.text("x509ca/ca.pem"), bed.text("pki/ca.crt"));
    let clients =
        || ["clients/laptop.swanctl/x509/laptop.pem", "users/phone.conf"].map(|file| bed.text(file));
    let before = clients();
    assert!(bed.refused("renew DIR laptop").contains("renew DIR laptop --ikev2"));
    bed.refused("renew DIR nobody --ikev2");
    bed.good("renew DIR laptop phone --ikev2");
    let after = clients();
    assert!(before[0] != after[0] && before[1] != after[1]);
    bed.assert_good("swanctl.conf");
    bed.assert_good("clients/laptop.swanctl/laptop.conf");
}

/// A directory without OpenVPN has all commands: its tunnel, its clients and their networks are in the file of swanctl.
#[test]
fn a_server_of_ikev2_alone_is_made_and_has_clients() {
    let bed = Bed::empty();
    let alone = "init DIR --endpoint vpn.example --ikev2 --without-openvpn";
    assert!(bed.refused(alone).contains("--lan NETWORK") && !bed.dir.exists());
    for words in ["--wireguard", "--proto tcp", "--user nobody"] {
        bed.refused(&format!("{alone} --full-tunnel {words}"));
    }
    bed.refused("init DIR --endpoint vpn.example --without-openvpn --full-tunnel");
    let said = bed.good(&format!("{alone} --lan 192.168.1.0/24 --dns 192.0.2.53 --dev adit-setup"));
    assert!(said.contains("vpn/swanctl.conf") && !said.contains("server.conf"), "{said}");
    let server = bed.text("swanctl.conf");
    for line in ["#adit: device = adit-setup\n", "#adit: forward = 192.168.1.0/24\n", "dns = 192.0.2.53\n"] {
        assert!(server.contains(line), "{line}: {server}");
    }
    assert!(!bed.is_there("server.conf") && bed.text("x509crl/crl.pem") == bed.text("crl.pem"));
    bed.assert_good("swanctl.conf");
    assert!(bed.refused(&format!("{alone} --full-tunnel")).contains("made it already"));
    // A plain command makes a client of the only protocol.
    bed.good("add-client DIR laptop");
    bed.good("add-client DIR phone --ikev2 --password");
    assert!(OF_A_CLIENT.iter().all(|ending| bed.is_there(&format!("clients/laptop.{ending}"))));
    let networks = server.lines().find_map(|line| line.trim().strip_prefix("local_ts = ")).unwrap();
    let client = bed.text("clients/laptop.swanctl/laptop.conf");
    assert!(
        networks.contains("192.168.1.0/24") && client.contains(&format!("remote_ts = {networks}\n")),
        "{client}"
    );
    bed.assert_good("clients/phone.swanctl/phone.conf");
    for words in
        ["add-client DIR tablet --openvpn", "add-client DIR tablet --wireguard", "init DIR --wireguard"]
    {
        assert!(bed.refused(words).contains("has IKEv2 alone"), "{words}");
    }
    let before = bed.text("x509/server.pem");
    bed.good("renew DIR");
    bed.good("renew DIR --ca");
    assert_ne!(bed.text("x509/server.pem"), before);
    assert_eq!(bed.text("x509ca/ca.pem"), bed.text("pki/ca.crt"));
    bed.good("renew DIR laptop phone --ikev2");
    let said = bed.good("revoke DIR laptop");
    assert!(!said.contains("server.conf"), "{said}");
    bed.good("revoke DIR phone");
    assert!(!bed.is_there("users/phone.conf") && blocked(&bed) == "laptop\nphone\n");
    bed.assert_good("swanctl.conf");
}

/// A revocation that was cut short is completed by the next command.
#[test]
fn an_interrupted_revocation_is_completed() {
    let bed = with_server();
    bed.good("add-client DIR phone --ikev2 --password");
    let (user, list) = (bed.text("users/phone.conf"), bed.text("x509crl/crl.pem"));
    bed.good("revoke DIR phone");
    fs::write(bed.dir.join("users/phone.conf"), user).unwrap();
    fs::write(bed.dir.join("x509crl/crl.pem"), list).unwrap();
    bed.good("add-client DIR other");
    assert!(!bed.is_there("users/phone.conf"));
    assert_eq!(bed.text("x509crl/crl.pem"), bed.text("crl.pem"));
}

/// Each file of swanctl on the pages about gateways is one that adit takes as it stands.
#[test]
fn the_files_on_the_pages_about_gateways_are_good() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use");
    let pages = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> =
        pages.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("IPSEC-")).collect();
    assert!(pages.len() > 5, "{pages:?}");
    let bed = Bed::empty();
    fs::create_dir(&bed.dir).unwrap();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let blocks =
            text.split("```\n").skip(1).step_by(2).filter(|block| block.starts_with("connections {"));
        let blocks: Vec<&str> = blocks.collect();
        assert!(!blocks.is_empty(), "{}", page.display());
        for block in blocks {
            let file = bed.dir.join("page.conf");
            fs::write(&file, block).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            bed.assert_good("page.conf");
        }
    }
}
