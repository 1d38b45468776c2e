//! An OpenVPN configuration from its file.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::Path;
use std::sync::OnceLock;

use adit_core::configuration::Failure;
use adit_guard::{Allowed, Gathered, Revocations};
use adit_openvpn_config::{
    self as file, COMMAND_LINE, Config, Crl, HASHED_FILES, KeyPassword, Parsed, Role, print_pool_file,
};

use super::NAME;
use super::{forwarding, hashed, privileges, proxies, script_policy};
use adit_host::configuration::{find, is_exposed, warning};
use adit_host::helper::HelperOf;

/// The options of this process's command line, where they are its configuration and not a file.
static OPTIONS: OnceLock<String> = OnceLock::new();

/// Makes the options of its command line the configuration of this process, whatever file is named. Among them are the files that
/// are to be read.
pub(crate) fn use_command_line(text: String) {
    // A process has one command line.
    let _ = OPTIONS.set(text);
}

/// The options that [`use_command_line`] was given.
pub(super) fn command_line() -> Option<&'static str> {
    OPTIONS.get().map(String::as_str)
}

/// The owner of this process's helpers.
pub(super) fn helper_of() -> HelperOf {
    HelperOf { protocol: Some(NAME), options: command_line().map(str::to_owned) }
}

fn read_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    match command_line() {
        Some(options) => Ok(options.as_bytes().to_vec()),
        None => std::fs::read(path),
    }
}

/// The configuration in `path`, whose text is given, with the files that it names.
///
/// # Errors
/// When it is wrong: one problem a line.
pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Parsed, Failure> {
    let exposed = RefCell::new(Vec::new());
    let note = |path: &Path, content: &[u8]| {
        if holds_key(path, content) && is_exposed(path) {
            exposed.borrow_mut().push(path.to_owned());
        }
    };
    if command_line().is_none() {
        note(path, text);
    }
    let load = |wanted: &Path| {
        let content = load_from(path, wanted)?;
        note(&find(path, wanted), &content);
        Ok(content)
    };
    let mut parsed = file::parse(&called(path), text, &load)?;
    forwarding::push_name_servers(&mut parsed.config);
    parsed.warnings.extend(exposed.into_inner().iter().map(|path| warning(path)));
    Ok(parsed)
}

/// How the helper reads and writes files of OpenVPN, which no tunnel replaces.
pub(crate) const HELPER: adit_guard::Dialect = adit_guard::Dialect {
    gather,
    rewrite: |_, _| Err(std::io::ErrorKind::PermissionDenied.into()),
    print_leases: |leases| print_pool_file(leases),
};

/// Reads the OpenVPN configuration in `path` again, with the files that it names, for a process that may not. Runs in the helper.
///
/// # Errors
/// When the configuration itself cannot be read.
fn gather(path: &Path) -> std::io::Result<Gathered> {
    let text = read_bytes(path)?;
    let files = RefCell::new(Vec::new());
    let load = |wanted: &Path| {
        let content = load_from(path, wanted);
        files.borrow_mut().push((wanted.to_owned(), content.clone()));
        content
    };
    let parsed = file::parse(&called(path), &text, &load);
    if let Ok(Parsed { config, .. }) = &parsed
        && let KeyPassword::File(password) = &config.tls.key_password
    {
        // Its fault shows where it is used.
        let _ = load(password);
    }
    let allowed = parsed.ok().and_then(|mut parsed| {
        // The tunnel is given no remote without the password of its proxy.
        proxies::read_files(&mut parsed.config, path).ok()?;
        Some(allowed(path, &parsed.config))
    });
    Ok(Gathered { text, files: files.into_inner(), allowed })
}

/// The requests to the helper that a configuration allows its tunnel.
fn allowed(path: &Path, config: &Config) -> Allowed {
    let client_directory = match &config.role {
        Role::Server(server) => server.per_client.directory.as_deref(),
        Role::Client(_) | Role::PointToPoint(_) => None,
    };
    Allowed {
        scripts: script_policy::scripts(config),
        revocations: revocations(path, config),
        remotes: privileges::remotes(config),
        client_directory: client_directory.map(|directory| find(path, directory)),
        ..Allowed::default()
    }
}

/// The file or directory of `crl-verify`.
fn revocations(path: &Path, config: &Config) -> Option<Revocations> {
    let (named, is_directory) = match config.tls.crl.as_ref()? {
        Crl::Inline(_) => return None,
        Crl::File(named) => (named, false),
        Crl::Directory(named) => (named, true),
    };
    Some(Revocations { path: find(path, named), is_directory })
}

/// The configuration in `path` as it was gathered.
///
/// # Errors
/// When it is wrong: one problem a line.
pub(crate) fn parse_gathered(path: &Path, gathered: &Gathered) -> Result<Parsed, Failure> {
    let load = |wanted: &Path| match gathered.files.iter().find(|(name, _)| name == wanted) {
        Some((_, content)) => content.clone(),
        None => Err("it was not read with the configuration".to_owned()),
    };
    let mut parsed = file::parse(&called(path), &gathered.text, &load)?;
    forwarding::push_name_servers(&mut parsed.config);
    Ok(parsed)
}

/// Whether a file holds a private or shared key. PKCS#12 files are known by their names.
fn holds_key(path: &Path, content: &[u8]) -> bool {
    const MARKS: [&[u8]; 4] = [
        b"PRIVATE KEY-----",
        b"-----BEGIN OpenVPN Static key",
        b"-----BEGIN OpenVPN tls-crypt-v2",
        b"<pkcs12>",
    ];
    let is_packed = path.extension().is_some_and(|ending| ending == "p12" || ending == "pfx");
    is_packed || MARKS.iter().any(|mark| content.windows(mark.len()).any(|window| window == *mark))
}

