//! The command line of the helper process.

use super::configuration;

/// The name of the command.
pub(crate) const NAME: &str = "helper";

/// The dialect of a configuration. The helper is told it on its command line, before the tunnel hears a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Dialect {
    /// OpenVPN's files
    #[value(name = "openvpn")]
    OpenVpn,
    /// wg-quick's files
    #[value(name = "wireguard")]
    WireGuard,
}

impl Dialect {
    fn name(self) -> &'static str {
        match self {
            Dialect::OpenVpn => "openvpn",
            Dialect::WireGuard => "wireguard",
        }
    }
}

/// The arguments of the helper of a tunnel.
pub(crate) fn arguments(dialect: Dialect) -> Vec<String> {
    let options = configuration::command_line().map(|text| vec!["--options".to_owned(), text.to_owned()]);
    let first = [NAME, "--dialect", dialect.name()].map(str::to_owned);
    first.into_iter().chain(options.unwrap_or_default()).collect()
}
