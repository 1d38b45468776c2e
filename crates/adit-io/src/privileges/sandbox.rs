//! No files (Landlock) and few system calls (seccomp) for a tunnel that runs.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads,
};

use super::Kept;
use crate::sys::{Step, in_every_thread};

/// The newest Landlock whose rights are known here.
const LANDLOCK: ABI = ABI::V7;

/// Whether a layer is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layer {
    /// It is.
    On,
    /// By `--no-sandbox`.
    SwitchedOff,
    /// It cannot be had here, and why.
    Unavailable(String),
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layer::On => f.write_str("on"),
            Layer::SwitchedOff => f.write_str("switched off"),
            Layer::Unavailable(why) => write!(f, "off ({why})"),
        }
    }
}

/// Which layers are in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// No file can be opened, made or removed.
    pub landlock: Layer,
    /// No program can be run, no socket made, and no system call made that the tunnel does not need.
    pub seccomp: Layer,
}

impl Sandbox {
    pub(super) fn switched_off() -> Self {
        Sandbox { landlock: Layer::SwitchedOff, seccomp: Layer::SwitchedOff }
    }
}

/// Puts all threads into the sandbox. Needs `no_new_privs`.
pub(super) fn enter(kept: &Kept) -> io::Result<Sandbox> {
    // The time zone's file is read at the first question for a local time, and the generator of random numbers looks
    // for the kernel's ways at the first number.
    crate::local_time(crate::unix_now());
    let landlock = match ruleset(&kept.directories)? {
        Some(ruleset) => {
            in_every_thread(Step::Files(ruleset.as_fd()))?;
            Layer::On
        }
        None => Layer::Unavailable("the kernel has no Landlock".to_owned()),
    };
    let seccomp = match install(&[without_clone3()?, tunnel_filter(kept)?]) {
        Ok(()) => Layer::On,
        Err(error) => Layer::Unavailable(error.to_string()),
    };
    Ok(Sandbox { landlock, seccomp })
}

/// For a process that opens files and sockets, but runs no programs and does nothing to the kernel or to other
/// processes. An error says why it could not be had.
pub(crate) fn deny_programs() -> io::Result<()> {
    let rules = DANGEROUS.iter().map(|number| (*number, Vec::new())).collect();
    install(&[compile(rules, SeccompAction::Allow, refusal(libc::EPERM))?])
}

/// A ruleset that grants the files below these directories and nothing else. `None` if the kernel has none.
fn ruleset(directories: &[PathBuf]) -> io::Result<Option<OwnedFd>> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let files = AccessFs::ReadFile
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::RemoveFile
        | AccessFs::ReadDir;
    for directory in directories {
        let below = PathBeneath::new(PathFd::new(directory).map_err(io::Error::other)?, files);
        ruleset = ruleset.add_rule(below).map_err(io::Error::other)?;
    }
    Ok(ruleset.into())
}

