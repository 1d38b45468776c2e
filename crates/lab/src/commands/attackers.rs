//! The cost of attackers to a server of adit's, and to OpenVPN's beside it: those that forge datagrams, and those that
//! return cookies, hold certificates, or simply connect. While they are at work, clients connect, and one that is
//! connected pings.

pub(super) mod keys;
pub(super) mod report;
mod rows;
mod testbed;
pub(super) mod watch;

use clap::ValueEnum;

use self::keys::Keys;
use self::report::Measured;
use self::rows::Row;
use self::testbed::Testbed;
use super::load;
use crate::error::LabError;
use crate::say;
use crate::subjects::Tools;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 3] = ["ip", "openvpn", "openssl"];

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Forged datagrams a second
    #[arg(long, default_value_t = 150_000)]
    rate: u32,
    /// How many clients connect, one after the other, without an attack and during it
    #[arg(long, default_value_t = 10)]
    clients: usize,
    /// Only the rows whose names contain this: `tls-crypt-v2`, `one IPv6 /61`. May be given again
    #[arg(long)]
    only: Vec<String>,
    /// Three rows on adit's server with three clients
    #[arg(long)]
    quick: bool,
    /// List the rows
    #[arg(long)]
    list: bool,
    /// The server; the clients are adit's
    #[arg(long, value_enum, default_value_t)]
    server: Servers,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Servers {
    Adit,
    Openvpn,
    /// In turns
    #[default]
    Both,
}

/// The program that runs a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Program {
    Adit,
    Openvpn,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Adit => "adit",
            Program::Openvpn => "OpenVPN",
        }
    }
}

/// The rows of `--quick`.
const QUICK: [&str; 3] =
    ["TCP: silence, one IPv4", "login, EXIT, repeat", "put off for sign-on, gone, one IPv4"];
const QUICK_CLIENTS: usize = 3;

impl Args {
    fn has(&self, row: &Row<'_>) -> bool {
        let named = |only: &str| row.name.contains(only);
        match self.quick {
            true => QUICK.iter().copied().any(named),
            false => self.only.is_empty() || self.only.iter().any(|only| named(only)),
        }
    }

    fn programs(&self) -> &'static [Program] {
        match self.server {
            _ if self.quick => &[Program::Adit],
            Servers::Adit => &[Program::Adit],
            Servers::Openvpn => &[Program::Openvpn],
            Servers::Both => &[Program::Adit, Program::Openvpn],
        }
    }
}

/// Measures all rows and writes a line of the table for each. True if adit's server withstood all of them.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    load::check(&tools.load_openvpn())?;
    let clients = if args.quick { QUICK_CLIENTS } else { args.clients };
    let keys = Keys::new()?;
    let rows = keys.rows(args.rate, &tools.load_openvpn())?;
    let rows = rows.iter().filter(|row| args.has(row));
    if args.list {
        rows.for_each(|row| say(&row.name));
        return Ok(true);
    }
    let mut withstood = true;
    say(Measured::HEADER);
    for row in rows {
        for program in args.programs() {
            let measured = Testbed::build(tools, *program, row)?.measure(clients)?;
            say(measured.line(&row.name, program.name()));
            withstood &= *program != Program::Adit || measured.verdict() == "ok";
        }
    }
    Ok(withstood)
}

#[cfg(test)]
mod tests {
    use super::keys::Wrapping;
    use super::rows::reachable;
    use super::*;

    fn selected(arguments: &[&str]) -> Vec<String> {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("attackers"));
        let args = Args::from_arg_matches(&command.get_matches_from(arguments)).unwrap();
        let plain = Wrapping::none();
        let rows = reachable(&plain, &plain);
        rows.iter().filter(|row| args.has(row)).map(|row| row.name.clone()).collect()
    }

    #[test]
    fn rows_are_selected_by_parts_of_their_names() {
        assert_eq!(selected(&["attackers", "--quick"]).len(), 3);
        assert_eq!(selected(&["attackers", "--only", "one IPv6"]).len(), 12);
        assert_eq!(
            selected(&["attackers", "--only", "TCP: silence, one IPv6 /61", "--only", "unprintable"]),
            ["TCP: silence, one IPv6 /61", "certificate: unprintable control messages"]
        );
    }
}
