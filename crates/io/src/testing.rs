//! What the tests of this crate share.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::netlink::Netlink;

/// Runs a test in a network namespace of its own, with the loopback device up. Without root it says loudly
/// that nothing was tested.
pub(crate) fn in_fresh_network(test: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("NOT TESTED: {} needs root", thread::current().name().unwrap_or("this test"));
        }
        return;
    }
    let run = move || {
        adit_sys::enter_fresh_network_namespace().unwrap();
        let mut netlink = Netlink::open().unwrap();
        let loopback = netlink.link("lo").unwrap().index;
        netlink.set_up(loopback, true).unwrap();
        assert!(netlink.next_hop(Ipv4Addr::LOCALHOST.into()).unwrap().local);
        test();
    };
    let result = thread::spawn(run).join();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// A directory of one test, which goes when this is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("adit-io-{name}-{}-{number}", process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
