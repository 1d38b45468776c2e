//! A server, a client, and a host beyond the server, in network namespaces: made from nothing, measured and removed again.

mod ipsec;
mod openvpn;
mod testbed;
mod wireguard;

use std::path::{Path, PathBuf};
use std::time::Duration;

use adit_testbed::{PingReport, TestbedError, Transfer, missing_prerequisites};

use self::testbed::Testbed;
use crate::error::LabError;
use crate::subjects::{Tools, adit as subject};
use crate::{clean_up_on_signals, say, tell};

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show WireGuard in place of OpenVPN
    #[arg(long, conflicts_with = "proto")]
    wireguard: bool,
    /// Show IPsec in place of OpenVPN
    #[arg(long, conflicts_with_all = ["proto", "wireguard"])]
    ipsec: bool,
    /// What carries the tunnel's datagrams
    #[arg(long, value_name = "udp|tcp", value_parser = ["udp", "tcp"], default_value = "udp")]
    proto: String,
    /// Size of the file that is moved each way, in megabytes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=2000), default_value_t = 200)]
    megabytes: u16,
}

/// The measurements of the demo.
struct Measured {
    first_packet: Duration,
    to_server: Transfer,
    to_client: Transfer,
    quiet: PingReport,
    /// Pings both ways while the tunnel changed.
    across: PingReport,
    change: Change,
}

/// The change of the tunnel in the midst of pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The keys, so many times.
    Renegotiations(usize),
    /// The child SA's keys, so many times.
    Rekeys(usize),
    /// The client's UDP port.
    Port,
}

/// Pings that may be lost while the client's port changes: those that are under way to the old one.
const UNDER_WAY: u32 = 5;

impl Change {
    /// The table's words for it.
    fn words(self) -> &'static str {
        match self {
            Change::Renegotiations(_) => "  across the renegotiation",
            Change::Rekeys(_) => "  across the rekeys",
            Change::Port => "  across the change of port",
        }
    }

    /// Pings that may be lost by it.
    fn may_lose(self) -> u32 {
        if self == Change::Port { UNDER_WAY } else { 0 }
    }
}

/// Why the demo could not go on.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    #[error("'{command}' failed: {output}")]
    Adit { command: String, output: String },
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Tunnel(String),
}

/// Runs the demo. False if the tunnel did not do all that it should, or could not be built.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    let missing = missing_prerequisites(&["ip", "nft"]);
    if !missing.is_empty() {
        tell(what_is_missing(&tools.lab, &missing));
        return Ok(false);
    }
    if !tools.adit.is_file() {
        tell(subject::unbuilt(tools));
        return Ok(false);
    }
    clean_up_on_signals("interrupted; removing the tunnel and its namespaces")?;
    let file = usize::from(args.megabytes) * 1_000_000;
    let outcome = Testbed::build(&tools.adit).and_then(|mut testbed| {
        let measured = match (args.wireguard, args.ipsec) {
            (true, _) => wireguard::measure(&mut testbed, file),
            (_, true) => ipsec::measure(&mut testbed, file),
            _ => openvpn::measure(&mut testbed, &args.proto, file),
        };
        show_all(testbed, measured)
    });
    Ok(match outcome {
        Ok(()) => true,
        Err(error) => {
            tell(error);
            false
        }
    })
}

/// Programs that the demo drives, and Debian's packages of them.
const PACKAGES: [(&str, &str); 2] = [("'ip'", "iproute2"), ("'nft'", "nftables")];

/// One sentence, and the command that would work.
fn what_is_missing(program: &Path, missing: &[String]) -> String {
    let is_missing = |name: &str| missing.iter().any(|what| what.contains(name));
    let packages: Vec<&str> =
        PACKAGES.iter().filter(|(name, _)| is_missing(name)).map(|(_, package)| *package).collect();
    let way_out = if !adit_testbed::is_root() {
        format!("; run this instead: sudo {} demo", program.display())
    } else if packages.is_empty() {
        String::new()
    } else {
        format!("; run this first: apt install {}", packages.join(" "))
    };
    format!("the demo makes network namespaces and needs {}{way_out}", missing.join(" and "))
}

/// Removes the testbed, and prints the table of the figures.
fn show_all(testbed: Testbed, measured: Result<Measured, DemoError>) -> Result<(), DemoError> {
    let measured = measured.map_err(|error| DemoError::Tunnel(format!("{error}\n{}", testbed.logs())))?;
    let ended = testbed.end();
    print_table(&measured);
    judge(&measured).map_err(DemoError::Tunnel)?;
    ended
}

/// Checks the conditions under which the demo has succeeded.
fn judge(measured: &Measured) -> Result<(), String> {
    if !(measured.to_server.intact && measured.to_client.intact) {
        return Err("a file was changed on its way through the tunnel".to_owned());
    }
    match measured.change {
        Change::Renegotiations(0) => return Err("no renegotiation took place".to_owned()),
        Change::Rekeys(0) => return Err("no rekey took place".to_owned()),
        _ => {}
    }
    let across = measured.across.lost().saturating_sub(measured.change.may_lose());
    match across + measured.quiet.lost() {
        0 => Ok(()),
        lost => Err(format!("{lost} pings were lost")),
    }
}

/// A duration in milliseconds, as precise as it is long.
fn show(duration: Duration) -> String {
    let milliseconds = duration.as_secs_f64() * 1e3;
    if milliseconds < 10.0 { format!("{milliseconds:.2} ms") } else { format!("{milliseconds:.0} ms") }
}

fn print_table(measured: &Measured) {
    let trip = |report: &PingReport| match report.round_trip {
        Some([least, mean, most]) => format!("{} / {} / {}", show(least), show(mean), show(most)),
        None => "no answer".to_owned(),
    };
    let loss = |report: &PingReport| format!("{} of {} pings", report.lost(), report.sent);
    let rate = |moved: &Transfer| format!("{:.0} Mbit/s", moved.megabits_per_second());
    let across = measured.change.words();
    let rows = [
        ("time to first packet", show(measured.first_packet)),
        ("goodput to the server", rate(&measured.to_server)),
        ("goodput to the client", rate(&measured.to_client)),
        ("round trip (least / mean / most)", trip(&measured.quiet)),
        (across, trip(&measured.across)),
        ("loss", loss(&measured.quiet)),
        (across, loss(&measured.across)),
    ];
    say("");
    for (name, value) in rows {
        say(format_args!("  {name:<34}{value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(change: Change, lost: u32, intact: bool) -> Measured {
        let moved = || Transfer { bytes: 1, elapsed: Duration::from_secs(1), intact };
        let pings = |lost| PingReport { sent: 100, received: 100 - lost, ..PingReport::default() };
        Measured {
            first_packet: Duration::ZERO,
            to_server: moved(),
            to_client: moved(),
            quiet: pings(0),
            across: pings(lost),
            change,
        }
    }

    #[test]
    fn a_change_of_port_may_lose_what_is_under_way() {
        let fails = |change, lost| judge(&measured(change, lost, true)).is_err();
        assert!(!fails(Change::Port, 5) && fails(Change::Port, 6));
        assert!(!fails(Change::Renegotiations(1), 0) && fails(Change::Renegotiations(1), 1));
        assert!(!fails(Change::Rekeys(1), 0) && fails(Change::Rekeys(1), 1));
        assert!(
            [Change::Renegotiations(0), Change::Rekeys(0)].iter().all(|none| fails(*none, 0)),
            "nothing was shown"
        );
        assert!(judge(&measured(Change::Port, 0, false)).is_err());
    }
}
