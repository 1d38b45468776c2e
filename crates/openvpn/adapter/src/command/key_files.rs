//! `--genkey`: keys in OpenVPN's files.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use adit_core::UnixTime;
use adit_openvpn::static_key::StaticKey;
use adit_openvpn::wrap::v2::{Metadata, ServerKey};
use adit_openvpn_config::{CommandLineOption, TokenSecret};
use base64ct::{Base64, Encoding as _};
use rand_core::{OsRng, TryRngCore as _};
use zeroize::Zeroizing;

use super::stand_alone::argument;
use adit_host::exit;
use adit_host::failure::Failure;

/// The lines that `--genkey secret` writes before the key.
const STATIC_KEY_HEAD: &str = "#\n# 2048 bit OpenVPN static key\n#\n";

/// `--genkey [TYPE [FILE [METADATA]]]`, and its old form `--genkey --secret FILE`. Without a file the key goes to the
/// standard output.
///
/// # Errors
/// When there is no such type, or the key cannot be written.
pub(super) fn generate(options: &[CommandLineOption]) -> Result<(), Failure> {
    let arguments = options.iter().rev().find(|option| option.name == "genkey");
    let mut arguments = arguments.into_iter().flat_map(|option| &option.arguments).map(String::as_str);
    let (kind, file, metadata) = (arguments.next(), arguments.next(), arguments.next());
    let text = match kind.unwrap_or("secret") {
        "secret" | "tls-auth" | "tls-crypt" => static_key()?,
        "tls-crypt-v2-server" => server_key()?,
        "tls-crypt-v2-client" => client_key(argument(options, "tls-crypt-v2"), metadata)?,
        "auth-token" => TokenSecret::from_bytes(*random()?).to_text(),
        kind => {
            return Err(Failure::Configuration(format!("unknown --genkey type: {}", kind.escape_debug())));
        }
    };
    let old = argument(options, "secret").filter(|_| kind.is_none());
    if old.is_some() {
        exit::say(
            "WARNING: Using --genkey --secret filename is DEPRECATED.  Use --genkey secret filename instead.",
        );
    }
    match old.or(file) {
        Some(file) => write(Path::new(file), text.as_bytes()),
        None => io::stdout().write_all(text.as_bytes()),
    }
    .map_err(|error| {
        let place = old.or(file).unwrap_or("the standard output");
        Failure::World(format!("Cannot open file '{place}' for write: {error}\nFailed to write key file"))
    })
}

/// A file that only its owner may read, if it is new.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(content)
}

fn static_key() -> Result<Zeroizing<String>, Failure> {
    let key = StaticKey::from_bytes(&*random()?).to_text();
    let mut text = Zeroizing::new(String::with_capacity(STATIC_KEY_HEAD.len() + key.len()));
    text.push_str(STATIC_KEY_HEAD);
    text.push_str(&key);
    Ok(text)
}

fn server_key() -> Result<Zeroizing<String>, Failure> {
    Ok(ServerKey::from_bytes(&*random()?).to_text())
}

/// A client's key, wrapped by the server's. Without metadata it says when it was made.
fn client_key(server_file: Option<&str>, metadata: Option<&str>) -> Result<Zeroizing<String>, Failure> {
    let file = server_file.ok_or_else(|| {
        let why = "--genkey tls-crypt-v2-client requires a server key to be set via --tls-crypt-v2 to create a client key";
        Failure::Configuration(why.to_owned())
    })?;
    let metadata = match metadata {
        Some(text) => {
            let bytes = Base64::decode_vec(text);
            Metadata::User(bytes.map_err(|_| Failure::World("the metadata is not base64".to_owned()))?)
        }
        None => Metadata::Made(now()),
    };
    let failed = |why: String| Failure::World(format!("{file}: {why}"));
    let text =
        std::fs::read_to_string(file).map(Zeroizing::new).map_err(|error| failed(error.to_string()))?;
    let server = ServerKey::parse(&text).map_err(failed)?;
    let wrapped = server.wrap(&StaticKey::from_bytes(&*random()?), &metadata);
    Ok(wrapped.map_err(|why| Failure::World(why.to_string()))?.to_text())
}

fn now() -> UnixTime {
    adit_io::unix_now()
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Failure> {
    let mut bytes = Zeroizing::new([0; N]);
    OsRng
        .try_fill_bytes(bytes.as_mut_slice())
        .map_err(|error| Failure::World(format!("no randomness from the system: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use adit_openvpn::wrap::v2::ClientKey;
    use adit_testbed::Scratch;

    use super::*;

    fn run(words: &[&str]) -> Result<(), Failure> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        generate(&adit_openvpn_config::split_command_line(&words).expect("options"))
    }

    #[test]
    fn every_form_writes_a_key_that_can_be_read() {
        let scratch = Scratch::create("genkey").expect("a directory");
        let path = |name: &str| scratch.path().join(name).display().to_string();
        let read = |name: &str| std::fs::read_to_string(path(name)).expect("the file");
        for (name, words) in [
            ("a", &["--genkey", "secret"][..]),
            ("b", &["--genkey", "tls-auth"]),
            ("c", &["--genkey", "tls-crypt"]),
            ("d", &["--genkey", "--secret"]),
            ("e", &["--genkey", "tls-crypt-v2-server"]),
            ("f", &["--tls-crypt-v2", &path("e"), "--genkey", "tls-crypt-v2-client"]),
            ("g", &["--genkey", "auth-token"]),
        ] {
            let file = path(name);
            let words: Vec<&str> = words.iter().copied().chain([file.as_str()]).collect();
            run(&words).expect("a key");
            let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
            assert_eq!(mode & 0o077, 0, "{name}");
        }
        for name in ["a", "b", "c", "d"] {
            assert!(read(name).starts_with(STATIC_KEY_HEAD), "{name}");
            assert!(StaticKey::parse(&read(name)).is_ok(), "{name}");
        }
        assert!(read("a") != read("b"));
        assert!(ServerKey::parse(&read("e")).is_ok());
        assert!(ClientKey::parse(&read("f")).is_ok());
        assert!(TokenSecret::parse(&read("g")).is_ok());
        let (server, client) = (path("e"), path("h"));
        let with = |metadata| {
            run(&["--genkey", "tls-crypt-v2-client", &client, metadata, "--tls-crypt-v2", &server])
        };
        assert!(with("dGVzdA==").is_ok() && with("!").is_err());
    }

    #[test]
    fn what_cannot_be_made_is_told() {
        assert!(matches!(run(&["--genkey", "foo"]), Err(Failure::Configuration(_))));
        assert!(matches!(run(&["--genkey", "tls-crypt-v2-client", "/x"]), Err(Failure::Configuration(_))));
        assert!(matches!(run(&["--genkey", "secret", "/nonexistent/key"]), Err(Failure::World(_))));
    }
}
