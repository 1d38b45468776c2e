//! A directory that a test works on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use adit_testbed::Scratch;

/// A directory that a test works on.
pub(crate) struct Bed {
    scratch: Scratch,
    pub(crate) dir: PathBuf,
}

impl Bed {
    /// Nothing is made yet.
    pub(crate) fn empty() -> Self {
        let scratch = Scratch::create("setup").unwrap();
        let dir = scratch.path().join("vpn");
        Bed { scratch, dir }
    }

    /// A directory that `adit` makes with these words behind `init DIR`.
    pub(crate) fn with(words: &str) -> Self {
        let bed = Bed::empty();
        bed.good(&format!("init DIR {words}"));
        bed
    }

    /// The state directory, which has the lists of blocked peers.
    pub(crate) fn state(&self) -> &Path {
        self.scratch.path()
    }

    fn run(&self, command: &str) -> Output {
        let dir = self.dir.to_str().unwrap();
        let words = command.split(' ').map(|word| word.replace("DIR", dir));
        let mut program = Command::new(env!("CARGO_BIN_EXE_adit"));
        program.args(words).env("STATE_DIRECTORY", self.state()).output().unwrap()
    }

    /// The output of a command that succeeds.
    pub(crate) fn good(&self, command: &str) -> String {
        let output = self.run(command);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The message of a command that is refused.
    pub(crate) fn refused(&self, command: &str) -> String {
        let output = self.run(command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        said
    }

    pub(crate) fn text(&self, file: &str) -> String {
        fs::read_to_string(self.dir.join(file)).unwrap()
    }

    pub(crate) fn is_there(&self, file: &str) -> bool {
        self.dir.join(file).exists()
    }

    /// adit takes the file, and its keys are its owner's alone.
    pub(crate) fn assert_good(&self, file: &str) {
        let said = self.good(&format!("check DIR/{file}"));
        assert!(said.contains("can be used") && !said.contains("chmod"), "{said}");
    }
}
