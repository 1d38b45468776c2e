//! The endings of an interface: signals, and that the file of its socket goes. The driver sees that its device goes.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use adit_core::Command;
use adit_host::sockets::{ListeningSocket, SocketFile};
use adit_io::Handle;
use adit_wireguard::Interface;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use signal_hook::iterator::Signals;

use super::Tunnel;

/// Signals that are noted from the start on.
pub(super) struct Endings(Signals);

impl Endings {
    /// Notes them.
    pub(super) fn watch() -> io::Result<Self> {
        let ends = [SIGTERM, SIGINT, SIGHUP];
        let stopping = Arc::new(AtomicBool::new(false));
        for signal in ends {
            // Takes effect from the second signal on: the flag is set by the first.
            register_conditional_shutdown(signal, 1, Arc::clone(&stopping))?;
            register(signal, Arc::clone(&stopping))?;
        }
        Signals::new(ends).map(Endings)
    }

    /// Ends that interface at a signal, also one that came before, and when the socket's file goes.
    pub(super) fn of(mut self, tunnel: &Tunnel, socket: &ListeningSocket) -> io::Result<()> {
        let handle = tunnel.orders().handle();
        let theirs = handle.clone();
        thread::Builder::new().name("adit-signals".to_owned()).spawn(move || {
            for _ in self.0.forever() {
                theirs.command(Command::Shutdown);
            }
        })?;
        let file = socket.file();
        let watch = inotify::init(CreateFlags::CLOEXEC)?;
        // The listening socket keeps its inode; that its name goes shows as a change of attributes (the number of links).
        let changes = WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        inotify::add_watch(&watch, file.path(), changes)?;
        thread::Builder::new()
            .name("adit-socket".to_owned())
            .spawn(move || end_without(&file, &watch, &handle))?;
        Ok(())
    }
}

/// Ends the interface when the file is gone, or another in its place.
fn end_without(file: &SocketFile, watch: &OwnedFd, handle: &Handle<Interface>) {
    let mut buffer = [MaybeUninit::uninit(); 512];
    while file.is_there() {
        match inotify::Reader::new(watch, &mut buffer).next() {
            Ok(_) | Err(Errno::INTR) => {}
            // Without a watch the interface goes on.
            Err(_) => return,
        }
    }
    handle.command(Command::Shutdown);
}
