//! The mistakes of new users. Each case: one clear error, with the file and line where there is one, the cause and the
//! way out, and an exit code that is not zero.

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use adit_testbed::{
    Authority, Identity, KeyKind, MAX_WAIT, Namespace, Purpose, Scratch, Validity, can_run, program,
    static_key,
};

use crate::bed::{Bed, PROGRAMS};
use crate::certificates::requirements::output;
use crate::options::{Options, Program, Wrap};

/// Long enough for any of the errors here; a program that goes on trying is a failure.
const TIMEOUT: Duration = MAX_WAIT;

/// A namespace, an authority with a server's and a client's certificate, and a directory for the file at fault.
struct ErrorCase {
    namespace: Namespace,
    directory: Scratch,
    authority: Authority,
    server: Identity,
    client: Identity,
}

impl ErrorCase {
    /// Nothing if the test cannot run here.
    fn create(test: &str) -> Option<Self> {
        if !can_run(test, &PROGRAMS) {
            return None;
        }
        let authority = Authority::create(KeyKind::Ecdsa).unwrap();
        Some(Self {
            namespace: Namespace::create("case").unwrap(),
            directory: Scratch::create("case").unwrap(),
            server: authority.issue("server", Purpose::Server, Validity::Now).unwrap(),
            client: authority.issue("client", Purpose::Client, Validity::Now).unwrap(),
            authority,
        })
    }

    /// A server's configuration without fault.
    fn server_config(&self) -> String {
        Options::BASE.server(&self.authority.certificate, &self.server, "")
    }

    /// A client's configuration without fault, but for the server, which is not there.
    fn client_config(&self, identity: &Identity, server: &str) -> String {
        Options::BASE.client(&self.authority.certificate, identity, "", server)
    }

    /// Runs `adit up` with this text as its file; it must fail as [`ErrorCase::fails`] says.
    fn text_fails(&self, config: &str, words: &[&str]) -> String {
        let file = self.directory.write("test.conf", config).unwrap();
        self.fails(adit_up(&file), words)
    }

    /// Runs `command`; it must fail with one error that has these words in it, and leave no device. Returns
    /// the error.
    fn fails(&self, command: Command, words: &[&str]) -> String {
        let mut process = self.namespace.spawn("adit", command).unwrap();
        let status = process.wait(TIMEOUT).unwrap();
        let log = process.log();
        assert!(matches!(status.code(), Some(1 | 2)), "ended with {status}:\n{log}");
        let error = only_error(&log);
        for word in words {
            assert!(error.contains(word), "'{word}' is not in the error:\n{error}");
        }
        assert!(self.namespace.devices().unwrap().is_empty(), "a device was left");
        error
    }
}

/// The one error in the program's output.
fn only_error(log: &str) -> String {
    let errors: Vec<&str> = log.lines().filter(|line| line.starts_with("adit: ")).collect();
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(errors.len(), 1, "one error expected:\n{log}");
    errors[0].to_owned()
}

/// The number of the line that is `wanted`, from 1.
fn line_of(config: &str, wanted: &str) -> usize {
    config.lines().position(|line| line == wanted).unwrap() + 1
}

fn adit_up(file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adit"));
    command.arg("up").arg(file);
    command
}

/// `adit up FILE`, after a shell ran `preparation` in a mount namespace of its own.
fn adit_up_after(preparation: &str, file: &Path) -> Command {
    let mut command = program("unshare").unwrap();
    command
        .args(["--mount", "sh", "-c", &format!("{preparation} && exec \"$0\" up \"$1\"")])
        .arg(env!("CARGO_BIN_EXE_adit"))
        .arg(file);
    command
}

