//! The seccomp filters, from the lists of [`super::calls`].

use std::collections::BTreeMap;
use std::io;

use adit_sys::install_filter;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter_all_threads, sock_filter,
};

use super::calls::{ALLOWED, ALLOWED_HERE, NEVER, NEVER_HERE, OF_ADMINISTRATORS, OF_HELPER, OF_HELPER_HERE};

/// The tunnel's own process.
pub(super) fn of_tunnel() -> io::Result<()> {
    install(&[without_clone3()?, tunnel_filter()?])
}

/// A helper that starts no program.
pub(super) fn of_helper() -> io::Result<()> {
    install(&[without_clone3()?, helper_filter()?])
}

/// A helper that starts programs.
pub(super) fn with_programs() -> io::Result<()> {
    let never = compile(all(&[NEVER, NEVER_HERE]), SeccompAction::Allow, refusal(libc::EPERM))?;
    [without_x32(), never].iter().try_for_each(|program| install_filter(program))
}

/// A process with libraries of others.
pub(super) fn with_libraries() -> io::Result<()> {
    let denied = all(&[NEVER, NEVER_HERE, OF_ADMINISTRATORS]);
    install(&[without_x32(), compile(denied, SeccompAction::Allow, refusal(libc::EPERM))?])
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

/// The filter for `clone3`, whose flags lie in memory, where a filter cannot look. The C library goes back to `clone`
/// when the call fails with `ENOSYS`.
fn without_clone3() -> io::Result<BpfProgram> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    compile(rules, SeccompAction::Allow, refusal(libc::ENOSYS))
}

/// Bit that the numbers of x32's calls have, which no list of calls has: `__X32_SYSCALL_BIT` of Linux's
/// arch/x86/include/uapi/asm/unistd.h. Other architectures number no call so high.
const X32: u32 = 0x4000_0000;

/// Refuses the numbers of x32's calls, which a list of denied calls would let pass.
fn without_x32() -> BpfProgram {
    // The number of the call is the first member of `struct seccomp_data` (linux/seccomp.h). The instructions are those of
    // linux/bpf_common.h.
    let instruction =
        |code: u32, jt, jf, k| sock_filter { code: u16::try_from(code).unwrap_or_default(), jt, jf, k };
    let action = |action: SeccompAction| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, action.into());
    vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        action(refusal(libc::EPERM)),
        action(SeccompAction::Allow),
    ]
}

/// The rules of these calls, whatever their arguments.
fn all(lists: &[&[libc::c_long]]) -> Rules {
    lists.iter().copied().flatten().map(|number| (*number, Vec::new())).collect()
}

/// The filter of a running tunnel, with the calls that it may make. All other calls are refused with EPERM, and the process is not
/// killed: the C library tries some calls that it can do without.
///
/// The kernel remembers which calls are allowed whatever their arguments (Linux 5.11), so those of the packet path
/// must have no conditions and then do not run the filter at all.
fn tunnel_filter() -> io::Result<BpfProgram> {
    let mut rules = all(&[ALLOWED, ALLOWED_HERE]);
    rules.extend(conditional().map_err(io::Error::other)?);
    compile(rules, refusal(libc::EPERM), SeccompAction::Allow)
}

/// The filter of a helper that starts no program, with the calls that it may make.
fn helper_filter() -> io::Result<BpfProgram> {
    let mut rules = conditional().map_err(io::Error::other)?;
    rules.extend(all(&[ALLOWED, ALLOWED_HERE, OF_HELPER, OF_HELPER_HERE]));
    rules.extend(conditional_of_helper().map_err(io::Error::other)?);
    compile(rules, refusal(libc::EPERM), SeccompAction::Allow)
}

/// Calls that are allowed for some arguments.
pub(super) fn conditional() -> Result<Rules, seccompiler::BackendError> {
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
    // To the system's log and the service manager: datagrams within the machine.
    let sockets = vec![SeccompRule::new(vec![
        argument(0, Eq, libc::AF_UNIX)?,
        argument(1, MaskedEq(0xf), libc::SOCK_DGRAM)?,
    ])?];
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
        // Whether a socket blocks, the index and the name of an interface, whether a terminal shows typed text, and the carrier of a
        // TUN device.
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
                libc::TUNSETCARRIER as libc::c_int,
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

/// Calls that a helper may make for some arguments.
fn conditional_of_helper() -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpArgLen::Dword;
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let argument = |index, op, value: libc::c_int| {
        SeccompCondition::new(index, Dword, op, u64::from(value.unsigned_abs()))
    };
    let family = |family| SeccompRule::new(vec![argument(0, Eq, family)?]);
    let inet =
        |family, kind| SeccompRule::new(vec![argument(0, Eq, family)?, argument(1, MaskedEq(0xf), kind)?]);
    let not = |request: libc::c_ulong| SeccompCondition::new(1, Dword, Ne, u64::from(request as u32));
    Ok(BTreeMap::from([
        (
            libc::SYS_socket,
            vec![
                family(libc::AF_UNIX)?,
                family(libc::AF_NETLINK)?,
                inet(libc::AF_INET, libc::SOCK_STREAM)?,
                inet(libc::AF_INET, libc::SOCK_DGRAM)?,
                inet(libc::AF_INET6, libc::SOCK_STREAM)?,
                inet(libc::AF_INET6, libc::SOCK_DGRAM)?,
            ],
        ),
        // Nothing is typed into the terminal for its user (TIOCSTI; the console's TIOCLINUX pastes).
        (libc::SYS_ioctl, vec![SeccompRule::new(vec![not(libc::TIOCSTI)?, not(libc::TIOCLINUX)?])?]),
        // The limits of this process itself.
        (libc::SYS_prlimit64, vec![SeccompRule::new(vec![argument(0, Eq, 0)?])?]),
    ]))
}
