//! Forwarding for the clients of a server, who reach networks beyond this machine (`#adit: forward`): the networks and ports of a
//! file, the helper that forwards, and the name servers that clients are given.

use std::net::IpAddr;
use std::path::Path;

use adit_core::{Report, Severity};
use adit_guard::{Helper, Policy};
use adit_system::Forwarding;
use adit_wireguard_config::interface_name;

use super::configuration::{self, Dialect};
use super::failure::Failure;
use super::log::Logger;
use super::options::Options;
use super::{helper, privileges};
use crate::{openvpn, wireguard};

/// The file that the C library reads (resolv.conf(5)), and the file in which systemd-resolved has the servers that it asks itself.
const RESOLV_CONF: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];
/// The most name servers that clients are given.
const MAX_NAME_SERVERS: usize = 3;

/// The forwarding of one tunnel whose endpoints are these files; `None`: it forwards nothing.
pub(crate) fn of_all<'a>(endpoints: impl Iterator<Item = (&'a Path, &'a Dialect)>) -> Option<Forwarding> {
    let all: Vec<Forwarding> = endpoints.filter_map(|(file, dialect)| of(dialect, file)).collect();
    let mut all = all.into_iter();
    let mut together = all.next()?;
    for one in all {
        together.networks.extend(one.networks);
        together.destinations.extend(one.destinations);
        together.ports.extend(one.ports);
    }
    Some(together)
}

/// The forwarding of a file's tunnel, with the name that its device has, or is likely to have.
fn of(dialect: &Dialect, file: &Path) -> Option<Forwarding> {
    match dialect {
        Dialect::OpenVpn(parsed) => {
            let device = parsed.config.device.name.as_deref().unwrap_or("tun0");
            openvpn::adapter::forwarding::of(&parsed.config, device)
        }
        Dialect::WireGuard(parsed) => {
            let device = file.to_str().and_then(interface_name).unwrap_or_default();
            wireguard::adapter::forwarding::of(&parsed.config, device)
        }
    }
}

/// The lines of `adit check` about forwarding: the packets that a start would forward, the obstacles, and the name servers of
/// clients whose traffic all goes through this machine.
pub(crate) fn survey(dialect: &Dialect, file: &Path) -> Vec<String> {
    let reports = of(dialect, file).map(|forwarding| forwarding.survey()).unwrap_or_default();
    let line = |report: Report| match report.severity {
        Severity::Debug | Severity::Info => format!("{}: {}", file.display(), report.text),
        Severity::Warning | Severity::Error => format!("{}: {} (warning)", file.display(), report.text),
    };
    let mut lines: Vec<String> = reports.into_iter().map(line).collect();
    if let Dialect::OpenVpn(parsed) = dialect {
        lines.extend(
            openvpn::adapter::forwarding::told_name_servers(&parsed.config)
                .map(|text| format!("{}: {text}", file.display())),
        );
    }
    lines
}

/// The obstacles to the forwarding of a server's file, one line each; none if the file cannot be read.
pub(crate) fn obstacles(file: &Path) -> Vec<String> {
    let Ok(dialect) = configuration::read(file) else { return Vec::new() };
    let reports = of(&dialect, file).map(|forwarding| forwarding.survey()).unwrap_or_default();
    reports.into_iter().filter(|it| it.severity == Severity::Warning).map(|it| it.text).collect()
}

/// Starts the helper that forwards. When the helper ends, it takes back all that it changed.
pub(crate) fn start(
    forwarding: Option<Forwarding>,
    device: &str,
    args: &Options,
    log: &mut Logger,
) -> Result<Option<Helper>, Failure> {
    let Some(mut forwarding) = forwarding else { return Ok(None) };
    device.clone_into(&mut forwarding.device);
    let policy =
        Policy { forwarding: Some(forwarding), without_sandbox: args.no_sandbox, ..Policy::default() };
    // The helper reads no configuration, so that its dialect does not matter.
    let started = privileges::start_helper(helper::Dialect::OpenVpn, policy, args.in_background);
    let mut helper = started.map_err(Failure::World)?;
    helper.reports().into_iter().for_each(|report| log.log(report.severity, report));
    Ok(Some(helper))
}

/// The name servers that this machine asks and that others can ask through it.
pub(crate) fn name_servers() -> Vec<IpAddr> {
    let of = |path: &str| reachable(&std::fs::read_to_string(path).unwrap_or_default());
    RESOLV_CONF.into_iter().map(of).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The name servers of a resolv.conf(5), without those that other machines cannot reach; at most [`MAX_NAME_SERVERS`].
fn reachable(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let address = words.next().filter(|word| *word == "nameserver").and_then(|_| words.next())?;
        let address: IpAddr = address.parse().ok()?;
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        (!address.is_loopback() && !address.is_unspecified() && !is_link_local).then_some(address)
    };
    text.lines().filter_map(server).take(MAX_NAME_SERVERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_that_others_cannot_reach_are_left_out() {
        let text = "# a\nnameserver 127.0.0.53\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver fe80::1\nsearch x\n\
                    nameserver 192.0.2.53\nnameserver 2001:db8::53 # b\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n";
        let expected = ["192.0.2.53", "2001:db8::53", "10.0.0.2"].map(|text| text.parse::<IpAddr>());
        assert_eq!(reachable(text).into_iter().map(Ok).collect::<Vec<_>>(), expected);
    }
}
