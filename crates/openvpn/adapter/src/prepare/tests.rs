use adit_testbed::{Authority, Identity, KeyKind, Purpose, Scratch, Validity};

use std::path::Path;

use crate::OpenVpn;
use adit_host::configuration;
use adit_host::remarks::Remarks;

const CLIENT: &str = "client\ndev tun\nremote 192.0.2.1\nremote-cert-tls server\n";
const SERVER: &str = "server 10.8.0.0 255.255.255.0\ndev tun\ntopology subnet\ndh none\nscript-security 2\n";

/// A directory for files, an authority, and an end that it has issued a certificate to.
struct Bed {
    scratch: Scratch,
    authority: Authority,
    identity: Identity,
}

impl Bed {
    fn new(purpose: Purpose) -> Self {
        let authority = Authority::create(KeyKind::Ecdsa).expect("an authority");
        let identity = authority.issue("end", purpose, Validity::Now).expect("a certificate");
        Bed { scratch: Scratch::create("prepare").expect("a directory"), authority, identity }
    }

    /// These lines, and the blocks for certificates and the key.
    fn text(&self, lines: &str, key: &str) -> String {
        let blocks =
            [("ca", self.authority.certificate.as_str()), ("cert", &self.identity.certificate), ("key", key)];
        let blocks = blocks.map(|(name, text)| format!("<{name}>\n{}\n</{name}>\n", text.trim_end()));
        format!("{lines}{}", blocks.concat())
    }

    fn check(&self, lines: &str) -> Result<Remarks, String> {
        self.check_with_key(lines, &self.identity.key)
    }

    fn check_with_key(&self, lines: &str, key: &str) -> Result<Remarks, String> {
        let file = self.scratch.write("test.conf", &self.text(lines, key)).expect("a file");
        check_file(&file)
    }
}

fn check_file(file: &Path) -> Result<Remarks, String> {
    let read = configuration::read(&[&OpenVpn], file).map_err(|error| error.to_string())?;
    let mut remarks = Remarks::default();
    read.check(&mut remarks).map_err(|failure| failure.why().to_owned())?;
    Ok(remarks)
}

#[test]
fn what_stands_in_a_file_is_judged_as_up_judges_it() {
    let bed = Bed::new(Purpose::Client);
    let good = bed.check(CLIENT).expect("it can be used");
    assert!(good.left_open.is_empty(), "{good:?}");
    let garbage = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let why = bed.check_with_key(CLIENT, garbage).expect_err("it is no key");
    assert!(why.contains("test.conf:") && why.contains("key"), "{why}");
    let other = bed.authority.issue("other", Purpose::Client, Validity::Now).expect("a certificate");
    let why = bed.check_with_key(CLIENT, &other.key).expect_err("it is another's key");
    assert!(why.contains("does not belong to the certificate"), "{why}");
    let list =
        "<crl-verify>\n-----BEGIN X509 CRL-----\nbm8gbGlzdA==\n-----END X509 CRL-----\n</crl-verify>\n";
    let why = bed.check(&format!("{CLIENT}{list}")).expect_err("it is no list");
    assert!(why.contains("test.conf:5: crl-verify: "), "{why}");
}

#[test]
fn an_expiry_is_warned_of_as_at_the_start() {
    let bed = Bed::new(Purpose::Client);
    let warnings = |lines: &str| bed.check(lines).expect("it can be used").warnings;
    assert!(warnings(CLIENT).iter().all(|text| !text.contains("expire")), "the certificates are for a year");
    // For 30 days.
    let list = bed.authority.revocations().expect("a list");
    let said = warnings(&format!("{CLIENT}<crl-verify>\n{list}</crl-verify>\n"));
    let expires = |text: &&String| {
        text.starts_with("the revocation list (crl-verify) of ") && text.contains(" expires in ")
    };
    assert_eq!(said.iter().filter(expires).count(), 1, "{said:?}");
}

#[test]
fn what_the_system_lacks_is_named_with_its_line() {
    let (client, server) = (Bed::new(Purpose::Client), Bed::new(Purpose::Server));
    let line = |bed: &Bed, base: &str, line: &str, words: &str| {
        let why = bed.check(&format!("{base}{line}\n")).expect_err(line);
        let number = base.lines().count() + line.lines().count();
        assert!(why.contains(&format!("test.conf:{number}: ")) && why.contains(words), "{line}: {why}");
    };
    line(&client, CLIENT, "user no-such-user", "no-such-user");
    line(&client, CLIENT, "group no-such-group", "no-such-group");
    line(&client, CLIENT, "script-security 2\nup /nowhere/up", "/nowhere/up");
    line(&client, CLIENT, "writepid /nowhere/pid", "No such file");
    line(&client, CLIENT, "log /nowhere/log", "No such file");
    line(&client, CLIENT, "auth-user-pass /nowhere/password", "No such file");
    line(&client, CLIENT, "management /nowhere/socket unix", "check that its directory is there");
    line(&client, CLIENT, "management 127.0.0.1 0 /nowhere/password", "No such file");
    for directive in ["client-connect", "client-disconnect", "learn-address", "tls-verify"] {
        line(&server, SERVER, &format!("{directive} /nowhere/program"), "/nowhere/program");
    }
    line(&server, SERVER, "auth-user-pass-verify /nowhere/program via-file", "/nowhere/program");
    line(&server, SERVER, "client-config-dir /nowhere", "No such file");
    line(&server, SERVER, "ifconfig-pool-persist /", "directory");
}

#[test]
fn what_is_asked_for_at_the_start_is_left_open_and_the_rest_is_judged() {
    let (client, server) = (Bed::new(Purpose::Client), Bed::new(Purpose::Server));
    let key = include_str!("../../../../pki/tests/data/encrypted_key/pkcs8-aes128-sha512.key");
    for (bed, base) in [(&client, CLIENT), (&server, SERVER)] {
        let remarks = bed.check_with_key(base, key).expect("it can be used");
        assert!(remarks.left_open.len() == 1 && remarks.left_open[0].contains("key: "), "{remarks:?}");
        let broken = format!("{base}<tls-crypt>\nnothing\n</tls-crypt>\n");
        assert!(bed.check_with_key(&broken, key).is_err(), "its other key is judged");
    }
    let remarks = client.check(&format!("{CLIENT}auth-user-pass\n")).expect("it can be used");
    assert!(remarks.left_open.iter().any(|text| text.contains("auth-user-pass")), "{remarks:?}");
    client.scratch.write("pass", "ann\nsecret\n").expect("a file");
    let remarks = client.check(&format!("{CLIENT}auth-user-pass pass\n")).expect("it can be used");
    assert!(remarks.left_open.is_empty(), "{remarks:?}");
    client.scratch.write("pass", "\nsecret\n").expect("a file");
    let why = client.check(&format!("{CLIENT}auth-user-pass pass\n")).expect_err("there is no name");
    assert!(why.contains("the username is empty"), "{why}");
}

/// The lists, the log and the file of the status are not touched.
#[test]
fn nothing_is_written() {
    let bed = Bed::new(Purpose::Server);
    let places = ["status", "log", "pid", "leases", "socket"].map(|name| bed.scratch.path().join(name));
    let [status, log, pid, leases, socket] = places.each_ref().map(|path| path.display());
    let lines = format!(
        "{SERVER}status {status}\nlog {log}\nwritepid {pid}\nifconfig-pool-persist {leases}\nmanagement {socket} unix\n"
    );
    bed.check(&lines).expect("it can be used");
    assert!(places.iter().all(|path| !path.exists()), "{:?}", std::fs::read_dir(bed.scratch.path()));
}
