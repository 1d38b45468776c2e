//! The helper process of a tunnel: its command line, and its start.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use adit_guard::{Helper, Policy};

/// The name of the command.
pub const NAME: &str = "helper";

/// The name by which a process runs this program as its helper, whatever its own name is.
pub const PROGRAM: &str = "adit";

/// The words of a helper's command line that say whose helper it is.
#[derive(Clone, Default)]
pub struct HelperOf {
    /// The name of the protocol, whose files the helper reads; `None`: it reads none.
    pub protocol: Option<&'static str>,
    /// The options that are the configuration, in place of a file.
    pub options: Option<String>,
}

impl HelperOf {
    fn arguments(&self) -> Vec<String> {
        let word = |option: &str, value: &str| [option.to_owned(), value.to_owned()];
        let protocol = self.protocol.map(|name| word("--dialect", name));
        let options = self.options.as_ref().map(|text| word("--options", text));
        std::iter::once(NAME.to_owned()).chain([protocol, options].into_iter().flatten().flatten()).collect()
    }
}

/// Starts a helper. In the background, the output of its scripts goes nowhere: the process that was called listens to this one alone,
/// and not for long.
///
/// # Errors
/// Why it cannot be started.
pub fn start(of: &HelperOf, policy: Policy, in_background: bool) -> Result<Helper, String> {
    let start = || {
        let mut command = Command::new(std::env::current_exe()?);
        // A terminal's signals, which it sends to the whole process group, are for the tunnel alone. The
        // program may have the name of another personality.
        command.arg0(PROGRAM).args(of.arguments()).process_group(0);
        if in_background {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        Helper::start(command, policy)
    };
    start().map_err(|error: std::io::Error| format!("the helper process cannot be started: {error}"))
}
