//! The greatest timestamp of an interface, kept over restarts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use adit_guard::{HelperFiles, replace_file};
use adit_host::state;
use adit_wireguard::Tai64n;

/// The file of an interface: 24 hexadecimal digits.
pub(super) struct TimestampFile {
    path: PathBuf,
    /// The helper that writes it, if it is not this process.
    helper: Option<HelperFiles>,
    /// A failure was logged already.
    told: bool,
}

impl TimestampFile {
    /// The file of the interface with this name.
    pub(super) fn of(interface: &str) -> Self {
        TimestampFile::within(&state::directory(), interface)
    }

    fn within(directory: &Path, interface: &str) -> Self {
        let path = directory.join("wireguard").join(format!("{interface}.tai64n"));
        TimestampFile { path, helper: None, told: false }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Has a helper write it from now on, whose policy names it.
    pub(super) fn use_helper(&mut self, helper: HelperFiles) {
        self.helper = Some(helper);
    }

    /// The saved timestamp; none if there is no file.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub(super) fn read(&self) -> Result<Option<Tai64n>, String> {
        match fs::read_to_string(&self.path) {
            Ok(text) => parse(text.trim_end()).map(Some).ok_or_else(|| self.fault("it holds no timestamp")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.fault(error)),
        }
    }

    /// Saves it, so that the next run of the program finds it. Gives why it cannot, the first time.
    pub(super) fn save(&mut self, timestamp: Tai64n) -> Option<String> {
        let error = self.write(timestamp).err()?;
        let first = !std::mem::replace(&mut self.told, true);
        first.then(|| self.fault(error))
    }

    fn write(&self, timestamp: Tai64n) -> io::Result<()> {
        // On the disk as well: a handshake may use what is saved as soon as this returns, and a machine that loses its power
        // then must find it again.
        match &self.helper {
            Some(helper) => helper.write_state(&timestamp.0),
            None => replace_file(&self.path, text(timestamp).as_bytes()),
        }
    }

    fn fault(&self, error: impl std::fmt::Display) -> String {
        let path = self.path.display();
        format!(
            "{path}: {error}; if the clock goes back over a restart, peers refuse handshakes until it has caught up"
        )
    }
}

/// The content of the file, as a helper writes it too.
fn text(timestamp: Tai64n) -> String {
    let digits: String = timestamp.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}\n")
}

/// Of 24 hexadecimal digits. A label of TAI64 is at least 2^62 and below 2^63.
fn parse(text: &str) -> Option<Tai64n> {
    let (digits, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let digits: &[[u8; 2]; 12] = digits.try_into().ok()?;
    let mut bytes = [0; 12];
    for (byte, [high, low]) in bytes.iter_mut().zip(digits) {
        let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    (bytes[0] & 0xc0 == 0x40).then_some(Tai64n(bytes))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("adit-tai64n-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Directory(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_was_saved_last_is_read() {
        let directory = Directory::new("saved");
        let mut file = TimestampFile::within(&directory.0, "wg0");
        assert_eq!(file.read(), Ok(None));
        for seconds in [1_800_000_000, 1_900_000_000] {
            let timestamp = Tai64n::of(Duration::from_secs(seconds));
            assert_eq!(file.save(timestamp), None);
            assert_eq!(TimestampFile::within(&directory.0, "wg0").read(), Ok(Some(timestamp)));
        }
        assert_eq!(TimestampFile::within(&directory.0, "wg1").read(), Ok(None));
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let directory = Directory::new("else");
        let mut file = TimestampFile::within(&directory.0, "wg0");
        file.save(Tai64n::of(Duration::from_secs(1)));
        let good = fs::read_to_string(&file.path).unwrap();
        for text in ["", "0", &good[..22], &format!("{good}00"), &"f".repeat(24), &"x".repeat(24)] {
            fs::write(&file.path, text).unwrap();
            assert!(file.read().is_err(), "{text:?}");
        }
        fs::write(&file.path, good).unwrap();
        assert!(file.read().is_ok());
    }

    #[test]
    fn a_failure_is_told_once() {
        let directory = Directory::new("failure");
        fs::write(directory.0.join("wireguard"), "not a directory").unwrap();
        let mut file = TimestampFile::within(&directory.0, "wg0");
        let timestamp = Tai64n::of(Duration::from_secs(1));
        assert!(file.save(timestamp).is_some_and(|why| why.contains("wg0.tai64n")));
        assert_eq!(file.save(timestamp), None);
    }
}
