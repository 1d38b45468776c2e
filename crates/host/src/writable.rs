//! Whether a file can be written, without writing it.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};

/// Whether a file can be written, or made where there is none. Nothing is made or changed.
///
/// # Errors
/// The system's reason, as writing would have it.
pub fn check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // A pipe would wait for its reader, and a device may do anything when it is opened.
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(access(path, Access::WRITE_OK)?),
        Ok(_) => OpenOptions::new().write(true).open(path).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound => in_directory(path),
        Err(error) => Err(error),
    }
}

fn in_directory(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => Path::new("/"),
    };
    fs::metadata(parent)?;
    Ok(access(parent, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use adit_testbed::Scratch;

    use super::*;

    #[test]
    fn the_reason_is_that_of_writing_and_nothing_is_written() {
        let scratch = Scratch::create("writable").expect("a directory");
        let file = scratch.write("file", "text").expect("a file");
        let at = |name: &str| scratch.path().join(name);
        fs::create_dir(at("directory")).expect("a directory");
        for good in ["file", "new"] {
            check(&at(good)).expect("it can be written");
        }
        check(Path::new("/dev/null")).expect("it can be written");
        for bad in ["directory", "none/new", "file/new"] {
            let wanted = fs::write(at(bad), "").expect_err("it cannot be written");
            let found = check(&at(bad)).expect_err("it cannot be written");
            assert_eq!(found.to_string(), wanted.to_string(), "{bad}");
        }
        assert!(!at("new").exists() && fs::read(file).expect("ours") == b"text");
    }
}
