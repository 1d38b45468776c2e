//! What attackers cost a server of adit's, and OpenVPN's beside it: those that forge datagrams, and those that return
//! cookies, hold certificates, or simply connect. While they are at work, clients connect, and one that is connected
//! pings.
//!
//! ```text
//! cargo build --release -p adit
//! cargo build --release -p adit-testbed --example attackers
//! sudo target/release/examples/attackers
//! ```
#![forbid(unsafe_code)]

mod attack;
mod forged;
mod report;
mod rows;
mod stage;
mod watch;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adit_testbed::{TestbedError, missing_prerequisites};
use clap::{Parser, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::report::Measured;
use crate::rows::{Keys, Row};
use crate::stage::Stage;

/// Attack a server in each of many ways, and let clients connect meanwhile
#[derive(Parser)]
struct Args {
    /// Forged datagrams a second
    #[arg(long, default_value_t = 150_000)]
    rate: u32,
    /// How many clients connect, one after the other, without an attack and during it
    #[arg(long, default_value_t = 10)]
    clients: usize,
    /// Only the rows whose names contain this: `tls-crypt-v2`. May be given again
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
    /// adit's release build [default: beside this program's directory]
    #[arg(long)]
    adit: Option<PathBuf>,
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
const QUICK: [&str; 3] = ["TCP: silence", "login, EXIT", "put off"];
const QUICK_CLIENTS: usize = 3;

fn main() -> ExitCode {
    let args = Args::parse();
    let missing = missing_prerequisites(&["ip", "openvpn", "openssl"]);
    let outcome = match missing.as_slice() {
        [] => measure(&args),
        _ => Err(TestbedError::NoProgram(missing.join(", "))),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "attackers: {error}");
            ExitCode::FAILURE
        }
    }
}

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

/// Measures all rows. True if adit's server withstood all of them.
fn measure(args: &Args) -> Result<bool, TestbedError> {
    let own = std::env::current_exe().unwrap_or_default();
    let release = own.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    let adit = args.adit.clone().unwrap_or_else(|| release.join("adit"));
    allow_many_sockets();
    let clients = if args.quick { QUICK_CLIENTS } else { args.clients };
    let keys = Keys::new()?;
    let mut out = std::io::stdout().lock();
    let mut withstood = true;
    let rows = keys.rows(args.rate);
    let rows = rows.iter().filter(|row| args.has(row));
    if args.list {
        rows.for_each(|row| drop(writeln!(out, "{}", row.name)));
        return Ok(true);
    }
    let _ = writeln!(out, "{}", Measured::HEADER);
    for row in rows {
        for program in args.programs() {
            let measured = Stage::build(&adit, *program, row)?.measure(clients)?;
            let _ = writeln!(out, "{}", measured.line(&row.name, program.name(), row.certified));
            withstood &= *program != Program::Adit || measured.verdict(row.certified) == "ok";
        }
    }
    Ok(withstood)
}

/// Attackers hold more sockets than a process usually may.
fn allow_many_sockets() {
    let limits = getrlimit(Resource::Nofile);
    // Without it there are fewer attackers, which their number shows.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, maximum: limits.maximum });
}