/// Copies the program to where every user can run it: the build directory may be closed to others. Opens the
/// directory to every user.
pub(crate) fn copy_for_everybody(directory: &Scratch) -> PathBuf {
    let copy = directory.path().join("adit");
    std::fs::copy(env!("CARGO_BIN_EXE_adit"), &copy).unwrap();
    for path in [directory.path(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    copy
}

/// Runs the program with the rights of `nobody`.
pub(crate) fn as_nobody(file: &Path, arguments: &[&str]) -> Command {
    let mut command = program("setpriv").unwrap();
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(file).args(arguments);
    command
}

#[test]
fn a_configuration_that_is_not_there() {
    let Some(case) = ErrorCase::create("a_configuration_that_is_not_there") else { return };
    case.fails(adit_up(Path::new("/nowhere/office.ovpn")), &["/nowhere/office.ovpn", "No such file"]);
}

#[test]
fn a_management_port_that_is_taken() {
    let Some(case) = ErrorCase::create("a_management_port_that_is_taken") else { return };
    let bind = || std::net::TcpListener::bind("127.0.0.1:7505").unwrap();
    let _taken = case.namespace.enter(bind).unwrap();
    let config = format!("{}management 127.0.0.1 7505\n", case.server_config());
    let line = line_of(&config, "management 127.0.0.1 7505");
    case.text_fails(&config, &[&format!("test.conf:{line}"), "TCP 127.0.0.1:7505", "another program"]);
}

#[test]
fn a_certificate_file_that_is_not_there() {
    let Some(case) = ErrorCase::create("a_certificate_file_that_is_not_there") else { return };
    let config = case.server_config();
    let (before, rest) = config.split_once("<ca>\n").unwrap();
    let (_, after) = rest.split_once("</ca>\n").unwrap();
    let config = format!("{before}ca none.pem\n{after}");
    let line = line_of(&config, "ca none.pem");
    case.text_fails(&config, &[&format!("test.conf:{line}"), "none.pem", "No such file"]);
}

#[test]
fn an_unknown_directive() {
    let Some(case) = ErrorCase::create("an_unknown_directive") else { return };
    let config = case.server_config().replace("keepalive 1 5", "keepalvie 1 5");
    let line = line_of(&config, "keepalvie 1 5");
    case.text_fails(&config, &[&format!("test.conf:{line}"), "keepalvie", "keepalive"]);
}

#[test]
fn a_key_that_is_not_the_certificates() {
    let Some(case) = ErrorCase::create("a_key_that_is_not_the_certificates") else { return };
    let mixed = Identity { certificate: case.client.certificate.clone(), key: case.server.key.clone() };
    let config = case.client_config(&mixed, "192.0.2.1");
    case.text_fails(&config, &["test.conf", "key", "certificate"]);
}

#[test]
fn a_certificate_of_ones_own_that_has_expired() {
    let Some(case) = ErrorCase::create("a_certificate_of_ones_own_that_has_expired") else { return };
    let old = case.authority.issue("old", Purpose::Client, Validity::Expired).unwrap();
    case.text_fails(&case.client_config(&old, "192.0.2.1"), &["test.conf", "expired", "2020"]);
}

#[test]
fn a_password_that_does_not_open_the_key() {
    let Some(case) = ErrorCase::create("a_password_that_does_not_open_the_key") else { return };
    let plain = case.directory.write("plain.key", &case.client.key).unwrap();
    let mut command = program("openssl").unwrap();
    command.args(["pkcs8", "-topk8", "-passout", "pass:right", "-in"]).arg(&plain);
    let key = output(command);
    let encrypted = Identity { key, ..case.client.clone() };
    let config = case.client_config(&encrypted, "192.0.2.1");
    case.directory.write("password", "wrong\n").unwrap();
    let line = line_of(&config, "<key>");
    case.text_fails(
        &(config + "askpass password\n"),
        &[&format!("test.conf:{line}"), "the password does not open it", "askpass"],
    );
}

#[test]
fn a_port_in_use() {
    let Some(case) = ErrorCase::create("a_port_in_use") else { return };
    let holder = case.namespace.enter(|| UdpSocket::bind("0.0.0.0:1194").unwrap()).unwrap();
    case.text_fails(&case.server_config(), &["1194", "in use"]);
    drop(holder);
}

#[test]
fn no_rights() {
    let Some(case) = ErrorCase::create("no_rights") else { return };
    let file = case.directory.write("test.conf", &case.server_config()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let copy = copy_for_everybody(&case.directory);
    case.fails(as_nobody(&copy, &["up", file.to_str().unwrap()]), &["root", "CAP_NET_ADMIN"]);
}

#[test]
fn no_tun_device() {
    let Some(case) = ErrorCase::create("no_tun_device") else { return };
    let file = case.directory.write("test.conf", &case.server_config()).unwrap();
    case.fails(
        adit_up_after("mount -t tmpfs none /dev/net", &file),
        &["/dev/net/tun", "No such file", "modprobe tun"],
    );
    case.fails(adit_up_after("mount --bind /dev/null /dev/net/tun", &file), &["/dev/net/tun"]);
}

#[test]
fn a_name_that_does_not_resolve() {
    let Some(case) = ErrorCase::create("a_name_that_does_not_resolve") else { return };
    // No name server is reachable here: have the resolver look into /etc/hosts alone.
    let switch = case.directory.write("nsswitch.conf", "hosts: files\n").unwrap();
    let preparation = format!("mount --bind {} /etc/nsswitch.conf", switch.display());
    let config = case.client_config(&case.client, "vpn.no-such-name.invalid");
    let file = case.directory.write("test.conf", &config).unwrap();
    case.fails(adit_up_after(&preparation, &file), &["vpn.no-such-name.invalid", "remote"]);
}

/// Starts `server` and a client that cannot come to terms with it; the client must fail with these words.
/// Returns the server's log, empty if the test cannot run here.
fn client_fails(
    test: &str,
    change: impl Fn(&Authority, &mut [String; 2]),
    server: Program,
    words: &[&str],
) -> String {
    if !can_run(test, &PROGRAMS) {
        return String::new();
    }
    let mut bed =
        Bed::build_with(&Options { wrap: Wrap::TlsCrypt, ..Options::BASE }, server, &[Program::Adit], change)
            .unwrap();
    bed.server.start().unwrap();
    bed.clients[0].start().unwrap();
    let ended = bed.clients[0].process().wait(TIMEOUT);
    let Ok(status) = ended else { panic!("{test}: {}\n{}", ended.unwrap_err(), bed.logs()) };
    assert!(matches!(status.code(), Some(1 | 2)), "{test}: ended with {status}\n{}", bed.logs());
    let error = only_error(&bed.clients[0].process().log());
    for word in words {
        assert!(error.contains(word), "{test}: '{word}' is not in the error: {error}\n{}", bed.logs());
    }
    bed.clients[0].no_device_left().unwrap();
    bed.server.process().log()
}

const SERVERS: [Program; 2] = [Program::Adit, Program::OpenVpn];

/// With OpenVPN as the server: adit would not start with such a certificate.
#[test]
fn a_server_whose_certificate_has_expired() {
    client_fails(
        "a_server_whose_certificate_has_expired",
        |authority, [server, _]| {
            let old = authority.issue("old", Purpose::Server, Validity::Expired).unwrap();
            replace_identity(server, &old);
        },
        Program::OpenVpn,
        &["certificate", "expired", "2020"],
    );
}

#[test]
fn ciphers_that_do_not_meet() {
    for server in SERVERS {
        client_fails(
            "ciphers_that_do_not_meet",
            |_, [_, client]| {
                *client = client.replace("data-ciphers AES-256-GCM", "data-ciphers CHACHA20-POLY1305");
            },
            server,
            &["cipher", "data-ciphers"],
        );
    }
}

#[test]
fn a_static_key_that_is_not_the_servers() {
    for server in SERVERS {
        let log = client_fails(
            "a_static_key_that_is_not_the_servers",
            |_, [_, client]| {
                replace_block(client, "tls-crypt", &static_key().unwrap());
                client.push_str("connect-retry-max 1\nserver-poll-timeout 4\n");
            },
            server,
            &["tls-crypt"],
        );
        if server == Program::Adit && !log.is_empty() {
            assert!(log.contains("tls-crypt's tag does not verify"), "{log}");
        }
    }
}

/// Puts another certificate and key into a configuration.
fn replace_identity(config: &mut String, identity: &Identity) {
    replace_block(config, "cert", &identity.certificate);
    replace_block(config, "key", &identity.key);
}

/// Puts another content into an inline block.
fn replace_block(config: &mut String, name: &str, content: &str) {
    let (before, rest) = config.split_once(&format!("<{name}>\n")).unwrap();
    let (_, after) = rest.split_once(&format!("</{name}>\n")).unwrap();
    *config = format!("{before}<{name}>\n{content}</{name}>\n{after}");
}
