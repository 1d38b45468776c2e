//! The environment of scripts, as far as it does not depend on the peer (OpenVPN's manual, "Environmental Variables").

use std::collections::BTreeMap;
use std::path::Path;

use adit_core::{Dns, Transport};
use adit_openvpn_config::{Bind, Config, Family, Listen, Log, ProxyKind, Role};

/// The variables about the configuration in that file for scripts, in all their calls. `daemon`: the process is to go
/// to the background.
pub(crate) fn base(config: &Config, file: &Path, daemon: bool) -> Vec<(String, String)> {
    let mut env = BTreeMap::new();
    let mut set = |name: &str, value: String| drop(env.insert(name.to_owned(), value));
    let flag = |set: bool| if set { "1" } else { "0" }.to_owned();
    set("config", file.display().to_string());
    set("verb", config.process.verb.to_string());
    set("daemon", flag(daemon));
    set("daemon_log_redirect", flag(matches!(config.process.log, Some(Log::File { .. }))));
    set("daemon_start_time", adit_io::unix_now().0.to_string());
    set("daemon_pid", std::process::id().to_string());
    match &config.role {
        Role::Client(client) => {
            for (number, remote) in (1..).zip(&client.remotes) {
                set(&format!("remote_{number}"), remote.host.clone());
                set(&format!("remote_port_{number}"), remote.port.to_string());
                let end = (remote.transport, "client");
                set(&format!("proto_{number}"), protocol(end, remote.family));
                if let Some(Bind { address, port }) = remote.bind {
                    local(number, (address, port), &mut set);
                }
                if let Some(proxy) = &remote.proxy {
                    let kind = match proxy.kind {
                        ProxyKind::Http(_) => "http",
                        ProxyKind::Socks => "socks",
                    };
                    set(&format!("{kind}_proxy_server_{number}"), proxy.host.clone());
                    set(&format!("{kind}_proxy_port_{number}"), proxy.port.to_string());
                }
            }
        }
        Role::Server(server) => listening(&server.listen, &[], &mut set),
        Role::PointToPoint(point) => listening(&point.listen, &point.remotes, &mut set),
    }
    let own = match &config.role {
        Role::Server(server) => server.access.env.clone(),
        Role::Client(client) => [client.peer_info.clone(), config.scripts.env.clone()].concat(),
        Role::PointToPoint(_) => config.scripts.env.clone(),
    };
    own.into_iter().for_each(|(name, value)| set(&name, value));
    env.into_iter().collect()
}

/// The variables for scripts about a server's clients, with those about the device, too. Variables that `setenv` sets
/// come with each of them, as they may change while the server runs.
pub(crate) fn of_clients(config: &Config, base: Vec<(String, String)>) -> Vec<(String, String)> {
    let mtu = config.device.mtu.to_string();
    let device = [
        ("dev_type", "tun"),
        ("tun_mtu", mtu.as_str()),
        ("script_context", "init"),
        ("redirect_gateway", "0"),
    ];
    let device = device.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let own: &[(String, String)] = match &config.role {
        Role::Server(server) => &server.access.env,
        Role::Client(_) | Role::PointToPoint(_) => &[],
    };
    let is_own = |name: &String| own.iter().any(|(known, _)| known == name);
    base.into_iter().filter(|(name, _)| !is_own(name)).chain(device).collect()
}

fn listening(listen: &[Listen], remotes: &[String], set: &mut impl FnMut(&str, String)) {
    for (number, place) in (1..).zip(listen) {
        set(&format!("proto_{number}"), protocol((place.transport, "server"), place.family));
        local(number, (place.address, place.port), set);
        // OpenVPN gives the port both ways.
        set(&format!("remote_port_{number}"), place.port.to_string());
    }
    for (number, host) in (1..).zip(remotes) {
        set(&format!("remote_{number}"), host.clone());
    }
}

fn local(number: u32, (address, port): (Option<std::net::IpAddr>, u16), set: &mut impl FnMut(&str, String)) {
    if let Some(address) = address {
        set(&format!("local_{number}"), address.to_string());
    }
    set(&format!("local_port_{number}"), port.to_string());
}

/// OpenVPN's name of a protocol.
fn protocol((transport, end): (Transport, &str), family: Family) -> String {
    let family = match family {
        Family::Any => "",
        Family::V4 => "4",
        Family::V6 => "6",
    };
    match transport {
        Transport::Udp | Transport::Ip(_) => format!("udp{family}"),
        Transport::Tcp => format!("tcp{family}-{end}"),
    }
}

/// Sets the variables of name servers for `dns-updown`. Where `dns` lines named some, they are there already.
pub(super) fn set_names(env: &mut BTreeMap<String, String>, dns: &Dns) {
    if env.keys().any(|name| name.starts_with("dns_server_")) {
        return;
    }
    let mut set = |kind: &str, values: Vec<String>| {
        for (number, value) in (1..).zip(values) {
            env.insert(format!("{kind}_{number}"), value);
        }
    };
    set("dns_search_domain", dns.search.clone());
    set("dns_server_1_address", dns.servers.iter().map(ToString::to_string).collect());
    set("dns_server_1_resolve_domain", dns.only_for.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_about_clients_are_not_told_what_setenv_set_at_the_start() {
        let text = "dev tun0\nserver 10.8.0.0 255.255.255.0\ndh none\nscript-security 2\nclient-connect /bin/true\n\
                    setenv NAME value\n\
                    <ca>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</ca>\n\
                    <cert>\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n</cert>\n\
                    <key>\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n</key>\n";
        let none = |_: &Path| Err("no such file".to_owned());
        let parsed = adit_openvpn_config::parse("s.conf", text.as_bytes(), &none).expect("a good file");
        let has = |env: &[(String, String)], name: &str| env.iter().any(|(known, _)| known == name);
        let base = base(&parsed.config, Path::new("s.conf"), false);
        assert!(has(&base, "NAME") && has(&base, "config"));
        let of_clients = of_clients(&parsed.config, base);
        assert!(!has(&of_clients, "NAME") && has(&of_clients, "config") && has(&of_clients, "tun_mtu"));
    }
}
