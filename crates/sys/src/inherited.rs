//! Descriptors that a process gets from the one that started it.

use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};

use super::check;

/// The first number that is not one of the standard streams, which the standard library uses.
const FIRST: i32 = 3;

/// Takes over a descriptor that the process which started this one left open under that number, such as one named by an
/// environment variable. Programs that this process runs do not get it, unless by [`hand_over`].
///
/// # Errors
/// Nothing is open under that number (`EBADF`), it is a standard stream's, or it was taken over before or opened by this
/// process itself.
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if number < FIRST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the number is that of a standard stream"));
    }
    // SAFETY: it takes numbers alone; a number under which nothing is open is an error.
    let flags = check(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the descriptor is this process's own"));
    }
    // SAFETY: `fcntl` takes numbers alone; a number under which nothing is open is an error.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open. No other code of this process owns it: the standard library and the crates in use here open
    // descriptors with CLOEXEC, which this one had not, so it was there when the process began; `hand_over`, which takes
    // the flag away, gives up its owner; and since the flag was set under the lock, no other call takes it over.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Leaves a descriptor to the programs that this process runs from now on, and to itself no more. Gives its number, which
/// [`inherited`] takes there. It stays open as long as this process.
///
/// # Errors
/// When the system does not allow it; then it is closed.
pub fn hand_over(descriptor: OwnedFd) -> io::Result<i32> {
    fcntl_setfd(&descriptor, FdFlags::empty())?;
    Ok(descriptor.into_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};

    use super::*;

    fn error_of(result: io::Result<OwnedFd>) -> io::ErrorKind {
        result.unwrap_err().kind()
    }

    #[test]
    fn a_descriptor_is_taken_over_once() {
        let (mut reader, writer) = io::pipe().unwrap();
        let number = hand_over(writer.into()).unwrap();
        let taken = inherited(number).unwrap();
        assert_eq!(error_of(inherited(number)), io::ErrorKind::ResourceBusy);
        File::from(taken).write_all(b"word").unwrap();
        let mut word = String::new();
        reader.read_to_string(&mut word).unwrap();
        assert_eq!(word, "word");
    }

    #[test]
    fn what_is_not_inherited_is_refused() {
        assert_eq!(inherited(1_000_000).unwrap_err().raw_os_error(), Some(libc::EBADF));
        for stream in [-1, 0, 1, 2] {
            assert_eq!(error_of(inherited(stream)), io::ErrorKind::InvalidInput);
        }
        let own = File::open("/dev/null").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&own);
        assert_eq!(error_of(inherited(number)), io::ErrorKind::ResourceBusy);
    }
}
