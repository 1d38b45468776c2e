//! adit without a general operating system: an image of a Linux kernel and of adit as its only program.
//!
//! [`build`] makes the image: the kernel's file, an initramfs, and an EFI program of both. [`run_as_first_process`] is what the
//! program does as the first process of such an image: it mounts the kernel's file systems, loads modules, sets up the network
//! and the clock, runs `adit up` and starts it again when it ends, until the machine is switched off.
#![forbid(unsafe_code)]

mod advertised;
mod dhcp;
mod dhcp6;
mod image;
mod init;
mod settings;
mod sntp;

pub use image::{Compression, Image, ImageError, Sizes, build};
pub use init::{is_first_process, run_as_first_process};
