//! The switches that turn offloads off.

use adit_io::OffloadSwitches;
use clap::ValueEnum;

/// An offload, by the name that `adit up` and `adit status` give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Offload {
    /// TCP packets of up to 64 KiB to and from the TUN device
    TunTso,
    /// UDP packets of up to 64 KiB to and from the TUN device (Linux 6.2)
    TunUso,
    /// Many datagrams in one send
    UdpGso,
    /// Many datagrams in one receive
    UdpGro,
}

/// Do without what helps speed and this system gets wrong
#[derive(Default, clap::Args)]
pub(crate) struct OffloadArgs {
    /// Do without this offload; may be given several times, or with several names and commas
    #[arg(long, value_name = "OFFLOAD", value_delimiter = ',')]
    no_offload: Vec<Offload>,
    /// Do without any offload
    #[arg(long, conflicts_with = "no_offload")]
    no_offloads: bool,
}

impl OffloadArgs {
    /// The switches that are left.
    pub(crate) fn switches(&self) -> OffloadSwitches {
        if self.no_offloads {
            return OffloadSwitches::NONE;
        }
        let allowed = |offload| !self.no_offload.contains(&offload);
        OffloadSwitches {
            tun_tcp: allowed(Offload::TunTso),
            tun_udp: allowed(Offload::TunUso),
            udp_send: allowed(Offload::UdpGso),
            udp_receive: allowed(Offload::UdpGro),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    fn switches(arguments: &[&str]) -> Option<OffloadSwitches> {
        let command = OffloadArgs::augment_args(Command::new("adit").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).ok()?;
        Some(OffloadArgs::from_arg_matches(&matches).ok()?.switches())
    }

    #[test]
    fn offloads_are_switched_off_by_name() {
        assert_eq!(switches(&[]), Some(OffloadSwitches::default()));
        assert_eq!(switches(&["--no-offloads"]), Some(OffloadSwitches::NONE));
        let some = OffloadSwitches { tun_udp: false, udp_receive: false, ..OffloadSwitches::default() };
        assert_eq!(switches(&["--no-offload", "tun-uso,udp-gro"]), Some(some));
        assert_eq!(switches(&["--no-offload=udp-gro", "--no-offload=tun-uso"]), Some(some));
        let all = ["--no-offload", "tun-tso,tun-uso", "--no-offload", "udp-gso,udp-gro"];
        assert_eq!(switches(&all), Some(OffloadSwitches::NONE));
        assert_eq!(switches(&["--no-offload", "gso"]), None);
        assert_eq!(switches(&["--no-offloads", "--no-offload", "udp-gso"]), None);
    }
}