fn install(programs: &[BpfProgram]) -> io::Result<()> {
    for program in programs {
        apply_filter_all_threads(program).map_err(io::Error::other)?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn compile(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> io::Result<BpfProgram> {
    let target = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    SeccompFilter::new(rules, otherwise, matched, target)
        .and_then(TryInto::try_into)
        .map_err(io::Error::other)
}

fn refusal(error: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(error.unsigned_abs())
}

/// For `clone3`, whose flags lie in memory, where a filter cannot look. The C library goes back to `clone` when it is
/// told that there is no such call.
fn without_clone3() -> io::Result<BpfProgram> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    compile(rules, SeccompAction::Allow, refusal(libc::ENOSYS))
}

/// What a running tunnel may call. All else is refused with EPERM, not by killing: the C library tries some calls of
/// which it can do without.
///
/// The kernel remembers which calls are allowed whatever their arguments (Linux 5.11), so those of the packet path
/// must have no conditions and then do not run the filter at all.
fn tunnel_filter(kept: &Kept) -> io::Result<BpfProgram> {
    let mut rules: Rules = ALLOWED.iter().chain(ALLOWED_HERE).map(|number| (*number, Vec::new())).collect();
    rules.extend(conditional(kept).map_err(io::Error::other)?);
    if kept.udp_sockets {
        rules.insert(libc::SYS_bind, Vec::new());
    }
    if !kept.directories.is_empty() {
        rules.extend(FILES.iter().chain(FILES_HERE).map(|number| (*number, Vec::new())));
    }
    compile(rules, refusal(libc::EPERM), SeccompAction::Allow)
}

/// Calls that are allowed for some arguments.
fn conditional(kept: &Kept) -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq};
    let number = |value: libc::c_int| u64::from(value.unsigned_abs());
    let argument = |index, op, value: libc::c_int| SeccompCondition::new(index, Dword, op, number(value));
    let one_of = |index, values: &[libc::c_int]| {
        let rules = values.iter().map(|value| SeccompRule::new(vec![argument(index, Eq, *value)?]));
        rules.collect::<Result<Vec<_>, _>>()
    };
    let not_executable = || -> Result<Vec<SeccompRule>, _> {
        Ok(vec![SeccompRule::new(vec![argument(2, MaskedEq(number(libc::PROT_EXEC)), 0)?])?])
    };
    let thread = number(libc::CLONE_THREAD);
    let this_process = u64::from(std::process::id());
    let kind = MaskedEq(0xf);
    let udp = |family| {
        SeccompRule::new(vec![
            argument(0, Eq, family)?,
            argument(1, kind.clone(), libc::SOCK_DGRAM)?,
            argument(2, Eq, libc::IPPROTO_UDP)?,
        ])
    };
    // To the system's log and the service manager: datagrams within the machine.
    let mut sockets = vec![SeccompRule::new(vec![
        argument(0, Eq, libc::AF_UNIX)?,
        argument(1, kind.clone(), libc::SOCK_DGRAM)?,
    ])?];
    if kept.udp_sockets {
        sockets.extend([udp(libc::AF_INET)?, udp(libc::AF_INET6)?]);
    }
    Ok(BTreeMap::from([
        // A thread, never a process.
        (
            libc::SYS_clone,
            vec![SeccompRule::new(vec![SeccompCondition::new(0, Qword, MaskedEq(thread), thread)?])?],
        ),
        // No memory becomes code.
        (libc::SYS_mmap, not_executable()?),
        (libc::SYS_mprotect, not_executable()?),
        (libc::SYS_socket, sockets),
        // To the helper.
        (libc::SYS_socketpair, one_of(0, &[libc::AF_UNIX])?),
        // A signal to itself: the management socket's `signal SIGTERM`.
        (libc::SYS_tgkill, vec![SeccompRule::new(vec![SeccompCondition::new(0, Dword, Eq, this_process)?])?]),
        // The name of a thread; the name of memory, which some C libraries give.
        (libc::SYS_prctl, one_of(0, &[libc::PR_SET_NAME, libc::PR_SET_VMA])?),
        // Whether a socket blocks, the index and the name of an interface, and what a terminal shows of what is typed.
        (libc::SYS_ioctl, {
            let requests = [
                libc::FIONBIO as libc::c_int,
                libc::SIOCGIFINDEX as libc::c_int,
                libc::SIOCGIFNAME as libc::c_int,
                libc::TCGETS as libc::c_int,
                libc::TCSETS as libc::c_int,
                libc::TCSETSW as libc::c_int,
                libc::TCSETSF as libc::c_int,
                libc::TCGETS2 as libc::c_int,
                libc::TCSETS2 as libc::c_int,
                libc::TCSETSW2 as libc::c_int,
                libc::TCSETSF2 as libc::c_int,
                libc::TIOCGPGRP as libc::c_int,
            ];
            let rule = |request: &libc::c_int| {
                let value = u64::from(*request as u32);
                SeccompRule::new(vec![SeccompCondition::new(1, Dword, Eq, value)?])
            };
            requests.iter().map(rule).collect::<Result<Vec<_>, _>>()?
        }),
        // The limits of this process itself, without a change: the C library asks for the size of the stack.
        (
            libc::SYS_prlimit64,
            vec![SeccompRule::new(vec![argument(0, Eq, 0)?, SeccompCondition::new(2, Qword, Eq, 0)?])?],
        ),
    ]))
}

/// Calls that are allowed whatever their arguments, on every architecture.
const ALLOWED: &[libc::c_long] = &[
    // Packets and datagrams.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendto,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    // Sockets that exist. New ones come from a listening socket or from the helper.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    // Files that are open: the log, the status file.
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_lseek,
    libc::SYS_statx,
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_getrandom,
    // Threads and signals. The other filter has the last word on `clone3`: of two errors, the one of the filter that
    // was installed last would hold.
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_uname,
    // The end of the helper.
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// Older calls that some architectures have besides.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[libc::c_long] = &[
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_poll,
    libc::SYS_newfstatat,
    libc::SYS_time,
    libc::SYS_getpgrp,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[libc::c_long] = &[libc::SYS_newfstatat];

/// To open, rename and remove files, where Landlock has the last word.
const FILES: &[libc::c_long] =
    &[libc::SYS_openat, libc::SYS_unlinkat, libc::SYS_renameat, libc::SYS_renameat2];

/// Older calls of that kind.
#[cfg(target_arch = "x86_64")]
const FILES_HERE: &[libc::c_long] = &[libc::SYS_open, libc::SYS_unlink, libc::SYS_rename];
#[cfg(not(target_arch = "x86_64"))]
const FILES_HERE: &[libc::c_long] = &[];

/// Programs, other processes, other namespaces, the kernel.
const DANGEROUS: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
];

#[cfg(test)]
mod tests;
