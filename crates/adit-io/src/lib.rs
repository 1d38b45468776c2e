//! adit's driver: TUN, UDP, TCP, netlink, the clock and the threads.
#![deny(unsafe_op_in_unsafe_fn)]
