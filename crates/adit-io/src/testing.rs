//! What the tests of this crate share.

use std::net::Ipv4Addr;
use std::thread;

use crate::netlink::Netlink;
use crate::sys;

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
        sys::enter_fresh_network_namespace().unwrap();
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