/// Reads a file that the configuration `file` names, or the files of a `capath` directory ([`HASHED_FILES`]). A file that has
/// the name of that mark is read as a file.
fn load_from(file: &Path, wanted: &Path) -> Result<Vec<u8>, String> {
    let found = find(file, wanted);
    match (wanted.file_name(), wanted.parent()) {
        (Some(name), Some(directory)) if name == HASHED_FILES && !found.exists() => {
            hashed::read(&find(file, directory))
        }
        _ => std::fs::read(found).map_err(|error| error.to_string()),
    }
}

/// The name of the configuration in messages.
fn called(path: &Path) -> Cow<'_, str> {
    if command_line().is_some() { COMMAND_LINE.into() } else { path.to_string_lossy() }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use adit_testbed::Scratch;

    use super::*;

    fn read(file: &Path) -> Result<Parsed, Failure> {
        parse(file, &std::fs::read(file).expect("the file"))
    }

    fn block(kind: &str, text: &str) -> String {
        format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
    }

    #[test]
    fn a_directory_has_certificates_and_lists_by_hashes() {
        let scratch = Scratch::create("capath").expect("a directory");
        let directory = scratch.path().join("ca");
        std::fs::create_dir(&directory).expect("a directory");
        let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("a file");
        write("0123abcd.0", &block("CERTIFICATE", "AAAA"));
        write("0123abcd.1", &format!("subject=x\n{}", block("CERTIFICATE", "BBBB")));
        // OpenSSL asks for number 2 before, and finds none.
        write("0123abcd.3", &block("CERTIFICATE", "DDDD"));
        write("0123abcd.r0", &block("X509 CRL", "CCCC"));
        for other in ["ca.crt", "0123abcd.txt", "0123ABCD.0", "123abcd.0", "0123abcd.00", "4567abcd.+0"] {
            write(other, &block("CERTIFICATE", "EEEE"));
        }
        let text = "client\nremote a\nauth-user-pass\ncapath ca\nremote-cert-tls server\n";
        let file = scratch.write("client.conf", text).expect("a file");
        let parsed = read(&file).expect("a good configuration");
        let tls = &parsed.config.tls;
        let ca = tls.ca.as_ref().expect("authorities").text();
        assert_eq!(ca, block("CERTIFICATE", "AAAA") + &block("CERTIFICATE", "BBBB"));
        assert!(matches!(&tls.crl, Some(Crl::Inline(lists)) if lists.text() == block("X509 CRL", "CCCC")));
        let gathered = gather(&file).expect("it can be read");
        assert_eq!(parse_gathered(&file, &gathered).expect("it is good").config, parsed.config);
        let why = |text: &str| {
            let file = scratch.write("client.conf", text).expect("a file");
            read(&file).map(|_| ()).expect_err("a problem").to_string()
        };
        let both = why(&format!("{text}crl-verify list.pem\n"));
        assert!(both.contains("client.conf:4: the directory of `capath` holds revocation lists"), "{both}");
        // Lists alone are enough beside `ca`.
        std::fs::remove_file(directory.join("0123abcd.0")).expect("it is ours");
        let empty = why(text);
        assert!(empty.contains("client.conf:4: no certificate in the directory"), "{empty}");
        let beside = format!("{text}<ca>\n{}</ca>\n", block("CERTIFICATE", "FFFF"));
        let file = scratch.write("client.conf", &beside).expect("a file");
        let parsed = read(&file).expect("a good configuration");
        let ca = parsed.config.tls.ca.as_ref().expect("authorities").text();
        assert_eq!(ca, block("CERTIFICATE", "FFFF"));
        std::fs::remove_dir_all(&directory).expect("it is ours");
        let missing = why(text);
        assert!(missing.contains("client.conf:4: `ca/*` cannot be read"), "{missing}");
        scratch.write("*", &block("CERTIFICATE", "GGGG")).expect("a file");
        let text = "client\nremote a\nauth-user-pass\nca *\nremote-cert-tls server\n";
        let file = scratch.write("client.conf", text).expect("a file");
        let parsed = read(&file).expect("a good configuration");
        assert_eq!(parsed.config.tls.ca.as_ref().expect("authorities").text(), block("CERTIFICATE", "GGGG"));
    }

    #[test]
    fn keys_that_others_can_read_are_warned_of() {
        let scratch = Scratch::create("exposed").expect("a directory");
        let block = |kind: &str| block(kind, "AAAA");
        let ca = scratch.write("ca.crt", &block("CERTIFICATE")).expect("a file");
        let key = scratch.write("client.key", &block("PRIVATE KEY")).expect("a file");
        scratch.write("client.crt", &block("CERTIFICATE")).expect("a file");
        let text = "client\nremote a\nca ca.crt\ncert client.crt\nkey client.key\n";
        let file = scratch.write("client.conf", text).expect("a file");
        let warnings = || {
            let parsed = read(&file).expect("a good configuration");
            parsed.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        // Public files may be read by all, and so may the configuration, as it holds no key.
        for path in [&ca, &file] {
            set_permissions(path, Permissions::from_mode(0o644)).expect("it is ours");
        }
        let before = warnings();
        set_permissions(&key, Permissions::from_mode(0o640)).expect("it is ours");
        let after = warnings();
        assert_eq!(after.len(), before.len() + 1, "{after:?}");
        assert!(!before.iter().any(|warning| warning.contains("accessible")), "{before:?}");
        let last = after.last().expect("a warning");
        assert!(last.contains("client.key") && last.contains("is group or others accessible"), "{last}");
    }
}
