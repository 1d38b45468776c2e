//! What a confined process can still do.

use std::fs::{self, File};
use std::io::Read as _;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use rustix::io::ioctl_fionread;
use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};
use socket2::{Domain, Protocol, Socket, Type};

use super::super::{Account, Confined, confine, confine_keeping, forbid_core_files};
use super::*;

/// Names a directory that the test which runs the others removes again.
const SCRATCH: &str = "ADIT_TEST_SCRATCH";

/// Runs as a process of its own, as root, for good.
#[test]
#[ignore = "the other test runs it"]
fn in_a_process_of_its_own() {
    let open = || File::open("/etc/passwd").map(drop).map_err(|error| error.raw_os_error());
    let (go, wait) = mpsc::channel::<()>();
    let before = thread::spawn(move || {
        wait.recv().unwrap();
        open()
    });
    // The calls that use it are allowed; what holds it back is Landlock, since Linux 6.7.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let threads: Vec<_> = fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap).collect();
    let mut files: Vec<File> =
        threads.iter().map(|thread| File::open(thread.path().join("status")).unwrap()).collect();

    let confined = confine(None, true).unwrap();
    let all =
        Confined { bounding_set: Layer::On, sandbox: Sandbox { landlock: Layer::On, seccomp: Layer::On } };
    assert_eq!(confined, all);
    assert!(files.len() >= 2, "this thread, and one from before");
    for file in &mut files {
        let mut status = String::new();
        file.read_to_string(&mut status).unwrap();
        for set in ["Inh", "Prm", "Eff", "Bnd", "Amb"] {
            assert!(status.contains(&format!("Cap{set}:\t0000000000000000\n")), "{status}");
        }
        assert!(status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n"), "{status}");
    }
    go.send(()).unwrap();
    assert_eq!(before.join().unwrap(), Err(Some(libc::EPERM)));
    assert_eq!(thread::spawn(open).join().unwrap(), Err(Some(libc::EPERM)), "threads can be started");
    let connected = socket.connect(&SocketAddr::from(([127, 0, 0, 1], 9)).into());
    assert_eq!(connected.unwrap_err().raw_os_error(), Some(libc::EACCES), "by Landlock");
    assert!(Command::new("/bin/true").spawn().is_err());
    assert!(UdpSocket::bind("127.0.0.1:0").is_err());
    assert!(UnixStream::pair().is_ok() && UnixDatagram::unbound().is_ok());
    assert!(crate::scope_of_zone("lo").is_ok(), "endpoints may name an interface");
    assert_eq!(crate::zone_of_scope(1), "lo");
    let other = ioctl_fionread(UnixDatagram::unbound().unwrap());
    assert_eq!(other, Err(rustix::io::Errno::PERM), "an ioctl that is not needed");
}

/// The same without the sandbox.
#[test]
#[ignore = "the other test runs it"]
fn in_a_process_without_sandbox() {
    forbid_core_files().unwrap();
    let Confined { sandbox, .. } = confine(None, false).unwrap();
    assert_eq!(sandbox, Sandbox::switched_off());
    assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    let core = getrlimit(Resource::Core);
    assert_eq!((core.current, core.maximum), (Some(0), Some(0)));
}

/// As `nobody`, with UDP sockets as before.
#[test]
#[ignore = "the other test runs it"]
fn in_a_process_that_keeps_udp_sockets() {
    crate::sys::enter_fresh_network_namespace().unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let bind = |address: &str| {
        let address: SocketAddr = address.parse().unwrap();
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.bind(&address.into())?;
        socket.set_mark(7)
    };
    let error_of = |result: io::Result<()>| result.unwrap_err().raw_os_error();
    let other = thread::spawn(move || {
        wait.recv().unwrap();
        error_of(bind("[::]:0"))
    });
    let account = Account::unprivileged().unwrap();
    let kept = Kept { udp_sockets: true, ..Kept::default() };
    confine_keeping(Some(&account), true, &kept).unwrap();
    assert!(!rustix::process::geteuid().is_root());
    for address in ["0.0.0.0:500", "[::]:500", "[::]:0"] {
        bind(address).unwrap();
    }
    go.send(()).unwrap();
    assert_eq!(other.join().unwrap(), Some(libc::EPERM), "a thread that was there before");
    assert_eq!(error_of(File::open("/etc/passwd").map(drop)), Some(libc::EPERM));
    for (domain, kind) in
        [(Domain::IPV4, Type::STREAM), (Domain::IPV4, Type::RAW), (Domain::PACKET, Type::DGRAM)]
    {
        assert_eq!(
            error_of(Socket::new(domain, kind, None).map(drop)),
            Some(libc::EPERM),
            "{domain:?} {kind:?}"
        );
    }
    assert!(Command::new("/bin/true").spawn().is_err());
}

/// With the files of one directory, and no others.
#[test]
#[ignore = "the other test runs it"]
fn in_a_process_that_keeps_a_directory() {
    let scratch = PathBuf::from(std::env::var_os(SCRATCH).unwrap());
    let [kept, other] = ["kept", "other"].map(|name| {
        let path = scratch.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("old"), "x").unwrap();
        path
    });
    confine_keeping(None, true, &Kept { directories: vec![kept.clone()], ..Kept::default() }).unwrap();
    let is_refused =
        |result: io::Result<()>| result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    let outcomes = [
        fs::read(kept.join("old")).is_ok(),
        fs::write(kept.join("new"), "y").is_ok(),
        fs::rename(kept.join("new"), kept.join("old")).is_ok(),
        fs::remove_file(kept.join("old")).is_ok(),
        is_refused(fs::read(other.join("old")).map(drop)),
        is_refused(fs::write(other.join("new"), "y")),
        is_refused(fs::remove_file(other.join("old"))),
        is_refused(fs::create_dir(kept.join("directory"))),
        Command::new("/bin/true").spawn().is_err(),
    ];
    assert_eq!(outcomes, [true; 9]);
}

#[test]
fn every_thread_gives_up_its_rights() {
    if !rustix::process::geteuid().is_root() || !matches!(ruleset(&[]), Ok(Some(_))) {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("NOT TESTED: needs root, and a kernel with Landlock");
        }
        return;
    }
    let scratch = std::env::temp_dir().join(format!("adit-sandbox-{}", std::process::id()));
    fs::create_dir(&scratch).unwrap();
    let mut outcomes = Vec::new();
    for name in [
        "in_a_process_of_its_own",
        "in_a_process_that_keeps_a_directory",
        "in_a_process_that_keeps_udp_sockets",
        "in_a_process_without_sandbox",
    ] {
        let outcome = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("privileges::sandbox::tests::{name}"), "--ignored"])
            .env(SCRATCH, &scratch)
            .output();
        outcomes.push(outcome);
    }
    fs::remove_dir_all(&scratch).unwrap();
    for outcome in outcomes {
        let outcome = outcome.unwrap();
        assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
    }
}

/// The packet path must not run the filter: what has conditions does.
#[test]
fn calls_of_the_packet_path_have_no_conditions() {
    let conditional = conditional(&Kept::default()).unwrap();
    for number in [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_epoll_pwait,
        libc::SYS_futex,
    ] {
        assert!(ALLOWED.contains(&number) && !conditional.contains_key(&number), "{number}");
    }
}
