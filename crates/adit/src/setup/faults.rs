//! Faults at each change of the file system: an error, a full disk, SIGKILL. Each command that a fault ended is
//! repeated, and must then have reached its state.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use adit_testbed::Scratch;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// One change fails; later ones succeed.
    Error,
    /// This change fails and all later ones.
    FullDisk,
    /// The process ends at once, as by kill -9.
    Kill,
}

thread_local! {
    /// The fault, and how many changes come before it.
    static PLAN: Cell<Option<(Fault, u32)>> = const { Cell::new(None) };
}

/// Whether the change that comes now fails.
fn fails() -> bool {
    match PLAN.get() {
        Some((fault, 0)) => {
            PLAN.set((fault == Fault::FullDisk).then_some((fault, 0)));
            if fault == Fault::Kill {
                let _ =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            }
            true
        }
        Some((fault, left)) => {
            PLAN.set(Some((fault, left - 1)));
            false
        }
        None => false,
    }
}

fn no_space() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

pub(super) fn before_change() -> io::Result<()> {
    if fails() { Err(no_space()) } else { Ok(()) }
}

/// A command under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Init,
    AddClient,
    Revoke,
    RenewServer,
    RenewClient,
    RenewAuthority,
}

impl Work {
    const ALL: [Work; 6] = [
        Work::Init,
        Work::AddClient,
        Work::Revoke,
        Work::RenewServer,
        Work::RenewClient,
        Work::RenewAuthority,
    ];

    /// What must be there before.
    fn prepare(self, dir: &Path) {
        let before: &[Work] = match self {
            Work::Init => &[],
            Work::AddClient => &[Work::Init],
            Work::Revoke | Work::RenewServer | Work::RenewClient | Work::RenewAuthority => {
                &[Work::Init, Work::AddClient]
            }
        };
        before.iter().for_each(|work| work.run(dir).unwrap());
        if before.contains(&Work::AddClient) {
            fs::copy(profile(dir), dir.join("kept.ovpn")).unwrap();
            fs::copy(dir.join("server.conf"), dir.join("kept.conf")).unwrap();
        }
    }

    fn run(self, dir: &Path) -> Result<(), SetupError> {
        let endpoint = Endpoint { host: "vpn.example".into(), port: 1194 };
        match self {
            Work::Init => {
                let user = SystemUser { name: "nobody".to_owned(), group: "nogroup".to_owned() };
                Workshop::create(dir, &endpoint, Proto::Udp, &user)
            }
            Work::AddClient => Workshop::open(dir)?.add_client(&alice()).map(|_| ()),
            Work::Revoke => Workshop::open(dir)?.revoke(&alice()).map(|_| ()),
            Work::RenewServer => Workshop::open(dir)?.renew(&[]).map(|_| ()),
            Work::RenewClient => Workshop::open(dir)?.renew(&[alice()]).map(|_| ()),
            Work::RenewAuthority => Workshop::open(dir)?.renew_authority().map(|_| ()),
        }
    }

    /// The state that the command is for.
    fn check(self, dir: &Path) {
        let server = fs::read_to_string(dir.join("server.conf")).unwrap();
        assert_eq!(judge(dir, &server, false), Ok(()));
        match self {
            Work::Init => {}
            Work::AddClient => {
                assert_eq!(judge(dir, &fs::read_to_string(profile(dir)).unwrap(), true), Ok(()));
            }
            Work::Revoke => {
                assert!(is_shut_out(dir) && !profile(dir).exists());
            }
            Work::RenewServer => check_renewed(dir, &dir.join("server.conf"), &dir.join("kept.conf")),
            Work::RenewClient => check_renewed(dir, &profile(dir), &dir.join("kept.ovpn")),
            Work::RenewAuthority => check_authority(dir),
        }
        let index = Index::parse(&fs::read_to_string(dir.join(INDEX)).unwrap()).unwrap();
        assert!(!index.has("bob"));
        let entries = walk(dir.parent().unwrap());
        let hidden = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with('.');
        assert_eq!(entries.iter().find(hidden), None, "no temporary file is left");
    }
}

fn alice() -> ClientName {
    "alice".parse().unwrap()
}

