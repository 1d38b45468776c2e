//! The directory of `capath`: certificates and revocation lists in files whose names are hashes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// The files of a directory are refused if they hold more bytes in all.
const MOST: usize = 4 << 20;

/// The certificates and revocation lists of a directory that OpenSSL would find by hashes of names: `HASH.0`, `HASH.1` …
/// and `HASH.r0`, `HASH.r1` … up to the first number that is missing (X509_LOOKUP_hash_dir(3)).
///
/// # Errors
/// Which file is at fault, and why. An entry that is no regular file, also behind a symbolic link, is not
/// read.
pub(crate) fn read(directory: &Path) -> Result<Vec<u8>, String> {
    let mut numbers: BTreeMap<(String, bool), BTreeSet<u32>> = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(|error| error.to_string())? {
        let name = entry.map_err(|error| error.to_string())?.file_name();
        if let Some((hash, is_list, number)) = name.to_str().and_then(hashed_name) {
            numbers.entry((hash.to_owned(), is_list)).or_default().insert(number);
        }
    }
    let mut content = Vec::new();
    for ((hash, is_list), numbers) in numbers {
        for number in (0..).take_while(|number| numbers.contains(number)) {
            let name = format!("{hash}.{}{number}", if is_list { "r" } else { "" });
            append(&directory.join(&name), &mut content).map_err(|error| format!("{name}: {error}"))?;
            content.push(b'\n');
            if content.len() > MOST {
                return Err("its files are too large for certificates and revocation lists".to_owned());
            }
        }
    }
    Ok(content)
}

/// Appends a regular file: as much of it as is needed to see that it is too large.
fn append(path: &Path, content: &mut Vec<u8>) -> io::Result<()> {
    let refusal = || io::Error::other("it is no regular file");
    // To open a device can have an effect.
    if !fs::metadata(path)?.is_file() {
        return Err(refusal());
    }
    // If a pipe takes its place meanwhile, it is not waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(refusal());
    }
    let room = u64::try_from(MOST.saturating_sub(content.len())).unwrap_or(u64::MAX);
    file.take(room.saturating_add(1)).read_to_end(content)?;
    Ok(())
}

/// The hash in the name of a file, whether it is that of a revocation list, and its number.
fn hashed_name(name: &str) -> Option<(&str, bool, u32)> {
    let (hash, number) = name.split_once('.')?;
    let is_hash = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if hash.len() != 8 || !hash.bytes().all(is_hash) {
        return None;
    }
    let (is_list, digits) = match number.strip_prefix('r') {
        Some(digits) => (true, digits),
        None => (false, number),
    };
    let number: u32 = digits.parse().ok()?;
    // No sign and no zeros before it.
    (number.to_string() == digits).then_some((hash, is_list, number))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use adit_testbed::Scratch;
    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    /// In a thread of its own: one that waits for a pipe would not come back.
    fn read_in_time(directory: &Path) -> Result<Vec<u8>, String> {
        let (sender, receiver) = mpsc::channel();
        let directory = directory.to_owned();
        thread::spawn(move || sender.send(read(&directory)));
        receiver.recv_timeout(Duration::from_secs(10)).expect("an answer")
    }

    #[test]
    fn what_is_no_regular_file_is_not_read() {
        let scratch = Scratch::create("hashed").expect("a directory");
        let directory = scratch.path().join("ca");
        fs::create_dir(&directory).expect("a directory");
        let file = scratch.write("authority.pem", "AAAA").expect("a file");
        let place = directory.join("0123abcd.0");
        symlink(&file, &place).expect("a link");
        assert_eq!(read_in_time(&directory), Ok(b"AAAA\n".to_vec()));
        let pipe = scratch.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let socket = scratch.path().join("socket");
        let _listener = UnixListener::bind(&socket).expect("a socket");
        for other in [pipe, socket, PathBuf::from("/dev/zero"), scratch.path().to_owned()] {
            fs::remove_file(&place).expect("it is ours");
            symlink(&other, &place).expect("a link");
            let error = "0123abcd.0: it is no regular file".to_owned();
            assert_eq!(read_in_time(&directory), Err(error), "{other:?}");
        }
    }

    #[test]
    fn a_directory_of_any_size_is_read_in_a_bounded_time() {
        let scratch = Scratch::create("hashed-size").expect("a directory");
        let large = File::create(scratch.path().join("0123abcd.0")).expect("a file");
        large.set_len(1 << 40).expect("a file with a hole");
        let error = "its files are too large for certificates and revocation lists".to_owned();
        assert_eq!(read_in_time(scratch.path()), Err(error));
    }
}
