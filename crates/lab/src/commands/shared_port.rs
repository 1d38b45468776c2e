//! The cost of clients of OpenVPN and of WireGuard at one port to each other.
//!
//! One process has both protocols in one tunnel, at one UDP port; two others have one protocol each. Each protocol's server
//! has so many clients, connected throughout and silent, and one more, whose TCP flow is measured: at the process with both,
//! and at that with its protocol alone, in turns.

mod testbed;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use adit_testbed::{TcpLoad, TestbedError, tcp_flow};

use self::testbed::{Protocol, Testbed};
use super::output;
use super::wireguard::figures::{Figure, Figures, Limit};
use crate::error::LabError;
use crate::subjects::Tools;
use crate::tell;

/// Programs that this drives.
pub(crate) const NEEDED: [&str; 4] = ["ip", "iperf3", "openssl", "wg"];

/// The subject's name in the table.
const SUBJECT: &str = "adit";

/// The options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Clients of each protocol at each server, beside those whose flows are measured
    #[arg(long, default_value_t = 49, value_parser = clap::value_parser!(u16).range(0..=200))]
    clients: u16,
    /// How often all servers and clients are started anew
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How often each flow is measured in a round, in turns
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Seconds of each flow
    #[arg(long, default_value_t = 2)]
    seconds: u16,
    /// Write every single figure here
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The share of its goodput alone that must be left to each protocol.
const KEPT: Limit = Limit::AtLeast(0.95);

const FIGURES: &[Figure] = &[
    ("openvpn_up_alone", "OpenVPN to the server, alone, Mbit/s", 0, Limit::None),
    ("openvpn_up_shared", "beside WireGuard at the same port", 0, Limit::None),
    ("openvpn_up_kept", "kept", 3, KEPT),
    ("openvpn_down_alone", "OpenVPN to the client, alone, Mbit/s", 0, Limit::None),
    ("openvpn_down_shared", "beside WireGuard at the same port", 0, Limit::None),
    ("openvpn_down_kept", "kept", 3, KEPT),
    ("wireguard_up_alone", "WireGuard to the server, alone, Mbit/s", 0, Limit::None),
    ("wireguard_up_shared", "beside OpenVPN at the same port", 0, Limit::None),
    ("wireguard_up_kept", "kept", 3, KEPT),
    ("wireguard_down_alone", "WireGuard to the client, alone, Mbit/s", 0, Limit::None),
    ("wireguard_down_shared", "beside OpenVPN at the same port", 0, Limit::None),
    ("wireguard_down_kept", "kept", 3, KEPT),
];

/// The figures of a flow: alone, shared, and the ratio.
fn names(protocol: Protocol, back: bool) -> [&'static str; 3] {
    match (protocol, back) {
        (Protocol::OpenVpn, false) => ["openvpn_up_alone", "openvpn_up_shared", "openvpn_up_kept"],
        (Protocol::OpenVpn, true) => ["openvpn_down_alone", "openvpn_down_shared", "openvpn_down_kept"],
        (Protocol::WireGuard, false) => ["wireguard_up_alone", "wireguard_up_shared", "wireguard_up_kept"],
        (Protocol::WireGuard, true) => {
            ["wireguard_down_alone", "wireguard_down_shared", "wireguard_down_kept"]
        }
    }
}

/// Measures, and writes the table. False if a protocol became slower, or something could not be measured.
pub(crate) fn run(args: &Args, tools: &Tools) -> Result<bool, LabError> {
    output::check_adit(tools)?;
    let mut machine = output::describe(vec![("adit", Command::new(&tools.adit))]);
    let clients = args.clients + 1;
    machine.push(format!(
        "{clients} clients of OpenVPN and {clients} of WireGuard at one port, as many at each server alone"
    ));
    let mut figures = Figures::new(machine, &[SUBJECT.to_owned()], FIGURES);
    for round in 0..args.rounds {
        tell(format_args!("round {} of {}", round + 1, args.rounds));
        if let Err(error) = measure(args, tools, round, &mut figures) {
            tell(&error);
            figures.fail(SUBJECT, round, &error.to_string());
        }
    }
    output::finish(&figures.markdown(), args.json.as_deref(), &figures)?;
    Ok(figures.is_good())
}

fn measure(args: &Args, tools: &Tools, round: u32, figures: &mut Figures) -> Result<(), TestbedError> {
    let testbed = Testbed::build(args.clients, tools)?;
    for pair in 0..args.pairs {
        for protocol in [Protocol::OpenVpn, Protocol::WireGuard] {
            for back in [false, true] {
                let flow = |shared| {
                    let time = Duration::from_secs(args.seconds.into());
                    let load = TcpLoad { time, back, write: None, compressible: false };
                    Ok::<f64, TestbedError>(tcp_flow(&testbed.ends(protocol, shared), load)?.megabits)
                };
                // Each goes first as often as the other.
                let (alone, shared) = match (round + pair) % 2 {
                    0 => {
                        let alone = flow(false)?;
                        (alone, flow(true)?)
                    }
                    _ => {
                        let shared = flow(true)?;
                        (flow(false)?, shared)
                    }
                };
                let values = [alone, shared, shared / alone];
                for (name, value) in names(protocol, back).into_iter().zip(values) {
                    figures.note(SUBJECT, round, name, value);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_read() {
        use clap::{Args as _, FromArgMatches as _};
        let command = Args::augment_args(clap::Command::new("shared-port"));
        command.clone().debug_assert();
        let args = Args::from_arg_matches(&command.get_matches_from(["shared-port"])).unwrap();
        assert_eq!((args.clients, args.rounds), (49, 5));
    }

    #[test]
    fn every_figure_is_in_the_table() {
        let all = [Protocol::OpenVpn, Protocol::WireGuard]
            .into_iter()
            .flat_map(|protocol| [false, true].into_iter().flat_map(move |back| names(protocol, back)));
        assert_eq!(all.collect::<Vec<_>>(), FIGURES.iter().map(|figure| figure.0).collect::<Vec<_>>());
    }
}