fn profile(dir: &Path) -> PathBuf {
    dir.join("clients/alice.ovpn")
}

fn is_shut_out(dir: &Path) -> bool {
    let judged = judge(dir, &fs::read_to_string(dir.join("kept.ovpn")).unwrap(), true);
    judged.is_err_and(|why| why.contains("Revoked"))
}

/// Both certificates are good; the new one is another, has another key, and is in the index.
fn check_renewed(dir: &Path, new: &Path, old: &Path) {
    let client = new == profile(dir);
    let [new, old] = [new, old].map(|path| fs::read_to_string(path).unwrap());
    for directive in ["cert", "key"] {
        assert_ne!(read::block(&new, directive), read::block(&old, directive));
    }
    let index = Index::parse(&fs::read_to_string(dir.join(INDEX)).unwrap()).unwrap();
    for text in [&new, &old] {
        assert_eq!(judge(dir, text, client), Ok(()));
        assert!(index.has_serial(&read::serial_in(text).unwrap()));
    }
}

/// The certificate in pki/ca.crt is in both configurations and is another than before; a peer that has either of them
/// trusts the certificates of both ends.
fn check_authority(dir: &Path) {
    let text = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
    let authority = text(AUTHORITY);
    let pairs = [("server.conf", "kept.conf", false), ("clients/alice.ovpn", "kept.ovpn", true)];
    for (new, old, client) in pairs.map(|(new, old, client)| (text(new), text(old), client)) {
        assert_eq!(read::block(&new, "ca").unwrap(), authority);
        assert_ne!(read::block(&old, "ca").unwrap(), authority);
        assert_eq!(read::block(&new, "cert"), read::block(&old, "cert"));
        for text in [new, old] {
            assert_eq!(judge(dir, &text, client), Ok(()));
        }
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(walk(&path));
        }
        found.push(path);
    }
    found
}

/// What rustls says of the certificate in a configuration: its key, its issuer, and whether it is revoked.
fn judge(dir: &Path, configuration: &str, client: bool) -> Result<(), String> {
    let pem = |directive| read::block(configuration, directive).unwrap().as_bytes();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificate = CertificateDer::from_pem_slice(pem("cert")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem("key")).unwrap();
    rustls::sign::CertifiedKey::from_der(vec![certificate.clone()], key, &provider)
        .map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem("ca")).unwrap()).unwrap();
    let list = CertificateRevocationListDer::from_pem_file(dir.join(REVOKED)).unwrap();
    let now = UnixTime::now();
    let judged = if client {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
        let verifier = verifier.with_crls([list]).build().unwrap();
        verifier.verify_client_cert(&certificate, &[], now).map(|_| ())
    } else {
        use rustls::client::danger::ServerCertVerifier as _;
        let verifier = rustls::client::WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
        let verifier = verifier.with_crls([list]).build().unwrap();
        verifier.verify_server_cert(&certificate, &[], &SERVER_NAME.try_into().unwrap(), &[], now).map(|_| ())
    };
    judged.map_err(|error| format!("{error:?}"))
}

/// Runs a command with a fault after so many changes. `None` if it ended before that.
fn run_with(fault: Fault, after: u32, work: Work, dir: &Path) -> Option<Result<(), SetupError>> {
    if fault == Fault::Kill {
        return killed(after, work, dir).then(|| Err(SetupError::Random("killed".into())));
    }
    PLAN.set(Some((fault, after)));
    let outcome = work.run(dir);
    let reached = !matches!(PLAN.take(), Some((_, left)) if left > 0 || fault == Fault::Error);
    reached.then_some(outcome)
}

const WORK: &str = "ADIT_TEST_WORK";

/// Runs a command in a process of its own. Whether SIGKILL ended it.
fn killed(after: u32, work: Work, dir: &Path) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "setup::faults::process_that_is_killed", "--ignored"])
        .env(WORK, format!("{work:?} {after} {}", dir.display()))
        .output()
        .unwrap();
    let killed = output.status.signal() == Some(9);
    assert!(killed || output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    killed
}

