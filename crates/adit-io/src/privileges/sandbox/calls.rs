//! The system calls that filters name.

/// Calls that are allowed whatever their arguments, on every architecture.
pub(super) const ALLOWED: &[libc::c_long] = &[
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
pub(super) const ALLOWED_HERE: &[libc::c_long] = &[
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_poll,
    libc::SYS_newfstatat,
    libc::SYS_time,
    libc::SYS_getpgrp,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED_HERE: &[libc::c_long] = &[libc::SYS_newfstatat];

/// What a helper that starts no program may call besides [`ALLOWED`]: it opens files, makes sockets, and loads the modules by which
/// the C library resolves names.
pub(super) const OF_HELPER: &[libc::c_long] = &[
    // Files.
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close_range,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    libc::SYS_splice,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getcwd,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_flock,
    libc::SYS_fdatasync,
    libc::SYS_truncate,
    libc::SYS_utimensat,
    libc::SYS_umask,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    libc::SYS_pipe2,
    // Sockets.
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_pselect6,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    // Memory: of modules, and locked by `mlock`.
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mlock,
    libc::SYS_mlockall,
    libc::SYS_munlock,
    libc::SYS_mincore,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    // This process. What `prctl` and `prlimit64` may do depends on their arguments.
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_getsid,
    libc::SYS_getpriority,
    libc::SYS_capget,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_set_tid_address,
    libc::SYS_get_robust_list,
    libc::SYS_sysinfo,
    libc::SYS_times,
];

/// Older calls of that kind.
#[cfg(target_arch = "x86_64")]
pub(super) const OF_HELPER_HERE: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_pipe,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_eventfd,
    libc::SYS_inotify_init,
    libc::SYS_alarm,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OF_HELPER_HERE: &[libc::c_long] = &[];

/// What neither this process nor a program that it starts has a use for: other processes' memory and descriptors, parts of the
/// kernel with a history of faults. An operator's script may mount, enter namespaces and load modules.
pub(super) const NEVER: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_lookup_dcookie,
];

/// Older calls of that kind.
#[cfg(target_arch = "x86_64")]
pub(super) const NEVER_HERE: &[libc::c_long] = &[libc::SYS_uselib, libc::SYS_iopl, libc::SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const NEVER_HERE: &[libc::c_long] = &[];

/// What code in a process that starts no programs of its own and changes nothing of the system has no use for besides.
pub(super) const OF_ADMINISTRATORS: &[libc::c_long] = &[
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_quotactl,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_bpf,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
];
