//! `pkcs11-id`: a client's key is on a token, here one of SoftHSM's. The PIN is asked for at the management socket, in the
//! words of OpenVPN.

use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_testbed::{Authority, KeyKind, MAX_WAIT, Purpose, Scratch, Validity, can_run, program};

use crate::bed::Bed;
use crate::management::commands::Talk;
use crate::options::{Options, Program};

const PROGRAMS: [&str; 4] = ["openvpn", "openssl", "softhsm2-util", "pkcs11-tool"];
const WAIT: Duration = MAX_WAIT;
const PIN: &str = "1234";

/// A token that holds a client's certificate and key.
struct Token {
    directory: Scratch,
    module: PathBuf,
}

impl Token {
    /// Makes it. The key does not leave it.
    fn create(certificate: &str, key: &str) -> Self {
        let places = ["/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so"];
        let module = places.iter().map(PathBuf::from).find(|place| place.exists()).expect("SoftHSM's module");
        let directory = Scratch::create("token").unwrap();
        let tokens = directory.path().join("tokens");
        std::fs::create_dir(&tokens).unwrap();
        let text = format!("directories.tokendir = {}\nobjectstore.backend = file\n", tokens.display());
        directory.write("softhsm2.conf", &text).unwrap();
        let [key, certificate] = [("key.pem", key), ("cert.pem", certificate)]
            .map(|(name, text)| directory.write(name, text).unwrap());
        let token = Token { directory, module };
        let der = token.directory.path().join("cert.der");
        let run = |name: &str, words: &[&str]| {
            let mut command = program(name).unwrap();
            let output = command.args(words).env("SOFTHSM2_CONF", token.settings()).output().unwrap();
            assert!(output.status.success(), "{name} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let text = |path: &Path| path.display().to_string();
        run("openssl", &["x509", "-in", &text(&certificate), "-outform", "DER", "-out", &text(&der)]);
        run(
            "softhsm2-util",
            &["--init-token", "--free", "--label", "adit", "--pin", PIN, "--so-pin", "56785678"],
        );
        run(
            "softhsm2-util",
            &["--import", &text(&key), "--token", "adit", "--label", "client", "--id", "01", "--pin", PIN],
        );
        let module = text(&token.module);
        let login = ["--module", &module, "--token-label", "adit", "--login", "--pin", PIN];
        let der = text(&der);
        let object = ["--write-object", &der, "--type", "cert", "--id", "01", "--label", "client"];
        run("pkcs11-tool", &[&login[..], &object[..]].concat());
        token
    }

    /// The file that SoftHSM finds its tokens by.
    fn settings(&self) -> PathBuf {
        self.directory.path().join("softhsm2.conf")
    }

    /// The names of the certificates, as a program lists them.
    fn names(&self, mut command: std::process::Command) -> Vec<String> {
        command.arg("--show-pkcs11-ids").arg(&self.module).env("SOFTHSM2_CONF", self.settings());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let name = |line: &str| line.trim().strip_prefix("Serialized id:").map(|name| name.trim().to_owned());
        text.lines().filter_map(name).collect()
    }
}

/// The requests at the socket of a client whose key is on a token of that kind. Its file names the certificate, or the
/// program at the socket does.
fn dialogue(client: Program, keys: KeyKind, named: bool) -> Vec<String> {
    let authority = std::cell::RefCell::new(None);
    let options = Options { keys, ..Options::BASE };
    let scratch = Scratch::create("smart-card").unwrap();
    let socket = scratch.path().join("socket");
    let mut bed = Bed::build_with(&options, Program::Adit, &[client], |issuer, [server, client]| {
        server.push_str("hand-window 30\n");
        let identity = issuer.issue("card", Purpose::Client, Validity::Now).unwrap();
        let token = Token::create(&identity.certificate, &identity.key);
        let name = token.names(program("openvpn").unwrap()).remove(0);
        for block in ["cert", "key"] {
            let (start, end) = (format!("<{block}>\n"), format!("</{block}>\n"));
            let (from, to) = (client.find(&start).unwrap(), client.find(&end).unwrap());
            client.replace_range(from..to + end.len(), "");
        }
        let which = if named { format!("pkcs11-id '{name}'") } else { "pkcs11-id-management".to_owned() };
        client.push_str(&format!(
            "pkcs11-providers {}\n{which}\nhand-window 30\nconnect-retry 1\n\
             management {} unix\nmanagement-hold\nmanagement-query-passwords\n",
            token.module.display(),
            socket.display()
        ));
        *authority.borrow_mut() = Some(token);
    })
    .unwrap();
    let token = authority.into_inner().unwrap();
    bed.clients[0].set_environment("SOFTHSM2_CONF", &token.settings());
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let mut talk = Talk::within(&socket, WAIT);
    talk.until(">HOLD:");
    talk.answer("state on");
    talk.answer("hold release");
    let mut heard = Vec::new();
    if !named {
        heard.push(talk.until(">NEED-STR:"));
        talk.say("pkcs11-id-count");
        heard.push(talk.until(">PKCS11ID-COUNT:"));
        talk.say("pkcs11-id-get 1");
        heard.push(talk.until(">PKCS11ID-ENTRY:"));
        talk.say("pkcs11-id-get 0");
        let entry = talk.until(">PKCS11ID-ENTRY:");
        let words: Vec<&str> = entry.split('\'').collect();
        // The serial number of the token and the certificate differ from one token to the next.
        heard.push(format!("{} {} {}", words[0], words[2], words[4]));
        heard.extend(talk.answer(&format!("needstr pkcs11-id-request '{}'", words[3])));
    }
    heard.push(talk.until(">PASSWORD:"));
    heard.extend(talk.answer(&format!("password \"adit token\" {PIN}")));
    talk.until_with(">STATE:", ",CONNECTED,");
    heard
}

#[test]
fn a_token_signs_for_a_client() {
    if !can_run("smart cards", &PROGRAMS) {
        return;
    }
    let [theirs, ours] =
        [Program::OpenVpn, Program::Adit].map(|client| dialogue(client, KeyKind::Ecdsa, true));
    assert_eq!(ours, theirs);
    assert_eq!(ours[0], ">PASSWORD:Need 'adit token' password");
    // PSS on the token.
    assert_eq!(dialogue(Program::Adit, KeyKind::Rsa, true), ours);
}

#[test]
fn a_program_names_the_certificate_on_a_token() {
    if !can_run("smart cards", &PROGRAMS) {
        return;
    }
    let [theirs, ours] =
        [Program::OpenVpn, Program::Adit].map(|client| dialogue(client, KeyKind::Ecdsa, false));
    assert_eq!(ours, theirs);
    assert_eq!(ours[1..3], [">PKCS11ID-COUNT:1", ">PKCS11ID-ENTRY:'1'"]);
}

#[test]
fn certificates_on_a_token_are_listed_by_the_same_names() {
    if !can_run("smart cards", &PROGRAMS) {
        return;
    }
    let authority = Authority::create(KeyKind::Ecdsa).unwrap();
    let identity = authority.issue("card", Purpose::Client, Validity::Now).unwrap();
    let token = Token::create(&identity.certificate, &identity.key);
    let mut ours = std::process::Command::new(env!("CARGO_BIN_EXE_adit"));
    ours.arg("openvpn");
    let names = token.names(ours);
    assert_eq!(names, token.names(program("openvpn").unwrap()));
    assert!(names.len() == 1 && names[0].contains("/adit/"), "{names:?}");
}