#[test]
#[ignore = "started by the tests of kill -9"]
fn process_that_is_killed() {
    let Ok(order) = std::env::var(WORK) else { return };
    let (work, rest) = order.split_once(' ').unwrap();
    let (after, dir) = rest.split_once(' ').unwrap();
    let work = Work::ALL.into_iter().find(|it| format!("{it:?}") == work).unwrap();
    PLAN.set(Some((Fault::Kill, after.parse().unwrap())));
    work.run(Path::new(dir)).unwrap();
}

/// Has a fault come at each change of a command in turn, repeats the command, and checks what is there.
fn survives(fault: Fault, work: Work) {
    let template = Scratch::create("faults").unwrap();
    work.prepare(&template.path().join("vpn"));
    for after in 0.. {
        let scratch = Scratch::create("faults").unwrap();
        let dir = scratch.path().join("vpn");
        copy(&template.path().join("vpn"), &dir);
        let Some(outcome) = run_with(fault, after, work, &dir) else {
            assert!(after > 4, "{work:?} changes more than {after} things");
            return work.check(&dir);
        };
        if work == Work::Revoke && outcome.is_ok() {
            assert!(is_shut_out(&dir), "{fault:?} {after}: revoke reported success");
        }
        match work.run(&dir) {
            Ok(()) => {}
            // The fault came after the last step that counts.
            Err(error @ (SetupError::Made(_) | SetupError::NameTaken { .. })) => {
                assert!(error.to_string().contains(dir.to_str().unwrap()), "{fault:?} {after}: {error}");
            }
            Err(error) => panic!("{work:?} after {fault:?} {after}: {error}"),
        }
        work.check(&dir);
    }
}

fn copy(from: &Path, to: &Path) {
    if from.exists() {
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    }
}

#[test]
fn init_survives_a_fault_at_each_write() {
    [Fault::Error, Fault::FullDisk, Fault::Kill].into_iter().for_each(|fault| survives(fault, Work::Init));
}

#[test]
fn add_client_survives_a_fault_at_each_write() {
    [Fault::Error, Fault::FullDisk, Fault::Kill]
        .into_iter()
        .for_each(|fault| survives(fault, Work::AddClient));
}

#[test]
fn revoke_survives_a_fault_at_each_write() {
    [Fault::Error, Fault::FullDisk, Fault::Kill].into_iter().for_each(|fault| survives(fault, Work::Revoke));
}

#[test]
fn renew_survives_a_fault_at_each_write() {
    for work in [Work::RenewServer, Work::RenewClient, Work::RenewAuthority] {
        [Fault::Error, Fault::FullDisk, Fault::Kill].into_iter().for_each(|fault| survives(fault, work));
    }
}

/// The list's next update moves on, and `revoke` shuts out the old certificate together with the new one.
#[test]
fn renewed_clients_are_revoked_with_all_their_certificates() {
    let scratch = Scratch::create("faults").unwrap();
    let dir = scratch.path().join("vpn");
    Work::Revoke.prepare(&dir);
    let list = fs::read(dir.join(REVOKED)).unwrap();
    let server = fs::read_to_string(dir.join("server.conf")).unwrap();
    Work::RenewClient.run(&dir).unwrap();
    Work::RenewClient.check(&dir);
    assert_ne!(fs::read(dir.join(REVOKED)).unwrap(), list, "a new list");
    assert_eq!(fs::read_to_string(dir.join("server.conf")).unwrap(), server, "only the client was named");
    let renewed = fs::read_to_string(profile(&dir)).unwrap();
    Work::Revoke.run(&dir).unwrap();
    assert!(is_shut_out(&dir));
    assert!(judge(&dir, &renewed, true).is_err_and(|why| why.contains("Revoked")));
    assert!(matches!(Work::RenewClient.run(&dir), Err(SetupError::NoSuchClient(_))));
}

/// A revocation that was interrupted is completed by whatever command comes next, which says so.
#[test]
fn the_next_command_completes_a_revocation() {
    let scratch = Scratch::create("faults").unwrap();
    let dir = scratch.path().join("vpn");
    Work::Revoke.prepare(&dir);
    let before = fs::read(dir.join(REVOKED)).unwrap();
    Work::Revoke.run(&dir).unwrap();
    fs::write(dir.join(REVOKED), before).unwrap();
    assert!(!is_shut_out(&dir));
    let mut workshop = Workshop::open(&dir).unwrap();
    assert!(is_shut_out(&dir));
    let notes = workshop.notes();
    assert!(notes.len() == 1 && notes[0].contains("listed alice; it does now"), "{notes:?}");
    assert!(!workshop.revoke(&alice()).unwrap(), "it was revoked already");
}

