//! The completions of bash, zsh and fish.

use adit::manual::Program;
use clap::Command;
use clap_complete::{Generator, Shell, generate};

use crate::Files;

/// The files of all programs, each in a directory with the shell's name, called as that shell looks for them.
pub(crate) fn all(programs: &[Program]) -> Files {
    let mut files = Files::new();
    for program in programs {
        for (shell, directory) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
            let (mut command, mut text) = (without_hidden(&program.command), Vec::new());
            let name = command.get_name().to_owned();
            generate(shell, &mut command, &name, &mut text);
            // bash-completion loads the file that is called as the command.
            let file = if shell == Shell::Bash { name.clone() } else { shell.file_name(&name) };
            files.insert(format!("{directory}/{file}").into(), text);
        }
    }
    files
}

/// The generators would offer hidden commands, too.
fn without_hidden(command: &Command) -> Command {
    let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    // clap wants a name that lives as long as the program.
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(command.get_arguments().cloned())
        .subcommands(visible.cloned())
}
