//! Steps of Linux's `tools/testing/selftests/wireguard/netns.sh` that need no kernel module, in our own words.
//! `docs/measure/WIREGUARD-PEERS.md` lists all steps.

/// Tests of steps: each with adit at both ends, and in a guest (`kernel_peers.rs`) with Linux's own WireGuard at either.
macro_rules! with_linux {
    ($($step:ident as $name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                if adit_testbed::can_run(stringify!($name), &["wg", "nft"]) {
                    $step([$crate::wireguard::bed::Program::Adit; 2]);
                }
            }
        )*
        with_linux!(@ kernel_first, [Kernel, Adit]: $($step as $name),*);
        with_linux!(@ kernel_second, [Adit, Kernel]: $($step as $name),*);
    };
    (@ $module:ident, [$first:ident, $second:ident]: $($step:ident as $name:ident),*) => {
        mod $module {
            use $crate::wireguard::bed::Program;

            $(
                #[test]
                #[ignore = "runs in a guest, by kernel_peers.rs"]
                fn $name() {
                    super::$step([Program::$first, Program::$second]);
                }
            )*
        }
    };
}

mod configuration;
mod ecn;
mod loops;
mod routing;
mod sources;
mod traffic;
