//! Giving up rights in every thread of the process.
//!
//! Linux keeps capabilities, `no_new_privs` and Landlock domains for each thread. The C library changes the user of all
//! threads, but has nothing for these. As in libpsx (libcap), a signal makes each thread do it itself.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread may take to answer the signal.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks whether it has.
const LOOK_EVERY: Duration = Duration::from_micros(50);

/// A step in which each thread gives something up, for good.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// Capabilities that a program could gain: the bounding and the ambient set (capabilities(7)). Needs CAP_SETPCAP.
    Bounds,
    /// All capabilities of its own. Not in the calling thread, which may keep some.
    OthersCapabilities,
    /// That a program has more rights than the thread that runs it (`PR_SET_NO_NEW_PRIVS`).
    NewPrivileges,
    /// All access to files that the Landlock ruleset does not grant (landlock(7)). Needs `NewPrivileges` first.
    Files(BorrowedFd<'a>),
}

/// The numbers of the steps, as the signal's handler reads them.
const BOUNDS: i32 = 1;
const CAPABILITIES: i32 = 2;
const NEW_PRIVILEGES: i32 = 3;
const FILES: i32 = 4;

static STEP: AtomicI32 = AtomicI32::new(0);
static RULESET: AtomicI32 = AtomicI32::new(-1);
/// Threads that have done the step.
static DONE: AtomicUsize = AtomicUsize::new(0);
/// Error number of the last one that could not.
static FAILED: AtomicI32 = AtomicI32::new(0);

/// Does the step in every thread: those that there are, and those that they start meanwhile.
///
/// # Errors
/// The first that a thread met. Some threads may have done the step then.
pub fn in_every_thread(step: Step<'_>) -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (number, ruleset) = match step {
        Step::Bounds => (BOUNDS, -1),
        Step::OthersCapabilities => (CAPABILITIES, -1),
        Step::NewPrivileges => (NEW_PRIVILEGES, -1),
        Step::Files(ruleset) => (FILES, ruleset.as_raw_fd()),
    };
    RULESET.store(ruleset, Ordering::SeqCst);
    FAILED.store(0, Ordering::SeqCst);
    STEP.store(number, Ordering::SeqCst);
    let handler: extern "C" fn(libc::c_int) = on_signal;
    set_handler(handler as libc::sighandler_t)?;
    let outcome = signal_others();
    // A signal that comes late must not end the process.
    set_handler(libc::SIG_IGN)?;
    outcome?;
    // The caller comes last: it reads /proc for the others.
    let own = if matches!(step, Step::OthersCapabilities) { 0 } else { give_up() };
    match own.max(FAILED.load(Ordering::SeqCst)) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Threads of a thread that was done are done as well, as they inherit. So this ends.
fn signal_others() -> io::Result<()> {
    let mut done = BTreeSet::from([rustix::thread::gettid().as_raw_nonzero().get()]);
    loop {
        let mut all_done = true;
        for entry in fs::read_dir("/proc/self/task")? {
            let Some(thread) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if done.insert(thread) {
                all_done = false;
                signal(thread)?;
            }
        }
        if all_done {
            return Ok(());
        }
    }
}

/// Signals a thread, and waits until it has done the step or is gone.
fn signal(thread: libc::pid_t) -> io::Result<()> {
    let before = DONE.load(Ordering::SeqCst);
    if !tgkill(thread, libc::SIGRTMAX())? {
        return Ok(());
    }
    let deadline = Instant::now() + TIMEOUT;
    while DONE.load(Ordering::SeqCst) == before {
        if !tgkill(thread, 0)? {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("thread {thread} does not answer")));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// False if there is no such thread any more.
fn tgkill(thread: libc::pid_t, signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: it takes numbers alone; the signal has a handler or is 0.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
    match result {
        0 => Ok(true),
        _ if io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) => Ok(false),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set_handler(handler: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    // System calls that it interrupts go on afterwards where the kernel can have them go on.
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is alive, and its handler is `SIG_IGN` or `on_signal`, which does only what a handler may.
    super::check(unsafe { libc::sigaction(libc::SIGRTMAX(), &action, ptr::null_mut()) })?;
    Ok(())
}

/// Only system calls and atomics: nothing that a signal may not interrupt (signal-safety(7)).
extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: the C library's pointer to this thread's error number is valid for as long as the thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer to this thread's error number is valid for as long as the thread.
    let before = unsafe { *errno };
    let error = give_up();
    if error != 0 {
        FAILED.store(error, Ordering::SeqCst);
    }
    // SAFETY: the pointer to this thread's error number is valid for as long as the thread.
    unsafe { *errno = before };
    DONE.fetch_add(1, Ordering::SeqCst);
}

/// Does the step in this thread. Gives an error number, or 0.
fn give_up() -> i32 {
    match STEP.load(Ordering::SeqCst) {
        BOUNDS => bounds(),
        CAPABILITIES => capabilities(),
        // SAFETY: it takes numbers alone.
        NEW_PRIVILEGES => error_of(i64::from(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })),
        FILES => {
            // SAFETY: it takes numbers alone; a descriptor that is none is an error.
            let result =
                unsafe { libc::syscall(libc::SYS_landlock_restrict_self, RULESET.load(Ordering::SeqCst), 0) };
            error_of(result)
        }
        _ => libc::EINVAL,
    }
}

fn bounds() -> i32 {
    for capability in 0..64 {
        // SAFETY: it takes numbers alone.
        match error_of(i64::from(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) })) {
            0 => {}
            // The kernel knows no more of them.
            libc::EINVAL => break,
            error => return error,
        }
    }
    // SAFETY: it takes numbers alone.
    error_of(i64::from(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) }))
}

/// `struct __user_cap_header_struct` and `struct __user_cap_data_struct` (linux/capability.h), version 3.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    thread: libc::c_int,
}

#[repr(C)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn capabilities() -> i32 {
    const VERSION_3: u32 = 0x2008_0522;
    // Thread 0 is the caller.
    let header = CapabilityHeader { version: VERSION_3, thread: 0 };
    let none = [const { CapabilityData { effective: 0, permitted: 0, inheritable: 0 } }; 2];
    // SAFETY: the kernel reads a header and, for version 3, two data structures, which are laid out as its own.
    error_of(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) })
}

fn error_of(result: libc::c_long) -> i32 {
    if result >= 0 {
        return 0;
    }
    // SAFETY: the C library's pointer to this thread's error number is valid for as long as the thread.
    unsafe { *libc::__errno_location() }
}
