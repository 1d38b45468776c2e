//! The options that run no tunnel, and what becomes of a command line that has one.

use std::fmt::Write as _;
use std::process::ExitCode;

use adit_core::configuration::Kind;
use adit_openvpn_config::{COMMAND_LINE, CommandLineOption, Pkcs11Provider, directive, directives};

use super::{device, key_files, lists};
use crate::external_key::ask_at_terminal;
use crate::{VERSION, pkcs11};
use adit_host::exit;
use adit_host::failure::Failure;

/// Runs the command that is among the options, if one is. `None`: they are for a tunnel.
///
/// # Errors
/// When there is something wrong beside the command, or it fails.
pub(super) fn run(options: &[CommandLineOption]) -> Result<Option<ExitCode>, Failure> {
    if options.is_empty() {
        exit::say(usage());
        return Ok(Some(ExitCode::FAILURE));
    }
    let is_command = |option: &&CommandLineOption| directive(&option.name).is_some_and(|it| it.is_command());
    let Some(command) = options.iter().find(is_command) else { return Ok(None) };
    for (number, option) in (1..).zip(options) {
        check(option, number)?;
        match option.name.as_str() {
            // They take effect where they stand; what comes after is not looked at (options.c `add_option`).
            "help" => {
                exit::say(usage());
                return Ok(Some(ExitCode::FAILURE));
            }
            "version" => {
                exit::say(version());
                return Ok(Some(ExitCode::SUCCESS));
            }
            _ => {}
        }
    }
    match command.name.as_str() {
        "genkey" => key_files::generate(options)?,
        "mktun" => device::make(options)?,
        "rmtun" => device::remove(options)?,
        "show-ciphers" => exit::say(lists::ciphers()),
        "show-digests" => exit::say(lists::digests()),
        "show-tls" => exit::say(lists::tls()),
        "show-curves" | "show-groups" => exit::say(lists::groups()),
        "show-engines" => exit::say("adit brings its own cryptography and loads no engine."),
        "show-pkcs11-ids" => exit::say(smart_cards(&command.arguments)?),
        "show-gateway" => exit::say(lists::gateways().map_err(Failure::World)?),
        name => {
            return Err(Failure::Configuration(format!("--{name} cannot be used: adit does not have it")));
        }
    }
    Ok(Some(ExitCode::SUCCESS))
}

/// `--show-pkcs11-ids [PROVIDER] [PRIVATE]`.
fn smart_cards(arguments: &[String]) -> Result<String, Failure> {
    let provider = arguments.first().map_or(Pkcs11Provider::DEFAULT, String::as_str);
    let private = match arguments.get(1).map(String::as_str) {
        None | Some("0") => false,
        Some("1") => true,
        Some(other) => {
            return Err(Failure::Configuration(format!(
                "--show-pkcs11-ids: found \"{other}\"; write 0 or 1"
            )));
        }
    };
    pkcs11::show(provider.into(), private, ask_at_terminal).map_err(Failure::World)
}

/// The first argument of the last option of that name.
pub(super) fn argument<'a>(options: &'a [CommandLineOption], name: &str) -> Option<&'a str> {
    let last = options.iter().rev().find(|option| option.name == name)?;
    last.arguments.first().map(String::as_str)
}

/// Whether there is such an option, with so many arguments.
fn check(option: &CommandLineOption, number: usize) -> Result<(), Failure> {
    let CommandLineOption { name, arguments } = option;
    let takes = |(least, most): (usize, Option<usize>)| {
        arguments.len() >= least && most.is_none_or(|most| arguments.len() <= most)
    };
    // `--genkey --secret FILE` is the old form; both may stand alone.
    if directive(name).is_some_and(|known| takes(known.arity())) {
        return Ok(());
    }
    let name = name.escape_debug();
    Err(Failure::Configuration(format!(
        "Unrecognized option or missing or extra parameter(s) in {COMMAND_LINE}:{number}: {name}"
    )))
}

/// The output of `--version`.
fn version() -> String {
    format!(
        "{VERSION}\nThis is adit, which takes the options of OpenVPN 2.6: docs/use/OPENVPN-COMMAND.md says which, and how it \
         differs.\nCompile time defines: target={}-{}",
        std::env::consts::ARCH,
        std::env::consts::OS
    )
}

/// All options, from the table that files are read by.
fn usage() -> String {
    let mut text = format!(
        "{VERSION}\n\nUsage: openvpn FILE | openvpn --OPTION [ARGUMENT ...] ...\n\
         The same options stand in files, one a line, without `--`.\n"
    );
    let parts = [(Kind::Used, "Options:"), (Kind::Ignored, "Options that adit does without:")];
    for (kind, title) in parts {
        let _ = write!(text, "\n{title}\n");
        for known in directives().iter().filter(|known| known.kind() == kind) {
            let call = format!("--{} {}", known.name, known.usage);
            let _ = match known.reason() {
                "" => writeln!(text, "{}", call.trim()),
                reason => writeln!(text, "{} : {reason}", call.trim()),
            };
        }
    }
    text.push_str("\nCommands, which run no tunnel:\n");
    for known in directives().iter().filter(|known| known.is_command()) {
        let _ = writeln!(text, "{}", format!("--{} {}", known.name, known.usage).trim());
    }
    text.push_str("\nOptions that are refused:\n");
    let refused = directives().iter().filter(|known| known.kind() == Kind::Refused && !known.is_command());
    for known in refused {
        let _ = writeln!(text, "--{} : {}", known.name, known.reason());
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Vec<CommandLineOption> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        adit_openvpn_config::split_command_line(&words).expect("options")
    }

    #[test]
    fn help_names_every_option_once() {
        let help = usage();
        for known in directives() {
            let line = format!("--{} ", known.name);
            let found = help.lines().filter(|text| format!("{text} ").starts_with(&line)).count();
            assert_eq!(found, 1, "{}", known.name);
        }
    }

    #[test]
    fn the_version_is_what_programs_parse() {
        let text = version();
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!(words[..3], ["OpenVPN", "2.6.14", "adit"]);
        assert!(words[1].split('.').all(|part| part.parse::<u32>().is_ok()));
    }

    #[test]
    fn a_command_line_without_a_command_is_a_tunnels() {
        assert!(matches!(run(&options(&["--dev", "tun", "--bogus"])), Ok(None)));
        assert!(matches!(run(&options(&["a.conf"])), Ok(None)));
    }

    /// The verdicts of OpenVPN 2.6.14 on these.
    #[test]
    fn what_stands_beside_a_command_is_checked() {
        for words in [
            &["--bogus", "--version"][..],
            &["--verb", "--show-tls"],
            &["--show-tls", "--verb", "1", "2"],
            &["--genkey", "foo"],
            &["--genkey", "secret", "a", "b", "c"],
            &["--mktun"],
            &["--test-crypto"],
        ] {
            assert!(matches!(run(&options(words)), Err(Failure::Configuration(_))), "{words:?}");
        }
        assert!(matches!(run(&options(&["--show-tls", "--verb", "1"])), Ok(Some(_))));
    }
}
