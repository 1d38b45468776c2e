//! A seccomp filter without `no_new_privs`: programs that the process starts may be set-user-ID programs.

use std::io;

use seccompiler::sock_filter;

/// Makes a system call whose arguments are zeros.
///
/// # Errors
/// The system's error.
#[cfg(feature = "testing")]
pub fn call_without_arguments(number: libc::c_long) -> io::Result<()> {
    // SAFETY: the tests call numbers that a filter refuses; without one, these do nothing with zeros but fail or return.
    match unsafe { libc::syscall(number, 0, 0, 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Installs a filter in all threads. Needs `CAP_SYS_ADMIN`, or `no_new_privs` before (seccomp(2)).
///
/// # Errors
/// When the kernel refuses.
pub fn install_filter(program: &[sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    // The crate's instructions have the kernel's layout (`#[repr(C)]`, seccompiler's `backend/bpf.rs`).
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast::<libc::sock_filter>().cast_mut() };
    // SAFETY: `program` and the instructions that it points to are alive for the whole call; the kernel copies them and
    // writes nothing.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    match outcome {
        0 => Ok(()),
        // With TSYNC a positive value is the thread that could not follow.
        1.. => Err(io::Error::other(format!("thread {outcome} has another filter"))),
        _ => Err(io::Error::last_os_error()),
    }
}