/// When the list in force expires.
fn next_update(dir: &Path) -> OffsetDateTime {
    use x509_parser::prelude::{CertificateRevocationList, FromDer as _};
    let der = CertificateRevocationListDer::from_pem_file(dir.join(REVOKED)).unwrap();
    let (_, list) = CertificateRevocationList::from_der(&der).unwrap();
    list.next_update().unwrap().to_datetime()
}

/// Each of them puts off the day on which the list expires, which would shut everybody out.
#[test]
fn revoke_and_renew_put_off_the_end_of_the_list() {
    for work in [Work::Revoke, Work::RenewServer, Work::RenewClient, Work::RenewAuthority] {
        let scratch = Scratch::create("faults").unwrap();
        let dir = scratch.path().join("vpn");
        work.prepare(&dir);
        let now = OffsetDateTime::now_utc();
        let workshop = Workshop::open(&dir).unwrap();
        let mut index = workshop.index.clone();
        let authority = workshop.authority().unwrap();
        let old =
            authority::revocation_list(&authority, &mut index, now - time::Duration::days(3600)).unwrap();
        fs::write(dir.join(REVOKED), old).unwrap();
        drop(workshop);
        assert!(next_update(&dir) < now + time::Duration::days(60));
        work.run(&dir).unwrap();
        assert!(next_update(&dir) > now + time::Duration::days(3600), "{work:?}");
    }
}

/// An authority about to expire, with others beside it in `ca`: its certificate alone is replaced, and ends later.
#[test]
fn a_renewed_authority_lasts_longer_and_leaves_others_alone() {
    let scratch = Scratch::create("faults").unwrap();
    let dir = scratch.path().join("vpn");
    Work::RenewAuthority.prepare(&dir);
    let now = OffsetDateTime::now_utc();
    let mut authority = Workshop::open(&dir).unwrap().authority().unwrap();
    let young = authority.certificate().to_owned();
    authority::renew(&mut authority, now - time::Duration::days(3600)).unwrap();
    let other = authority::create(now).unwrap().certificate().to_owned();
    let server = fs::read_to_string(dir.join("server.conf")).unwrap();
    let both = format!("{}{other}", authority.certificate());
    fs::write(dir.join("server.conf"), server.replace(&young, &both)).unwrap();
    fs::write(dir.join(AUTHORITY), authority.certificate()).unwrap();
    // A profile from another authority is none of ours.
    fs::write(dir.join("clients/other.ovpn"), format!("<ca>\n{other}</ca>\n")).unwrap();

    let renewed = Workshop::open(&dir).unwrap().renew_authority().unwrap();
    assert!(renewed.old_end.unwrap() < now + time::Duration::days(60));
    assert!(renewed.end.unwrap() > now + time::Duration::days(3600));
    let names: Vec<_> =
        renewed.files.iter().map(|path| path.strip_prefix(&dir).unwrap().to_str().unwrap()).collect();
    assert_eq!(names, [AUTHORITY, "server.conf", "clients/alice.ovpn"]);
    let fresh = fs::read_to_string(dir.join(AUTHORITY)).unwrap();
    let server = fs::read_to_string(dir.join("server.conf")).unwrap();
    assert_eq!(read::block(&server, "ca").unwrap().trim_end(), format!("{fresh}{other}").trim_end());
    assert_eq!(judge(&dir, &server, false), Ok(()));
    // What is issued from now on comes with the new one.
    Workshop::open(&dir).unwrap().add_client(&"bob".parse().unwrap()).unwrap();
    let bob = fs::read_to_string(dir.join("clients/bob.ovpn")).unwrap();
    assert_eq!((read::block(&bob, "ca").unwrap(), judge(&dir, &bob, true)), (fresh.as_str(), Ok(())));
}
