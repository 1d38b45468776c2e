//! The subjects of measurements.

use std::fmt;

/// A tunnel, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Subject {
    /// The link itself
    Veth,
    /// A tunnel that does nothing but move packets
    Nulltun,
    /// OpenVPN at both ends
    OpenvpnUdp,
    /// OpenVPN at both ends
    OpenvpnTcp,
    /// adit's WireGuard at both ends
    AditWireguard,
    /// wireguard-go at both ends
    WireguardGo,
    /// boringtun at both ends
    Boringtun,
    /// gotatun at both ends
    Gotatun,
    /// adit at both ends
    AditUdp,
    /// adit at both ends
    AditTcp,
    /// adit as the client of an OpenVPN server
    AditToOpenvpn,
    /// OpenVPN as the client of an adit server
    OpenvpnToAdit,
}

/// A program that speaks OpenVPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    OpenVpn,
    Adit,
}

impl Subject {
    /// The subjects that every comparison needs.
    pub(super) const DEFAULT: [Subject; 8] = [
        Subject::Veth,
        Subject::Nulltun,
        Subject::OpenvpnUdp,
        Subject::OpenvpnTcp,
        Subject::AditWireguard,
        Subject::WireguardGo,
        Subject::AditUdp,
        Subject::AditTcp,
    ];

    /// The programs of the server and the client, and whether they use TCP; nothing if it is not OpenVPN's
    /// protocol.
    pub(super) fn openvpn(self) -> Option<(Speaker, Speaker, bool)> {
        match self {
            Subject::OpenvpnUdp => Some((Speaker::OpenVpn, Speaker::OpenVpn, false)),
            Subject::OpenvpnTcp => Some((Speaker::OpenVpn, Speaker::OpenVpn, true)),
            Subject::AditUdp => Some((Speaker::Adit, Speaker::Adit, false)),
            Subject::AditTcp => Some((Speaker::Adit, Speaker::Adit, true)),
            Subject::AditToOpenvpn => Some((Speaker::OpenVpn, Speaker::Adit, false)),
            Subject::OpenvpnToAdit => Some((Speaker::Adit, Speaker::OpenVpn, false)),
            Subject::Veth
            | Subject::Nulltun
            | Subject::AditWireguard
            | Subject::WireguardGo
            | Subject::Boringtun
            | Subject::Gotatun => None,
        }
    }

    /// Whether it speaks WireGuard.
    pub(super) fn is_wireguard(self) -> bool {
        matches!(self, Subject::AditWireguard | Subject::WireguardGo | Subject::Boringtun | Subject::Gotatun)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Veth => "veth",
            Subject::Nulltun => "nulltun",
            Subject::OpenvpnUdp => "openvpn-udp",
            Subject::OpenvpnTcp => "openvpn-tcp",
            Subject::AditWireguard => "adit-wireguard",
            Subject::WireguardGo => "wireguard-go",
            Subject::Boringtun => "boringtun",
            Subject::Gotatun => "gotatun",
            Subject::AditUdp => "adit-udp",
            Subject::AditTcp => "adit-tcp",
            Subject::AditToOpenvpn => "adit-to-openvpn",
            Subject::OpenvpnToAdit => "openvpn-to-adit",
        })
    }
}
