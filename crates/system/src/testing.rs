//! Network namespaces, devices and directories for tests, of this crate and of others (feature `testing`).

use std::fs::{self, File, OpenOptions};
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::netlink::Netlink;

/// Runs a test in a network namespace of its own, with the loopback device up. Without root it says loudly
/// that nothing was tested.
///
/// # Panics
/// If the test does, or the system has no network namespaces.
pub fn in_fresh_network(test: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        eprintln!("NOT TESTED: {} needs root", thread::current().name().unwrap_or("this test"));
        return;
    }
    let run = move || {
        adit_sys::enter_fresh_network_namespace().expect("a network namespace");
        let mut netlink = Netlink::open().expect("netlink");
        let loopback = netlink.link("lo").expect("the loopback device").index;
        netlink.set_up(loopback, true).expect("the loopback device goes up");
        assert!(netlink.next_hop(Ipv4Addr::LOCALHOST.into()).expect("a route to the machine itself").local);
        test();
    };
    let result = thread::spawn(run).join();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// A TUN device that no process reads from, which goes when this is dropped.
pub struct Device {
    name: String,
    _queue: File,
}

impl Device {
    /// One of that name; `tun%d` is the first free `tunN`.
    ///
    /// # Panics
    /// If the system refuses it.
    pub fn new(name: &str) -> Self {
        let queue = OpenOptions::new().read(true).write(true).open("/dev/net/tun").expect("a TUN driver");
        let flags = libc::IFF_TUN | libc::IFF_NO_PI;
        let name = adit_sys::tun_attach(queue.as_fd(), name, flags).expect("a TUN device");
        Device { name, _queue: queue }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A directory of one test, which goes when this is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty one, with this in its name.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn new(name: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("adit-{name}-{}-{number}", process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a directory for the test");
        Scratch(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
