//! What a confined process can still do.

use std::fs::File;
use std::io::Read as _;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};
use socket2::{Domain, Protocol, Socket, Type};

use super::super::{Account, Confined, confine, confine_keeping, forbid_core_files};
use super::*;

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
    let threads: Vec<_> = std::fs::read_dir("/proc/self/task").unwrap().map(Result::unwrap).collect();
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
    confine_keeping(Some(&account), true, Kept { udp_sockets: true }).unwrap();
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

#[test]
fn every_thread_gives_up_its_rights() {
    if !rustix::process::geteuid().is_root() || !matches!(ruleset(), Ok(Some(_))) {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("NOT TESTED: needs root, and a kernel with Landlock");
        }
        return;
    }
    for name in
        ["in_a_process_of_its_own", "in_a_process_that_keeps_udp_sockets", "in_a_process_without_sandbox"]
    {
        let outcome = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("privileges::sandbox::tests::{name}"), "--ignored"])
            .output()
            .unwrap();
        assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stdout));
    }
}

/// The packet path must not run the filter: what has conditions does.
#[test]
fn calls_of_the_packet_path_have_no_conditions() {
    let conditional = conditional(Kept::default()).unwrap();
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
