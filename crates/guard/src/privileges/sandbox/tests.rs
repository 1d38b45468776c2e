//! The operations that a confined process can still do.

use std::fs::{self, File};
use std::io::Read as _;
use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use adit_sys::call_without_arguments;
use rustix::io::ioctl_fionread;
use rustix::process::{DumpableBehavior, Resource, dumpable_behavior, getrlimit};
use rustix::thread::CapabilitySet;
use socket2::{Domain, Socket, Type};

use super::super::{Confined, confine, forbid_core_files, reduce};
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
    // The calls that use it are allowed; Landlock holds it back, since Linux 6.7.
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
    assert!(adit_system::scope_of_zone("lo").is_ok(), "endpoints may name an interface");
    assert_eq!(adit_system::zone_of_scope(1), "lo");
    let other = ioctl_fionread(UnixDatagram::unbound().unwrap());
    assert_eq!(other, Err(rustix::io::Errno::PERM), "an ioctl that is not needed");
}

/// A tunnel's process without the sandbox.
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

/// A call of x32, `getpid`.
const X32_GETPID: libc::c_long = 0x4000_0000 + 39;

fn number_of(result: io::Result<()>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

/// A helper that starts no program.
#[test]
#[ignore = "the other test runs it"]
fn in_a_process_that_helps() {
    let scratch = PathBuf::from(std::env::var_os(SCRATCH).unwrap());
    adit_sys::enter_fresh_network_namespace().unwrap();
    reduce(None, CapabilitySet::NET_ADMIN, false).unwrap();
    allow_files_and_sockets().unwrap();
    let file = scratch.join("of-helper");
    fs::write(&file, "x").unwrap();
    fs::rename(&file, scratch.join("renamed")).unwrap();
    assert_eq!(fs::read(scratch.join("renamed")).unwrap(), b"x");
    assert!(("localhost", 0).to_socket_addrs().unwrap().next().is_some(), "names are resolved");
    assert!(thread::spawn(|| adit_system::Netlink::open().is_ok()).join().unwrap());
    UdpSocket::bind("127.0.0.1:0").unwrap();
    let refused = Some(libc::EPERM);
    assert_eq!(Command::new("/bin/true").spawn().unwrap_err().raw_os_error(), refused);
    assert_eq!(number_of(adit_sys::enter_fresh_network_namespace()), refused);
    for number in [X32_GETPID, libc::SYS_ptrace, libc::SYS_bpf, libc::SYS_keyctl, libc::SYS_setuid] {
        assert_eq!(number_of(call_without_arguments(number)), refused, "{number}");
    }
    for (domain, kind) in [(Domain::IPV4, Type::RAW), (Domain::PACKET, Type::DGRAM)] {
        assert_eq!(number_of(Socket::new(domain, kind, None).map(drop)), refused, "{domain:?} {kind:?}");
    }
}

/// A helper that starts programs, which may gain rights.
#[test]
#[ignore = "the other test runs it"]
fn in_a_process_that_starts_programs() {
    deny_what_no_program_needs().unwrap();
    let status = Command::new("/bin/sh").args(["-c", "grep -q 'NoNewPrivs:.*0' /proc/self/status"]).status();
    assert!(status.unwrap().success());
    for number in [X32_GETPID, libc::SYS_ptrace, libc::SYS_io_uring_setup] {
        assert_eq!(number_of(call_without_arguments(number)), Some(libc::EPERM), "{number}");
    }
    adit_sys::enter_fresh_network_namespace().unwrap();
}

/// A process with a library of others.
#[test]
#[ignore = "the other test runs it"]
fn in_a_process_with_libraries() {
    restrict_libraries().unwrap();
    let status = Command::new("/bin/sh").args(["-c", "grep -q 'NoNewPrivs:.*1' /proc/self/status"]).status();
    assert!(status.unwrap().success());
    for number in [X32_GETPID, libc::SYS_ptrace, libc::SYS_bpf] {
        assert_eq!(number_of(call_without_arguments(number)), Some(libc::EPERM), "{number}");
    }
    assert_eq!(number_of(adit_sys::enter_fresh_network_namespace()), Some(libc::EPERM));
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
    let scratch = std::env::temp_dir().join(format!("adit-sandbox-{}", std::process::id()));
    fs::create_dir(&scratch).unwrap();
    let mut outcomes = Vec::new();
    for name in [
        "in_a_process_of_its_own",
        "in_a_process_that_helps",
        "in_a_process_that_starts_programs",
        "in_a_process_with_libraries",
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

/// The packet path must not run the filter: calls with conditions do.
#[test]
fn calls_of_the_packet_path_have_no_conditions() {
    let conditional = filters::conditional().unwrap();
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
        assert!(calls::ALLOWED.contains(&number) && !conditional.contains_key(&number), "{number}");
    }
}
