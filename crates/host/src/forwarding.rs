//! Forwarding for the clients of a server, who reach networks beyond this machine (`#adit: forward`): the networks and ports of a
//! file, the helper that forwards, and the name servers that clients are given.

use std::net::IpAddr;

use adit_core::{Report, Severity};
use adit_guard::{Helper, Policy};
use adit_system::Forwarding;

use super::adapter::Configuration;
use super::failure::Failure;
use super::helper::{self, HelperOf};
use super::log::Logger;
use super::options::Options;

/// The file that the C library reads (resolv.conf(5)), and the file in which systemd-resolved has the servers that it asks itself.
const RESOLV_CONF: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];
/// The most name servers that clients are given.
const MAX_NAME_SERVERS: usize = 3;

/// The lines of `adit check` about forwarding: the packets that a start would forward, the obstacles, and the protocol's own advice.
pub fn survey(configuration: &dyn Configuration) -> Vec<String> {
    let file = configuration.file().display();
    let line = |report: Report| match report.severity {
        Severity::Debug | Severity::Info => format!("{file}: {}", report.text),
        Severity::Warning | Severity::Error => format!("{file}: {} (warning)", report.text),
    };
    let lines = reports(configuration).into_iter().map(line);
    lines.chain(configuration.advice().into_iter().map(|text| format!("{file}: {text}"))).collect()
}

/// The obstacles to the forwarding of a configuration, one line each.
pub fn obstacles(configuration: &dyn Configuration) -> Vec<String> {
    let reports = reports(configuration).into_iter();
    reports.filter(|it| it.severity == Severity::Warning).map(|it| it.text).collect()
}

fn reports(configuration: &dyn Configuration) -> Vec<Report> {
    configuration.facts().forwarding.map(|forwarding| forwarding.survey()).unwrap_or_default()
}

/// Starts the helper that forwards. When the helper ends, it takes back all that it changed.
///
/// # Errors
/// Why it cannot be started.
pub fn start(
    forwarding: Option<Forwarding>,
    device: &str,
    options: &Options,
    log: &mut Logger,
) -> Result<Option<Helper>, Failure> {
    let Some(mut forwarding) = forwarding else { return Ok(None) };
    device.clone_into(&mut forwarding.device);
    let policy =
        Policy { forwarding: Some(forwarding), without_sandbox: options.no_sandbox, ..Policy::default() };
    let started = helper::start(&HelperOf::default(), policy, options.in_background);
    let mut helper = started.map_err(Failure::World)?;
    helper.reports().into_iter().for_each(|report| log.log(report.severity, report));
    Ok(Some(helper))
}

/// The name servers that this machine asks and that others can ask through it.
pub fn name_servers() -> Vec<IpAddr> {
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
