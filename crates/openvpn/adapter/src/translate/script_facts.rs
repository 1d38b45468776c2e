//! The protocol's facts for scripts.

use std::net::Ipv6Addr;
use std::sync::Arc;

use adit_core::Dns;
use adit_openvpn::params::ScriptParams;
use adit_openvpn_config::Config;

/// The protocol's facts for scripts, if there are any, or if a program at the management socket gets the same.
pub(super) fn script_params(
    config: &Config,
    peer_ipv6: Option<Ipv6Addr>,
    dns: &Dns,
) -> Option<Arc<ScriptParams>> {
    let is_told = config.process.management.as_ref().is_some_and(|management| management.up_down);
    if config.scripts.commands().next().is_none() && !is_told {
        return None;
    }
    Some(Arc::new(said_to_scripts(config, peer_ipv6, dns)))
}

pub(super) fn said_to_scripts(config: &Config, peer_ipv6: Option<Ipv6Addr>, dns: &Dns) -> ScriptParams {
    let scripts = &config.scripts;
    let servers = dns.servers.iter().map(|server| format!("DNS {server}"));
    let search = dns.search.iter().map(|domain| format!("DOMAIN {domain}"));
    let only_for = dns.only_for.iter().map(|domain| format!("DOMAIN-ROUTE {domain}"));
    ScriptParams {
        env: Vec::new(),
        dhcp_options: servers.chain(search).chain(only_for).collect(),
        gateway: scripts.gateway,
        peer_ipv6,
        tls_verify: scripts.tls_verify.clone(),
    }
}
