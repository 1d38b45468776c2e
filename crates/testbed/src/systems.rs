use std::path::{Path, PathBuf};
use std::process::Command;

use crate::TestbedError;
use crate::programs::{can_run, program, run, skip};

/// The script that makes roots and kernels, and keeps them below `target`.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/debian-systems");

/// Runs in a mount namespace of its own: mounts the directories that a program needs into the root (`$0`), and goes on
/// as the program there. `$1` is this system's folder of temporary files, where configuration files are.
const ENTER: &str = "root=$0 temporary=$1; shift; mkdir -p \"$root$temporary\" && \
     mount --rbind /dev \"$root/dev\" && mount --rbind \"$temporary\" \"$root$temporary\" && \
     mount -t proc proc \"$root/proc\" && mount -t sysfs sysfs \"$root/sys\" && mount -t tmpfs tmpfs \"$root/run\" && \
     exec chroot \"$root\" \"$@\"";

/// An installed Debian of another release in a folder, whose programs run here.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// The root of that name in the table of `scripts/debian-systems`. The first call makes it, which takes a minute or two.
    pub fn named(name: &str) -> Result<Self, TestbedError> {
        Ok(Self { path: system("root", name)? })
    }

    /// The root of that name for a test. Where it cannot be made, a message says so as [`can_run`] does of missing
    /// programs.
    pub fn for_test(test: &str, name: &str) -> Option<Self> {
        if !can_run(test, &["mmdebstrap", "unshare"]) {
            return None;
        }
        Root::named(name).map_err(|error| skip(test, &error.to_string())).ok()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs a program of it, in the network namespace of the caller. The program sees this system's `/dev` and
    /// temporary files, and has a `/run` of its own. All that is mounted for it goes with it.
    pub fn command(&self, name: &str) -> Result<Command, TestbedError> {
        let mut command = program("unshare")?;
        command.args(["--mount", "sh", "-c", ENTER]).arg(&self.path).arg(std::env::temp_dir()).arg(name);
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        Ok(command)
    }
}

/// The folder of a system that the script made, now or earlier.
pub(crate) fn system(kind: &str, name: &str) -> Result<PathBuf, TestbedError> {
    let path = run(Command::new(SCRIPT).args([kind, name]))?;
    Ok(PathBuf::from(path.trim()))
}
